"""The event store: one DuckDB file, written by one thread.

Two writers that look for duplicates at the same time do not see each other's rows, so there is one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Protocol

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import structlog

from ingest.decode.vectors import arrow
from ingest.exceptions import DamagedStore, DataDirectoryUnusable, StoreUnavailable
from ingest.keep.database import first_line, open_database, tells_of_damage
from ingest.keep.increases import fill_increases
from ingest.keep.journal import Frame, Journal, Part
from ingest.keep.migrations import read_store_info
from ingest.normalise.rows import EventRows
from sli.schemas import EVENT_DATASETS, METRIC_INCREASES, Dataset

# Frames of the journal are compared with the store in lots of about so many rows.
_REPLAY_ROWS = 100_000


class Recovery(Protocol):
    """Where a store that was damaged, or lost commits, gets its rows from again."""

    def rebuild(self, reason: str) -> None:
        """Set the damaged files aside and put a store in their place, of all that is published."""

    def published_through(self, store_id: str) -> int:
        """The last published commit of a store."""

    def complete(self, connection: duckdb.DuckDBPyConnection, stored_through: int) -> int:
        """Put in the published rows of later commits; returns how many there were."""


class Store:
    """The open event store.

    `insert` is for the writer thread alone; `reader` gives any thread a cursor of its own. With a
    journal, rows are written down there too before they are committed.

    Attributes:
        id: the store's id, which the manifest of what was published from it repeats.
        log_was_short: commits were missing from the file that had been there.
    """

    def __init__(self, path: Path, journal: Journal | None = None, recovery: Recovery | None = None) -> None:
        """Open the store, or make it; with a recovery and a journal, whatever damage it has is mended.

        Raises:
            NewerStore: a newer version wrote it.
            DamagedStore: it is damaged, and there is no recovery.
            DataDirectoryUnusable: it cannot be reached or written.
        """
        self.path = path
        self._journal = journal
        self._recovery = recovery
        self._log = structlog.get_logger("ingest.store")
        self._opening = threading.Lock()
        # Held by whoever writes; mending may be asked for by another thread than the writer.
        self._writing = threading.RLock()
        self._broken = False
        self._damage: str | None = None
        self._rebuilt = 0
        self._last_commit = 0
        self._kept_since: date | None = None
        self.log_was_short = False
        self._connection = self._open()

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._damage is None:
            try:
                return self._opened()
            except DamagedStore as error:
                if self._recovery is None:
                    raise
                # Kept until it is mended: a rebuilding that fails leaves no file, and without one an empty
                # store would be made.
                self._damage = error.reason
        assert self._recovery is not None
        self._recovery.rebuild(self._damage)
        self._rebuilt += 1
        return self._opened()

    def _opened(self) -> duckdb.DuckDBPyConnection:
        connection = open_database(self.path)
        try:
            self._read_state(connection)
            self._recover_rows(connection)
        except duckdb.Error as error:
            connection.close()
            if tells_of_damage(error):
                raise DamagedStore(self.path, first_line(error)) from error
            raise DataDirectoryUnusable(self.path, first_line(error)) from error
        except BaseException:
            connection.close()
            raise
        self._damage = None
        self._broken = False
        return connection

    def _read_state(self, connection: duckdb.DuckDBPyConnection) -> None:
        info = read_store_info(connection)
        self.id = info.id
        if info.kept_since is not None:
            self.keep_since(info.kept_since)
        self._holds_unstamped = {
            dataset.name for dataset in EVENT_DATASETS if _holds_unstamped(connection, dataset)
        }
        self._last_commit = max(
            info.removed_through, *(_last_commit(connection, dataset) for dataset in EVENT_DATASETS)
        )

    def _recover_rows(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Put in what is published or written down in the journal and is not in the file.

        A log that ends early opens without a word, so this is done at every start.
        """
        if self._recovery is not None:
            published = self._recovery.published_through(self.id)
            if self._last_commit < published:
                self.log_was_short = True
                if self._recovery.complete(connection, self._last_commit):
                    self._read_state(connection)
                # Also where rows are lost for good: a number that counts as published is not given again.
                self._last_commit = max(self._last_commit, published)
        if self._journal is None:
            return
        recovered, stored_through = 0, self._last_commit
        for lot in _lots(self._journal.frames()):
            # The writer numbers a commit one higher only after the one before is done.
            self.log_was_short |= max(frame.commit for frame in lot) > stored_through + 1
            recovered += self._replay(connection, [frame.part for frame in lot])
        self._journal.all_is_stored(self._last_commit)
        if recovered:
            self._log.warning("recovered_from_journal", rows=recovered, commit=self._last_commit)

    def _replay(self, connection: duckdb.DuckDBPyConnection, parts: Sequence[Part]) -> int:
        connection.execute("BEGIN")
        rows = 0
        for part in parts:
            fresh = self._fresh(connection, part, part.table["event_id"])
            self._insert_fresh(connection, fresh, _INSERT_BY_NAME[part.dataset])
            rows += len(fresh.table)
        connection.execute("COMMIT")
        self._last_commit += rows > 0
        return rows

    @property
    def last_commit(self) -> int:
        """The number of the latest commit that holds rows; 0 for an empty store."""
        return self._last_commit

    @property
    def kept_since(self) -> date | None:
        """Events of earlier days are not stored: they were removed, or are about to be. None: no end."""
        return self._kept_since

    def keep_since(self, day: date) -> None:
        """Let no more events of earlier days in; never goes back."""
        self._kept_since = max(day, self._kept_since or day)

    def remove_before(self, day: date) -> int:
        """Remove all rows of earlier days, in one transaction; for a thread that is not the writer's.

        Returns:
            How many rows were removed.

        Raises:
            duckdb.Error: none was.
        """
        # First, so that the writer lets no more of them in.
        self.keep_since(day)
        cursor = self.reader()
        cursor.execute("BEGIN")
        try:
            removed = 0
            for dataset in EVENT_DATASETS:
                rows = cursor.execute(
                    f"SELECT count(*), max(commit_number) FROM {dataset.name} WHERE day < ?", [day]
                ).fetchall()
                count, last = rows[0]
                if count:
                    cursor.execute(f"DELETE FROM {dataset.name} WHERE day < ?", [day])
                    cursor.execute(
                        "UPDATE store_info SET removed_through = greatest(removed_through, ?)", [last]
                    )
                removed += count
            cursor.execute("UPDATE store_info SET kept_since = ?", [self._kept_since])
        except BaseException:
            cursor.execute("ROLLBACK")
            raise
        cursor.execute("COMMIT")
        return removed

    def reader(self) -> duckdb.DuckDBPyConnection:
        """A cursor for another thread; it sees whole commits only."""
        with self._opening:
            cursor = self._connection.cursor()
        cursor.execute("USE store")
        return cursor

    def insert(self, batches: Sequence[EventRows], arrivals: int) -> npt.NDArray[np.int64]:
        """Store the rows that are not stored already, in one transaction, synced to disk.

        Args:
            batches: rows of the event tables; copies of an event within them are stored once.
            arrivals: how many groups of arrivals they came in.

        Returns:
            How many rows of each group were stored.

        Raises:
            StoreUnavailable: nothing of it is stored.
        """
        with self._writing:
            self._reopen_if_broken()
            try:
                stored = self._insert(batches, arrivals)
            except duckdb.Error as error:
                self._roll_back()
                self._note_damage(error)
                raise StoreUnavailable(first_line(error)) from error
            except OSError as error:
                self._roll_back()
                raise StoreUnavailable(f"the journal: {error.strerror or type(error).__name__}") from error
            except Exception:
                self._roll_back()
                raise
            if stored.any():
                self._last_commit += 1
            return stored

    def _insert(self, batches: Sequence[EventRows], arrivals: int) -> npt.NDArray[np.int64]:
        stored = np.zeros(arrivals, dtype=np.int64)
        connection, journal = self._connection, self._journal
        connection.execute("BEGIN")
        arriving = [part for batch in batches for part in _parts(batch)]
        written = None
        for number, part in enumerate(arriving, start=1):
            fresh = self._fresh(connection, part, part.table["identity"])
            stored += np.bincount(fresh.table["arrival"].to_numpy(), minlength=arrivals)
            if journal is not None:
                # The journal is written by a thread of its own while the engine inserts the same rows.
                if len(fresh.table):
                    journal.append(self._last_commit + 1, _without_arrival(fresh))
                if number == len(arriving):
                    written = journal.sync()
            self._insert_fresh(connection, fresh, _INSERT[part.dataset])
        if written is not None:
            written.result()
        connection.execute("COMMIT")
        return stored

    def _fresh(self, connection: duckdb.DuckDBPyConnection, part: Part, identity: pa.ChunkedArray) -> Part:
        """The rows of a part that are not stored, each event once, with their event ids.

        Args:
            identity: what makes the event ids: binary identities, or the ids themselves as text.
        """
        rows = len(part.table)
        wanted = {"identity": identity, "position": arrow(np.arange(rows, dtype=np.int32))}
        where = "true"
        if part.bounded:
            # The bounds are literals, so that the scan skips what lies outside of them.
            where = f"stored.time_unix_nano BETWEEN {part.earliest} AND {part.latest}"
            if part.dataset in self._holds_unstamped:
                # A copy without a time of the producer's may lie anywhere; most stores hold none.
                where = f"({where} OR NOT stored.{_IS_STAMPED})"
        is_text = pa.types.is_string(identity.type)
        made = "identity::UUID" if is_text else "md5_number(identity)::UUID"
        connection.register("arriving", pa.table(wanted))
        fresh = connection.sql(
            f"""
            SELECT position, event_id::VARCHAR AS event_id
            FROM (
                SELECT {made} AS event_id, min(position) AS position FROM arriving GROUP BY ALL
            ) AS arriving
            WHERE NOT EXISTS (
                FROM {part.dataset} AS stored WHERE stored.event_id = arriving.event_id AND {where}
            )
            ORDER BY position
            """
        ).to_arrow_table()
        connection.unregister("arriving")
        name = "event_id" if is_text else "identity"
        table = part.table if len(fresh) == rows else part.table.take(fresh["position"])
        column = table.schema.get_field_index(name)
        return replace(part, table=table.set_column(column, "event_id", fresh["event_id"]))

    def _insert_fresh(self, connection: duckdb.DuckDBPyConnection, part: Part, statement: str) -> None:
        if not len(part.table):
            return
        table = part.table
        if part.dataset == METRIC_INCREASES.name:
            # Here and not before: what stands in the journal is counted anew among the rows of then.
            table = fill_increases(connection, table)
        connection.register("arriving", table)
        connection.execute(statement, [self._last_commit + 1])
        connection.unregister("arriving")
        if not part.bounded:
            self._holds_unstamped.add(part.dataset)

    @contextmanager
    def steady(self) -> Iterator[int]:
        """Keep the store from being rebuilt meanwhile.

        Yields:
            How often it was rebuilt: where this has changed, commits that were not published have other
            numbers now.
        """
        with self._opening:
            yield self._rebuilt

    def is_published(self, through: int) -> None:
        """Take note that the rows of all commits up to this one are published: stored twice.

        Raises:
            OSError: a journal file that is not needed cannot be removed.
        """
        if self._journal is not None:
            self._journal.forget(through)

    def mend(self, error: duckdb.Error) -> bool:
        """Rebuild the store at once if an error of a reader says that its file is damaged.

        Returns:
            Whether it was, and the reader may try again, with a new cursor.

        Raises:
            StoreUnavailable: it is damaged and cannot be rebuilt now.
        """
        if self._recovery is None or not tells_of_damage(error):
            return False
        with self._writing:
            if self._damage is None and not self._broken:
                self._note_damage(error)
            self._reopen_if_broken()
        return True

    def _roll_back(self) -> None:
        """End the transaction that failed; where even that fails, the file is opened anew before the next."""
        try:
            self._connection.execute("ROLLBACK")
        except Exception:
            self._broken = True

    def _note_damage(self, error: duckdb.Error) -> None:
        if self._recovery is not None and tells_of_damage(error):
            self._damage = first_line(error)
            self._broken = True
            self._log.error("store_damaged", file=str(self.path), reason=self._damage, next="rebuilt")

    def _reopen_if_broken(self) -> None:
        if not self._broken:
            return
        with self._opening:
            try:
                # A result that was never read to its end may own the connection still: tried again then.
                self._connection.close()
                self._connection = self._open()
            except DamagedStore as error:
                raise StoreUnavailable(error.reason) from error
            except DataDirectoryUnusable as error:
                raise StoreUnavailable(error.reason) from error
            except duckdb.Error as error:
                raise StoreUnavailable(first_line(error)) from error
            except OSError as error:
                raise StoreUnavailable(error.strerror or type(error).__name__) from error

    def close(self) -> None:
        """Close the file; its log is folded in."""
        with self._opening:
            self._connection.close()
        if self._journal is not None:
            self._journal.close()


