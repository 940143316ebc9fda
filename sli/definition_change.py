"""Did a function get worse, or did someone change what counts as its failure?

When non-zero exits of a shell become errors with a new version, its failure rate jumps though nothing works
worse, and a comparison of the two versions must say so instead of reporting a regression. Such a change
shows in the error types: the step is made of types that were never seen before (or, the other way, are
never seen again), while a plain regression is made of more of the types that are known.

A function is flagged when all of this holds between a and b, two baselines, say:

1. at least `FEWEST_CALLS` executed calls in each;
2. its rate moved by at least `SMALLEST_MOVE`, and the interval of the difference does not hold 0;
3. at least `EXPLAINED` of the move are types that appeared, if the rate rose, or vanished, if it fell.
   A type *appeared* when its share of calls in a is at most 1 / `RARER` of that in b, though a had calls
   enough to show at least `EXPECTED` of it. It *vanished* the other way round. A failure that names no type
   has the type null, and counts as one.

At exactly 10 expected, none seen has a probability of exp(-10) = 0.000045 if nothing changed and calls are
independent; the rule means to be rarely wrong about that, not to find every change. Two things it cannot
tell: a new failure of its own kind (a server that refuses connections for the first time) is flagged as
well, so the flag says "look at these types first" and never "ignore"; and a definition that grew
within a type already seen is not flagged. Calls of one owner are not independent either: one owner's new,
broken set-up can be enough.

Source: a rule of this project, not of the literature; the interval is `sli/difference.py` over calls.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sli.difference import Interval, difference, difference_high, difference_low
from sli.wilson import wilson_high, wilson_low

FEWEST_CALLS = 100
SMALLEST_MOVE = 0.02
"""Of the rate: two percentage points. Less is no step, whatever it is made of."""

EXPLAINED = 0.8
RARER = 20
EXPECTED = 10


def definition_changes(functions: pl.LazyFrame, error_types: pl.LazyFrame, by: Sequence[str]) -> pl.LazyFrame:
    """Compare each function's rate and error types in a and b.

    Args:
        functions: one row a function: the columns of `by`, and `error_a`, `executed_a`, `error_b`,
            `executed_b` (Int64, calls; null is 0, for a function that only one side has).
        error_types: one row an error type of a function: the columns of `by`, `error_type` (String or
            null), `error_a`, `error_b` (Int64, failed executions of the type; null is 0).
        by: what names a function, such as ["function_name"]; null is a name like any other.

    Returns:
        The columns of `by`, one row a function, in the order of `functions`; `rate_a`, `rate_b` (Float64,
        null without executed calls); `difference`, `difference_low`, `difference_high` (Float64 in
        [-1, 1], of b over a); `appeared` and `vanished` (lists of error types, most calls first, then by
        name; empty where there are none); `explained` (Float64, the share of the move that these types make:
        above 1 where others moved the other way; null where the rate did not move);
        `definition_changed` (Boolean, never null).
    """
    a, b = (
        Interval(
            pl.col(f"rate_{side}"),
            wilson_low(pl.col(f"error_{side}"), pl.col(f"executed_{side}")),
            wilson_high(pl.col(f"error_{side}"), pl.col(f"executed_{side}")),
        )
        for side in ("a", "b")
    )
    counts = [
        pl.col(f"{count}_{side}").fill_null(0) for count in ("error", "executed") for side in ("a", "b")
    ]
    compared = (
        functions.select(*by, *counts)
        .with_columns(_share("error", side).alias(f"rate_{side}") for side in ("a", "b"))
        .with_columns(
            difference=difference(a, b),
            difference_low=difference_low(a, b),
            difference_high=difference_high(a, b),
        )
    )
    moved = pl.col("difference")
    made = pl.when(moved > 0).then("appeared_share").when(moved < 0).then("vanished_share")
    enough = (pl.col("executed_a") >= FEWEST_CALLS) & (pl.col("executed_b") >= FEWEST_CALLS)
    stepped = (moved.abs() >= SMALLEST_MOVE) & (
        (pl.col("difference_low") > 0) | (pl.col("difference_high") < 0)
    )
    return (
        compared.join(
            _new_and_gone(compared, error_types, by),
            on=list(by),
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        .with_columns(
            pl.col("appeared", "vanished").fill_null([]),
            explained=made.fill_null(0.0) / pl.when(moved != 0).then(moved.abs()),
        )
        .with_columns(
            definition_changed=(enough & stepped & (pl.col("explained") >= EXPLAINED)).fill_null(False)
        )
        .select(
            *by,
            "rate_a",
            "rate_b",
            "difference",
            "difference_low",
            "difference_high",
            "appeared",
            "vanished",
            "explained",
            "definition_changed",
        )
    )


def _new_and_gone(functions: pl.LazyFrame, error_types: pl.LazyFrame, by: Sequence[str]) -> pl.LazyFrame:
    """Per function, the types that appeared and vanished, and by how much each kind moved the rate."""
    share_a, share_b = _share("error", "a"), _share("error", "b")
    appeared = (share_a * RARER <= share_b) & (share_b * pl.col("executed_a") >= EXPECTED)
    vanished = (share_b * RARER <= share_a) & (share_a * pl.col("executed_b") >= EXPECTED)
    move = share_b - share_a
    return (
        error_types.select(*by, "error_type", pl.col("error_a", "error_b").fill_null(0))
        .join(functions.select(*by, "executed_a", "executed_b"), on=list(by), how="inner", nulls_equal=True)
        # Sorted, so that neither the lists nor the sums of fractions depend on the order of rows.
        .sort(pl.max_horizontal("error_a", "error_b"), "error_type", descending=[True, False])
        .group_by(by, maintain_order=True)
        .agg(
            appeared=pl.col("error_type").filter(appeared),
            vanished=pl.col("error_type").filter(vanished),
            appeared_share=move.filter(appeared).sum(),
            vanished_share=(-move).filter(vanished).sum(),
        )
    )


def _share(count: str, side: str) -> pl.Expr:
    executed = pl.col(f"executed_{side}")
    return pl.when(executed > 0).then(pl.col(f"{count}_{side}") / executed)
