"""Which days are computed again: every day that can have changed, and hardly any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analytics.day import Day
from analytics.prompt_partials import PromptPartials
from analytics.published import Published, read_published
from analytics.refresh import refresh
from analytics.repeats import Repeats
from analytics.touched import touched_days
from sli.schemas import (
    GUARD_DECISIONS,
    INGEST_COUNTS,
    MODEL_CALLS,
    PROMPT_EVENTS,
    RECEIVER_UPTIME,
    SESSIONS,
)

if TYPE_CHECKING:
    from tests.analytics.segments import EventFolder

SAME = {"call_id": "same"}


def read(folder: EventFolder) -> Published:
    published = read_published(folder.directory)
    assert published is not None
    return published


def touched(folder: EventFolder, after: int, previously: str = "2027-01-01", now: str = "2027-01-01") -> str:
    """The days of the month that are touched."""
    published = read(folder)
    moments = [datetime.fromisoformat(each).replace(tzinfo=UTC) for each in (previously, now)]
    found = touched_days(published, Repeats(published), after, *moments)
    return " ".join(f"{day:%d}" for day in sorted(found))


def test_the_days_of_new_rows(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-05T08:00"), folder.call("2026-11-03T10:00"))
    folder.publish(folder.call("2026-11-03T10:59", prompt_id=None, call_id=None))
    folder.publish(folder.row(INGEST_COUNTS, "2026-11-09T10:59"))
    assert touched(folder, after=0) == "03 05 09"
    assert touched(folder, after=1) == "03 09"
    assert touched(folder, after=2) == "09"
    assert touched(folder, after=3) == ""


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        ("2026-11-02T00:00", "02 03"),
        ("2026-11-04T23:59", "03 04"),
        ("2026-11-01T23:59", "03"),
        ("2026-11-05T00:00", "03"),
    ],
)
def test_the_days_beside_that_hold_a_row_of_the_same_call(
    folder: EventFolder, old: str, expected: str
) -> None:
    folder.publish(folder.call(old, prompt_id=None, **SAME))
    folder.publish(folder.call("2026-11-03T10:00", prompt_id=None, **SAME))
    assert touched(folder, after=1) == expected


def test_rows_without_ids_touch_no_other_day(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-02T23:00", call_id=None, prompt_id=None))
    folder.publish(folder.call("2026-11-03T00:00", call_id=None, prompt_id=None))
    assert touched(folder, after=1) == "03"


PROMPT = {"prompt_id": "s########1", "session_id": "s"}


@pytest.mark.parametrize(
    ("dataset", "columns"),
    [
        (MODEL_CALLS, PROMPT | {"outcome": "response"}),
        (GUARD_DECISIONS, PROMPT | {"decision": "tracked"}),
        (PROMPT_EVENTS, PROMPT | {"kind": "interaction"}),
        # A conversation that finished has no prompt id: the trace leads to it.
        (PROMPT_EVENTS, {"kind": "conversation_finished", "trace_id": "t", "session_id": "z"}),
        # Its mode is that of its session's other guard records.
        (GUARD_DECISIONS, {"prompt_id": "s########2", "session_id": "s", "decision": "tracked"}),
        (PROMPT_EVENTS, {"prompt_id": "s########2", "session_id": "s", "kind": "user_retry"}),
    ],
)
def test_the_days_beside_that_hold_a_record_of_the_same_prompt(
    folder: EventFolder, dataset: Any, columns: dict[str, Any]
) -> None:
    folder.publish(
        *[folder.call(f"2026-11-0{day}T10:00", call_id=None, **PROMPT) for day in (2, 4, 5)],
        folder.row(PROMPT_EVENTS, "2026-11-02T10:00", kind="user_prompt", trace_id="t", **PROMPT),
        folder.call("2026-11-01T10:00", call_id=None, **PROMPT),
    )
    folder.publish(folder.row(dataset, "2026-11-03T10:00", **columns))
    assert touched(folder, after=1) == "02 03 04"


def test_a_prompt_of_another_version_is_another_prompt(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-02T10:00", call_id=None, service_version="0.9.0", **PROMPT))
    folder.publish(folder.call("2026-11-03T10:00", call_id=None, **PROMPT))
    assert touched(folder, after=1) == "03"


def test_prompts_that_may_have_become_unfinished_meanwhile(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-02T23:55"), folder.call("2026-11-03T10:00"))
    assert touched(folder, 1, "2026-11-03T00:04", "2026-11-03T00:06") == "02 03"
    assert touched(folder, 1, "2026-11-03T00:10", "2026-11-03T00:12") == "03"
    assert touched(folder, 1, "2026-11-04T00:10", "2026-11-04T00:12") == ""


def test_a_prompt_of_the_day_before_that_may_have_become_unfinished(folder: EventFolder) -> None:
    folder.publish(
        folder.call("2026-11-02T23:55", call_id=None, **PROMPT),
        folder.call("2026-11-03T12:00", call_id=None, **PROMPT),
        folder.call("2026-11-03T12:00", call_id=None, prompt_id="s########2"),
    )
    assert touched(folder, 1, "2026-11-03T12:05", "2026-11-03T12:15") == "02 03"
    assert touched(folder, 1, "2026-11-03T12:15", "2026-11-03T12:25") == "03"


def test_uptime_since_the_day_before(folder: EventFolder) -> None:
    folder.publish(*[folder.call(f"2026-11-0{day}T10:00") for day in (1, 2, 3)])
    since = datetime(2026, 11, 2, 23, 59, 30, tzinfo=UTC)
    until = datetime(2026, 11, 3, 0, 0, 30, tzinfo=UTC)
    # The receiver writes such a row at the end of what it tells of.
    folder.publish(folder.row(RECEIVER_UPTIME, "2026-11-03T00:00:30", since=since, until=until))
    assert touched(folder, after=1) == "02 03"


def test_a_repeat_that_does_not_count_any_more_changes_its_prompt_a_day_further(folder: EventFolder) -> None:
    for day in (2, 4):
        folder.publish(folder.call(f"2026-11-0{day}T10:00", call_id=None, **PROMPT))
    folder.publish(folder.call("2026-11-03T10:00", "not_started", **PROMPT, **SAME))
    # Its day is told by the first record that counts; that is now no longer on the third.
    folder.publish(folder.call("2026-11-02T09:00", **PROMPT, **SAME))
    assert touched(folder, after=3) == "02 03 04"


def test_a_call_that_another_version_made_first_changes_the_day_on_which_its_prompt_begins(
    folder: EventFolder,
) -> None:
    later = {"service_version": "0.9.0", **PROMPT}
    folder.publish(
        folder.call("2026-11-02T10:00", **later, **SAME),
        folder.call("2026-11-03T10:00", call_id="d", **later),
    )
    refresh(folder.directory)
    # The row of 0.9.0 counts no longer: of its prompt, only what it called on the third is left.
    folder.publish(folder.call("2026-11-02T09:00", **PROMPT, **SAME))
    assert touched(folder, after=1) == "02 03"
    refresh(folder.directory)
    step_by_step = folder.prompts()
    assert [row["service_version"] for row in step_by_step] == ["0.24.4", "0.9.0"]
    refresh(folder.directory, rebuild=True)
    assert folder.prompts() == step_by_step


def test_a_conversation_that_finished_two_days_after_its_prompt_began(folder: EventFolder) -> None:
    named = {"kind": "user_prompt", "trace_id": "t", **PROMPT}
    folder.publish(
        folder.row(PROMPT_EVENTS, "2026-11-02T10:00", **named),
        folder.call("2026-11-03T10:00", call_id=None, **PROMPT),
    )
    folder.publish(folder.row(PROMPT_EVENTS, "2026-11-04T10:00", kind="conversation_finished", trace_id="t"))
    assert touched(folder, after=1) == "03 04"


def test_a_stream_that_was_closed_on_the_next_day(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-02T23:59", **PROMPT), folder.call("2026-11-01T23:59"))
    folder.publish(folder.row(SESSIONS, "2026-11-03T00:01", kind="sse_closed", session_id="s"))
    assert touched(folder, after=1) == "02 03"


def cells_of(published: Published, days: Sequence[date]) -> dict[date, list[Any]]:
    repeats = Repeats(published)
    partials = PromptPartials(published, repeats)
    as_of = datetime(2027, 1, 1, tzinfo=UTC)
    return {day: Day(published, repeats, partials, day, as_of).cells.sort(pl.all()).rows() for day in days}


ROWS = st.lists(
    st.tuples(
        st.integers(1, 5),
        st.sampled_from(["00:00", "12:30", "23:59"]),
        st.sampled_from(["success", "error", "not_started"]),
        st.sampled_from(["c", "d", None]),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(old=ROWS, new=ROWS)
def test_a_day_that_is_not_touched_does_not_change(
    new_folder: Callable[[], EventFolder], old: list[Any], new: list[Any]
) -> None:
    folder = new_folder()
    days = [date(2026, 11, 1) + timedelta(days=n) for n in range(5)]

    def publish(rows: list[Any]) -> None:
        folder.publish(*[folder.call(f"2026-11-0{d}T{t}", status, call_id=c) for d, t, status, c in rows])

    publish(old)
    before = cells_of(read(folder), days)
    publish(new)
    after = cells_of(read(folder), days)
    changed = {f"{day:%d}" for day in days if before[day] != after[day]}
    assert changed <= set(touched(folder, after=1).split())
