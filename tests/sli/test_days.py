"""When a day closes, and what came late."""

from __future__ import annotations

from datetime import date, datetime

import polars as pl
import pytest

from sli.days import is_late, revision, start_of
from tests.sli.frames import moment


def late(*arrivals: str, day: date = date(2026, 11, 3)) -> pl.DataFrame:
    rows = pl.DataFrame(
        {"received_at": [moment(each) for each in arrivals], "day": [day] * len(arrivals)},
        schema={"received_at": pl.Datetime("us", "UTC"), "day": pl.Date},
    )
    return rows.with_columns(late=is_late())


@pytest.mark.parametrize(
    ("arrival", "expected"),
    [
        ("2026-11-02T23:00", False),
        ("2026-11-03T23:59:59", False),
        ("2026-11-04T01:00", False),
        ("2026-11-04T01:00:00.000001", True),
        ("2027-01-01", True),
    ],
)
def test_what_comes_more_than_an_hour_after_its_day_is_late(arrival: str, expected: bool) -> None:
    assert late(arrival)["late"].to_list() == [expected]


@pytest.mark.parametrize(
    ("arrivals", "expected"),
    [
        ((), 0),
        (("2026-11-03T12:00", "2026-11-04T01:00"), 0),
        (("2026-11-04T02:00", "2026-11-04T23:59"), 1),
        (("2026-11-04T02:00", "2026-11-05T00:00", "2026-11-03T12:00"), 2),
        (("2026-11-05T00:00", "2026-11-09T00:00", "2026-11-05T12:00"), 2),
    ],
)
def test_a_revision_is_a_date_on_which_something_came_late(arrivals: tuple[str, ...], expected: int) -> None:
    for order in (arrivals, arrivals[::-1]):
        found = late(*order).select(revision())
        assert found.to_dicts() == [{"revision": expected}]
        assert found.schema["revision"] == pl.Int64


def test_a_day_starts_at_midnight_utc() -> None:
    found = pl.select(start_of(pl.lit(date(2026, 11, 3))))
    assert found["time"].to_list() == [moment("2026-11-03T00:00")]
    assert isinstance(found["time"][0], datetime)
