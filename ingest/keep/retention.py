"""Retention: whole UTC days that are older than the setting says leave the store and the segments.

First the store, in one transaction that also remembers since which day events are kept; then the
manifest; then, when no reader holds them any more, the files. Killed in between, the next start goes on
from what the store remembers. An event of a day that was removed is refused from then on, for good: it
may be a repeat of one that was stored, and nobody could tell any more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

import duckdb
import numpy as np
import numpy.typing as npt

from ingest.decode.vectors import arrow
from ingest.keep.publisher import Publisher
from ingest.keep.store import Store
from ingest.normalise.events import EventRows

_EPOCH = date(1970, 1, 1)
_NANOSECONDS_A_DAY = 86_400_000_000_000


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


def without_removed_days(
    batch: EventRows, kept_since: date | None, requests: int
) -> tuple[EventRows, npt.NDArray[np.int64]]:
    """The rows of a batch that lie on `kept_since` or later.

    Returns:
        The rows, and how many rows of each request were left out.
    """
    if kept_since is not None:
        time = batch.table["time_unix_nano"].to_numpy()
        kept = time >= (kept_since - _EPOCH).days * _NANOSECONDS_A_DAY
        if not kept.all():
            left_out = np.bincount(batch.table["request"].to_numpy()[~kept], minlength=requests)
            table = batch.table.filter(arrow(kept))
            return replace(batch, table=table, stamped=batch.stamped[kept]), left_out
    return batch, np.zeros(requests, dtype=np.int64)
