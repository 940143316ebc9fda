"""Segments as files: the rows of one dataset and one day, sorted by time, as small as they get."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
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
# Many days that arrived at once are read from the store together, so long as they come to no more rows.
_ROWS_AT_ONCE = 500_000
# Memory that a merge takes from the machine, beside the store's; what is more goes to the disk meanwhile.
_MERGE_MEMORY = "256MiB"

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
        for earliest, latest in _runs(days):
            span = f"day BETWEEN DATE '{earliest.isoformat()}' AND DATE '{latest.isoformat()}'"
            rows = reader.sql(f"FROM {dataset} WHERE {commits} AND {span} {_ORDER}")
            segments += self._write(rows.to_arrow_reader(ROW_GROUP_ROWS), dataset, first, last)
        self._make_names_last(segments)
        return segments

    def merge(self, segments: Sequence[Segment]) -> Segment:
        """Write one segment with the rows of several of one dataset and day, from their files.

        Not from the store: its memory is the writer's, and a day's rows lie scattered in it.

        Raises:
            MergeGivenUp: `give_up` was called.
            duckdb.Error, OSError: it cannot be done; in either case the segments are as they were.
        """
        paths = [str(self.folder / segment.path) for segment in segments]
        first, last = min(s.first_commit for s in segments), max(s.last_commit for s in segments)
        with duckdb.connect(
            config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
        ) as connection:
            for setting in (
                f"memory_limit = '{_MERGE_MEMORY}'",
                "threads = 1",
                f"temp_directory = '{_quoted(self.folder / 'merging.tmp')}'",
                "TimeZone = 'UTC'",
                "arrow_lossless_conversion = true",
            ):
                connection.execute(f"SET {setting}")
            columns = ", ".join(_DATASETS[segments[0].dataset].names)
            self._merging = connection
            try:
                if self._given_up.is_set():
                    raise MergeGivenUp
                rows = connection.sql(
                    f"SELECT {columns} FROM read_parquet($paths, hive_partitioning = false) {_ORDER}",
                    params={"paths": paths},
                )
                batches = rows.to_arrow_reader(ROW_GROUP_ROWS)
                (merged,) = self._write(batches, segments[0].dataset, first, last)
            except duckdb.InterruptException as error:
                raise MergeGivenUp from error
            finally:
                self._merging = None
        self._make_names_last([merged])
        return merged

    def _write(self, rows: pa.RecordBatchReader, dataset: str, first: int, last: int) -> list[Segment]:
        """Write rows that come sorted by day: bytes are synced, names are not."""
        segments: list[Segment] = []
        file: _SegmentFile | None = None
        try:
            for day, part in _by_day(rows, _DATASETS[dataset]):
                if self._given_up.is_set():
                    raise MergeGivenUp
                if file is None or file.day != day:
                    if file is not None:
                        segments.append(file.finish())
                    file = _SegmentFile(self.folder, _DATASETS[dataset], day, first, last)
                file.add(part)
            if file is not None:
                segments.append(file.finish())
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
        self._temporary = self._path.with_suffix(f".{threading.get_ident()}.tmp")
        self._rows = 0
        self._held: list[pa.Table] = []
        self._held_rows = 0
        self._writer = pq.ParquetWriter(self._temporary, _schema(dataset), **_WRITING[dataset.name])

    def add(self, rows: pa.Table) -> None:
        self._held.append(rows)
        self._held_rows += len(rows)
        self._rows += len(rows)
        if self._held_rows >= ROW_GROUP_ROWS:
            self._flush()

    def finish(self) -> Segment:
        if self._held_rows:
            self._flush()
        self._writer.close()
        size, crc32 = self._temporary.stat().st_size, checksum(self._temporary)
        sync(self._temporary)
        self._temporary.replace(self._path)
        return Segment(self._dataset.name, self.day, self._name, self._rows, size, *self._commits, crc32)

    def discard(self) -> None:
        self._writer.close()
        self._temporary.unlink(missing_ok=True)

    def _flush(self) -> None:
        self._writer.write_table(pa.concat_tables(self._held), row_group_size=ROW_GROUP_ROWS)
        self._held, self._held_rows = [], 0


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


def _runs(days: Sequence[tuple[date, int]]) -> list[tuple[date, date]]:
    """Neighbouring days that are read together: the first and the last of each run."""
    runs: list[tuple[date, date]] = []
    rows = 0
    for day, count in days:
        if runs and rows + count <= _ROWS_AT_ONCE:
            runs[-1] = (runs[-1][0], day)
            rows += count
        else:
            runs.append((day, day))
            rows = count
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
