"""How far the SLI can be believed: what is unknown, missing, doubled, lost on the way, or late."""

from __future__ import annotations

import polars as pl

from sli.days import is_late, revision
from sli.histogram import bucket
from sli.profile import QWEN_CODE
from sli.version import is_version, version_order
from sli.vocabulary import TimeSource

PART = ("environment", "service_version")

UNKNOWN_RATIO_BOUND = 0.001
"""A version with more calls of unknown execution status than this does not keep to the contract."""

COMPLETE_FROM = 0.999
"""Below this share of what the producer counted, telemetry was lost on the way."""


def quality_expressions() -> list[pl.Expr]:
    """The aggregation of all stored rows of `tool_calls`, repeats of calls included, of a partition.

    Returns:
        One expression a column: `stored`, `missing_call_id`, `missing_prompt_id`, `missing_response_id`,
        `missing_timestamp` (times that the producer did not stamp), `late_after_close` (Int64, rows),
        `revision`.
    """
    stamped = pl.col("time_source").is_in([str(TimeSource.RECORD), str(TimeSource.EVENT_TIMESTAMP)])
    return [
        pl.len().cast(pl.Int64).alias("stored"),
        *(
            pl.col(name).is_null().sum().cast(pl.Int64).alias(f"missing_{name}")
            for name in ("call_id", "prompt_id", "response_id")
        ),
        (~stamped).sum().cast(pl.Int64).alias("missing_timestamp"),
        is_late().sum().cast(pl.Int64).alias("late_after_close"),
        revision(),
    ]


def lateness_bucket() -> pl.Expr:
    """The histogram bucket of how long each row took to arrive, in milliseconds; 0 where clocks disagree."""
    microseconds = (pl.col("received_at") - pl.col("time")).dt.total_microseconds()
    return bucket((microseconds / 1000).clip(lower_bound=0.0)).alias("bucket")


def keeps_the_contract(versions: pl.Series) -> pl.Series:
    """Whether each version is at least the producer's first contract release: Boolean."""
    first = version_order(QWEN_CODE.first_contract_release)
    # What is no version sorts behind all versions, and promises nothing.
    found = [is_version(version) and first <= version_order(version) for version in versions]
    return pl.Series(versions.name, found, dtype=pl.Boolean)


def contract_bearing(contract_release: pl.Expr) -> pl.Expr:
    """Whether a partition is contract-bearing, Boolean, from its counts (see `sli/rate.py`).

    Args:
        contract_release: what `keeps_the_contract` gave for its version.
    """
    known = pl.col("total") - pl.col("unknown")
    few_unknown = pl.col("unknown_ratio") <= UNKNOWN_RATIO_BOUND
    return (contract_release & (known > 0) & few_unknown.fill_null(False)).alias("contract_bearing")


STORED_AS = {
    "tool_executions": ("tool_calls", "execution_status"),
    "tool_calls": ("tool_calls", "status"),
    "guard_decisions": ("guard_decisions", "decision"),
}
"""For each counter of the producer: the event table that holds what it counts, and by which column."""


ALL = "all"
"""The status of a row of a counter that has no such label: it can only be compared as a whole."""


def completeness(counted: pl.LazyFrame, stored: pl.LazyFrame) -> pl.LazyFrame:
    """What is stored, over what the producer itself counted.

    Args:
        counted: `PART`, `counter`, `status` (String; null where the counter has no such label), `counted`
            (Float64): sums of increases.
        stored: `PART`, `counter`, `status`, `stored` (Int64): rows.

    Returns:
        `PART`, `counter`, `status`, `counted` (Float64, null without a counter), `stored` (Int64),
        `completeness` (Float64: below 1 something was lost, above 1 it is doubled; null without a counter).
    """
    key = [*PART, "counter", "status"]
    unlabelled = (
        counted.filter(pl.col("status").is_null()).select(*PART, "counter", unlabelled=pl.lit(True)).unique()
    )

    def labelled(rows: pl.LazyFrame, count: str) -> pl.LazyFrame:
        whole = rows.join(unlabelled, on=key[:-1], how="left").with_columns(
            status=pl.when(pl.col("unlabelled")).then(pl.lit(ALL)).otherwise("status")
        )
        return whole.group_by(key).agg(pl.col(count).sort().sum())

    return (
        labelled(counted, "counted")
        .join(labelled(stored, "stored"), on=key, how="full", coalesce=True)
        .with_columns(pl.col("stored").fill_null(0))
        .with_columns(completeness=pl.when(pl.col("counted") > 0).then(pl.col("stored") / pl.col("counted")))
        .select(*key, "counted", "stored", "completeness")
    )


def field_coverage(rows: pl.LazyFrame, event: str, fields: list[str]) -> pl.LazyFrame:
    """How many rows carry each optional field: one that vanishes with a version shows.

    Returns:
        `PART`, `event`, `field`, `events` and `present` (Int64, rows).
    """
    counts = rows.group_by(PART).agg(
        pl.len().cast(pl.Int64).alias("events"),
        *(pl.col(field).is_not_null().sum().cast(pl.Int64).alias(field) for field in fields),
    )
    return counts.unpivot(
        fields, index=[*PART, "events"], variable_name="field", value_name="present"
    ).select(*PART, pl.lit(event).alias("event"), "field", "events", "present")
