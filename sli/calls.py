"""Which rows count in the SLI: one row a call.

A call can come as several rows: a provider repeats a call id, or reports two outcomes. Rows that
share session, prompt and call id (null equal to null) on the same UTC day or an adjoining day are
one call. Of these, the row that counts is the first executed outcome (success or error) by time,
then event id; where none was executed, the first row. Rows without a call id count each.

So whether a row counts depends on the rows of its own day and of the two days around it, and on
nothing else: a prompt does not last longer than that, and what a refresh has to look at stays
bounded. A chain of repeats over many days is judged row by row, each by its own three days.

Looking is done in two steps, since repeats are rare: a 64-bit hash of the key finds the few rows
that may have a repeat, and only these are compared for what they are. The hash is polars' own,
which another release may change: it must not be stored.
"""

from __future__ import annotations

from datetime import date

import polars as pl

from sli.vocabulary import ExecutionStatus

CALL_KEY = ("session_id", "prompt_id", "call_id")
"""The columns whose values, taken together, name a call."""

EXECUTED = (str(ExecutionStatus.SUCCESS), str(ExecutionStatus.ERROR))
"""The execution statuses that say that the tool ran to an outcome."""


def key_hash() -> pl.Expr:
    """A UInt64 hash of the columns of `CALL_KEY`; equal keys have equal hashes, within a process."""
    # Three hashes cost half of what one hash of a struct costs.
    session_id, prompt_id, call_id = (pl.col(name).hash(seed) for seed, name in enumerate(CALL_KEY))
    return (session_id ^ prompt_id ^ call_id).alias("key_hash")


def with_call_id(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Those of the rows that can be repeated at all."""
    return rows.filter(pl.col("call_id").is_not_null())


def repeated_hashes(hashes: pl.LazyFrame) -> pl.LazyFrame:
    """The hashes that occur more than once.

    Args:
        hashes: `key_hash` (UInt64), one row for each row of an event.

    Returns:
        `key_hash`, each value once.
    """
    key = pl.col("key_hash")
    # Sorted, a hash takes 8 bytes; a group-by would keep a table entry for each of them.
    return hashes.select(key.sort()).filter(key == key.shift(1)).unique()


def uncounted(candidates: pl.LazyFrame, day: date) -> pl.LazyFrame:
    """The rows of `day` that do not count.

    Args:
        candidates: rows with a call id, of `day` and the two days around it: all that share the
            key of another row; others do no harm. Columns: `day`, `event_id` (Binary, unique),
            `time_unix_nano`, `execution_status` and those of `CALL_KEY`.

    Returns:
        `event_id` of each row of `day` that another row of the three days stands before.
    """
    was_not_executed = ~pl.col("execution_status").is_in(EXECUTED)
    order = [was_not_executed, pl.col("time_unix_nano"), pl.col("event_id")]
    first = candidates.group_by(CALL_KEY).agg(pl.col("event_id").sort_by(order).first())
    return (
        candidates.filter(pl.col("day") == day)
        .select("event_id")
        .join(first.select("event_id"), on="event_id", how="anti")
    )


def conflicting(candidates: pl.LazyFrame, day: date) -> pl.LazyFrame:
    """The rows of `day` that stand for a call with two different executed outcomes.

    Args:
        candidates: as for `uncounted`.

    Returns:
        `event_id` of the row of each such call that counts.
    """
    executed = pl.col("execution_status").is_in(EXECUTED)
    order = [~executed, pl.col("time_unix_nano"), pl.col("event_id")]
    calls = candidates.group_by(CALL_KEY).agg(
        pl.col("execution_status").filter(executed).n_unique().alias("outcomes"),
        pl.col("event_id").sort_by(order).first(),
        pl.col("day").sort_by(order).first(),
    )
    return calls.filter((pl.col("outcomes") > 1) & (pl.col("day") == day)).select("event_id")


def counted(rows: pl.LazyFrame, uncounted_rows: pl.LazyFrame) -> pl.LazyFrame:
    """Those of the rows that count.

    Args:
        rows: rows of one day with an `event_id`.
        uncounted_rows: what `uncounted` gave for that day.
    """
    return rows.join(uncounted_rows, on="event_id", how="anti")
