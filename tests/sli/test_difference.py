"""The difference of two rates: Newcombe's own examples, statsmodels, and how it must behave."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import confint_proportions_2indep

from sli.difference import Interval, difference, difference_high, difference_low
from sli.wilson import wilson_high, wilson_low


def wilson(errors: int, calls: int) -> Interval:
    return Interval(
        pl.lit(errors) / pl.lit(calls),
        wilson_low(pl.lit(errors), pl.lit(calls)),
        wilson_high(pl.lit(errors), pl.lit(calls)),
    )


def ends(a: Interval, b: Interval) -> list[float]:
    row = pl.select(difference_low(a, b), difference_high(a, b).alias("high")).row(0)
    return list(row)


# Newcombe (1998), table II, method 10: p1 - p2 is b - a.
@pytest.mark.parametrize(
    ("b", "a", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((10, 10), (0, 10), 0.6075, 1.0),
        ((0, 10), (0, 10), -0.2775, 0.2775),
        ((5, 56), (0, 29), -0.0381, 0.1926),
    ],
)
def test_newcombes_examples(b: tuple[int, int], a: tuple[int, int], low: float, high: float) -> None:
    assert ends(wilson(*a), wilson(*b)) == pytest.approx([low, high], abs=5e-5)


COUNTS = st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(COUNTS, COUNTS)
def test_agrees_with_statsmodels(a: tuple[int, int], b: tuple[int, int]) -> None:
    expected = confint_proportions_2indep(*b, *a, method="newcomb", compare="diff", alpha=0.05)
    low, high = ends(wilson(*a), wilson(*b))
    assert low == pytest.approx(float(expected[0]), rel=1e-9, abs=1e-9)
    assert high == pytest.approx(float(expected[1]), rel=1e-9, abs=1e-9)
    assert -1.0 <= low <= b[0] / b[1] - a[0] / a[1] <= high <= 1.0


@given(COUNTS, COUNTS)
def test_the_other_way_round_it_is_mirrored(a: tuple[int, int], b: tuple[int, int]) -> None:
    low, high = ends(wilson(*a), wilson(*b))
    assert ends(wilson(*b), wilson(*a)) == pytest.approx([-high, -low], abs=1e-15)


def test_limits_of_any_origin_by_hand() -> None:
    # 0.10 in [0.06, 0.22] to 0.30 in [0.22, 0.35]: 0.20 - sqrt(0.08**2 + 0.12**2), + sqrt(0.05**2 + 0.04**2).
    a = Interval(pl.lit(0.10), pl.lit(0.06), pl.lit(0.22))
    b = Interval(pl.lit(0.30), pl.lit(0.22), pl.lit(0.35))
    assert pl.select(difference(a, b)).item() == pytest.approx(0.2)
    assert ends(a, b) == pytest.approx([0.0557779490, 0.2640312424])


def test_an_unknown_side_leaves_the_difference_unknown() -> None:
    nothing = pl.lit(None, dtype=pl.Float64)
    unknown = Interval(nothing, nothing, nothing)
    assert ends(unknown, wilson(1, 10)) == [None, None]
    assert ends(wilson(1, 10), unknown) == [None, None]
    rate_only = Interval(pl.lit(0.5), nothing, nothing)
    assert pl.select(difference(rate_only, wilson(1, 10))).item() == -0.4
    assert ends(rate_only, wilson(1, 10)) == [None, None]
