"""A folder of published events, written the way ingest writes it: DuckDB's Parquet and a manifest."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb

from sli.data_directory import DataDirectory
from sli.manifest import Manifest, Segment, segment_path
from sli.schemas import EVENT_DATASETS, RESULT_DATASETS, RUNS, TOOL_CALLS, Dataset

Row = Mapping[str, Any]

# What must not depend on how it was arrived at: all but the runs, and when something was found out.
TABLES = tuple(dataset.name for dataset in RESULT_DATASETS if dataset is not RUNS)
ARRIVAL_FACTS = ("revision", "revised_at")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EventFolder:
    """Builds rows, publishes them as segments, and reads the results back."""

    def __init__(self, root: Path, connection: duckdb.DuckDBPyConnection) -> None:
        self.directory = DataDirectory(root)
        self.store = "store-1"
        self.published_through = 0
        self.segments: list[Segment] = []
        self._events = 0
        self._connection = connection
        for dataset in EVENT_DATASETS:
            columns = ", ".join(f"{column.name} {column.type}" for column in dataset.columns)
            self._connection.execute(f"CREATE OR REPLACE TABLE staged_{dataset.name} ({columns})")

    def call(self, time: str, execution_status: str = "success", **columns: Any) -> dict[str, Any]:
        """A row of tool_calls at a UTC time like `2026-11-03T10:00`, with a call id of its own."""
        return self.row(
            TOOL_CALLS,
            time,
            **{
                "route": "screen_or_cli",
                "session_id": "s",
                "prompt_id": "s########1",
                "call_id": f"call-{self._events + 1}",
                "function_name": "read_file",
                "tool_type": "native",
                "status": execution_status,
                "execution_status": execution_status,
                "duration_ms": 1.0,
                "content_length": 1,
                "contract_violation": False,
            }
            | columns,
        )

    def row(self, dataset: Dataset, time: str, **columns: Any) -> dict[str, Any]:
        """A row of any event table; what is not given is null. It arrives at its own time."""
        self._events += 1
        moment = datetime.fromisoformat(time).replace(tzinfo=UTC)
        common = {
            "event_id": UUID(int=self._events),
            "time": moment,
            "time_unix_nano": (moment - _EPOCH) // timedelta(microseconds=1) * 1000,
            "time_source": "record",
            "day": moment.date(),
            "received_at": moment,
            "environment": "internal",
            "service_name": "qwen-code",
            "service_version": "0.24.4",
        }
        known = {name: common.get(name) for name in dataset.names}
        assert set(columns) <= set(known), set(columns) - set(known)
        return known | columns | {"dataset": dataset.name}

    def publish(self, *rows: Row) -> int:
        """Publish rows as the next commit, one segment a day; returns the number of the commit."""
        self.published_through += 1
        groups: dict[tuple[str, date], list[Row]] = defaultdict(list)
        for row in rows:
            groups[row["dataset"], row["day"]].append(row)
        for (dataset, day), of_day in groups.items():
            self._stage(dataset, of_day)
            self._write(dataset, day, self.published_through, self.published_through)
        self.write_manifest()
        return self.published_through

    def merge(self, day: date, dataset: str = "tool_calls") -> None:
        """Put one segment in the place of all segments of a day; the old files are removed last."""
        old = [segment for segment in self.segments if (segment.day, segment.dataset) == (day, dataset)]
        for segment in old:
            path = self.path(segment)
            self._connection.execute(f"INSERT INTO staged_{dataset} SELECT * FROM read_parquet('{path}')")
        self.segments = [segment for segment in self.segments if segment not in old]
        self._write(dataset, day, min(s.first_commit for s in old), max(s.last_commit for s in old))
        self.write_manifest()
        for segment in old:
            self.path(segment).unlink()

    def write_manifest(self) -> None:
        self.directory.events.mkdir(parents=True, exist_ok=True)
        manifest = Manifest(self.store, self.published_through, tuple(self.segments))
        self.directory.manifest.write_text(manifest.render(), "utf-8")

    def path(self, segment: Segment) -> Path:
        return self.directory.events / segment.path

    def table(self, name: str) -> list[dict[str, Any]]:
        """All rows of a result table, in the order in which they lie, times in ISO 8601."""
        return self._read([name])[name]

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """The tables that must not depend on how they were arrived at, without facts of arrival."""
        tables = self._read(TABLES) | {"prompts": self.prompts()}
        for rows in tables.values():
            for row in rows:
                for name in ARRIVAL_FACTS:
                    row.pop(name, None)
        return tables

    def prompts(self) -> list[dict[str, Any]]:
        """The rows of `prompts`, day by day, in the order in which they lie."""
        self._connection.execute(f"ATTACH '{self.directory.results}' AS results (READ_ONLY)")
        paths = self._connection.execute(
            "SELECT path FROM results.day_files WHERE dataset = 'prompts' ORDER BY day"
        ).fetchall()
        self._connection.execute("DETACH results")
        rows = []
        for (path,) in paths:
            found = self._connection.execute(f"FROM '{self.directory.results_folder / path}'")
            columns = [column[0] for column in found.description or ()]
            rows += [dict(zip(columns, row, strict=True)) for row in found.fetchall()]
        return rows

    def _read(self, names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        tables = {}
        self._connection.execute(f"ATTACH '{self.directory.results}' AS results (READ_ONLY)")
        for name in names:
            found = self._connection.execute(f"SELECT * FROM results.{name}")
            columns = [column[0] for column in found.description or ()]
            rows = [dict(zip(columns, row, strict=True)) for row in found.fetchall()]
            tables[name] = [
                row | ({"time": f"{row['time']:%Y-%m-%dT%H:%M}"} if "time" in row else {}) for row in rows
            ]
        self._connection.execute("DETACH results")
        return tables

    def _stage(self, dataset: str, rows: Iterable[Row]) -> None:
        names = next(each.names for each in EVENT_DATASETS if each.name == dataset)
        values = [
            [(row | {"commit_number": self.published_through})[name] for name in names]
            for row in map(dict, rows)
        ]
        marks = ", ".join("?" for _ in names)
        self._connection.executemany(f"INSERT INTO staged_{dataset} VALUES ({marks})", values)

    def _write(self, dataset: str, day: date, first: int, last: int) -> None:
        relative = segment_path(dataset, day, first, last)
        path, staged = self.directory.events / relative, f"staged_{dataset}"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection.execute(f"COPY {staged} TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
        (rows,) = self._connection.execute(f"SELECT count(*) FROM {staged}").fetchall()[0]
        self._connection.execute(f"DELETE FROM {staged}")
        size, crc32 = path.stat().st_size, zlib.crc32(path.read_bytes())
        self.segments.append(Segment(dataset, day, relative, rows, size, first, last, crc32))
