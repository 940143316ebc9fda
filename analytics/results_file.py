"""The results database as a file: one refresh at a time, what it holds, and what if it is damaged.

Nothing ever writes into the file that readers open: see `results_draft`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import polars as pl

from analytics.exceptions import NewerResultsError, ResultsNotWrittenError
from analytics.partials import KEPT_DATASETS, LOST_SEGMENTS, PARTIAL_FORMAT
from analytics.published import polars_schema
from sli.data_directory import DataDirectory
from sli.rollout.act import FIRST_HASH
from sli.schemas import BASELINES, RESULT_DATASETS, RESULT_FORMAT, RUNS, Dataset

STORED_DATASETS = (*KEPT_DATASETS, *RESULT_DATASETS)
"""All tables of the file."""


@dataclass(frozen=True, slots=True)
class ResultsInfo:
    """What a results file says of itself.

    Attributes:
        current: its tables are those that this version writes, and the files that it lists are there.
        store: id of the event store.
        computed_through: the last commit number whose rows are in the results.
        as_of: until when the events told anything.
        acts: hash of the last act of the rollout that they know of.
        lost: the segments that they were computed without: day by path.
    """

    current: bool
    store: str
    computed_through: int
    as_of: datetime
    acts: str
    lost: Mapping[str, date]


@dataclass(frozen=True, slots=True)
class PreviousResults:
    """The results before a refresh: what they say of themselves, or None; and whether damaged."""

    info: ResultsInfo | None
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of a job; the fields are those of `RUNS`."""

    started: datetime
    status: str
    inputs: int
    detail: str


