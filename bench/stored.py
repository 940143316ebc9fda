"""A store with many rows in it, and the cost of one more batch."""

from __future__ import annotations

import time

import duckdb

from ingest.keep.database import open_database
from ingest.keep.recovery import open_store
from ingest.keep.store import Store
from ingest.normalise.rows import Events
from sli.data_directory import DataDirectory
from sli.schemas import TOOL_CALLS

_VALUES = {
    "event_id": "md5_number(range::VARCHAR)::UUID",
    "time": "make_timestamptz(1796000000000000 + range * 3000)",
    "time_unix_nano": "1796000000000000000 + range * 3000000",
    "time_source": "'record'",
    "day": "make_timestamptz(1796000000000000 + range * 3000)::DATE",
    "received_at": "make_timestamptz(1796000000000000 + range * 3000)",
    "environment": "'internal'",
    "service_name": "'qwen-code'",
    "service_version": "'0.24.4'",
    "status": "'success'",
    "execution_status": "'success'",
    "function_name": "'read_file'",
    "tool_type": "'native'",
    "call_id": "md5(range::VARCHAR)",
    "commit_number": "1 + range // 10000",
}


def fill(directory: DataDirectory, rows: int) -> None:
    """Make a store of so many tool calls, one every 3 ms, as if they had come long ago."""
    open_store(directory).close()
    connection = open_database(directory.store)
    columns = ", ".join(_VALUES.get(name, "NULL") for name in TOOL_CALLS.names)
    connection.execute(f"INSERT INTO tool_calls SELECT {columns} FROM range({rows})")
    connection.execute("CHECKPOINT store")
    connection.close()


def looked_for(store: Store, events: Events) -> float:
    """Seconds that a batch takes to be stored where copies of it are looked for."""
    started = time.perf_counter()
    store.insert(list(events.rows), len(events.arrivals) + 1)
    return time.perf_counter() - started


def plainly(connection: duckdb.DuckDBPyConnection, events: Events) -> float:
    """Seconds that the same rows take in a plain INSERT, in a transaction."""
    columns = ", ".join(
        {"event_id": "md5_number(identity)::UUID", "commit_number": "0"}.get(name, name)
        for name in TOOL_CALLS.names
    )
    started = time.perf_counter()
    connection.execute("BEGIN")
    for rows in events.rows:
        connection.register("arriving", rows.table)
        connection.execute(f"INSERT INTO {rows.dataset} SELECT {columns} FROM arriving")
    connection.execute("COMMIT")
    return time.perf_counter() - started
