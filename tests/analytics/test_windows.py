"""Coverage, baselines and comparisons over published events, with the receiver's own record."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from analytics.refresh import refresh
from sli.schemas import PROMPT_EVENTS, RECEIVER_UPTIME

if TYPE_CHECKING:
    from tests.analytics.segments import EventFolder

FIRST = date(2026, 11, 1)
_ACP = {"kind": "interaction", "message_type": "acp_prompt", "turn_status": "ok", "duration_ms": 1000.0}


def uptime(folder: EventFolder, since: datetime, until: datetime) -> dict[str, Any]:
    """As the receiver writes it: one row a day, at its end."""
    return folder.row(RECEIVER_UPTIME, f"{until:%Y-%m-%dT%H:%M:%S}", since=since, until=until)


def all_day(folder: EventFolder, day: date, gap: float = 0.0) -> list[dict[str, Any]]:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    end = start + timedelta(days=1, hours=2)
    noon = start + timedelta(hours=12)
    return [uptime(folder, start, noon), uptime(folder, noon + timedelta(seconds=gap), end)]


def day_of(
    folder: EventFolder, day: date, calls: Sequence[str] = ("success",) * 9 + ("error",), **columns: Any
) -> list[dict[str, Any]]:
    """Ten foreground calls of a day, of two owners."""
    session = f"{day}-{columns.get('service_version', '')}"
    prompt = {"session_id": session, "prompt_id": f"{session}########1"}
    rows = [
        folder.call(
            f"{day}T10:00", status, owner=f"o{number % 2}", error_type=_error(status), **prompt | columns
        )
        for number, status in enumerate(calls)
    ]
    version = {name: columns[name] for name in ("service_version", "environment") if name in columns}
    return [*rows, folder.row(PROMPT_EVENTS, f"{day}T10:00", owner="o0", **prompt | _ACP | version)]


def _error(status: str) -> str | None:
    return "timeout" if status == "error" else None


def days(number: int, first: date = FIRST) -> list[date]:
    return [first + timedelta(days=n) for n in range(number)]


def latest(folder: EventFolder, end: date) -> dict[str, Any]:
    rows = [row for row in folder.table("baselines") if row["window_end"] == end]
    return max(rows, key=lambda row: row["revision"])


def test_a_baseline_of_seven_complete_days(folder: EventFolder) -> None:
    for day in days(7):
        folder.publish(*day_of(folder, day), *all_day(folder, day))
    refresh(folder.directory)
    found = latest(folder, date(2026, 11, 7))
    assert (found["status"], found["reason"], found["revision"]) == ("ok", None, 0)
    assert (found["window_start"], found["complete_days"], found["quiet_days"]) == (FIRST, 7, 0)
    assert (found["total"], found["executed"], found["failure_rate"], found["owners"]) == (70, 70, 0.1, 2)
    assert (found["prompts"], found["completion_rate"], found["daily_sd"]) == (7, 1.0, 0.0)
    assert found["latency_p50_ms"] == pytest.approx(1000, rel=0.01)
    assert [row["complete"] for row in folder.table("coverage")] == [True] * 7 + [False]
    # The day before, a day was missing; it is not filled in.
    early = latest(folder, date(2026, 11, 6))
    assert early["status"] == "refused"
    assert early["reason"].startswith("6 of 7 complete days from 2026-10-28 to 2026-11-06")


@pytest.mark.parametrize(("gap", "complete"), [(59.0, True), (61.0, False)])
def test_an_outage_of_a_minute_makes_a_day_incomplete(
    folder: EventFolder, gap: float, complete: bool
) -> None:
    for day in days(7):
        folder.publish(*day_of(folder, day), *all_day(folder, day, gap if day.day == 4 else 0.0))
    refresh(folder.directory)
    row = next(row for row in folder.table("coverage") if row["day"].day == 4)
    assert (row["complete"], row["seconds_not_accepting"], row["gaps"]) == (complete, gap, 1)
    found = latest(folder, date(2026, 11, 7))
    assert (found["status"], found["complete_days"]) == (("ok", 7) if complete else ("refused", 6))


def test_a_stopped_receiver_is_no_quiet_day(folder: EventFolder) -> None:
    for day in days(8):
        # On the fourth it was down, on the fifth nobody called.
        if day.day != 4:
            folder.publish(*([] if day.day == 5 else day_of(folder, day)), *all_day(folder, day))
    refresh(folder.directory)
    coverage = {row["day"].day: row["complete"] for row in folder.table("coverage")}
    assert coverage.get(4) in (None, False)
    assert coverage[5] is True
    found = latest(folder, date(2026, 11, 8))
    assert (found["status"], found["complete_days"], found["quiet_days"]) == ("ok", 7, 1)


def test_late_events_make_a_revision_and_the_old_values_stay(folder: EventFolder) -> None:
    for day in days(7):
        folder.publish(*day_of(folder, day), *all_day(folder, day))
    refresh(folder.directory)
    late = datetime(2026, 11, 8, 5, tzinfo=UTC)
    folder.publish(
        folder.call("2026-11-02T10:00", "error", owner="o0", received_at=late, **_of(date(2026, 11, 2)))
    )
    refresh(folder.directory)
    rows = [row for row in folder.table("baselines") if row["window_end"] == date(2026, 11, 7)]
    assert [(row["revision"], row["executed"], row["late_events"]) for row in rows] == [
        (0, 70, 0),
        (1, 71, 1),
    ]
    assert rows[0]["revised_at"] is None
    assert rows[1]["revised_at"] is not None
    assert [row["revision"] for row in folder.table("quality_daily") if row["late_after_close"]] == [1]
    # A rebuild finds nothing new to say.
    refresh(folder.directory, rebuild=True)
    again = [row for row in folder.table("baselines") if row["window_end"] == date(2026, 11, 7)]
    assert again == rows


def _of(day: date) -> dict[str, Any]:
    return {"session_id": f"{day}-", "prompt_id": f"{day}-########1"}


def test_owners_on_two_versions_are_mixed(folder: EventFolder) -> None:
    for day in days(7):
        folder.publish(*day_of(folder, day), *all_day(folder, day))
    folder.publish(*day_of(folder, date(2026, 11, 5), service_version="0.23.4"))
    refresh(folder.directory)
    found = [row for row in folder.table("baselines") if row["window_end"] == date(2026, 11, 7)]
    reasons = {row["service_version"]: row["reason"] for row in found}
    assert reasons["0.24.4"] == "12.5% of its owners' prompts ran another version, at most 1% may"


def test_a_step_of_new_error_types_is_a_change_of_definition(folder: EventFolder) -> None:
    """Commands that ended with another exit code than 0 became failures from one version to the next."""
    old, new = ["success"] * 40, ["success"] * 35 + ["error"] * 5
    for day in days(7):
        folder.publish(
            *day_of(folder, day, old, service_version="0.23.4", function_name="shell"), *all_day(folder, day)
        )
    for day in days(7, FIRST + timedelta(days=7)):
        folder.publish(*day_of(folder, day, new, function_name="shell"), *all_day(folder, day))
    refresh(folder.directory)
    rows = {row["function_name"]: row for row in folder.table("comparisons")}
    assert set(rows) == {None, "shell"}
    shell = rows["shell"]
    assert (shell["version_a"], shell["version_b"]) == ("0.23.4", "0.24.4")
    assert (shell["a"], shell["b"], shell["definition_changed"]) == (0.0, 0.125, True)
    assert shell["error_types"] == ["timeout"]
    assert (rows[None]["difference"], rows[None]["definition_changed"]) == (0.125, None)


def test_a_version_that_goes_silent_has_no_data_and_not_zero(folder: EventFolder) -> None:
    for day in days(7):
        both = [] if day.day > 3 else day_of(folder, day, service_version="0.23.4")
        folder.publish(*day_of(folder, day), *both, *all_day(folder, day))
    refresh(folder.directory)
    silent = [row["time"] for row in folder.table("sli_daily") if row["service_version"] == "0.23.4"]
    assert silent == ["2026-11-01T00:00", "2026-11-02T00:00", "2026-11-03T00:00"]
