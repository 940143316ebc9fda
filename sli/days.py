"""Days: UTC dates, when they close, and what came late."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

CLOSES_AFTER = timedelta(hours=1)
"""A day closes so long after its end: telemetry of its last minutes is then in, and the report is made."""

DAY = timedelta(days=1)


def start_of(day: pl.Expr) -> pl.Expr:
    """The beginning of a Date in UTC, Datetime of microseconds, as the column `time`."""
    return day.cast(pl.Datetime("us")).dt.replace_time_zone("UTC").alias("time")


def is_late() -> pl.Expr:
    """Whether a row arrived after its day had closed: Boolean, from `received_at` and `day`."""
    return pl.col("received_at") > start_of(pl.col("day")) + DAY + CLOSES_AFTER


def revision() -> pl.Expr:
    """How often a closed day was revised, an aggregation: the number of UTC dates on which rows came late.

    Returns:
        Int64, 0 where nothing came late. The same from the same rows in any order.
    """
    arrived = pl.col("received_at").dt.date()
    return arrived.filter(is_late()).n_unique().cast(pl.Int64).alias("revision")
