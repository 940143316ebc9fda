"""When the receiver was up and accepting: an outage must not look like a quiet day."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import polars as pl

from sli.days import DAY

MOST_SECONDS_NOT_ACCEPTING = 60.0
"""A day with more than this is not complete."""


def not_accepting(uptime: pl.DataFrame, day: date, as_of: datetime) -> tuple[float, int]:
    """How long of a day, as far as it is over, the receiver did not accept.

    Args:
        uptime: `since` and `until` (timestamps), intervals that may overlap or repeat.
        as_of: the moment until which anything is known.

    Returns:
        Seconds, and the number of gaps.
    """
    start = datetime.combine(day, time(), UTC)
    end = min(start + DAY, as_of)
    seconds, gaps, covered = 0.0, 0, start
    for since, until in uptime.select("since", "until").sort("since", "until").iter_rows():
        if since > covered and covered < end:
            gap = min(since, end) - covered
            seconds += gap / timedelta(seconds=1)
            gaps += gap > timedelta()
        covered = max(covered, until)
    if covered < end:
        seconds += (end - covered) / timedelta(seconds=1)
        gaps += 1
    return seconds, gaps
