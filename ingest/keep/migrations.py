"""Bringing an older event store up to this version's format, one step after the other.

A step turns a store of one format into one of the next. All steps that a store needs run in the one
transaction in which it is opened, so a store is of its old format or of today's, whatever happens. Steps
are never edited once released: what the next format needs is one more step.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import duckdb
import structlog

from ingest.exceptions import NewerStore
from sli.schemas import EVENT_DATASETS, EVENT_FORMAT

Step = Callable[[duckdb.DuckDBPyConnection], None]


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a store says of itself.

    Attributes:
        id: made with the store, and kept for as long as it lives.
        kept_since: rows of earlier days were removed and are not stored again; None if none ever were.
        removed_through: the highest commit number that a removed row had; numbers are never given twice.
    """

    id: str
    kept_since: date | None
    removed_through: int


def _to_format_2(connection: duckdb.DuckDBPyConnection) -> None:
    """Format 2 remembers what retention has removed."""
    connection.execute("ALTER TABLE store_info ADD COLUMN kept_since DATE")
    connection.execute("ALTER TABLE store_info ADD COLUMN removed_through BIGINT DEFAULT 0")


STEPS: Mapping[int, Step] = {1: _to_format_2}
"""For each older format the step that leads to the next."""


def prepare_store(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Make the tables of a new store, or bring an older one up to today's format.

    Args:
        connection: whose current database is the store; not in a transaction.
        path: of the store, for errors and the log.

    Raises:
        NewerStore: a newer version wrote it; it is as it was.
        duckdb.Error: it cannot be done; the store is as it was.
    """
    connection.execute("BEGIN")
    try:
        came_from = _prepare(connection, path)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    if came_from != EVENT_FORMAT:
        structlog.get_logger("ingest.store").info(
            "store_migrated", store=str(path), from_format=came_from, to_format=EVENT_FORMAT
        )


def read_store_info(connection: duckdb.DuckDBPyConnection) -> StoreInfo:
    """What a store of today's format says of itself."""
    rows = connection.execute("SELECT id, kept_since, removed_through FROM store_info").fetchall()
    (store_id, kept_since, removed_through) = rows[0]
    return StoreInfo(str(store_id), kept_since, int(removed_through))


def _prepare(connection: duckdb.DuckDBPyConnection, path: Path) -> int:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS store_info "
        "(format INTEGER, id VARCHAR, kept_since DATE, removed_through BIGINT DEFAULT 0)"
    )
    found = connection.execute("SELECT format FROM store_info").fetchall()
    if not found:
        connection.execute(
            "INSERT INTO store_info (format, id) VALUES (?, ?)", [EVENT_FORMAT, str(uuid.uuid4())]
        )
    came_from = int(found[0][0]) if found else EVENT_FORMAT
    if came_from > EVENT_FORMAT:
        raise NewerStore(path, came_from, EVENT_FORMAT)
    for older in range(came_from, EVENT_FORMAT):
        STEPS[older](connection)
    # A format may bring datasets that the ones before did not have.
    for dataset in EVENT_DATASETS:
        columns = ", ".join(f"{column.name} {column.type}" for column in dataset.columns)
        connection.execute(f"CREATE TABLE IF NOT EXISTS {dataset.name} ({columns})")
    connection.execute("UPDATE store_info SET format = ?", [EVENT_FORMAT])
    return came_from
