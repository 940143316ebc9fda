"""The Wilson interval: values worked out by hand, an independent implementation, and its limits."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from sli.wilson import wilson_high, wilson_low


def interval(successes: int, trials: int) -> tuple[float | None, float | None]:
    counts = pl.DataFrame({"successes": [successes], "trials": [trials]})
    low = wilson_low(pl.col("successes"), pl.col("trials"))
    high = wilson_high(pl.col("successes"), pl.col("trials"))
    row: tuple[float | None, float | None] = counts.select(low=low, high=high).row(0)
    return row


# Worked out with 40 decimal digits, z = 1.959963984540054. For 0 of n the upper end is
# z**2 / (n + z**2), for n of n the lower end is n / (n + z**2).
@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (1, 2, 0.0945312057, 0.9054687943),
        (0, 1, 0.0, 0.7934506856),
        (1, 1, 0.2065493144, 1.0),
        (0, 10, 0.0, 0.2775327999),
        (10, 10, 0.7224672001, 1.0),
        (5, 100, 0.0215436792, 0.1117504692),
    ],
)
def test_values_worked_out_by_hand(successes: int, trials: int, low: float, high: float) -> None:
    assert list(interval(successes, trials)) == pytest.approx([low, high], abs=1e-9)


def test_no_trials_have_no_interval() -> None:
    assert interval(0, 0) == (None, None)


@pytest.mark.parametrize("trials", [1, 2, 3, 7, 1_000, 10**12])
def test_the_ends_are_exact(trials: int) -> None:
    assert interval(0, trials)[0] == 0.0
    assert interval(trials, trials)[1] == 1.0


def test_columns_are_floats_even_when_all_null() -> None:
    counts = pl.DataFrame({"n": [0, 0]})
    assert counts.select(wilson_low(pl.col("n"), pl.col("n"))).dtypes == [pl.Float64]
    assert counts.select(wilson_high(pl.col("n"), pl.col("n"))).dtypes == [pl.Float64]


@given(st.integers(1, 10**9).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_agrees_with_statsmodels(counts: tuple[int, int]) -> None:
    successes, trials = counts
    low, high = interval(successes, trials)
    expected_low, expected_high = proportion_confint(successes, trials, alpha=0.05, method="wilson")
    assert low is not None
    assert high is not None
    assert low == pytest.approx(expected_low, rel=1e-9, abs=1e-12)
    assert high == pytest.approx(expected_high, rel=1e-9, abs=1e-12)
    assert 0.0 <= low <= successes / trials <= high <= 1.0
