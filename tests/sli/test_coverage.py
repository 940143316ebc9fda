"""How long of a day the receiver did not accept."""

from __future__ import annotations

from datetime import UTC, date, datetime

import polars as pl
import pytest

from sli.coverage import not_accepting

DAY = date(2026, 11, 3)
LATER = datetime(2026, 11, 9, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-{text}").replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([("03T00:00", "04T00:00")], (0.0, 0)),
        ([("02T10:00", "05T10:00")], (0.0, 0)),
        ([], (86400.0, 1)),
        ([("03T00:00", "03T12:00"), ("03T12:01", "04T00:00")], (60.0, 1)),
        # Neither order, nor repeats, nor overlaps matter.
        ([("03T12:00", "04T00:01"), ("02T23:59", "03T12:30"), ("03T12:00", "03T12:10")], (0.0, 0)),
        ([("03T06:00", "03T12:00"), ("03T18:00", "03T23:00")], (6 * 3600.0 * 2 + 3600, 3)),
        ([("04T00:00", "05T00:00")], (86400.0, 1)),
        ([("01T00:00", "02T00:00"), ("04T00:00", "05T00:00")], (86400.0, 1)),
    ],
)
def test_of_a_day_that_is_over(spans: list[tuple[str, str]], expected: tuple[float, int]) -> None:
    rows = [{"since": at(since), "until": at(until)} for since, until in spans]
    uptime = pl.DataFrame(rows, schema={name: pl.Datetime("us", "UTC") for name in ("since", "until")})
    assert not_accepting(uptime, DAY, LATER) == expected


def test_of_a_day_that_goes_on_only_what_is_over_counts() -> None:
    uptime = pl.DataFrame({"since": [at("03T00:00")], "until": [at("03T10:00")]})
    assert not_accepting(uptime, DAY, at("03T10:00")) == (0.0, 0)
    assert not_accepting(uptime, DAY, at("03T11:00")) == (3600.0, 1)
