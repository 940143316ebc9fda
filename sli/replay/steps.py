"""Streaks, vectorised: every batch that the guard would count, and how long its streak is by then.

The streaks of a prompt do not depend on the thresholds: a batch resets, does nothing, or brings failures
of one key; and whether the streak before goes on is a matter of what lies between. Only what a
streak leads to depends on the thresholds: see `warns` and `stops`. So one pass finds the streaks,
and any number of thresholds is then a look at few rows.

The differential test against `sli.guard` is what says that this is the same machine.
"""

from __future__ import annotations

import polars as pl

from sli.guard.thresholds import Thresholds
from sli.replay.logged import input_resets, placed
from sli.replay.prompts import place
from sli.replay.verdicts import failed, succeeded

_KEY = ("function_name", "execution_error_type")

# The batch that starts a streak is never more than tracked.
_LEAST_BATCHES = 2


def steps(batches: pl.DataFrame, logged: pl.DataFrame | None = None) -> pl.DataFrame:
    """The batches in which a streak goes on, in order.

    Args:
        batches: as `sli.replay.batches` gives them, in any order.
        logged: rows of `guard_decisions`: their input resets are fed in. Left out: it is assumed that
            no input came.

    Returns:
        One row a batch: `prompt`, `batch`, `place`, the key (`function_name`, `execution_error_type`),
        `tool_type`, `failure_count` and `batch_count` (≥ 2) of the streak, `failures_before` and
        `failures_before_that` (its failure count one and two batches earlier), `time_unix_nano` (when the
        last call of the batch ended), `calls_after` (calls of the prompt that started later than that).
    """
    live = (
        batches.lazy()
        .filter(pl.col("batch").is_not_null() & ~pl.col("provider_duplicate"))
        .select(
            *("prompt", "batch", *_KEY, "tool_type", "time_unix_nano", "started_unix_nano"),
            place(),
            succeeded().alias("succeeded"),
            failed().alias("failed"),
        )
    )
    # Most prompts never fail twice, and need no further look.
    involved = (
        live.filter("failed")
        .select("prompt", "place")
        .unique()
        .group_by("prompt")
        .len()
        .filter(pl.col("len") >= _LEAST_BATCHES)
    )
    rows = live.join(involved, on="prompt", how="semi").collect(engine="streaming")
    resets = rows.filter(~pl.col("failed") & ~pl.col("succeeded")).select("place")
    if logged is not None:
        resets = pl.concat([resets, input_resets(placed(batches, logged)).select(place(pl.col("nth")))])
    found = _with_counts(rows, resets.unique())
    return _with_calls_after(found.filter(pl.col("batch_count") >= _LEAST_BATCHES), rows)


def warns(thresholds: Thresholds) -> pl.Expr:
    """Whether a step is where the guard reminds: the first at which both thresholds are reached."""
    return _reached(thresholds, 0) & ~_reached(thresholds, 1)


def stops(thresholds: Thresholds) -> pl.Expr:
    """Whether a step is where the guard stops: the next one of the same streak."""
    return _reached(thresholds, 1) & ~_reached(thresholds, 2)


def _reached(thresholds: Thresholds, earlier: int) -> pl.Expr:
    """Whether the streak had reached both thresholds, so many batches earlier."""
    failures = pl.col(("failure_count", "failures_before", "failures_before_that")[earlier])
    batches = max(thresholds.batches, _LEAST_BATCHES) + earlier
    return (failures >= thresholds.failures) & (pl.col("batch_count") >= batches)


def _with_counts(rows: pl.DataFrame, resets: pl.DataFrame) -> pl.DataFrame:
    """The batches that bring failures of one key, counted along their streaks."""
    successes = rows.filter("succeeded").select("place", "function_name").unique()
    left = (
        rows.filter("failed")
        .join(resets, on="place", how="anti")
        .join(successes, on=["place", "function_name"], how="anti")
        .group_by("prompt", "batch", "place", *_KEY)
        .agg(failures=pl.len().cast(pl.Int64), tool_type=pl.col("tool_type").min())
    )
    mixed = left.group_by("place").len().filter(pl.col("len") > 1).select("place")
    resets = pl.concat([resets, mixed]).sort("place")
    one_key = left.join(mixed, on="place", how="anti").sort("place")
    found = one_key.join_asof(
        resets.select("place", reset="place"), on="place", strategy="backward", check_sortedness=False
    ).join_asof(
        successes.sort("place").with_columns(success="place"),
        on="place",
        by="function_name",
        strategy="backward",
        check_sortedness=False,
    )
    # Between two batches of one key, both without a success of their tool, any such success is in a
    # batch that leaves no failure: that, or anything that resets, ends the streak.
    before = pl.col("place").shift()
    goes_on = (
        pl.all_horizontal(pl.col(name) == pl.col(name).shift() for name in ("prompt", *_KEY))
        & (pl.col("reset") < before).fill_null(True)
        & (pl.col("success") < before).fill_null(True)
    ).fill_null(False)
    failures = pl.col("failures")
    found = found.with_columns(streak=(~goes_on).cast(pl.Int64).cum_sum()).with_columns(
        failure_count=failures.cum_sum().over("streak"),
        batch_count=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("streak"),
    )
    earlier = pl.col("failure_count") - failures
    return found.with_columns(
        failures_before=earlier,
        failures_before_that=(earlier - failures.shift(fill_value=0)).clip(lower_bound=0),
    )


def _with_calls_after(found: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    mine = rows.join(found.select("prompt").unique(), on="prompt", how="semi")
    ends = mine.join(found.select("place"), on="place", how="semi")
    ends = ends.group_by("place").agg(time_unix_nano=pl.col("time_unix_nano").max())
    starts = (
        mine.select("prompt", time_unix_nano="started_unix_nano")
        .sort("prompt", "time_unix_nano")
        .with_columns(
            started=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("prompt"),
            calls=pl.len().over("prompt").cast(pl.Int64),
        )
    )
    return (
        found.join(ends, on="place", how="left")
        .sort("prompt", "time_unix_nano")
        .join_asof(starts, on="time_unix_nano", by="prompt", strategy="backward", check_sortedness=False)
        .sort("place")
        .select(
            *("prompt", "batch", "place", *_KEY, "tool_type", "failure_count", "batch_count"),
            *("failures_before", "failures_before_that", "time_unix_nano"),
            calls_after=pl.col("calls") - pl.col("started"),
        )
    )
