"""Segments as files: the rows of one dataset and one day, sorted by time, as small as they get."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.keep.files import checksum, sync
from sli.manifest import Segment, segment_path
from sli.schemas import EVENT_DATASETS, Column, Dataset

# Readers skip row groups by their ranges of times; and as many rows are held while a segment is written.
ROW_GROUP_ROWS = 122_880
# Rows are held in memory, 30 MB of them at most, so that many days that arrived together are read from the
# store together, and each costs no more than its file. A day with more rows is written by the engine.
_ROWS_AT_ONCE = 50_000
# Memory that a merge takes beside the store's; what does not fit goes to the disk meanwhile.
_MERGE_MEMORY = "192MiB"
_COPY_OPTIONS = (
    "FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, COMPRESSION_LEVEL 1, "
    f"ROW_GROUP_SIZE {ROW_GROUP_ROWS}"
)

_ORDER = "ORDER BY day, time_unix_nano, event_id"

_ARROW_TYPES: dict[str, pa.DataType] = {
    "UUID": pa.uuid(),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "DATE": pa.date32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "VARCHAR": pa.string(),
    "VARCHAR[]": pa.list_(pa.string()),
}
# Hardly two rows share these: a dictionary of them would be the column itself, and its numbers besides.
_DISTINCT_COLUMNS = frozenset({"event_id", "call_id", "response_id", "trace_id", "span_id"})
# Rows lie in the order of their times, so these differ little from row to row.
_RISING_TYPES = frozenset({"TIMESTAMPTZ", "BIGINT"})


class MergeGivenUp(Exception):
    """A merge was ended before it was done; nothing came of it."""


class SegmentFolder:
    """Writes segments into the folder of the published events; for one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._given_up = threading.Event()
        self._merging: duckdb.DuckDBPyConnection | None = None

    def give_up(self) -> None:
        """End the merge that another thread is at, and let no other begin; for when the service stops."""
        self._given_up.set()
        merging = self._merging
        if merging is not None:
            merging.interrupt()

    def write_commits(
        self, reader: duckdb.DuckDBPyConnection, dataset: str, first: int, last: int, day: date | None = None
    ) -> list[Segment]:
        """Write the rows of commits `first` to `last`, a segment for each day that has any.

        Args:
            reader: a cursor of the store.
            day: only this day.

        Raises:
            duckdb.Error, OSError: files may lie there that no manifest lists.
        """
        commits = f"commit_number BETWEEN {first} AND {last}"
        if day is not None:
            commits += f" AND day = DATE '{day.isoformat()}'"
        days = reader.execute(
            f"SELECT day, count(*) FROM {dataset} WHERE {commits} GROUP BY day ORDER BY day"
        ).fetchall()
        reader.execute("SET SESSION arrow_lossless_conversion = true")
        segments: list[Segment] = []
        for run in _runs(days):
            span = f"day BETWEEN DATE '{run.first.isoformat()}' AND DATE '{run.last.isoformat()}'"
            rows = f"FROM {dataset} WHERE {commits} AND {span} {_ORDER}"
            if run.rows > _ROWS_AT_ONCE:
                segments.append(self._copy(reader, rows, _DATASETS[dataset], run.first, first, last))
            else:
                batches = reader.sql(rows).to_arrow_reader(_ROWS_AT_ONCE)
                segments += self._write(batches, _DATASETS[dataset], first, last)
        self._make_names_last(segments)
        return segments

    def merge(self, segments: Sequence[Segment]) -> Segment:
        """Write one segment with the rows of several of one dataset and day, from their files.

        Not from the store: its memory is the writer's, and a day's rows lie scattered in it.

        Raises:
            MergeGivenUp: `give_up` was called.
            duckdb.Error, OSError: it cannot be done; in either case the segments are as they were.
        """
        first, last = min(s.first_commit for s in segments), max(s.last_commit for s in segments)
        with duckdb.connect(
            config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
        ) as connection:
            for setting in (
                f"memory_limit = '{_MERGE_MEMORY}'",
                "threads = 1",
                f"temp_directory = '{_quoted(self.folder / 'merging.tmp')}'",
                "TimeZone = 'UTC'",
            ):
                connection.execute(f"SET {setting}")
            dataset, day = _DATASETS[segments[0].dataset], segments[0].day
            source = ", ".join(f"'{_quoted(self.folder / segment.path)}'" for segment in segments)
            rows = (
                f"SELECT {', '.join(dataset.names)} "
                f"FROM read_parquet([{source}], hive_partitioning = false) {_ORDER}"
            )
            self._merging = connection
            try:
                if self._given_up.is_set():
                    raise MergeGivenUp
                merged = self._copy(connection, rows, dataset, day, first, last)
            except duckdb.InterruptException as error:
                raise MergeGivenUp from error
            finally:
                self._merging = None
        self._make_names_last([merged])
        return merged

    def _copy(
        self,
        connection: duckdb.DuckDBPyConnection,
        rows: str,
        dataset: Dataset,
        day: date,
        first: int,
        last: int,
    ) -> Segment:
        """Have the engine write the rows of a query, all of one day: bytes are synced, the name is not."""
        file = _SegmentFile(self.folder, dataset, day, first, last)
        try:
            written = connection.execute(
                f"COPY ({rows}) TO '{_quoted(file.temporary)}' ({_COPY_OPTIONS})"
            ).fetchall()
            return file.finish(int(written[0][0]))
        except BaseException:
            file.discard()
            raise

    def _write(self, rows: pa.RecordBatchReader, dataset: Dataset, first: int, last: int) -> list[Segment]:
        """Write rows that come sorted by day: bytes are synced, names are not."""
        segments: list[Segment] = []
        file: _OpenSegment | None = None
        try:
            for day, part in _by_day(rows, dataset):
                if file is None or file.day != day:
                    if file is not None:
                        segments.append(file.close())
                    file = _OpenSegment(self.folder, dataset, day, first, last)
                file.add(part)
            if file is not None:
                segments.append(file.close())
        except BaseException:
            if file is not None:
                file.discard()
            raise
        return segments

    def _make_names_last(self, segments: Sequence[Segment]) -> None:
        """Make the names of new files and folders outlive a power cut, each folder synced once."""
        days = {(self.folder / segment.path).parent for segment in segments}
        datasets = {folder.parent for folder in days}
        for folder in (*days, *datasets, *({self.folder} if days else ())):
            sync(folder)


