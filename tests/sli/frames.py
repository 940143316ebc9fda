"""Rows of event tables by hand, as the frames that the rules of the results work on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from analytics.published import polars_schema
from sli.schemas import Dataset

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(text: str) -> datetime:
    """A UTC time; a time of day is one of 2026-11-03."""
    return datetime.fromisoformat(text if "-" in text else f"2026-11-03T{text}").replace(tzinfo=UTC)


def nanos(text: str) -> int:
    """The same in nanoseconds since 1970."""
    return (moment(text) - EPOCH) // timedelta(microseconds=1) * 1000


def events(dataset: Dataset, *rows: Mapping[str, Any]) -> pl.LazyFrame:
    """Rows of an event table: `at` says when, `came` when they arrived, which otherwise is the same time."""
    made = []
    for number, row in enumerate(rows):
        at = row.get("at", "10:00")
        common = {
            "event_id": number.to_bytes(16, "big"),
            "time": moment(at),
            "time_unix_nano": nanos(at),
            "time_source": "record",
            "day": moment(at).date(),
            "received_at": moment(row.get("came", at)),
            "environment": "internal",
            "service_version": "0.24.4",
        }
        given = {name: value for name, value in row.items() if name not in ("at", "came")}
        assert set(given) <= set(dataset.names), given
        made.append({name: (common | given).get(name) for name in dataset.names})
    return pl.LazyFrame(made, schema=polars_schema(dataset), orient="row")
