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
from sli.schemas import TOOL_CALLS

Row = Mapping[str, Any]

SLI_TABLES = ("sli_hourly", "sli_daily", "sli_by_tool_type_daily", "sli_by_function_daily")

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
        columns = ", ".join(f"{column.name} {column.type}" for column in TOOL_CALLS.columns)
        self._connection.execute(f"CREATE OR REPLACE TABLE staged ({columns})")

    def call(self, time: str, execution_status: str = "success", **columns: Any) -> dict[str, Any]:
        """A row of tool_calls at a UTC time like `2026-11-03T10:00`, with a call id of its own."""
        self._events += 1
        moment = datetime.fromisoformat(time).replace(tzinfo=UTC)
        return {
            "event_id": UUID(int=self._events),
            "time": moment,
            "time_unix_nano": (moment - _EPOCH) // timedelta(microseconds=1) * 1000,
            "time_source": "record",
            "day": moment.date(),
            "received_at": moment,
            "environment": "internal",
            "service_name": "qwen-code",
            "service_version": "0.24.4",
            "owner": None,
            "route": "screen_or_cli",
            "session_id": "s",
            "prompt_id": "s########1",
            "call_id": f"call-{self._events}",
            "parent_call_id": None,
            "response_id": None,
            "trace_id": None,
            "span_id": None,
            "function_name": "read_file",
            "tool_type": "native",
            "status": execution_status,
            "execution_status": execution_status,
            "error_type": None,
            "decision": None,
            "duration_ms": 1.0,
            "content_length": 1,
            "source": None,
            "contract_violation": False,
        } | columns

    def publish(self, *rows: Row) -> int:
        """Publish rows as the next commit, one segment a day; returns the number of the commit."""
        self.published_through += 1
        days: dict[date, list[Row]] = defaultdict(list)
        for row in rows:
            days[row["day"]].append(row)
        for day, of_day in days.items():
            self._stage(of_day)
            self._write(day, self.published_through, self.published_through)
        self.write_manifest()
        return self.published_through

    def merge(self, day: date) -> None:
        """Put one segment in the place of all segments of a day; the old files are removed last."""
        old = [segment for segment in self.segments if segment.day == day]
        for segment in old:
            self._connection.execute(f"INSERT INTO staged SELECT * FROM read_parquet('{self.path(segment)}')")
        self.segments = [segment for segment in self.segments if segment.day != day]
        self._write(day, min(s.first_commit for s in old), max(s.last_commit for s in old))
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
        """The tables that must not depend on how they were arrived at."""
        tables = self._read([*SLI_TABLES, "sli_partials_hourly"])
        # The partials lie in no particular order.
        tables["sli_partials_hourly"].sort(key=lambda row: list(row.values()))
        return tables

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

    def _stage(self, rows: Iterable[Row]) -> None:
        names = TOOL_CALLS.names
        values = [
            [(row | {"commit_number": self.published_through})[name] for name in names]
            for row in map(dict, rows)
        ]
        marks = ", ".join("?" for _ in names)
        self._connection.executemany(f"INSERT INTO staged VALUES ({marks})", values)

    def _write(self, day: date, first: int, last: int) -> None:
        relative = segment_path("tool_calls", day, first, last)
        path = self.directory.events / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection.execute(f"COPY staged TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
        (rows,) = self._connection.execute("SELECT count(*) FROM staged").fetchall()[0]
        self._connection.execute("DELETE FROM staged")
        size, crc32 = path.stat().st_size, zlib.crc32(path.read_bytes())
        self.segments.append(Segment("tool_calls", day, relative, rows, size, first, last, crc32))
