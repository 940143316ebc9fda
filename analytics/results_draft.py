"""New results, built beside the ones in place and put in their place as a whole.

Readers keep the file that they opened; who opens the results next sees the new ones. A refresh
that is killed leaves the old results and a draft, which the next one removes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import UTC, date, datetime

import duckdb
import polars as pl

from analytics.day_files import DayFiles
from analytics.exceptions import ResultsNotWrittenError
from analytics.partials import DAY_FILES, LOST_SEGMENTS, PARTIAL_FORMAT, RESULTS_INFO, RETIRED_FILES
from analytics.published import polars_schema
from analytics.results_file import (
    STORED_DATASETS,
    attach,
    connect,
    draft_path,
    remove_draft,
    sync,
)
from sli.data_directory import DataDirectory
from sli.manifest import Segment
from sli.schemas import RESULT_FORMAT, RUNS, Dataset

RUNS_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Run:
    """A row of `RUNS`: its fields are the columns, in their order."""

    job: str
    started: datetime
    finished: datetime
    status: str
    inputs: int
    rows: int
    detail: str


@contextmanager
def results_draft(directory: DataDirectory, *, keep_previous: bool) -> Iterator[ResultsDraft]:
    """A draft of the results, to be filled and then published; call it under the lock.

    Args:
        keep_previous: start from a copy of the results in place; otherwise from empty tables.

    Raises:
        ResultsNotWrittenError: the draft cannot be made. What fails later, fails in the draft.
    """
    with _writing(directory):
        remove_draft(directory)
        if keep_previous:
            shutil.copyfile(directory.results, draft_path(directory))
    connection = connect()
    try:
        with _writing(directory):
            attach(connection, draft_path(directory))
            connection.execute("BEGIN TRANSACTION")
            for dataset in () if keep_previous else STORED_DATASETS:
                columns = ", ".join(f'"{column.name}" {column.type}' for column in dataset.columns)
                connection.execute(f"CREATE TABLE results.{dataset.name} ({columns})")
        yield ResultsDraft(directory, connection)
    finally:
        connection.close()
        remove_draft(directory)


class ResultsDraft:
    """One transaction over a draft. Every method raises ResultsNotWrittenError if it cannot be done."""

    def __init__(self, directory: DataDirectory, connection: duckdb.DuckDBPyConnection) -> None:
        self._directory = directory
        self._connection = connection
        self._unordered_since: dict[str, datetime] = {}
        self._files = DayFiles(directory, self.read(DAY_FILES), self.read(RETIRED_FILES))

    def read(self, dataset: Dataset) -> pl.DataFrame:
        """All rows of a table that the draft holds now, in no particular order."""
        with _writing(self._directory):
            rows = self._connection.sql(f"SELECT {dataset.select_list} FROM results.{dataset.name}")
            return pl.DataFrame(rows).cast(polars_schema(dataset))

    def file(self, dataset: Dataset, day: date, rows: pl.DataFrame) -> None:
        """Put the rows of a day, as a Parquet file, in the place of those that were listed before.

        Args:
            rows: at least the columns of the dataset.
        """
        with _writing(self._directory):
            self._files.write(dataset, day, rows)

    def filed(self, dataset: Dataset, days: Collection[date]) -> pl.LazyFrame:
        """The rows of `days` that files hold, the new ones included: at least the columns of the dataset."""
        return self._files.scan(dataset, days)

    def replace(self, dataset: Dataset, times: Sequence[datetime], rows: pl.DataFrame) -> None:
        """Put `rows` in the place of all rows of `dataset` that are of one of `times`.

        Args:
            times: the steps (hours or days) that are replaced, at least one.
            rows: the columns of the dataset, of these times only.
        """
        table, first, last = f"results.{dataset.name}", min(times), max(times)
        steps = pl.DataFrame({"time": pl.Series(times, dtype=pl.Datetime("us", "UTC"))})
        with _writing(self._directory):
            self._connection.register("replaced", _ArrowStream(steps))
            # The range lets DuckDB skip all row groups of other times.
            self._connection.execute(
                f"DELETE FROM {table} WHERE time BETWEEN ? AND ? AND time IN (SELECT time FROM replaced)",
                [first, last],
            )
            (newest,) = self._connection.execute(f"SELECT max(time) FROM {table}").fetchall()[0]
        if newest is not None and newest > first:
            since = self._unordered_since.get(dataset.name, first)
            self._unordered_since[dataset.name] = min(since, first)
        self._insert(dataset, rows)

    def replace_all(self, dataset: Dataset, rows: pl.DataFrame) -> None:
        """Put `rows` in the place of all rows of `dataset`."""
        with _writing(self._directory):
            self._connection.execute(f"DELETE FROM results.{dataset.name}")
        self._insert(dataset, rows)

    def put_in_order(self, dataset: Dataset, order: Sequence[str]) -> None:
        """Make the rows of `dataset` lie in the order of the columns `order`, of which time is first.

        Rows are mostly replaced at the end of a table: only what lies after the first row that
        came late is written again.
        """
        since = self._unordered_since.pop(dataset.name, None)
        if since is None:
            return
        table = f"results.{dataset.name}"
        with _writing(self._directory):
            self._connection.execute(
                f"CREATE OR REPLACE TEMP TABLE late AS SELECT * FROM {table} WHERE time >= ?", [since]
            )
            self._connection.execute(f"DELETE FROM {table} WHERE time >= ?", [since])
            self._connection.execute(f"INSERT INTO {table} SELECT * FROM late ORDER BY {', '.join(order)}")

    def keep(self, dataset: Dataset, previous: pl.DataFrame) -> None:
        """Take over what earlier results recorded: the columns of the dataset."""
        self._insert(dataset, previous)

    def record(
        self, run: Run, store: str, as_of: datetime, acts: str, lost: Collection[Segment] = ()
    ) -> None:
        """Note a run, and that the draft now holds what was computed through its `inputs`.

        Args:
            store: id of the event store.
            as_of: until when the events tell anything.
            acts: hash of the last act that the results know of.
            lost: published segments that it was computed without.
        """
        self.note(run)
        rows = sorted((segment.day, segment.path) for segment in lost)
        self.replace_all(LOST_SEGMENTS, pl.DataFrame(rows, schema=polars_schema(LOST_SEGMENTS), orient="row"))
        info = f"results.{RESULTS_INFO.name}"
        with _writing(self._directory):
            self._connection.execute(f"DELETE FROM {info}")
            self._connection.execute(
                f"INSERT INTO {info} VALUES (?, ?, ?, ?, ?, ?)",
                [RESULT_FORMAT, PARTIAL_FORMAT, store, run.inputs, as_of, acts],
            )

    def note(self, run: Run) -> None:
        """Note a run that changed nothing of what is computed; the latest of each job are kept."""
        runs = f"results.{RUNS.name}"
        with _writing(self._directory):
            self._connection.execute(f"INSERT INTO {runs} VALUES (?, ?, ?, ?, ?, ?, ?)", astuple(run))
            self._connection.execute(
                f"DELETE FROM {runs} WHERE rowid IN (SELECT rowid FROM {runs} QUALIFY "
                f"row_number() OVER (PARTITION BY job ORDER BY started DESC, rowid DESC) > {RUNS_KEPT})"
            )

    def publish(self) -> None:
        """Put the draft in the place of the results; the draft cannot be used any more."""
        retired = self._files.retire(datetime.now(UTC))
        self.replace_all(DAY_FILES, self._files.listed())
        self.replace_all(RETIRED_FILES, self._files.retired())
        with _writing(self._directory):
            self._connection.execute("COMMIT")
            self._connection.execute("CHECKPOINT results")
            self._connection.execute("DETACH results")
            sync(draft_path(self._directory))
            os.replace(draft_path(self._directory), self._directory.results)
            sync(self._directory.results_folder)
            for path in retired:
                path.unlink(missing_ok=True)

    def _insert(self, dataset: Dataset, rows: pl.DataFrame) -> None:
        with _writing(self._directory):
            self._connection.register("incoming", _ArrowStream(rows.select(dataset.names)))
            self._connection.execute(f"INSERT INTO results.{dataset.name} SELECT * FROM incoming")


class _ArrowStream:
    """A frame as DuckDB can scan it; handed over bare, it would first import pyarrow, for a second."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


@contextmanager
def _writing(directory: DataDirectory) -> Iterator[None]:
    try:
        yield
    except (OSError, duckdb.Error) as error:
        raise ResultsNotWrittenError(directory.results, str(error)) from error
