"""The event store: one DuckDB file, written by one thread.

Two writers that look for duplicates at the same time do not see each other's rows, so there is one.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.decode.vectors import arrow
from ingest.exceptions import DamagedStore, NewerStore, StoreUnavailable
from ingest.keep.increases import fill_increases
from ingest.normalise.rows import EventRows
from sli.schemas import EVENT_DATASETS, EVENT_FORMAT, METRIC_INCREASES, Dataset

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
            self.id = self._ensure_schema(connection)
            self._holds_unstamped = {
                dataset.name for dataset in EVENT_DATASETS if _holds_unstamped(connection, dataset)
            }
            self._last_commit = max(_last_commit(connection, dataset) for dataset in EVENT_DATASETS)
        except duckdb.Error as error:
            connection.close()
            raise DamagedStore(self.path, _first_line(error)) from error
        except NewerStore:
            connection.close()
            raise
        return connection

    def _ensure_schema(self, connection: duckdb.DuckDBPyConnection) -> str:
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE IF NOT EXISTS store_info (format INTEGER, id VARCHAR)")
        found = connection.execute("SELECT format, id FROM store_info").fetchall()
        if not found:
            found = [(EVENT_FORMAT, str(uuid.uuid4()))]
            connection.execute("INSERT INTO store_info VALUES (?, ?)", list(found[0]))
        store_format, store_id = found[0]
        if store_format > EVENT_FORMAT:
            raise NewerStore(self.path, store_format, EVENT_FORMAT)
        for dataset in EVENT_DATASETS:
            columns = ", ".join(f"{column.name} {column.type}" for column in dataset.columns)
            connection.execute(f"CREATE TABLE IF NOT EXISTS {dataset.name} ({columns})")
        connection.execute("COMMIT")
        return str(store_id)

    @property
    def last_commit(self) -> int:
        """The number of the latest commit that holds rows; 0 for an empty store."""
        return self._last_commit

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
        stored = np.zeros(arrivals, dtype=np.int64)
        self._reopen_if_broken()
        try:
            self._connection.execute("BEGIN")
            for batch in batches:
                for part in _parts(batch):
                    stored += self._insert_part(batch.dataset, part, arrivals)
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

    def _insert_part(self, dataset: str, part: _Part, arrivals: int) -> npt.NDArray[np.int64]:
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
        rows = part.table.take(fresh) if len(fresh) < len(part.table) else part.table
        if dataset == METRIC_INCREASES.name and len(fresh):
            rows = fill_increases(self._connection, rows)
        if rows is not part.table:
            self._connection.register("arriving", rows)
        if len(fresh):
            self._connection.execute(_INSERT[dataset], [self._last_commit + 1])
            if not part.bounded:
                self._holds_unstamped.add(dataset)
        self._connection.unregister("arriving")
        return np.bincount(rows["arrival"].to_numpy(), minlength=arrivals)

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
