"""The partial results of the SLI: counts an hour, which add up to every table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl

from sli.rate import COUNTS, count_expressions
from sli.schemas import Column, Dataset

PARTIAL_FORMAT = 1
"""Version of the partials; results with other partials are rebuilt from the events."""

SLI_PARTIALS_HOURLY = Dataset(
    "sli_partials_hourly",
    (
        Column("time", "TIMESTAMPTZ", "start of the hour, UTC"),
        Column("environment", "VARCHAR", "deployment environment, or unset"),
        Column("service_version", "VARCHAR", "service.version, or unknown"),
        Column("tool_type", "VARCHAR", "native, mcp, unknown"),
        Column("route", "VARCHAR", "as far as the prompt id tells"),
        Column("function_name", "VARCHAR", "the tool"),
        *(Column(name, "BIGINT", f"calls: {name}") for name in COUNTS),
    ),
)

_KEY = ("environment", "service_version", "tool_type", "route", "function_name")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOSECONDS_AN_HOUR = 3_600_000_000_000
_MICROSECONDS_AN_HOUR = 3_600_000_000


def hour_number() -> pl.Expr:
    """The hours since 1970 at `time_unix_nano`, Int64, as the column `hour`."""
    # Integers: a group-by over truncated timestamps reads a second time column for nothing.
    return (pl.col("time_unix_nano") // _NANOSECONDS_AN_HOUR).alias("hour")


def hour_start(hour: int) -> datetime:
    """The UTC time at which an hour since 1970 starts."""
    return _EPOCH + timedelta(hours=hour)


def in_hours(rows: pl.LazyFrame, hours: list[int]) -> pl.LazyFrame:
    """Those of the rows that lie in `hours` (hours since 1970, at least one)."""
    time = pl.col("time_unix_nano")
    first, end = min(hours) * _NANOSECONDS_AN_HOUR, (max(hours) + 1) * _NANOSECONDS_AN_HOUR
    # The range lets whole row groups be skipped by their statistics; the list is what is meant.
    return rows.filter(time.is_between(first, end, closed="left")).filter(hour_number().is_in(hours))


def sli_partials(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Count calls.

    Args:
        rows: rows of `tool_calls`, only those that count; any days.

    Returns:
        The columns of `SLI_PARTIALS_HOURLY`; a row for each hour and key that has a call. Counts
        are calls. Partials of disjoint rows may be added, key by key, in any order.
    """
    grouped = rows.group_by(hour_number(), *_KEY).agg(count_expressions())
    time = (pl.col("hour") * _MICROSECONDS_AN_HOUR).cast(pl.Datetime("us", "UTC"))
    return grouped.with_columns(time=time).select(SLI_PARTIALS_HOURLY.names)
