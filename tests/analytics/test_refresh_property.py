"""However rows arrive and whenever results are refreshed, the tables are the same.

The oracle below is written for being obvious, in plain Python, from the contract alone.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analytics.refresh import refresh

if TYPE_CHECKING:
    from tests.analytics.segments import EventFolder

Row = dict[str, Any]

STATUSES = ("success", "error", "cancelled", "not_started", "unknown")
EXECUTED = ("success", "error")
KEY = ("session_id", "prompt_id", "call_id")
TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "sli_hourly": ("%Y-%m-%dT%H:00", ()),
    "sli_daily": ("%Y-%m-%dT00:00", ()),
    "sli_by_tool_type_daily": ("%Y-%m-%dT00:00", ("tool_type",)),
    "sli_by_function_daily": ("%Y-%m-%dT00:00", ("function_name",)),
}
VERSIONS = ("0.9.0", "0.10.0", "unknown")


def counts_in_sli(row: Row, rows: Sequence[Row]) -> bool:
    if row["call_id"] is None:
        return True
    same = [
        other
        for other in rows
        if all(other[name] == row[name] for name in KEY)
        and abs(other["day"] - row["day"]) <= timedelta(days=1)
    ]
    executed = [other for other in same if other["execution_status"] in EXECUTED]
    first = min(executed or same, key=lambda r: (r["time_unix_nano"], r["event_id"].bytes))
    return first is row


def wilson(successes: int, trials: int) -> tuple[float, float]:
    z = 1.959963984540054
    share = successes / trials
    root = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    middle, scale = share + z * z / (2 * trials), 1 + z * z / trials
    return (middle - root) / scale, (middle + root) / scale


def expected_table(rows: Sequence[Row], step: str, split: tuple[str, ...]) -> list[Row]:
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if counts_in_sli(row, rows):
            extra = [row[name] for name in split]
            groups[(row["time"].strftime(step), row["environment"], row["service_version"], *extra)].append(
                row
            )
    table = []
    names = ("time", "environment", "service_version", *split)
    for key in sorted(groups, key=lambda key: (key[0], key[1], VERSIONS.index(key[2]), *key[3:])):
        of_group = groups[key]
        counts = {s: sum(r["execution_status"] == s for r in of_group) for s in STATUSES}
        executed = counts["success"] + counts["error"]
        low, high = wilson(counts["error"], executed) if executed else (None, None)
        table.append(
            dict(zip(names, key, strict=True))
            | {"total": len(of_group), "executed": executed}
            | counts
            | {
                "failure_rate": counts["error"] / executed if executed else None,
                "failure_rate_low": pytest.approx(low, abs=1e-12),
                "failure_rate_high": pytest.approx(high, abs=1e-12),
                "clustered_low": None,
                "clustered_high": None,
                "owners": 0,
                "unknown_ratio": counts["unknown"] / len(of_group),
                "contract_violations": sum(r["contract_violation"] for r in of_group),
            }
        )
    return table


# Few values, so that calls meet: on the same day, across one midnight, and across two.
ROWS = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.sampled_from(["00:00", "00:59", "12:30", "23:59"]),
        st.sampled_from(STATUSES),
        st.sampled_from(["c", "d", None]),
        st.sampled_from(["p", None]),
        st.sampled_from(["internal", "unset"]),
        st.sampled_from(VERSIONS),
        st.sampled_from(["native", "mcp"]),
        st.booleans(),
    ),
    min_size=3,
    max_size=24,
)


def publish(folder: EventFolder, rows: Sequence[Row], breaks: Sequence[int]) -> None:
    """Publish the rows in the given steps, with a refresh after each, and now and then a merge."""
    start = 0
    for end in [*sorted(breaks), len(rows)]:
        folder.publish(*rows[start:end])
        start = end
        refresh(folder.directory)
        if end % 3 == 0 and rows[:end] and len([s for s in folder.segments if s.day == rows[0]["day"]]) > 1:
            folder.merge(rows[0]["day"])


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=ROWS, data=st.data())
def test_the_same_tables_whatever_the_order(
    new_folder: Callable[[], EventFolder], drawn: list[Any], data: st.DataObject
) -> None:
    folder = new_folder()
    rows = [
        folder.call(
            f"2026-11-0{day}T{time}",
            status,
            call_id=call_id,
            prompt_id=prompt_id,
            environment=environment,
            service_version=version,
            tool_type=tool_type,
            function_name=f"{tool_type} {status}",
            contract_violation=violation,
        )
        for day, time, status, call_id, prompt_id, environment, version, tool_type, violation in drawn
    ]
    arrived = data.draw(st.permutations(rows))
    publish(folder, arrived, data.draw(st.lists(st.integers(1, len(rows)), min_size=2, max_size=3)))
    step_by_step = folder.tables()
    refresh(folder.directory, rebuild=True)
    assert folder.tables() == step_by_step
    for name, (step, split) in TABLES.items():
        found = [{k: v for k, v in row.items() if k != "version_order"} for row in step_by_step[name]]
        assert found == expected_table(rows, step, split)


def test_the_oracle_sees_only_adjoining_days() -> None:
    row: Row = {"session_id": "s", "prompt_id": None, "call_id": "c", "execution_status": "error"}
    rows = [
        row | {"day": date(2026, 11, day), "time_unix_nano": day, "event_id": UUID(int=day)} for day in (1, 3)
    ]
    assert [counts_in_sli(each, rows) for each in rows] == [True, True]
