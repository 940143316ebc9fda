"""The partial results of the SLI: counts of a day by owner, which add up to every table.

An owner's counts have to be summed before they are squared, so the owner is part of the key as long as
parts are still to be added.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sli.clustered import OWNER_SUMS, owner_sum_expressions, with_clustered_interval
from sli.rate import COUNTS, count_expressions, sum_expressions, with_rates

CELL = ("environment", "service_version", "route", "tool_type", "function_name", "owner")
"""What calls are counted by, beside the time."""

_NANOSECONDS_AN_HOUR = 3_600_000_000_000
_MICROSECONDS_AN_HOUR = 3_600_000_000


def count_cells(calls: pl.LazyFrame) -> pl.LazyFrame:
    """Count calls by hour and cell.

    Args:
        calls: rows of `tool_calls`, only those that count, with their settled route; any days.

    Returns:
        `time` (start of the hour, UTC), the columns of `CELL` and of `COUNTS`. Rows of disjoint parts may
        be added, key by key, in any order.
    """
    # Integers: a group-by over truncated timestamps reads a second time column for nothing.
    hour = (pl.col("time_unix_nano") // _NANOSECONDS_AN_HOUR).alias("hour")
    time = (pl.col("hour") * _MICROSECONDS_AN_HOUR).cast(pl.Datetime("us", "UTC"))
    counted = calls.group_by(hour, *CELL).agg(count_expressions())
    return counted.with_columns(time=time).select("time", *CELL, *COUNTS)


def added(cells: pl.LazyFrame, key: Sequence[str]) -> pl.LazyFrame:
    """Add counts up to a coarser key: the columns of `key` and of `COUNTS`."""
    return cells.group_by(key).agg(sum_expressions())


def sli_rows(cells: pl.LazyFrame, key: Sequence[str]) -> pl.LazyFrame:
    """The SLI of each value of `key`: the sum over the sum, with both intervals.

    Args:
        cells: the columns of `key`, `owner` and the columns of `COUNTS`.
        key: without `owner`.

    Returns:
        The columns of `key` and `COUNTS`, what `with_rates` adds, `owners` (Int64), `clustered_low` and
        `clustered_high` (Float64 in [0, 1]; null below two owners).
    """
    by_owner = added(cells, [*key, "owner"])
    sums = by_owner.group_by(key).agg(*sum_expressions(), *owner_sum_expressions())
    extra = [name for name in OWNER_SUMS if name != "owners"]
    return (
        with_clustered_interval(with_rates(sums))
        .rename({"owned_failure_rate_low": "clustered_low", "owned_failure_rate_high": "clustered_high"})
        .drop(*extra, "owned_failure_rate", "owned_failure_rate_standard_error", "effective_owners")
    )
