"""Retention: whole UTC days that are older than the setting says leave the store and the segments.

First the store, in one transaction that also remembers since which day events are kept; then the
manifest; then, when no reader holds them any more, the files. Killed in between, the next start goes on
from what the store remembers. An event of a day that was removed is refused from then on, for good: it
may be a repeat of one that was stored, and nobody could tell any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import duckdb

from ingest.keep.publisher import Publisher
from ingest.keep.store import Store
from ingest.normalise.times import NANOS_PER_DAY

_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Removal:
    """What retention removed.

    Attributes:
        before: days earlier than this one.
        rows: from the store.
        segments: from what is published.
    """

    before: date
    rows: int
    segments: int


def oldest_kept_day(retention_days: int, now: datetime) -> date:
    """The first day that is kept: today, UTC, and `retention_days` whole days before it."""
    return now.astimezone(UTC).date() - timedelta(days=retention_days)


def remove_days_before(store: Store, publisher: Publisher, before: date) -> Removal:
    """Remove the days before `before`; costs little where there are none.

    Raises:
        duckdb.Error, OSError: it was not finished; the next call, or the next start, goes on.
    """
    rows = store.remove_before(before)
    return Removal(before, rows, publisher.drop_before(before))


def give_space_back(store: Store) -> bool:
    """Let new rows have the space of removed ones; the file itself may stay as large as it was.

    Returns:
        False if it could not be done beside what is being written; then try again later.
    """
    try:
        store.reader().execute("CHECKPOINT store").fetchall()
    except duckdb.TransactionException:
        return False
    return True


def start_of(day: date | None) -> int:
    """When a day begins, in nanoseconds since 1970; 0, before all events, where there is none."""
    return 0 if day is None else (day - _EPOCH).days * NANOS_PER_DAY
