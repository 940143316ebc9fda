"""What the guard would have done to each prompt, and to what it is due."""

from __future__ import annotations

import polars as pl

from sli.guard.thresholds import DEFAULT_THRESHOLDS, Thresholds
from sli.replay.prompts import PARTITION, prompts
from sli.replay.steps import steps, stops, warns

_KEY = ("function_name", "execution_error_type")


def replay(
    batches: pl.DataFrame,
    logged: pl.DataFrame | None = None,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
) -> pl.DataFrame:
    """The outcome for every prompt.

    Args:
        batches: as `sli.replay.batches` gives them.
        logged: rows of `guard_decisions`: their input resets are fed in. Left out: no input is assumed.

    Returns:
        One row a prompt, ordered by name: the columns of `prompts` without the number; `would_warn`,
        `would_stop` (Boolean); `warn_batch`, `stop_batch`; `warn_unix_nano`, `stop_unix_nano`: when the
        batch had settled; the key of the first reminder (`warn_function_name`,
        `warn_execution_error_type`) and of the stop; `calls_saved`: calls that started after the stop. Of
        a prompt that is not replayable all of these are null.
    """
    found = first_of_prompts(steps(batches, logged), thresholds)
    known = pl.col("replayable")
    return (
        prompts(batches)
        .join(found, on="prompt", how="left", maintain_order="left")
        .with_columns(
            would_warn=pl.when(known).then(pl.col("warn_batch").is_not_null()),
            would_stop=pl.when(known).then(pl.col("stop_batch").is_not_null()),
            calls_saved=pl.when(known).then(pl.col("calls_saved").fill_null(0)),
        )
        .drop("prompt")
    )


def first_of_prompts(found: pl.DataFrame, thresholds: Thresholds) -> pl.DataFrame:
    """Of each prompt that would be warned, the first reminder and the stop.

    Args:
        found: what `steps` gave.

    Returns:
        `prompt`, `warn_batch`, `warn_unix_nano`, `warn_function_name`, `warn_execution_error_type`; the
        same of the stop, null where there is none; `calls_saved` (Int64).
    """

    def first(which: pl.Expr, name: str) -> pl.DataFrame:
        rows = found.filter(which).unique("prompt", keep="first", maintain_order=True)
        return rows.select(
            "prompt",
            pl.col("batch").alias(f"{name}_batch"),
            pl.col("time_unix_nano").alias(f"{name}_unix_nano"),
            *(pl.col(column).alias(f"{name}_{column}") for column in _KEY),
            *([pl.col("calls_after").alias("calls_saved")] if name == "stop" else []),
        )

    # A stop has a reminder before it, so the first reminder is never later than the first stop.
    stopped = first(stops(thresholds), "stop")
    joined = first(warns(thresholds), "warn").join(stopped, on="prompt", how="left", maintain_order="left")
    return joined.with_columns(pl.col("calls_saved").fill_null(0))


def trips(
    batches: pl.DataFrame,
    logged: pl.DataFrame | None = None,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
) -> pl.DataFrame:
    """What trips the guard.

    Returns:
        By the columns of `PARTITION`, `function_name` and `execution_error_type`: `would_warn` and
        `would_stop` (UInt32, transitions; a prompt can be reminded more than once), `prompts` (UInt32,
        distinct prompts that were reminded), `calls_saved` (Int64); the most frequent first.
    """
    found = steps(batches, logged).with_columns(warns=warns(thresholds), stops=stops(thresholds))
    ends = found.filter("stops").group_by("prompt").agg(end=pl.col("place").min())
    # After its first stop nothing is decided in a prompt any more.
    decided = found.join(ends, on="prompt", how="left").filter(
        (pl.col("warns") | pl.col("stops")) & (pl.col("place") <= pl.col("end")).fill_null(True)
    )
    routes = prompts(batches).select("prompt", *PARTITION)
    return (
        decided.join(routes, on="prompt", how="left")
        .group_by(*PARTITION, *_KEY)
        .agg(
            would_warn=pl.col("warns").sum(),
            would_stop=pl.col("stops").sum(),
            prompts=pl.col("prompt").n_unique(),
            calls_saved=pl.col("calls_after").filter("stops").sum(),
        )
        .sort("would_warn", "would_stop", *PARTITION, *_KEY, descending=[True, True, *[False] * 5])
    )
