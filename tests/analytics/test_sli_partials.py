"""The partials: what is counted under which key, and that parts add up to the whole."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.published import polars_schema
from analytics.sli_partials import SLI_PARTIALS_HOURLY, hour_number, hour_start, in_hours, sli_partials
from sli.rate import sum_expressions

HOUR = 3_600_000_000_000
# 2026-11-03T10:00Z
TEN = 498_250
KEY = ["time", "environment", "service_version", "tool_type", "route", "function_name"]


def rows(*drawn: dict[str, Any]) -> pl.LazyFrame:
    usual = {
        "time_unix_nano": TEN * HOUR,
        "environment": "internal",
        "service_version": "0.24.4",
        "tool_type": "native",
        "route": "subagent",
        "function_name": "read_file",
        "execution_status": "success",
        "contract_violation": False,
    }
    schema = {name: pl.Boolean if name == "contract_violation" else pl.String for name in usual}
    return pl.LazyFrame([usual | row for row in drawn], schema=schema | {"time_unix_nano": pl.Int64})


def test_an_hour_begins_on_the_hour() -> None:
    times = [TEN * HOUR - 1, TEN * HOUR, (TEN + 1) * HOUR - 1, (TEN + 1) * HOUR]
    partials = sli_partials(rows(*[{"time_unix_nano": time} for time in times])).sort("time").collect()
    assert partials["time"].to_list() == [hour_start(TEN - 1), hour_start(TEN), hour_start(TEN + 1)]
    assert partials["total"].to_list() == [1, 2, 1]


def test_the_start_of_an_hour() -> None:
    moment = datetime(2026, 11, 3, 10, 59, 59, 999_999, tzinfo=UTC)
    frame = pl.DataFrame({"time_unix_nano": [int(moment.timestamp()) * 10**9 + 999_999_999]})
    assert hour_start(frame.select(hour_number()).item()) == datetime(2026, 11, 3, 10, tzinfo=UTC)


def test_every_column_of_the_key_makes_a_group() -> None:
    changes: dict[str, Any] = {
        "time_unix_nano": (TEN + 24) * HOUR,
        "environment": "unset",
        "service_version": "unknown",
        "tool_type": "mcp",
        "route": "automatic",
        "function_name": "run_shell",
    }
    partials = sli_partials(rows({}, *[{name: value} for name, value in changes.items()])).collect()
    assert len(partials) == 7
    assert set(partials["total"]) == {1}


def test_columns_and_types_are_those_of_the_stored_table() -> None:
    assert sli_partials(rows({})).collect_schema() == polars_schema(SLI_PARTIALS_HOURLY)
    assert sli_partials(rows()).collect().schema == polars_schema(SLI_PARTIALS_HOURLY)


def test_counts_by_hand() -> None:
    drawn: list[dict[str, Any]] = [
        {"execution_status": "success", "contract_violation": False},
        {"execution_status": "error", "contract_violation": True},
        {"execution_status": "error"},
        {"execution_status": "unknown"},
    ]
    (partial,) = sli_partials(rows(*drawn)).collect().to_dicts()
    assert {name: partial[name] for name in SLI_PARTIALS_HOURLY.names if name not in KEY} == {
        "total": 4,
        "success": 1,
        "error": 2,
        "cancelled": 0,
        "not_started": 0,
        "unknown": 1,
        "contract_violations": 1,
    }


def test_only_rows_of_the_hours_are_kept() -> None:
    times = [TEN * HOUR - 1, TEN * HOUR, (TEN + 1) * HOUR, (TEN + 2) * HOUR, (TEN + 3) * HOUR]
    kept = in_hours(rows(*[{"time_unix_nano": time} for time in times]), [TEN + 2, TEN]).collect()
    assert kept["time_unix_nano"].to_list() == [TEN * HOUR, (TEN + 2) * HOUR]


DRAWN = st.lists(
    st.fixed_dictionaries(
        {
            "time_unix_nano": st.sampled_from([TEN * HOUR, (TEN + 1) * HOUR + 5]),
            "service_version": st.sampled_from(["0.24.4", "unknown"]),
            "execution_status": st.sampled_from(["success", "error", "not_started"]),
            "contract_violation": st.booleans(),
        }
    ),
    max_size=8,
)


@settings(max_examples=40)
@given(st.lists(DRAWN, min_size=1, max_size=4))
def test_partials_of_parts_add_up_to_those_of_the_whole(parts: list[list[dict[str, Any]]]) -> None:
    whole = sli_partials(rows(*[row for part in parts for row in part]))
    added = pl.concat([sli_partials(rows(*part)) for part in parts]).group_by(KEY).agg(sum_expressions())
    assert added.sort(KEY).collect().equals(whole.sort(KEY).collect())
