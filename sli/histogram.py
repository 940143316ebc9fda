"""Log-bucket histograms of durations: percentiles from counts that add up.

Bucket i holds the durations in (GROWTH**(i - 1), GROWTH**i] milliseconds, so each is known to 1 % of itself
whether it is a millisecond or a day. What is shorter than `SHORTEST` is in `ZERO_BUCKET`, below all others.
Histograms of parts become that of the whole by adding counts, in any order and any number of steps.

A quantile q of n durations is the one with floor(q (n - 1)) others below it, or rather a value from its
bucket: ranks are spread evenly over the bucket's logarithm, so that the quantile does not move in steps of
1 % as counts change. The error is at most 1 % of the exact duration (GROWTH - 1, as both are in one bucket),
and below `SHORTEST` milliseconds in the zero bucket.

Source:
    C. Masson, J. E. Rim and H. K. Lee, "DDSketch: a fast and fully-mergeable quantile sketch with
    relative-error guarantees", PVLDB 12 (2019) 2195-2205: the mapping (section 2.1), the rank and the zero
    bucket. Not from there: the evenly spread ranks. DDSketch's midpoint, which moves in steps, would allow
    a growth of 1.02 for the same bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import polars as pl

GROWTH = 1.01
"""What the upper end of a bucket is of its lower end. From 1 ms to a day there are 1,837 buckets."""

SHORTEST = 1e-6
"""Milliseconds: a nanosecond, the finest that a clock of the telemetry tells."""

ZERO_BUCKET = -1_389
"""Just below the bucket of `SHORTEST`, so that buckets sort as durations do."""

HISTOGRAM = {"bucket": pl.Int32(), "calls": pl.Int64()}
"""The columns of a histogram, beside those that say whose it is. One row a bucket that has calls."""

_LOG_GROWTH = math.log(GROWTH)


def bucket(milliseconds: pl.Expr) -> pl.Expr:
    """The bucket of each duration.

    Args:
        milliseconds: Float64.

    Returns:
        Int32, one value a row; null for what is no duration: null, NaN, infinite or negative.
    """
    index = (milliseconds.log() / _LOG_GROWTH).ceil()
    return (
        pl.when(milliseconds.is_finite() & (milliseconds >= 0))
        .then(pl.when(milliseconds < SHORTEST).then(float(ZERO_BUCKET)).otherwise(index))
        .cast(pl.Int32)
    )


def merged(histograms: pl.LazyFrame, by: Sequence[str]) -> pl.LazyFrame:
    """Add histograms up.

    Args:
        histograms: the columns of `HISTOGRAM` and those of `by`; a bucket may be in any number of rows.
        by: whose histogram it is. Empty for one of all rows.

    Returns:
        The columns of `by`, then those of `HISTOGRAM`; one row a bucket, in no particular order.
        Rows without a bucket are left out.
    """
    kept = histograms.filter(pl.col("bucket").is_not_null() & (pl.col("calls") > 0))
    return kept.group_by([*by, "bucket"]).agg(pl.col("calls").sum())


def quantiles(histograms: pl.LazyFrame, by: Sequence[str], wanted: Mapping[str, float]) -> pl.LazyFrame:
    """The quantiles of each histogram.

    Args:
        histograms: as for `merged`.
        by: as for `merged`.
        wanted: the quantile in [0, 1] for each column to make, such as {"p95": 0.95}.

    Returns:
        The columns of `by` and one Float64 column of milliseconds per entry of `wanted`; one row per group
        that has calls, in no particular order. With an empty `by` always one row, of nulls where there are
        no calls.

    Raises:
        ValueError: a quantile is not in [0, 1].
    """
    for name, share in wanted.items():
        if not 0 <= share <= 1:
            raise ValueError(f"the quantile {name} = {share} is not in [0, 1]")
    columns = [_quantile(share).alias(name) for name, share in wanted.items()]
    whole = merged(histograms, by)
    return whole.group_by(by).agg(columns) if by else whole.select(columns)


def _quantile(share: float) -> pl.Expr:
    """The aggregation of one group's rows, one a bucket."""
    buckets = pl.col("bucket").sort_by("bucket")
    calls = pl.col("calls").sort_by("bucket")
    up_to = calls.cum_sum()
    rank = (share * (pl.col("calls").sum() - 1)).floor().cast(pl.Int64)
    position = (up_to <= rank).sum()
    found, inside = buckets.get(position, null_on_oob=True), calls.get(position, null_on_oob=True)
    before = up_to.get(position, null_on_oob=True) - inside
    fraction = (rank - before + 0.5) / inside
    value = ((found - 1 + fraction) * _LOG_GROWTH).exp()
    return pl.when(found == ZERO_BUCKET).then(0.0).otherwise(value)
