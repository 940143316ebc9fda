"""Which hours are counted again: every hour that can have changed, and hardly any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analytics.published import Published, read_published
from analytics.repeats import Repeats
from analytics.sli_partials import hour_start, sli_partials
from analytics.touched import touched_hours
from sli.calls import counted
from sli.schemas import TOOL_CALLS

if TYPE_CHECKING:
    from tests.analytics.segments import EventFolder

SAME = {"call_id": "same"}


def read(folder: EventFolder) -> Published:
    published = read_published(folder.directory)
    assert published is not None
    return published


def touched(folder: EventFolder, after: int) -> list[str]:
    published = read(folder)
    found = touched_hours(published, Repeats(published), after)
    for day, hours in found.items():
        assert {hour_start(hour).date() for hour in hours} == {day}
    return [f"{hour_start(hour):%d %H}" for hours in found.values() for hour in hours]


def test_the_hours_of_new_rows(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T08:00"), folder.call("2026-11-03T10:00"))
    folder.publish(folder.call("2026-11-03T10:59"), folder.call("2026-11-01T10:00", call_id=None))
    assert touched(folder, after=1) == ["01 10", "03 10"]
    assert touched(folder, after=0) == ["01 10", "03 08", "03 10"]
    assert touched(folder, after=2) == []


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        ("2026-11-03T08:00", ["03 08", "03 10"]),
        ("2026-11-02T00:00", ["02 00", "03 10"]),
        ("2026-11-04T23:59", ["03 10", "04 23"]),
        ("2026-11-01T23:59", ["03 10"]),
        ("2026-11-05T00:00", ["03 10"]),
    ],
)
def test_the_hours_of_rows_of_the_same_call(folder: EventFolder, old: str, expected: list[str]) -> None:
    folder.publish(folder.call(old, **SAME), folder.call("2026-11-03T02:00", call_id=None))
    folder.publish(folder.call("2026-11-03T10:00", **SAME))
    assert touched(folder, after=1) == expected


def test_rows_without_a_call_id_touch_no_other_hour(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T08:00", call_id=None))
    folder.publish(folder.call("2026-11-03T10:00", call_id=None))
    assert touched(folder, after=1) == ["03 10"]


def partials_by_hour(published: Published, days: Sequence[date]) -> dict[datetime, list[Any]]:
    repeats = Repeats(published)
    found: dict[datetime, list[Any]] = {}
    for day in days:
        rows = counted(published.scan(TOOL_CALLS, [day]), repeats.uncounted(day).lazy())
        for row in sli_partials(rows).sort(pl.all()).collect(engine="streaming").iter_rows():
            found.setdefault(row[0], []).append(row)
    return found


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
def test_an_hour_that_is_not_touched_does_not_change(
    new_folder: Callable[[], EventFolder], old: list[Any], new: list[Any]
) -> None:
    folder = new_folder()
    days = [date(2026, 11, 1) + timedelta(days=n) for n in range(5)]

    def publish(rows: list[Any]) -> None:
        folder.publish(*[folder.call(f"2026-11-0{d}T{t}", status, call_id=c) for d, t, status, c in rows])

    publish(old)
    before = partials_by_hour(read(folder), days)
    publish(new)
    after = partials_by_hour(read(folder), days)
    published = read(folder)
    hours = touched_hours(published, Repeats(published), after=1).values()
    touched_times = {hour_start(hour) for of_day in hours for hour in of_day}
    changed = {time for time in {*before, *after} if before.get(time) != after.get(time)}
    assert changed <= touched_times
