"""Finding the rows that do not count among published events."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from analytics.published import Published, read_published
from analytics.repeats import Repeats
from sli.schemas import TOOL_CALLS

if TYPE_CHECKING:
    from tests.analytics.segments import EventFolder

SAME = {"call_id": "same"}
THIRD = date(2026, 11, 3)


def repeats_of(folder: EventFolder) -> Repeats:
    published = read_published(folder.directory)
    assert published is not None
    return Repeats(published)


def uncounted(folder: EventFolder, day: date = THIRD) -> list[int]:
    return sorted(UUID(bytes=event).int for event in repeats_of(folder).of(day).uncounted["event_id"])


def test_nothing_is_repeated(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:00"), folder.call("2026-11-04T10:00"))
    assert uncounted(folder) == []
    assert repeats_of(folder).of(THIRD).uncounted.columns == ["event_id"]


def test_a_day_without_events(folder: EventFolder) -> None:
    folder.publish()
    assert uncounted(folder) == []


def test_repeats_over_segments_of_three_days(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:00", **SAME))
    folder.publish(folder.call("2026-11-04T10:00", **SAME), folder.call("2026-11-03T11:00", **SAME))
    folder.publish(folder.call("2026-11-02T10:00", "not_started", **SAME))
    folder.publish(
        folder.call("2026-11-03T10:00", call_id=None), folder.call("2026-11-03T10:00", call_id=None)
    )
    assert uncounted(folder, date(2026, 11, 2)) == [4]
    assert uncounted(folder, THIRD) == [3]
    assert uncounted(folder, date(2026, 11, 4)) == [2]


def test_a_chain_over_days_is_judged_by_the_days_around_each_row(folder: EventFolder) -> None:
    folder.publish(*[folder.call(f"2026-11-0{day}T10:00", **SAME) for day in (1, 2, 3)])
    # The second gives way to the first, the third to the second, which does not count itself.
    found = [uncounted(folder, date(2026, 11, day)) for day in (1, 2, 3)]
    assert found == [[], [2], [3]]


def test_other_rows_at_the_same_time_are_left_alone(folder: EventFolder) -> None:
    folder.publish(*[folder.call("2026-11-03T10:00") for _ in range(3)])
    folder.publish(*[folder.call("2026-11-03T10:00", **SAME) for _ in range(3)])
    assert uncounted(folder) == [5, 6]


def test_the_keys_of_each_day_are_read_once(folder: EventFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    days = [date(2026, 11, day) for day in range(1, 8)]
    folder.publish(*[folder.call(f"{day}T10:00") for day in days])
    repeats, read = repeats_of(folder), []
    original = Published.scan

    def noted(self: Published, dataset: Any, days: Any = None, after: int = 0) -> Any:
        assert dataset is TOOL_CALLS
        read.extend(days)
        return original(self, dataset, days, after)

    monkeypatch.setattr(Published, "scan", noted)
    for day in days:
        assert repeats.of(day).uncounted.is_empty()
    assert read == days
    assert len(repeats._keys) == 4


def test_a_call_with_two_executed_outcomes_is_a_conflict_of_the_row_that_counts(folder: EventFolder) -> None:
    folder.publish(
        folder.call("2026-11-03T10:00", "not_started", **SAME),
        folder.call("2026-11-03T11:00", "error", **SAME),
        folder.call("2026-11-04T10:00", "success", **SAME),
        folder.call("2026-11-03T10:00", "success", call_id="twice"),
        folder.call("2026-11-03T11:00", "success", call_id="twice"),
    )
    conflicts = [repeats_of(folder).of(date(2026, 11, day)).conflicts for day in (3, 4)]
    assert [[UUID(bytes=event).int for event in each["event_id"]] for each in conflicts] == [[2], []]
