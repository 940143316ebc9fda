"""Which hours a refresh has to count again."""

from __future__ import annotations

from datetime import date

import polars as pl

from analytics.published import Published
from analytics.repeats import Repeats
from analytics.sli_partials import hour_number
from sli.calls import key_hash, with_call_id
from sli.schemas import TOOL_CALLS


def touched_hours(published: Published, repeats: Repeats, after: int) -> dict[date, list[int]]:
    """The hours whose partials new rows may have changed.

    These are the hours of the new rows, and those hours of the same and the adjoining days that
    hold another row of a call of theirs: a new row can take its place, or count no more.

    Args:
        after: rows of later commits are new.

    Returns:
        For each day in order: its touched hours (hours since 1970), in order.
    """
    found = [pl.DataFrame(schema={"day": pl.Date, "hour": pl.Int64})]
    for day in published.days(TOOL_CALLS, after):
        rows = published.scan(TOOL_CALLS, [day], after)
        own = rows.select(pl.lit(day).alias("day"), hour_number()).unique().collect(engine="streaming")
        hashes = with_call_id(rows).select(key_hash()).unique().collect(engine="streaming")["key_hash"]
        found += [own, repeats.hours_with(hashes, day)] if len(hashes) else [own]
    pairs = pl.concat(found).unique().sort("day", "hour")
    hours: dict[date, list[int]] = {}
    for day, hour in pairs.iter_rows():
        hours.setdefault(day, []).append(hour)
    return hours