def _parts(batch: EventRows) -> list[Part]:
    """Rows that the producer stamped, looked for near their times; and the others, anywhere."""
    if batch.stamped.all():
        return [Part(batch.dataset, batch.table, True, batch.earliest, batch.latest)]
    stamped = Part(
        batch.dataset, batch.table.filter(arrow(batch.stamped)), True, batch.earliest, batch.latest
    )
    others = Part(batch.dataset, batch.table.filter(arrow(~batch.stamped)), False, 0, 0)
    return [part for part in (stamped, others) if len(part.table)]


def _without_arrival(part: Part) -> Part:
    return replace(part, table=part.table.drop_columns("arrival"))


def _lots(frames: Iterable[Frame]) -> Iterator[list[Frame]]:
    """Many frames together, so that one transaction takes them."""
    lot: list[Frame] = []
    rows = 0
    for frame in frames:
        lot.append(frame)
        rows += len(frame.part.table)
        if rows >= _REPLAY_ROWS:
            yield lot
            lot, rows = [], 0
    if lot:
        yield lot


def _insert_statement(dataset: Dataset) -> str:
    derived = {"event_id": "event_id::UUID", "commit_number": "?"}
    columns = ", ".join(derived.get(name, name) for name in dataset.names)
    return f"INSERT INTO {dataset.name} SELECT {columns} FROM arriving"


_IS_STAMPED = "time_source IN ('record', 'event_timestamp')"

_INSERT = {dataset.name: _insert_statement(dataset) for dataset in EVENT_DATASETS}
# What an earlier version wrote down may lack a column of this one.
_INSERT_BY_NAME = {
    dataset.name: f"INSERT INTO {dataset.name} BY NAME "
    "SELECT * REPLACE (event_id::UUID AS event_id), ?::BIGINT AS commit_number FROM arriving"
    for dataset in EVENT_DATASETS
}


def _last_commit(connection: duckdb.DuckDBPyConnection, dataset: Dataset) -> int:
    rows = connection.execute(f"SELECT coalesce(max(commit_number), 0) FROM {dataset.name}").fetchall()
    return int(rows[0][0])


def _holds_unstamped(connection: duckdb.DuckDBPyConnection, dataset: Dataset) -> bool:
    rows = connection.execute(f"FROM {dataset.name} WHERE NOT {_IS_STAMPED} LIMIT 1").fetchall()
    return bool(rows)
