"""The event store: one DuckDB file, written by one thread.

Two writers that look for duplicates at the same time do not see each other's rows, so there is one.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.decode.vectors import arrow
from ingest.exceptions import DamagedStore, NewerStore, StoreUnavailable
from ingest.keep.migrations import prepare_store
from ingest.normalise.events import EventRows
from sli.schemas import EVENT_DATASETS, Dataset

# An older format than DuckDB's newest, so that the file can be opened by the previous release too.
_STORAGE_VERSION = "v1.5.0"
# A larger log means fewer checkpoints under load, and a longer replay after a kill: 64 MiB takes about 1 s.
_CHECKPOINT_BYTES = "64MiB"
_MEMORY_LIMIT = "256MiB"


class Store:
    """The open event store.

    `insert` is for the writer thread alone; `reader` gives any thread a cursor of its own.
    """

    def __init__(self, path: Path) -> None:
        """Open the store, or make it.

        Raises:
            NewerStore: a newer version wrote it.
            DamagedStore: it cannot be opened.
        """
        self.path = path
        self._opening = threading.Lock()
        self._broken = False
        self._kept_since: date | None = None
        self._connection = self._open()

    def _open(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(
            ":memory:",
            config={"autoinstall_known_extensions": False, "autoload_known_extensions": False},
        )
        try:
            connection.execute("SET GLOBAL TimeZone = 'UTC'")
            connection.execute(f"SET GLOBAL memory_limit = '{_MEMORY_LIMIT}'")
            connection.execute(f"SET GLOBAL checkpoint_threshold = '{_CHECKPOINT_BYTES}'")
            quoted = str(self.path).replace("'", "''")
            connection.execute(f"ATTACH '{quoted}' AS store (STORAGE_VERSION '{_STORAGE_VERSION}')")
            connection.execute("USE store")
            info = prepare_store(connection, self.path)
            self.id = info.id
            if info.kept_since is not None:
                self.keep_since(info.kept_since)
            self._holds_unstamped = {
                dataset.name for dataset in EVENT_DATASETS if _holds_unstamped(connection, dataset)
            }
            self._last_commit = max(
                info.removed_through, *(_last_commit(connection, dataset) for dataset in EVENT_DATASETS)
            )
        except duckdb.Error as error:
            connection.close()
            raise DamagedStore(self.path, _first_line(error)) from error
        except NewerStore:
            connection.close()
            raise
        return connection

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

    def insert(self, batches: Sequence[EventRows], requests: int) -> npt.NDArray[np.int64]:
        """Store the rows that are not stored already, in one transaction, synced to disk.

        Args:
            batches: rows of the event tables; copies of an event within them are stored once.
            requests: how many requests they came in.

        Returns:
            How many rows of each request were stored.

        Raises:
            StoreUnavailable: nothing of it is stored.
        """
        stored = np.zeros(requests, dtype=np.int64)
        self._reopen_if_broken()
        try:
            self._connection.execute("BEGIN")
            for batch in batches:
                for part in _parts(batch):
                    stored += self._insert_part(batch.dataset, part, requests)
            self._connection.execute("COMMIT")
        except duckdb.Error as error:
            self._recover()
            raise StoreUnavailable(_first_line(error)) from error
        except Exception:
            self._recover()
            raise
        if stored.any():
            self._last_commit += 1
        return stored

    def _insert_part(self, dataset: str, part: _Part, requests: int) -> npt.NDArray[np.int64]:
        positions = arrow(np.arange(len(part.table), dtype=np.int32))
        self._connection.register("arriving", part.table.append_column("position", positions))
        where = "true"
        if part.bounded:
            # The bounds are literals, so that the scan skips what lies outside of them.
            where = f"stored.time_unix_nano BETWEEN {part.earliest} AND {part.latest}"
            if dataset in self._holds_unstamped:
                # A copy without a time of the producer's may lie anywhere; most stores hold none.
                where = f"({where} OR NOT stored.{_IS_STAMPED})"
        fresh = self._connection.sql(
            f"""
            SELECT arriving.position
            FROM (
                SELECT md5_number(identity)::UUID AS event_id, min(position) AS position
                FROM arriving GROUP BY ALL
            ) AS arriving
            WHERE NOT EXISTS (
                FROM {dataset} AS stored WHERE stored.event_id = arriving.event_id AND {where}
            )
            ORDER BY position
            """
        ).to_arrow_table()["position"]
        if len(fresh) < len(part.table):
            self._connection.register("arriving", part.table.take(fresh))
        if len(fresh):
            self._connection.execute(_INSERT[dataset], [self._last_commit + 1])
            if not part.bounded:
                self._holds_unstamped.add(dataset)
        self._connection.unregister("arriving")
        request = part.table["request"].take(fresh).to_numpy()
        return np.bincount(request, minlength=requests)

    def _recover(self) -> None:
        """End the transaction that failed; where even that fails, the file is opened anew before the next."""
        try:
            self._connection.execute("ROLLBACK")
        except Exception:
            self._broken = True

    def _reopen_if_broken(self) -> None:
        if not self._broken:
            return
        with self._opening:
            self._connection.close()
            try:
                self._connection = self._open()
            except DamagedStore as error:
                raise StoreUnavailable(error.reason) from error
            self._broken = False

    def close(self) -> None:
        """Close the file; its log is folded in."""
        with self._opening:
            self._connection.close()


class _Part:
    """Rows of a batch that are looked for in the same range of stored rows."""

    def __init__(self, table: pa.Table, bounded: bool, earliest: int, latest: int) -> None:
        self.table = table
        self.bounded = bounded
        self.earliest = earliest
        self.latest = latest


def _parts(batch: EventRows) -> list[_Part]:
    """Rows that the producer stamped, looked for near their times; and the others, anywhere."""
    if batch.stamped.all():
        return [_Part(batch.table, True, batch.earliest, batch.latest)]
    stamped = _Part(batch.table.filter(arrow(batch.stamped)), True, batch.earliest, batch.latest)
    others = _Part(batch.table.filter(arrow(~batch.stamped)), False, 0, 0)
    return [part for part in (stamped, others) if len(part.table)]


def _insert_statement(dataset: Dataset) -> str:
    derived = {"event_id": "md5_number(identity)::UUID", "commit_number": "?"}
    columns = ", ".join(derived.get(name, name) for name in dataset.names)
    return f"INSERT INTO {dataset.name} SELECT {columns} FROM arriving"


_IS_STAMPED = "time_source IN ('record', 'event_timestamp')"

_INSERT = {dataset.name: _insert_statement(dataset) for dataset in EVENT_DATASETS}


def _last_commit(connection: duckdb.DuckDBPyConnection, dataset: Dataset) -> int:
    rows = connection.execute(f"SELECT coalesce(max(commit_number), 0) FROM {dataset.name}").fetchall()
    return int(rows[0][0])


def _holds_unstamped(connection: duckdb.DuckDBPyConnection, dataset: Dataset) -> bool:
    rows = connection.execute(f"FROM {dataset.name} WHERE NOT {_IS_STAMPED} LIMIT 1").fetchall()
    return bool(rows)


def _first_line(error: duckdb.Error) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
