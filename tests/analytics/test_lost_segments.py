"""A segment that is missing or damaged: the rest is computed, it is named, and its repair is noticed."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from analytics.refresh import refresh
from analytics.results_file import last_run
from sli.schemas import RECEIVER_UPTIME, TOOL_CALLS
from tests.analytics.segments import EventFolder


def _flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0x55
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "other bytes": lambda path: path.write_bytes(b"PAR1, but nothing else of a segment"),
    # Most of these are read as other values, without an error.
    "a flipped byte": _flip_a_byte,
}


def three_days(folder: EventFolder) -> None:
    for day in (3, 10, 17):
        folder.publish(
            folder.call(f"2026-11-{day:02}T10:05"),
            folder.call(f"2026-11-{day:02}T10:06", "error", function_name="run_shell"),
        )


def totals(folder: EventFolder) -> dict[str, int]:
    return {row["time"][:10]: row["total"] for row in folder.table("sli_daily")}


def statuses(folder: EventFolder) -> list[str]:
    return [row["status"] for row in folder.table("runs")]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_the_rest_is_computed_and_a_repair_is_noticed(
    folder: EventFolder, damage: Callable[[Path], object]
) -> None:
    three_days(folder)
    path = folder.path(folder.segments[1])
    content = path.read_bytes()
    damage(path)
    outcome = refresh(folder.directory)
    assert outcome.lost == (path,)
    assert totals(folder) == {"2026-11-03": 2, "2026-11-17": 2}
    last = last_run(folder.directory, "rebuild")
    assert last is not None
    assert (last.status, last.detail) == ("incomplete", f"2 days, without {folder.segments[1].path}")

    again = refresh(folder.directory)
    assert (again.up_to_date, again.lost) == (True, (path,))
    assert statuses(folder) == ["incomplete"]

    path.write_bytes(content)
    repaired = refresh(folder.directory)
    assert (repaired.lost, repaired.days, repaired.up_to_date) == ((), 1, False)
    assert totals(folder) == {"2026-11-03": 2, "2026-11-10": 2, "2026-11-17": 2}
    assert statuses(folder) == ["incomplete", "ok"]
    complete = folder.tables()
    refresh(folder.directory, rebuild=True)
    assert folder.tables() == complete
    assert refresh(folder.directory).up_to_date


def test_damage_that_is_met_with_new_events(folder: EventFolder) -> None:
    """What was computed of days that nothing new touches stays; of a touched day the rest is counted."""
    three_days(folder)
    refresh(folder.directory)
    kept, needed = folder.path(folder.segments[0]), folder.path(folder.segments[2])
    contents = {path: path.read_bytes() for path in (kept, needed)}
    kept.unlink()
    _flip_a_byte(needed)
    folder.publish(folder.call("2026-11-17T11:00", prompt_id="s-2########1"))
    outcome = refresh(folder.directory)
    assert set(outcome.lost) == {kept, needed}
    assert totals(folder) == {"2026-11-03": 2, "2026-11-10": 2, "2026-11-17": 1}

    folder.publish(folder.call("2026-11-18T11:00", prompt_id="s-3########1"))
    assert set(refresh(folder.directory).lost) == {kept, needed}
    assert totals(folder)["2026-11-18"] == 1

    needed.write_bytes(contents[needed])
    assert refresh(folder.directory).lost == (kept,)
    assert totals(folder)["2026-11-17"] == 3
    kept.write_bytes(contents[kept])
    assert refresh(folder.directory).lost == ()
    complete = folder.tables()
    refresh(folder.directory, rebuild=True)
    assert folder.tables() == complete


def test_a_repair_under_another_name(folder: EventFolder) -> None:
    """The service may write the rows of a lost segment again as part of a merged one."""
    three_days(folder)
    folder.publish(folder.call("2026-11-10T12:00"))
    path = folder.path(folder.segments[1])
    content = path.read_bytes()
    path.unlink()
    assert refresh(folder.directory).lost == (path,)
    assert totals(folder)["2026-11-10"] == 1
    path.write_bytes(content)
    folder.merge(date(2026, 11, 10))
    assert refresh(folder.directory).lost == ()
    assert totals(folder)["2026-11-10"] == 3


def test_a_call_beside_midnight_is_counted_again_when_its_twin_comes_back(folder: EventFolder) -> None:
    twin = {"call_id": "call-x", "prompt_id": "s-1########1"}
    folder.publish(folder.call("2026-11-03T23:59", **twin))
    folder.publish(folder.call("2026-11-04T00:01", **twin))
    path = folder.path(folder.segments[0])
    content = path.read_bytes()
    path.unlink()
    refresh(folder.directory)
    assert totals(folder) == {"2026-11-04": 1}
    path.write_bytes(content)
    refresh(folder.directory)
    complete = folder.tables()
    refresh(folder.directory, rebuild=True)
    assert folder.tables() == complete
    assert sum(totals(folder).values()) == 1


def test_a_day_without_one_of_its_segments_is_not_complete_and_in_no_new_baseline(
    folder: EventFolder,
) -> None:
    days = [f"2026-11-{day:02}" for day in range(3, 12)]
    for day in days:
        whole = {"since": f"{day}T00:00", "until": f"{day}T23:59:59.999999"}
        folder.publish(
            folder.call(f"{day}T10:00"),
            folder.row(RECEIVER_UPTIME, f"{day}T00:00", refused=0, **_moments(whole)),
        )
    lost = next(s for s in folder.segments if (s.dataset, s.day) == (TOOL_CALLS.name, date(2026, 11, 5)))
    content = folder.path(lost).read_bytes()
    folder.path(lost).unlink()
    refresh(folder.directory)
    complete = {str(row["day"]): row["complete"] for row in folder.table("coverage")}
    assert not any(complete[day] for day in ("2026-11-04", "2026-11-05", "2026-11-06"))
    assert complete["2026-11-07"]
    assert {str(row["window_end"]) for row in folder.table("baselines")} == {"2026-11-03"}

    folder.path(lost).write_bytes(content)
    refresh(folder.directory)
    assert all(row["complete"] for row in folder.table("coverage") if str(row["day"]) < "2026-11-11")
    baselines = folder.table("baselines")
    assert {(str(row["window_end"]), row["revision"]) for row in baselines} == {
        (day, 0) for day in days if day < "2026-11-11"
    }
    tables = folder.tables()
    refresh(folder.directory, rebuild=True)
    assert folder.tables() == tables


def test_all_segments_lost_is_an_incomplete_nothing(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:00"))
    path = folder.path(folder.segments[0])
    os.truncate(path, 10)
    assert refresh(folder.directory).lost == (path,)
    assert totals(folder) == {}


def _moments(times: dict[str, str]) -> dict[str, object]:
    from datetime import UTC, datetime

    return {name: datetime.fromisoformat(text).replace(tzinfo=UTC) for name, text in times.items()}