def connect() -> duckdb.DuckDBPyConnection:
    """A connection of its own, in memory, that loads no extension and computes in UTC."""
    connection = duckdb.connect(
        config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def connect_to_results(directory: DataDirectory) -> duckdb.DuckDBPyConnection:
    """A connection of its own to the results in place, for reading; their tables need no prefix."""
    connection = connect()
    try:
        connection.execute(f"ATTACH '{_quoted(directory.results)}' AS results (READ_ONLY)")
        connection.execute("USE results")
    except duckdb.Error:
        connection.close()
        raise
    return connection


@contextmanager
def results_locked(directory: DataDirectory) -> Iterator[None]:
    """Hold the lock of the results; wait while another process or thread holds it.

    The lock ends with the process, however that ends.

    Raises:
        ResultsNotWrittenError: the folder of the results cannot be written to.
    """
    try:
        directory.results_folder.mkdir(parents=True, exist_ok=True)
        lock = open(directory.results_lock, "ab")  # noqa: SIM115 - closed below
    except OSError as error:
        raise ResultsNotWrittenError(directory.results, str(error)) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def previous_results(directory: DataDirectory) -> PreviousResults:
    """Look at the results that are in place; call it under the lock.

    Raises:
        NewerResultsError: a newer version wrote them.
        ResultsNotWrittenError: they cannot be read or copied, for another reason than damage.
    """
    if not directory.results.exists():
        return PreviousResults(None)
    with suppress(duckdb.Error):
        return PreviousResults(_read_info(directory.results, directory.results))
    # A reader may hold the file in a way that keeps us out. A copy is ours alone.
    with _copy(directory) as copy:
        try:
            return PreviousResults(_read_info(copy, directory.results))
        except duckdb.Error:
            return PreviousResults(None, damaged=True)


def previous_runs(directory: DataDirectory) -> pl.DataFrame:
    """The runs that the results in place have recorded: `RUNS`; empty where they cannot be read."""
    return _previous_rows(directory, RUNS, "started, rowid")


def previous_rollout(directory: DataDirectory, dataset: Dataset) -> pl.DataFrame:
    """`ACTS`, `ROLLOUT` or `GATES` of the results in place; empty as above."""
    return _previous_rows(directory, dataset, "rowid")


def previous_baselines(directory: DataDirectory) -> pl.DataFrame:
    """The baselines of the results in place, with all revisions: `BASELINES`; empty as above."""
    return _previous_rows(directory, BASELINES, "rowid")


def _previous_rows(directory: DataDirectory, dataset: Dataset, order: str) -> pl.DataFrame:
    none = pl.DataFrame(schema=polars_schema(dataset))
    if not directory.results.exists():
        return none
    columns = dataset.select_list
    with connect() as connection, suppress(duckdb.Error):
        connection.execute(f"ATTACH '{_quoted(directory.results)}' AS results (READ_ONLY)")
        rows = connection.sql(f"SELECT {columns} FROM results.{dataset.name} ORDER BY {order}")
        return pl.DataFrame(rows).cast(polars_schema(dataset))
    return none


def last_run(directory: DataDirectory, job: str) -> LastRun | None:
    """The last run of a job that the results in place have recorded; None where there is none."""
    if not directory.results.exists():
        return None
    with connect() as connection, suppress(duckdb.Error):
        connection.execute(f"ATTACH '{_quoted(directory.results)}' AS results (READ_ONLY)")
        rows = connection.execute(
            f"SELECT started, status, inputs, detail FROM results.{RUNS.name} WHERE job = ? "
            "ORDER BY started DESC, rowid DESC LIMIT 1",
            [job],
        ).fetchall()
        if rows:
            started, status, inputs, detail = rows[0]
            return LastRun(started.astimezone(UTC), status, inputs, detail)
    return None


def results_format(directory: DataDirectory) -> int | None:
    """The format that the results in place say they have; None where there are none, or they cannot tell."""
    if not directory.results.exists():
        return None
    with connect() as connection, suppress(duckdb.Error):
        connection.execute(f"ATTACH '{_quoted(directory.results)}' AS results (READ_ONLY)")
        rows = connection.execute("SELECT format FROM results.results_info").fetchall()
        return int(rows[0][0]) if rows else None
    return None


def is_readable(directory: DataDirectory) -> bool:
    """Whether every value of every table can be read; reads the whole file, call it under the lock.

    Raises:
        ResultsNotWrittenError: the file cannot be copied.
    """
    with _copy(directory) as copy, connect() as connection:
        try:
            connection.execute(f"ATTACH '{_quoted(copy)}' AS results (READ_ONLY)")
            for dataset in STORED_DATASETS:
                connection.execute(f"SELECT max(hash(t)) FROM results.{dataset.name} AS t").fetchall()
        except duckdb.Error:
            return False
    return True


def set_aside(directory: DataDirectory) -> Path:
    """Rename the damaged results, so that nothing is lost that someone may still want to look into.

    Returns:
        The new path, `results.duckdb.damaged-<UTC time>`.

    Raises:
        ResultsNotWrittenError: the file cannot be renamed.
    """
    now = datetime.now(UTC)
    aside = directory.results.with_name(f"{directory.results.name}.damaged-{now:%Y%m%dT%H%M%S.%fZ}")
    try:
        directory.results.rename(aside)
        sync(directory.results_folder)
    except OSError as error:
        raise ResultsNotWrittenError(directory.results, str(error)) from error
    return aside


def draft_path(directory: DataDirectory) -> Path:
    """Where new results are built; what lies there outside the lock was left by a killed refresh."""
    return directory.results.with_name(directory.results.name + ".draft")


def remove_draft(directory: DataDirectory) -> None:
    """Remove a draft and its log, if there is one."""
    draft = draft_path(directory)
    draft.unlink(missing_ok=True)
    draft.with_name(draft.name + ".wal").unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Make the contents of a file, or the names in a folder, outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def attach(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Attach the file at `path`, made if it is not there, for writing, as `results`."""
    connection.execute(f"ATTACH '{_quoted(path)}' AS results (STORAGE_VERSION 'v1.5.0')")


def _read_info(path: Path, original: Path) -> ResultsInfo:
    """What the file at `path`, which is `original` or a copy of it, says of itself."""
    paths: list[tuple[str]] = []
    with connect() as connection:
        connection.execute(f"ATTACH '{_quoted(path)}' AS results (READ_ONLY)")
        # Alone first: in a newer file nothing else need be where it is in this version's.
        formats = connection.execute("SELECT format FROM results.results_info").fetchall()
        if formats and formats[0][0] > RESULT_FORMAT:
            raise NewerResultsError(original, formats[0][0], RESULT_FORMAT)
        rows = connection.execute(
            "SELECT format, partial_format, store, computed_through, as_of FROM results.results_info"
        ).fetchall()
        acts = FIRST_HASH
        with suppress(duckdb.BinderException):
            acts = "".join(*connection.execute("SELECT acts FROM results.results_info").fetchall())
        with suppress(duckdb.CatalogException):
            paths = connection.execute("SELECT path FROM results.day_files").fetchall()
        columns = connection.execute(
            "SELECT table_name, column_name FROM duckdb_columns() "
            "WHERE database_name = 'results' ORDER BY table_name, column_index"
        ).fetchall()
        lost: Mapping[str, date] = {}
        if any(table == LOST_SEGMENTS.name for table, _ in columns):
            lost = dict(connection.execute(f"SELECT path, day FROM results.{LOST_SEGMENTS.name}").fetchall())
    if len(rows) != 1:
        raise duckdb.InvalidInputException(f"results_info has {len(rows)} rows")
    result_format, partial_format, store, computed_through, as_of = rows[0]
    stored = {dataset.name for dataset in STORED_DATASETS}
    found = [column for column in columns if column[0] in stored]
    expected = [(d.name, name) for d in sorted(STORED_DATASETS, key=lambda d: d.name) for name in d.names]
    there = all((original.parent / relative).exists() for (relative,) in paths)
    formats_known = (result_format, partial_format) == (RESULT_FORMAT, PARTIAL_FORMAT)
    current = formats_known and found == expected and there
    return ResultsInfo(current, store, computed_through, as_of.astimezone(UTC), acts, lost)


@contextmanager
def _copy(directory: DataDirectory) -> Iterator[Path]:
    try:
        remove_draft(directory)
        shutil.copyfile(directory.results, draft_path(directory))
    except OSError as error:
        raise ResultsNotWrittenError(directory.results, str(error)) from error
    try:
        yield draft_path(directory)
    finally:
        remove_draft(directory)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
