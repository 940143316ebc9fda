"""The replay beside the producer's own decisions, for foreground prompts of supported hosts.

A host that does not answer makes the guard reset at its first batch, and keeps it silent from then on:
what it was told later is not in the events. Such prompts, with any `unreliable_input`, are left out.
So is what cannot be compared: prompts that are not replayable, whose mode nobody knows, or is off.

Input in idle is not logged (it changes nothing) but keeps the failures of its batch from counting.
There the replay decides what the producer did not.
"""

from __future__ import annotations

import polars as pl

from sli.guard.words import Mode, ResetReason
from sli.replay.decisions import decisions
from sli.replay.logged import foreground, modes, placed
from sli.replay.prompts import PROMPT, prompts

_PLACE = ("prompt", "batch", "nth")
_COMPARED = (
    "phase_before",
    "phase_after",
    "failure_count_bucket",
    "batch_count_bucket",
    "candidate_ordinal",
    "execution_error_type",
    "tool_type",
)


def side_by_side(batches: pl.DataFrame, logged: pl.DataFrame) -> pl.DataFrame:
    """Every decision of foreground prompts, of the replay, the producer, or both.

    Args:
        batches: as `sli.replay.batches` gives them.
        logged: rows of `guard_decisions`.

    Returns:
        One row for each batch and reason, ordered by prompt and batch: the columns of `PROMPT`, `batch`,
        `nth`, `reason` (the reset reason, else the decision's name), `outcome` (agree, replay_only,
        producer_only), `differing` (names of the fields in which the two differ although they agree
        on the reason), `supported` (whether the prompt's host is).
    """
    known = modes(logged, foreground(logged, prompts(batches).filter("replayable")))
    unsupported = (
        logged.filter(pl.col("reset_reason") == str(ResetReason.UNRELIABLE_INPUT)).select(PROMPT).unique()
    )
    unsupported = known.join(unsupported, on=PROMPT, how="semi", nulls_equal=True).select("prompt")
    compared = known.filter(pl.col("mode").is_not_null() & (pl.col("mode") != str(Mode.OFF))).select(
        "prompt", *PROMPT, supported=~pl.col("prompt").is_in(unsupported["prompt"].implode())
    )
    mine = decisions(batches.join(compared, on="prompt", how="semi"), logged)
    replayed, produced = (
        frame.select(*_PLACE, pl.coalesce("reset_reason", "decision").alias("reason"), *_COMPARED)
        for frame in (mine, placed(batches, logged))
    )
    both = replayed.with_columns(replayed=True).join(
        produced.with_columns(produced=True),
        on=[*_PLACE, "reason"],
        how="full",
        coalesce=True,
        suffix="_produced",
    )
    one_sided = (
        pl.when(pl.col("produced").is_null()).then(pl.lit("replay_only")).otherwise(pl.lit("producer_only"))
    )
    agree = pl.col("replayed") & pl.col("produced")
    differing = pl.concat_list(
        pl.when(agree & pl.col(name).ne_missing(pl.col(f"{name}_produced"))).then(pl.lit(name))
        for name in _COMPARED
    ).list.drop_nulls()
    return (
        both.with_columns(
            outcome=pl.when(agree).then(pl.lit("agree")).otherwise(one_sided), differing=differing
        )
        .join(compared, on="prompt", how="inner")
        .sort(*PROMPT, "batch", "nth", "reason")
        .select(*PROMPT, "batch", "nth", "reason", "outcome", "differing", "supported")
    )


def agreement(batches: pl.DataFrame, logged: pl.DataFrame) -> pl.DataFrame:
    """How far the replay agrees with the producers, for supported hosts.

    Returns:
        By `environment`, `service_version` and `reason`, in order: `agree`, `replay_only`, `producer_only`
        (UInt32, decisions), `differing` (those that agree on the reason and differ in another field).
    """
    outcome = pl.col("outcome")
    return (
        side_by_side(batches, logged)
        .filter("supported")
        .group_by("environment", "service_version", "reason")
        .agg(
            *((outcome == name).sum().alias(name) for name in ("agree", "replay_only", "producer_only")),
            (pl.col("differing").list.len() > 0).sum().alias("differing"),
        )
        .sort("environment", "service_version", "reason")
    )
