"""The owner-clustered interval: by hand, against statsmodels, and what must always hold of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st

from sli.clustered import MOST_CALLS, OWNER_SUMS, owner_sum_expressions, with_clustered_interval
from sli.wilson import wilson_high, wilson_low

Owner = tuple[str | None, int, int]
"""Whose, failures, successes."""

SCHEMA = {"owner": pl.String, "error": pl.Int64, "success": pl.Int64}


def interval_of(owners: Sequence[Owner]) -> dict[str, float]:
    totals = pl.LazyFrame(owners, schema=SCHEMA, orient="row")
    sums = totals.select(owner_sum_expressions())
    return sums.pipe(with_clustered_interval).collect(engine="streaming").row(0, named=True)


def named(totals: Sequence[tuple[int, int]]) -> list[Owner]:
    return [(f"owner-{number}", errors, successes) for number, (errors, successes) in enumerate(totals)]


TOTALS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=12)


def test_two_owners_by_hand() -> None:
    # 3 of 10 and 1 of 10: p = 0.2, residuals 1 and -1, so 2 / 20**2 = 0.005, times 2 / 1 owners.
    row = interval_of([("a", 3, 7), ("b", 1, 9)])
    assert row["owned_failure_rate"] == 0.2
    assert row["effective_owners"] == 2.0
    assert row["owned_failure_rate_standard_error"] == pytest.approx(0.1, abs=1e-15)
    # The divisor is 1 - 2 * 2000 / (20 * 200) + 200 / 400 = 0.5: variance 0.01 as well. t(1) = 12.7062047,
    # q = 12.7062047**2 * 0.01 / 0.16 = 10.0904774; the ends are the roots of
    # 11.0904774 r**2 - 10.4904774 r + 0.04 = 0.
    assert row["owned_failure_rate_low"] == pytest.approx(0.0038284774, abs=1e-9)
    assert row["owned_failure_rate_high"] == pytest.approx(0.9420710563, abs=1e-9)


def test_a_giant_owner_by_hand() -> None:
    # 40 of 100, and 50 owners with 1 of 2 each: p = 90 / 200 = 0.45. Residuals 40 - 45 = -5 and fifty times
    # 1 - 0.9 = 0.1: 25 + 0.5 = 25.5. S2 = 10000 + 200 = 10200, S3 = 1000000 + 400 = 1000400.
    row = interval_of([("giant", 40, 60), *named([(1, 1)] * 50)])
    assert row["owned_failure_rate_standard_error"] == pytest.approx(math.sqrt(25.5 / 40000 * 51 / 50))
    assert row["effective_owners"] == pytest.approx(40000 / 10200)
    # Divisor 1 - 2000800 / 2040000 + 10200 / 40000 = 0.2742156863, variance 0.0006375 / 0.2742156863
    # = 0.0023248123 (binomial: 0.0012375). t of 2.9215686 degrees of freedom is 3.2313288 (scipy), hence
    # q = t**2 * variance / 0.2475 = 0.0980787647; the roots with 40 digits.
    assert row["owned_failure_rate_low"] == pytest.approx(0.3057168855, abs=1e-9)
    assert row["owned_failure_rate_high"] == pytest.approx(0.6032149660, abs=1e-9)


@pytest.mark.parametrize("owners", [2, 3, 20, 1_000])
def test_no_failure_is_bounded_by_the_number_of_owners(owners: int) -> None:
    none = interval_of(named([(0, 50)] * owners))
    assert none["owned_failure_rate_low"] == 0.0
    assert none["owned_failure_rate_high"] == pytest.approx(1 - 0.025 ** (1 / owners), rel=1e-12)
    only = interval_of(named([(50, 0)] * owners))
    assert only["owned_failure_rate_low"] == pytest.approx(0.025 ** (1 / owners), rel=1e-12)
    assert only["owned_failure_rate_high"] == 1.0


def test_no_failure_of_twenty_owners() -> None:
    # Tables of Clopper and Pearson: 0 of 20, two-sided 95 %.
    assert interval_of(named([(0, 1)] * 20))["owned_failure_rate_high"] == pytest.approx(0.1684, abs=5e-5)


def test_one_owner_has_a_rate_and_no_interval() -> None:
    row = interval_of([("a", 1, 3)])
    assert row["owned_failure_rate"] == 0.25
    assert row["owned_failure_rate_standard_error"] is None
    assert row["owned_failure_rate_low"] is None
    assert row["owned_failure_rate_high"] is None


def test_calls_of_nobody_and_owners_without_executed_calls_do_not_count() -> None:
    counted = [("a", 3, 7), ("b", 1, 9)]
    assert interval_of([*counted, (None, 500, 1), ("idle", 0, 0)]) == interval_of(counted)


@pytest.mark.parametrize("owners", [[], [(None, 5, 5)], [("idle", 0, 0)]])
def test_without_owners_there_is_nothing(owners: list[Owner]) -> None:
    row = interval_of(owners)
    assert [row.pop(name) for name in OWNER_SUMS] == [0] * len(OWNER_SUMS)
    assert set(row.values()) == {None}


def test_types() -> None:
    frame = pl.LazyFrame([], schema=SCHEMA).select(owner_sum_expressions()).pipe(with_clustered_interval)
    schema = frame.collect().schema
    assert [schema[name] for name in OWNER_SUMS] == [pl.Int64] * 3 + [pl.Int128] * 4
    assert set(list(schema.values())[len(OWNER_SUMS) :]) == {pl.Float64}


@settings(max_examples=50)
@given(TOTALS.filter(lambda totals: sum(x + y > 0 for x, y in totals) > 1))
def test_the_standard_error_is_that_of_statsmodels(totals: list[tuple[int, int]]) -> None:
    owner = np.repeat(np.arange(len(totals)), [errors + successes for errors, successes in totals])
    failed = np.concatenate([[1.0] * errors + [0.0] * successes for errors, successes in totals])
    # With one constant its own correction, k / (k - 1) * (N - 1) / (N - 1), is ours.
    fit = sm.OLS(failed, np.ones_like(failed)).fit(cov_type="cluster", cov_kwds={"groups": owner})
    row = interval_of(named(totals))
    assert row["owned_failure_rate"] == pytest.approx(float(fit.params[0]), abs=1e-12)
    assert row["owned_failure_rate_standard_error"] == pytest.approx(float(fit.bse[0]), rel=1e-9, abs=1e-9)


@given(TOTALS)
def test_it_holds_the_rate_and_wilsons_interval(totals: list[tuple[int, int]]) -> None:
    row = interval_of(named(totals))
    if row["owned_failure_rate_low"] is None:
        assert row["owners"] <= 1
        return
    assert 0.0 <= row["owned_failure_rate_low"] <= row["owned_failure_rate"] <= 1.0
    assert row["owned_failure_rate"] <= row["owned_failure_rate_high"] <= 1.0
    if 0 < row["owned_failure_rate"] < 1:
        error, executed = pl.lit(row["owned_error"]), pl.lit(row["owned_executed"])
        low, high = pl.select(wilson_low(error, executed), wilson_high(error, executed).alias("high")).row(0)
        assert row["owned_failure_rate_low"] <= low + 1e-12
        assert row["owned_failure_rate_high"] >= high - 1e-12


@given(TOTALS, st.randoms())
def test_the_order_of_owners_changes_no_bit(totals: list[tuple[int, int]], random: object) -> None:
    owners = named(totals)
    shuffled = list(owners)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert interval_of(shuffled) == interval_of(owners)


@given(TOTALS)
def test_successes_have_the_mirrored_interval(totals: list[tuple[int, int]]) -> None:
    row = interval_of(named(totals))
    mirrored = interval_of(named([(successes, errors) for errors, successes in totals]))
    if row["owned_failure_rate_low"] is not None:
        assert mirrored["owned_failure_rate_high"] == pytest.approx(
            1 - row["owned_failure_rate_low"], abs=1e-12
        )
        assert mirrored["owned_failure_rate_low"] == pytest.approx(
            1 - row["owned_failure_rate_high"], abs=1e-12
        )


def test_many_owners_with_one_call_each_have_wilsons_interval() -> None:
    row = interval_of(named([(1, 0)] * 1_000 + [(0, 1)] * 49_000))
    low, high = pl.select(
        wilson_low(pl.lit(1_000), pl.lit(50_000)), wilson_high(pl.lit(1_000), pl.lit(50_000)).alias("high")
    ).row(0)
    assert row["owned_failure_rate_low"] == pytest.approx(low, rel=1e-4)
    assert row["owned_failure_rate_high"] == pytest.approx(high, rel=1e-4)


def test_sums_stay_exact_up_to_the_bound() -> None:
    # Two owners with nearly all of the calls allowed, whose residuals are +-1/2: floating point alone would
    # subtract numbers of 2**124 to get 2**61.
    half = MOST_CALLS // 2 - 1
    rate = half // 4
    row = interval_of([("a", rate + 1, half - rate - 1), ("b", rate, half - rate)])
    assert row["owned_failure_rate_standard_error"] == pytest.approx(0.5 / half, rel=1e-12)
    above = interval_of([("a", 1, MOST_CALLS), ("b", 2, 5)])
    assert above["owned_failure_rate"] is not None
    assert above["owned_failure_rate_high"] is None
