"""Makes a data directory as format 1 left it: two event tables, their segments and a manifest.

The columns are frozen here, whatever the schemas say today. Rows come from a store of today, so that they
are what the same records become now, event ids included.
"""

from __future__ import annotations

import json
from pathlib import Path

import duckdb

from sli.data_directory import DataDirectory

STORE_ID = "7c0e5a52-6f0c-4c39-a8f5-000000000001"

_SHARED = (
    "event_id UUID, time TIMESTAMPTZ, time_unix_nano BIGINT, time_source VARCHAR, day DATE, "
    "received_at TIMESTAMPTZ, environment VARCHAR, service_name VARCHAR, service_version VARCHAR, "
    "owner VARCHAR, route VARCHAR, session_id VARCHAR, prompt_id VARCHAR, "
)
TABLES = {
    "tool_calls": _SHARED + "call_id VARCHAR, parent_call_id VARCHAR, response_id VARCHAR, trace_id VARCHAR, "
    "span_id VARCHAR, function_name VARCHAR, tool_type VARCHAR, status VARCHAR, execution_status VARCHAR, "
    "error_type VARCHAR, decision VARCHAR, duration_ms DOUBLE, content_length BIGINT, source VARCHAR, "
    "contract_violation BOOLEAN, commit_number BIGINT",
    "guard_decisions": _SHARED + "trace_id VARCHAR, span_id VARCHAR, mode VARCHAR, phase_before VARCHAR, "
    "phase_after VARCHAR, decision VARCHAR, failure_count_bucket VARCHAR, batch_count_bucket VARCHAR, "
    "candidate_ordinal BIGINT, reset_reason VARCHAR, terminal_status VARCHAR, execution_status VARCHAR, "
    "execution_error_type VARCHAR, tool_type VARCHAR, unlisted_attributes VARCHAR[], commit_number BIGINT",
}


def make_format_1(directory: DataDirectory, rows_of: Path | None = None) -> None:
    """Write the store, and what it would have published.

    Args:
        rows_of: a closed store of today whose rows are taken over; none for an empty store.
    """
    directory.events.mkdir(parents=True)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"ATTACH '{directory.store}' AS old (STORAGE_VERSION 'v1.5.0')")
        connection.execute("CREATE TABLE old.store_info (format INTEGER, id VARCHAR)")
        connection.execute("INSERT INTO old.store_info VALUES (1, ?)", [STORE_ID])
        for name, columns in TABLES.items():
            connection.execute(f"CREATE TABLE old.{name} ({columns})")
        if rows_of is None:
            return
        connection.execute(f"ATTACH '{rows_of}' AS today (READ_ONLY)")
        segments, last = [], 0
        for name in TABLES:
            listed = ", ".join(_names(name))
            connection.execute(f"INSERT INTO old.{name} SELECT {listed} FROM today.{name}")
            for day, rows, highest in connection.execute(
                f"SELECT day, count(*), max(commit_number) FROM old.{name} GROUP BY day ORDER BY day"
            ).fetchall():
                path = f"{name}/day={day}/{1:012d}-{highest:012d}.parquet"
                file = directory.events / path
                file.parent.mkdir(parents=True, exist_ok=True)
                connection.execute(
                    f"COPY (FROM old.{name} WHERE day = '{day}' ORDER BY time_unix_nano, event_id) "
                    f"TO '{file}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880)"
                )
                size = file.stat().st_size
                last = max(last, highest)
                segments.append(
                    {"dataset": name, "day": str(day), "path": path, "rows": rows, "bytes": size}
                    | {"first_commit": 1, "last_commit": highest}
                )
    manifest = {"format": 1, "store": STORE_ID, "published_through": last, "segments": segments}
    directory.manifest.write_text(json.dumps(manifest))


def _names(table: str) -> list[str]:
    return [column.split()[0] for column in TABLES[table].split(", ")]