class _SegmentFile:
    """One segment that is being written, under a temporary name until it is finished."""

    def __init__(self, folder: Path, dataset: Dataset, day: date, first: int, last: int) -> None:
        self.day = day
        self._dataset = dataset
        self._commits = first, last
        self._name = segment_path(dataset.name, day, first, last)
        self._path = folder / self._name
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Of this thread alone: a publication and a compaction may come to write the same segment.
        self.temporary = self._path.with_suffix(f".{threading.get_ident()}.tmp")

    def finish(self, rows: int) -> Segment:
        """Sync the bytes and give the file its name."""
        size, crc32 = self.temporary.stat().st_size, checksum(self.temporary)
        sync(self.temporary)
        self.temporary.replace(self._path)
        return Segment(self._dataset.name, self.day, self._name, rows, size, *self._commits, crc32)

    def discard(self) -> None:
        """Leave nothing of it."""
        self.temporary.unlink(missing_ok=True)


class _OpenSegment(_SegmentFile):
    """One to which rows are added part by part, in order; they are few enough for one row group."""

    def __init__(self, folder: Path, dataset: Dataset, day: date, first: int, last: int) -> None:
        super().__init__(folder, dataset, day, first, last)
        self._rows: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        """Add some."""
        self._rows.append(rows)

    def close(self) -> Segment:
        """Write and finish it."""
        rows = pa.concat_tables(self._rows)
        pq.write_table(rows, self.temporary, **_WRITING[self._dataset.name])
        return self.finish(len(rows))


def _by_day(rows: pa.RecordBatchReader, dataset: Dataset) -> Iterator[tuple[date, pa.Table]]:
    """Rows that come sorted by day, in parts of one day each."""
    for batch in rows:
        if batch.num_rows == 0:
            continue
        table = _typed(pa.table(batch), dataset)
        days = table["day"].combine_chunks().view(pa.int32()).to_numpy()
        bounds = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(days)]
        for start, end in pairwise(bounds):
            yield table["day"][start].as_py(), table.slice(start, end - start)


def _typed(table: pa.Table, dataset: Dataset) -> pa.Table:
    """The rows with the types of the segments; DuckDB hands booleans over as bytes."""
    schema = _schema(dataset)
    columns = []
    for field in schema:
        column = table[field.name]
        if pa.types.is_boolean(field.type) and not pa.types.is_boolean(column.type):
            column = pa.chunked_array([chunk.storage for chunk in column.chunks], pa.int8())
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.table(columns, schema=schema)


@dataclass(slots=True)
class _Run:
    """Neighbouring days that are read together."""

    first: date
    last: date
    rows: int


def _runs(days: Sequence[tuple[date, int]]) -> list[_Run]:
    """Runs of no more than a few rows, and each day that has more by itself."""
    runs: list[_Run] = []
    for day, rows in days:
        if runs and runs[-1].rows + rows <= _ROWS_AT_ONCE:
            runs[-1].last = day
            runs[-1].rows += rows
        else:
            runs.append(_Run(day, day, rows))
    return runs


@cache
def _schema(dataset: Dataset) -> pa.Schema:
    return pa.schema([pa.field(column.name, _ARROW_TYPES[column.type]) for column in dataset.columns])


def _writing(dataset: Dataset) -> dict[str, object]:
    """How the columns are written: what came out smallest on a million tool calls."""
    rising = {
        column.name: "DELTA_BINARY_PACKED" for column in dataset.columns if column.type in _RISING_TYPES
    }
    plain = _DISTINCT_COLUMNS.union(rising)
    return {
        # At its lowest level: what is left after the encodings is random ids, which no level makes smaller.
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": [_leaf(column) for column in dataset.columns if column.name not in plain],
        "column_encoding": rising,
        # The types are Parquet's own; Arrow's description of them would be most of a small file.
        "store_schema": False,
    }


def _leaf(column: Column) -> str:
    return f"{column.name}.list.element" if column.type.endswith("[]") else column.name


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


_DATASETS = {dataset.name: dataset for dataset in EVENT_DATASETS}
_WRITING = {dataset.name: _writing(dataset) for dataset in EVENT_DATASETS}
