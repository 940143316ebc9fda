"""The SLI tables: the sum over the sum, in the order and with the columns that are public."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from analytics.published import polars_schema
from analytics.sli_partials import SLI_PARTIALS_HOURLY
from analytics.sli_tables import SLI_TABLES, SliTable

HOURLY, DAILY, BY_TOOL_TYPE, BY_FUNCTION = SLI_TABLES


def partials(*drawn: dict[str, Any]) -> pl.DataFrame:
    usual: dict[str, Any] = {
        "time": 10,
        "environment": "internal",
        "service_version": "0.24.4",
        "tool_type": "native",
        "route": "subagent",
        "function_name": "read_file",
    }
    zero = dict.fromkeys(SLI_PARTIALS_HOURLY.names[len(usual) :], 0)
    rows = [usual | zero | row for row in drawn]
    for row in rows:
        row["time"] = datetime(2026, 11, 3 + row["time"] // 24, row["time"] % 24, tzinfo=UTC)
        row["total"] = sum(row[s] for s in ("success", "error", "cancelled", "not_started", "unknown"))
    return pl.DataFrame(rows, schema=polars_schema(SLI_PARTIALS_HOURLY))


@pytest.mark.parametrize("table", SLI_TABLES)
def test_columns_and_types_are_those_of_the_stored_table(table: SliTable) -> None:
    assert table.compute(partials({"success": 1})).schema == polars_schema(table.dataset)
    assert table.compute(partials()).schema == polars_schema(table.dataset)


def test_the_rate_of_a_day_is_the_sum_over_the_sum() -> None:
    # The mean of the rates would be (1/1 + 0/9) / 2.
    found = partials({"time": 1, "error": 1}, {"time": 2, "success": 9, "unknown": 10})
    (row,) = DAILY.compute(found).to_dicts()
    assert row["time"] == datetime(2026, 11, 3, tzinfo=UTC)
    assert (row["total"], row["executed"], row["failure_rate"]) == (20, 10, 0.1)
    assert row["unknown_ratio"] == 0.5
    assert [r["failure_rate"] for r in HOURLY.compute(found).to_dicts()] == [1.0, 0.0]


def test_a_row_without_executed_calls_has_nulls_and_no_nan() -> None:
    (row,) = DAILY.compute(partials({"cancelled": 2, "not_started": 1})).to_dicts()
    assert (row["total"], row["executed"], row["unknown_ratio"]) == (3, 0, 0.0)
    assert (row["failure_rate"], row["failure_rate_low"], row["failure_rate_high"]) == (None, None, None)


def test_each_table_splits_by_its_own_column_only() -> None:
    found = partials(
        {"success": 1},
        {"success": 2, "tool_type": "mcp"},
        {"success": 4, "function_name": "run_shell"},
        {"success": 8, "route": "automatic"},
    )
    assert HOURLY.compute(found)["success"].to_list() == [15]
    assert DAILY.compute(found)["success"].to_list() == [15]
    by_tool_type = BY_TOOL_TYPE.compute(found)
    assert by_tool_type.select("tool_type", "success").rows() == [("mcp", 2), ("native", 13)]
    by_function = BY_FUNCTION.compute(found)
    assert by_function.select("function_name", "success").rows() == [("read_file", 11), ("run_shell", 4)]


def test_rows_are_sorted_by_time_environment_and_version() -> None:
    found = partials(
        {"success": 1, "time": 24},
        {"success": 2, "environment": "unset"},
        {"success": 3, "service_version": "0.100.0"},
        {"success": 4, "service_version": "0.99.0"},
        {"success": 5, "service_version": "dev"},
        {"success": 6, "service_version": "unknown"},
        {"success": 7, "service_version": "0.99.0", "function_name": "a"},
    )
    assert HOURLY.compute(found)["success"].to_list() == [11, 3, 5, 6, 2, 1]
    assert BY_FUNCTION.compute(found)["success"].to_list() == [7, 4, 3, 5, 6, 2, 1]


def test_days_are_utc_days() -> None:
    found = partials({"success": 1, "time": 23}, {"success": 2, "time": 24})
    assert DAILY.compute(found)["time"].to_list() == [
        datetime(2026, 11, 3, tzinfo=UTC),
        datetime(2026, 11, 4, tzinfo=UTC),
    ]
