"""The what-if sweep: the outcome of every prompt under a grid of thresholds, in one pass."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import polars as pl

from sli.guard.thresholds import Thresholds
from sli.replay.outcomes import first_of_prompts
from sli.replay.prompts import PARTITION, PROMPT, prompts
from sli.replay.steps import steps

GRID: tuple[Thresholds, ...] = tuple(
    Thresholds(failures, batches) for failures, batches in product(range(3, 17), range(1, 5))
)
"""Failures 3 to 16 by batches 1 to 4."""

_CELL = ("failure_threshold", "batch_threshold")


def sweep(
    batches: pl.DataFrame, logged: pl.DataFrame | None = None, grid: Iterable[Thresholds] = GRID
) -> pl.DataFrame:
    """The prompts that would be warned, cell by cell.

    Args:
        batches: as `sli.replay.batches` gives them.
        logged: rows of `guard_decisions`: their input resets are fed in. Left out: no input is assumed.

    Returns:
        One row for each prompt and cell in which it would be warned, ordered by cell, then prompt:
        `failure_threshold`, `batch_threshold` (Int64), the columns of `PROMPT`, `route`, `would_stop`
        (Boolean), `calls_saved` (Int64). In the other cells nothing would happen to a replayable prompt.
    """
    cells = _cells(steps(batches, logged), grid)
    names = _of_these(batches, cells).select("prompt", *PROMPT, "route")
    return (
        cells.join(names, on="prompt", how="left")
        .sort(*_CELL, *PROMPT)
        .select(*_CELL, *PROMPT, "route", "would_stop", "calls_saved")
    )


def sweep_totals(
    batches: pl.DataFrame, logged: pl.DataFrame | None = None, grid: Iterable[Thresholds] = GRID
) -> pl.DataFrame:
    """The same, added up.

    Returns:
        One row for each cell and partition, those in which nothing would happen included, in order:
        `failure_threshold`, `batch_threshold`, the columns of `PARTITION`, `prompts`, `replayable`,
        `would_warn`, `would_stop` (prompts), `calls`, `calls_saved` (Int64; both of replayable prompts).
    """
    grid = tuple(grid)
    known = prompts(batches)
    cells = _cells(steps(batches, logged), grid).join(known.select("prompt", *PARTITION), on="prompt")
    sums = cells.group_by(*_CELL, *PARTITION).agg(
        would_warn=pl.len(), would_stop=pl.col("would_stop").sum(), calls_saved=pl.col("calls_saved").sum()
    )
    totals = known.group_by(PARTITION).agg(
        prompts=pl.len(),
        replayable=pl.col("replayable").sum(),
        calls=pl.col("calls").filter("replayable").sum(),
    )
    columns = ("prompts", "replayable", "would_warn", "would_stop", "calls", "calls_saved")
    every = pl.DataFrame(
        [(each.failures, each.batches) for each in grid], schema=dict.fromkeys(_CELL, pl.Int64), orient="row"
    )
    return (
        every.join(totals, how="cross")
        .join(sums, on=[*_CELL, *PARTITION], how="left", nulls_equal=True)
        .sort(*_CELL, *PARTITION)
        .select(*_CELL, *PARTITION, pl.col(columns).fill_null(0).cast(pl.Int64))
    )


def _cells(found: pl.DataFrame, grid: Iterable[Thresholds]) -> pl.DataFrame:
    """`prompt`, the cell, `would_stop`, `calls_saved`: of each prompt that would be warned in the cell."""
    schema = {
        "prompt": pl.Int64,
        **dict.fromkeys(_CELL, pl.Int64),
        "would_stop": pl.Boolean,
        "calls_saved": pl.Int64,
    }
    cells = [
        first_of_prompts(found, each).select(
            "prompt",
            pl.lit(each.failures, pl.Int64).alias("failure_threshold"),
            pl.lit(each.batches, pl.Int64).alias("batch_threshold"),
            pl.col("stop_batch").is_not_null().alias("would_stop"),
            "calls_saved",
        )
        for each in grid
    ]
    return pl.concat([pl.DataFrame(schema=schema), *cells])


def _of_these(batches: pl.DataFrame, cells: pl.DataFrame) -> pl.DataFrame:
    return prompts(batches.join(cells.select("prompt").unique(), on="prompt", how="semi"))
