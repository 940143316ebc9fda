"""The execution-failure rate, from counts: the one definition that every table uses.

    calls whose execution failed / calls that were executed

A call that was cancelled, never started, or does not say what happened, is in neither line. Counts
add up: the counts of a window are the sums of the counts of its parts, and its rate is the sum
over the sum, never a mean of rates.
"""

from __future__ import annotations

import polars as pl

from sli.vocabulary import ExecutionStatus
from sli.wilson import wilson_high, wilson_low

COUNTS = ("total", *(str(status) for status in ExecutionStatus), "contract_violations")
"""The count columns, all Int64, which sums of parts give."""


def count_expressions() -> list[pl.Expr]:
    """The aggregation that turns calls into the columns of `COUNTS`.

    It reads `execution_status` (String, a word of `ExecutionStatus` in every row, so that the
    statuses add up to `total`) and `contract_violation` (Boolean).

    Returns:
        One aggregating expression a column, each Int64, in the order of `COUNTS`.
    """
    execution_status = pl.col("execution_status")
    expressions = [
        pl.len().alias("total"),
        *((execution_status == str(status)).sum().alias(str(status)) for status in ExecutionStatus),
        pl.col("contract_violation").sum().alias("contract_violations"),
    ]
    return [expression.cast(pl.Int64) for expression in expressions]


def sum_expressions() -> list[pl.Expr]:
    """The aggregation that turns counts of parts into the counts of the whole.

    Returns:
        One aggregating expression a column of `COUNTS`, each Int64.
    """
    return [pl.col(name).sum() for name in COUNTS]


def with_rates(counts: pl.LazyFrame) -> pl.LazyFrame:
    """Add what follows from the counts to each row.

    Args:
        counts: at least the columns of `COUNTS`, already summed.

    Returns:
        The same rows and columns, and: `executed` (Int64, calls), `failure_rate` with its 95 %
        interval `failure_rate_low` and `failure_rate_high` (Float64 in [0, 1], null where nothing
        was executed), `unknown_ratio` (Float64 in [0, 1], null where there are no calls).
    """
    error, executed = pl.col("error"), pl.col("executed")
    unknown, total = pl.col("unknown"), pl.col("total")
    return counts.with_columns(executed=pl.col("success") + error).with_columns(
        failure_rate=pl.when(executed > 0).then(error / executed),
        failure_rate_low=wilson_low(error, executed),
        failure_rate_high=wilson_high(error, executed),
        unknown_ratio=pl.when(total > 0).then(unknown / total),
    )
