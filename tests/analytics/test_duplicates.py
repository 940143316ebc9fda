"""An event that is there twice is found, wherever its rows lie, and the outcome is on record."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics import duplicates
from analytics.duplicates import JOB, check_duplicates
from analytics.refresh import refresh
from analytics.results_draft import RUNS_KEPT, Run, results_draft
from analytics.results_file import last_run, results_locked
from tests.analytics.conftest import FolderMaker
from tests.analytics.segments import EventFolder

TWICE = UUID("0123456789abcdef0123456789abcdef")


def test_without_duplicates_all_is_well_and_on_record(folder: EventFolder) -> None:
    folder.publish(*(folder.call(f"2026-11-0{day}T10:00") for day in (3, 4)))
    refresh(folder.directory)
    outcome = check_duplicates(folder.directory)
    assert outcome is not None
    assert (outcome.found, outcome.through, outcome.recorded) == (False, 1, True)
    assert [(each.dataset, each.rows, each.duplicated) for each in outcome.datasets] == [("tool_calls", 2, 0)]
    last = last_run(folder.directory, JOB)
    assert last is not None
    assert (last.status, last.inputs, last.detail) == ("ok", 1, "no event twice among 2 rows")
    assert abs((datetime.now(UTC) - last.started).total_seconds()) < 600
    # The results are still those of the events.
    assert refresh(folder.directory).up_to_date


@pytest.mark.parametrize(
    "times",
    [("2026-11-03T10:00", "2026-11-03T10:00"), ("2026-11-03T10:00", "2025-01-31T23:59")],
)
def test_an_event_that_is_there_twice_is_found(folder: EventFolder, times: tuple[str, str]) -> None:
    folder.publish(*(folder.call("2026-11-03T09:00") for _ in range(3)))
    for time in times:
        folder.publish(folder.call(time, event_id=TWICE))
    refresh(folder.directory)
    outcome = check_duplicates(folder.directory)
    assert outcome is not None
    assert outcome.found
    assert (outcome.datasets[0].duplicated, outcome.datasets[0].examples) == (1, (TWICE,))
    last = last_run(folder.directory, JOB)
    assert last is not None
    assert (last.status, last.inputs) == ("failed", 3)
    assert last.detail == "events that are there more than once: 1 of tool_calls; 5 rows in all"


def test_ids_that_are_alike_in_one_half_are_not_equal(folder: EventFolder) -> None:
    folder.publish(*(folder.call("2026-11-03T09:00", event_id=UUID(int=(7 << 64) + n)) for n in range(3)))
    folder.publish(*(folder.call("2026-11-03T09:00", event_id=UUID(int=(n << 64) + 7)) for n in range(3)))
    outcome = check_duplicates(folder.directory)
    # (7 << 64) + 7 is in neither twice.
    assert outcome is not None
    assert not outcome.found
    assert not outcome.recorded


@settings(max_examples=25)
@given(
    ids=st.lists(st.integers(0, 40).map(lambda n: UUID(int=n * (2**121 + 3))), min_size=1, max_size=30),
    at_once=st.integers(1, 12),
)
def test_whatever_the_passes_what_is_found_is_what_is_there_twice(
    new_folder: FolderMaker, ids: list[UUID], at_once: int
) -> None:
    folder = new_folder()
    for part in (ids[start : start + 7] for start in range(0, len(ids), 7)):
        folder.publish(*(folder.call("2026-11-03T09:00", event_id=event_id) for event_id in part))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "_ROWS_AT_ONCE", at_once)
        outcome = check_duplicates(folder.directory)
    assert outcome is not None
    expected = {event_id for event_id in ids if ids.count(event_id) > 1}
    assert outcome.datasets[0].duplicated == len(expected)
    assert set(outcome.datasets[0].examples) == set(sorted(expected)[:5])


def test_where_nothing_is_published_there_is_nothing_to_say(folder: EventFolder) -> None:
    assert check_duplicates(folder.directory) is None
    assert last_run(folder.directory, JOB) is None


def test_many_refreshes_do_not_push_the_last_check_out(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:00"))
    refresh(folder.directory)
    check_duplicates(folder.directory)
    with (
        results_locked(folder.directory),
        results_draft(folder.directory, keep_previous=True) as draft,
    ):
        draft._connection.execute(
            "INSERT INTO results.runs SELECT 'refresh', now() + to_seconds(range), now(), 'ok', 1, 1, '' "
            f"FROM range({RUNS_KEPT + 50})"
        )
        now = datetime.now(UTC)
        draft.note(Run("refresh", now, now, "ok", 1, 1, ""))
        draft.publish()
    assert last_run(folder.directory, JOB) is not None
    assert len([row for row in folder.table("runs") if row["job"] == "refresh"]) == RUNS_KEPT
