"""Upkeep: what keeps a store in order that runs for years, done beside ingest and publishing."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from datetime import UTC, date, datetime

import duckdb
import structlog

from ingest.clock import Clock, system_clock
from ingest.keep.compaction import compact_next
from ingest.keep.publisher import Publisher
from ingest.keep.retention import give_space_back, oldest_kept_day, remove_days_before
from ingest.keep.segments import MergeGivenUp, SegmentFolder
from ingest.keep.store import Store

LOOK_EVERY_SECONDS = 60.0
# Compaction can wait; a request cannot.
_NICENESS = 10


class Upkeep:
    """Retention and compaction, one piece at a time."""

    def __init__(
        self,
        store: Store,
        publisher: Publisher,
        retention_days: int | None,
        clock: Clock = system_clock,
    ) -> None:
        """From here on the store lets nothing in that retention would remove.

        Args:
            retention_days: whole days before today that are kept; None keeps all.
        """
        self._store = store
        self._publisher = publisher
        # Its own, since it works beside the publications.
        self._folder = SegmentFolder(publisher.folder.folder)
        self._retention_days = retention_days
        self._clock = clock
        self._removed_before: date | None = None
        if retention_days is not None:
            store.keep_since(oldest_kept_day(retention_days, self.now()))
        self._space_wanted = False
        self._today: date | None = None
        self._unmergeable: set[tuple[str, date]] = set()
        self._log = structlog.get_logger("ingest.upkeep")

    def now(self) -> datetime:
        """The time, UTC."""
        return datetime.fromtimestamp(self._clock() / 1e9, UTC)

    def step(self, now: datetime) -> bool:
        """Do one piece of what is due at `now` (UTC); whether there may be more.

        Raises:
            MergeGivenUp: `give_up` was called.
            duckdb.Error, OSError: the piece was not done, and will be tried again.
        """
        if self._retention_days is not None:
            self._remove_old_days(oldest_kept_day(self._retention_days, now))
        if now.date() != self._today:
            # What could not be merged may have been written again since.
            self._today = now.date()
            self._unmergeable.clear()
        if self._space_wanted and give_space_back(self._store):
            self._space_wanted = False
        return compact_next(self._publisher, self._folder, now, self._unmergeable)

    def _remove_old_days(self, before: date) -> None:
        if before == self._removed_before:
            return
        removal = remove_days_before(self._store, self._publisher, before)
        self._removed_before = before
        if removal.rows or removal.segments:
            self._space_wanted = True
            self._log.info(
                "old_days_removed",
                before=before.isoformat(),
                rows=removal.rows,
                segments=removal.segments,
            )

    def give_up(self) -> None:
        """End a merge that is under way in another thread, and let no other begin."""
        self._folder.give_up()


class UpkeepThread:
    """Looks what is due every minute, until it is stopped."""

    def __init__(self, upkeep: Upkeep) -> None:
        self._upkeep = upkeep
        self._stopping = threading.Event()
        self._failing = False
        self._log = structlog.get_logger("ingest.upkeep")
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End soon: a merge that is under way is given up and made again later."""
        self._stopping.set()
        self._upkeep.give_up()
        self._thread.join()

    def _run(self) -> None:
        with suppress(OSError):
            # Of this thread alone, on Linux; elsewhere it is done at the usual priority.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while not self._stopping.is_set():
            if not self._step():
                self._stopping.wait(LOOK_EVERY_SECONDS)

    def _step(self) -> bool:
        try:
            more = self._upkeep.step(self._upkeep.now())
            self._failing = False
            return more
        except MergeGivenUp:
            return False
        except (duckdb.Error, OSError) as error:
            if not self._failing and not self._stopping.is_set():
                # Events and readers are not affected. Said once, not at every try.
                self._log.error("upkeep_failed", reason=str(error).splitlines()[0], next="tried again")
            self._failing = True
            return False
