"""The execution-failure rate: who is counted, in which line, and that counts add up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sli.rate import COUNTS, count_expressions, sum_expressions, with_rates
from sli.vocabulary import ExecutionStatus

Call = tuple[str, bool]

CALLS = st.lists(st.tuples(st.sampled_from([str(s) for s in ExecutionStatus]), st.booleans()))


def counts_of(calls: Sequence[Call]) -> pl.DataFrame:
    rows = pl.DataFrame(
        calls, schema={"execution_status": pl.String, "contract_violation": pl.Boolean}, orient="row"
    )
    return rows.select(count_expressions())


def rates_of(**counts: int) -> dict[str, float | None]:
    row = dict.fromkeys(COUNTS, 0) | {"total": sum(counts.values())} | counts
    return with_rates(pl.LazyFrame([row])).collect().row(0, named=True)


def test_each_status_has_its_own_count() -> None:
    calls = [
        *[("success", False)] * 5,
        *[("error", True)] * 4,
        *[("cancelled", True)] * 3,
        *[("not_started", False)] * 2,
        ("unknown", False),
    ]
    assert counts_of(calls).row(0, named=True) == {
        "total": 15,
        "success": 5,
        "error": 4,
        "cancelled": 3,
        "not_started": 2,
        "unknown": 1,
        "contract_violations": 7,
    }


def test_counts_are_whole_numbers_as_wide_as_the_tables() -> None:
    assert set(counts_of([]).dtypes) == {pl.Int64}


def test_only_executed_calls_are_in_the_rate() -> None:
    rates = rates_of(success=6, error=2, cancelled=100, not_started=200, unknown=92)
    assert rates["executed"] == 8
    assert rates["failure_rate"] == 0.25
    assert rates["unknown_ratio"] == 0.23
    # Wilson for 2 of 8, not for 2 of 400.
    assert rates["failure_rate_low"] == pytest.approx(0.0714792127, abs=1e-9)
    assert rates["failure_rate_high"] == pytest.approx(0.5907245696, abs=1e-9)


def test_nothing_executed_has_no_rate() -> None:
    rates = rates_of(cancelled=3, not_started=2, unknown=5)
    assert rates["executed"] == 0
    assert rates["failure_rate"] is None
    assert rates["failure_rate_low"] is None
    assert rates["failure_rate_high"] is None
    assert rates["unknown_ratio"] == 0.5


def test_no_calls_have_no_ratio_either() -> None:
    rates = rates_of()
    assert rates["failure_rate"] is None
    assert rates["unknown_ratio"] is None


def test_no_failure_is_a_rate_of_zero_with_an_upper_bound() -> None:
    rates = rates_of(success=10_000)
    assert rates["failure_rate"] == 0.0
    assert rates["failure_rate_low"] == 0.0
    assert rates["failure_rate_high"] == pytest.approx(0.0003839983, abs=1e-9)


@given(CALLS)
def test_statuses_add_up_and_nothing_is_ever_nan(calls: list[Call]) -> None:
    row = with_rates(counts_of(calls).lazy()).collect().row(0, named=True)
    assert row["total"] == len(calls) == sum(row[str(status)] for status in ExecutionStatus)
    floats = [value for value in row.values() if isinstance(value, float)]
    assert not any(math.isnan(value) or math.isinf(value) for value in floats)


@given(st.lists(CALLS, min_size=1, max_size=6))
def test_sums_of_parts_are_the_counts_of_the_whole(parts: list[list[Call]]) -> None:
    summed = pl.concat([counts_of(part) for part in parts]).select(sum_expressions())
    assert summed.equals(counts_of([call for part in parts for call in part]))
