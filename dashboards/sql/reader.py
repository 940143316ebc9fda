"""Answers to SQL that nobody vouches for: what it may read, how long it may take, how much it may give."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

import duckdb
import pyarrow as pa

from dashboards.sql.exceptions import (
    EventsBusy,
    QueryFailed,
    QueryRefused,
    QueryTimedOut,
    SegmentsDamaged,
    SegmentsMissing,
    SqlError,
    TooManyBytes,
    TooManyRows,
)
from dashboards.sql.snapshot import Limits, Snapshot
from dashboards.sql.statements import readable_statements
from sli.data_directory import DataDirectory

Parameters = Sequence[object] | Mapping[str, object] | None

# A merge replaces a day's segments once; that several merges hit one query in a row is not expected.
ATTEMPTS = 5
_PAUSE_SECONDS = 0.05
_BATCH_ROWS = 2048
# The kinds of error that a damaged Parquet file can give; the segments are then read to find it.
_MAY_TELL_OF_DAMAGE = (duckdb.Error, duckdb.IOException, duckdb.InvalidInputException, OSError)


class Reader:
    """Reads the published events and the results of a data directory; for one thread at a time.

    Each query sees what is published when it starts: when the manifest or the results were replaced
    since the last one, they are opened anew.
    """

    def __init__(self, directory: DataDirectory, limits: Limits | None = None) -> None:
        """Prepare; nothing is opened before the first query.

        Args:
            directory: need not hold anything yet; then all tables are empty.
        """
        self._directory = directory
        self._limits = limits or Limits()
        self._snapshot: Snapshot | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None

    def query(self, sql: str, *, parameters: Parameters = None) -> pa.Table:
        """Run SELECT or EXPLAIN statements and return what the last of them gives.

        Args:
            sql: one statement, or several with semicolons between them.
            parameters: values for `?` or `$1` (a sequence) or `$name` (a mapping); of one statement only.

        Returns:
            The rows, with DuckDB's Arrow types; times have the zone UTC.

        Raises:
            SqlError: one of its kinds.
        """
        for attempt in range(ATTEMPTS):
            try:
                return self._answer(sql, parameters)
            except RuntimeError as error:
                # What the engine makes of Ctrl-C.
                raise (KeyboardInterrupt if str(error) == "Query interrupted" else error) from error
            except (duckdb.Error, OSError, pa.ArrowException) as error:
                # Arrow reports what happens while rows are fetched as errors of its own, or as OSError.
                lost = self._snapshot.lost_segments() if self._snapshot else []
                if not lost:
                    raise self._failure(error) from error
            self.close()
            time.sleep(attempt * _PAUSE_SECONDS)
        newest = Snapshot(self._directory)
        missing = newest.lost_segments()
        # Only what the manifest still lists after the look is really missing.
        raise SegmentsMissing(missing) if missing and newest.is_current() else EventsBusy(ATTEMPTS)

    def close(self) -> None:
        """Let go of the files; the next query opens them again."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._snapshot = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection to what is published now, for one query."""
        if self._snapshot is not None and not self._snapshot.is_current():
            self.close()
        if self._snapshot is None:
            self._snapshot = Snapshot(self._directory)
        if self._connection is None:
            self._connection = self._snapshot.open(self._limits)
        return self._connection.cursor()

    def _answer(self, sql: str, parameters: Parameters) -> pa.Table:
        connection = self._cursor()
        # The engine's own limit leaves out some functions, sleeping ones among them. Both act between two
        # chunks of rows only: a single huge list is computed to its end.
        timer = threading.Timer(self._limits.seconds, connection.interrupt)
        timer.daemon = True
        timer.start()
        deadline = time.monotonic() + self._limits.seconds
        try:
            statements = readable_statements(connection, sql)
            if not statements:
                raise QueryRefused("there is no statement in it")
            if parameters and len(statements) > 1:
                raise QueryRefused("parameters go with one statement only")
            connection.execute("BEGIN TRANSACTION READ ONLY")
            for statement in statements:
                answer = self._fetch(connection, statement, parameters, deadline)
            return answer
        finally:
            timer.cancel()
            timer.join()
            # Its open transaction ends with it.
            connection.close()

    def _fetch(
        self, connection: duckdb.DuckDBPyConnection, statement: str, parameters: Parameters, deadline: float
    ) -> pa.Table:
        rows = connection.sql(statement, params=parameters or None).to_arrow_reader(_BATCH_ROWS)
        batches: list[pa.RecordBatch] = []
        count = size = 0
        for batch in rows:
            count, size = count + batch.num_rows, size + batch.nbytes
            if count > self._limits.rows:
                raise TooManyRows(self._limits.rows)
            if size > self._limits.memory_bytes:
                raise TooManyBytes(self._limits.memory_bytes)
            if time.monotonic() > deadline:
                raise QueryTimedOut(self._limits.seconds)
            batches.append(batch)
        return pa.Table.from_batches(batches, rows.schema)

    def _failure(self, error: Exception) -> SqlError:
        words = str(error)
        if isinstance(error, duckdb.InterruptException) or words.startswith("INTERRUPT Error"):
            return QueryTimedOut(self._limits.seconds)
        if isinstance(error, duckdb.PermissionException):
            return QueryRefused(words)
        if isinstance(error, (duckdb.FatalException, duckdb.InternalException)):
            # The engine does not go on after such an error.
            self.close()
        if type(error) in _MAY_TELL_OF_DAMAGE and self._snapshot is not None:
            damaged = self._snapshot.damaged_segments()
            if damaged:
                return SegmentsDamaged(damaged, words.splitlines()[0])
        return QueryFailed(words)
