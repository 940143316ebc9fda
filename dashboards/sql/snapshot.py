"""The tables as of one moment: a database in memory whose views lead to the segments and the results.

It is closed up before anybody's SQL reaches it: no file outside of the two folders, no network, no
extension, no setting.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from dashboards.sql.exceptions import NewerResults, PublishedUnreadable, ResultsUnavailable
from sli.data_directory import DataDirectory
from sli.manifest import Manifest, ManifestError
from sli.schemas import EVENT_DATASETS, FILED_DATASETS, RESULT_DATASETS, RESULT_FORMAT, Dataset

FileState = tuple[int, int, int] | None
"""Inode, time of change and size: what differs whenever a file is replaced. None without a file."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a query may take.

    Attributes:
        seconds: from its start to its last row.
        memory_bytes: of the engine for all that runs, and of one answer.
        rows: of one answer.
        threads: that the engine uses.
    """

    seconds: float = 30.0
    memory_bytes: int = 1024**3
    rows: int = 1_000_000
    threads: int = 2


class Snapshot:
    """What is published at one moment, to be opened as a database.

    Attributes:
        manifest: the segments.
    """

    def __init__(self, directory: DataDirectory) -> None:
        """Read the manifest.

        Raises:
            PublishedUnreadable: it is damaged or of another version.
        """
        # The folders are named as they are on the disk, or the engine would not know them again.
        self._directory = DataDirectory(directory.root.resolve())
        # First how the files look, then what is in them: what changes meanwhile is noticed later.
        self._state = _state(self._directory)
        self.manifest = _read_manifest(self._directory)

    def open(self, limits: Limits) -> duckdb.DuckDBPyConnection:
        """A database with a view for each event dataset and each result table, in schema `main`.

        A view whose segments cannot be opened is there, and fails when it is read.

        Raises:
            NewerResults: a newer version wrote the results.
            ResultsUnavailable: there are results, but they cannot be read.
        """
        connection = duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "temp_directory": "",
            },
        )
        try:
            connection.execute("SET GLOBAL TimeZone = 'UTC'")
            for dataset in EVENT_DATASETS:
                try:
                    _make_view(connection, dataset, self._events_source(dataset))
                except duckdb.Error as error:
                    # Whoever asks another table gets an answer.
                    _make_failing_view(connection, dataset, str(error).splitlines()[0])
            self._open_results(connection)
            self._close_up(connection, limits)
        except BaseException:
            connection.close()
            raise
        return connection

    def is_current(self) -> bool:
        """Whether neither the manifest nor the results were replaced since."""
        return self._state == _state(self._directory)

    def lost_segments(self) -> list[Path]:
        """The segments that the manifest lists and that are not on the disk."""
        paths = [self._directory.events / segment.path for segment in self.manifest.segments]
        return [path for path in paths if not path.exists()]

    def damaged_segments(self) -> list[Path]:
        """The segments that are on the disk and are not what was written; reads all of them."""
        found = []
        for segment in self.manifest.segments:
            path = self._directory.events / segment.path
            if path.exists() and not segment.is_what(path.read_bytes()):
                found.append(path)
        return found

    def _events_source(self, dataset: Dataset) -> str | None:
        files = [str(self._directory.events / segment.path) for segment in self.manifest.select(dataset.name)]
        if not files:
            return None
        # The folders' names repeat the day, which is a column already.
        return f"read_parquet([{_texts(files)}], hive_partitioning = false)"

    def _open_results(self, connection: duckdb.DuckDBPyConnection) -> None:
        path = self._directory.results
        exists = path.exists()
        try:
            if exists:
                connection.execute(f"ATTACH {_text(str(path))} AS results (READ_ONLY)")
                formats = connection.execute("SELECT format FROM results.main.results_info").fetchall()
                if formats and formats[0][0] > RESULT_FORMAT:
                    raise NewerResults(path, formats[0][0], RESULT_FORMAT)
                if formats != [(RESULT_FORMAT,)]:
                    found = ", ".join(str(each[0]) for each in formats) or "none"
                    raise ResultsUnavailable(path, f"format {found}, this version reads {RESULT_FORMAT}")
            for dataset in RESULT_DATASETS:
                _make_view(connection, dataset, f"results.main.{dataset.name}" if exists else None)
            for dataset in FILED_DATASETS:
                files = self._filed(connection, dataset) if exists else []
                source = f"read_parquet([{_texts(files)}], hive_partitioning = false)" if files else None
                _make_view(connection, dataset, source)
        except duckdb.Error as error:
            raise ResultsUnavailable(path, str(error).splitlines()[0]) from error

    def _filed(self, connection: duckdb.DuckDBPyConnection, dataset: Dataset) -> list[str]:
        """The files that hold a dataset, by the results' own list."""
        rows = connection.execute(
            "SELECT path FROM results.main.day_files WHERE dataset = ? ORDER BY day", [dataset.name]
        ).fetchall()
        return [str(self._directory.results_folder / path) for (path,) in rows]

    def _close_up(self, connection: duckdb.DuckDBPyConnection, limits: Limits) -> None:
        """Set the limits and take everything away that reading does not need; in the end, the key too."""
        # With a slash at their end these are folders and not the beginnings of names.
        folders = [f"{self._directory.events}/", f"{self._directory.results_folder}/"]
        for setting in (
            f"memory_limit = '{limits.memory_bytes}B'",
            f"threads = {limits.threads}",
            f"max_execution_time = {max(1, round(limits.seconds * 1000))}",
            "python_enable_replacements = false",
            "allow_community_extensions = false",
            "allow_extension_repositories = 'forbidden'",
            "allow_persistent_secrets = false",
            f"allowed_directories = [{_texts(folders)}]",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            connection.execute(f"SET GLOBAL {setting}")


def _state(directory: DataDirectory) -> tuple[FileState, FileState]:
    return _file_state(directory.manifest), _file_state(directory.results)


def _file_state(path: Path) -> FileState:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read_manifest(directory: DataDirectory) -> Manifest:
    try:
        return Manifest.parse(directory.manifest.read_text("utf-8"))
    except FileNotFoundError:
        return Manifest("", 0, ())
    except ManifestError as error:
        raise PublishedUnreadable(directory.manifest, error.reason) from error
    except (OSError, UnicodeDecodeError) as error:
        raise PublishedUnreadable(directory.manifest, type(error).__name__) from error


def _make_view(connection: duckdb.DuckDBPyConnection, dataset: Dataset, source: str | None) -> None:
    columns = dataset.select_list
    if source is None:
        columns = ", ".join(f"NULL::{column.type} AS {column.name}" for column in dataset.columns)
        source = "(SELECT 1) WHERE false"
    connection.execute(f"CREATE VIEW {dataset.name} AS SELECT {columns} FROM {source}")


def _make_failing_view(connection: duckdb.DuckDBPyConnection, dataset: Dataset, reason: str) -> None:
    # In every column, too: of nulls the engine would know without a look that no row is asked for.
    fails = f"error({_text(reason)})"
    columns = ", ".join(f"{fails}::{column.type} AS {column.name}" for column in dataset.columns)
    connection.execute(f"CREATE VIEW {dataset.name} AS SELECT {columns} FROM range(1) WHERE {fails}::BOOLEAN")


def _text(value: str) -> str:
    """A text literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def _texts(values: Iterable[str]) -> str:
    return ", ".join(_text(value) for value in values)
