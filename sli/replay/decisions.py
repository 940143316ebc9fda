"""Every decision of a replay, by the reference machine itself: batch by batch, in Python.

Slower than `steps` by far, but it knows the resets, the ordinals and what is logged: for looking at
single prompts, and for laying the replay beside what the producer logged.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import polars as pl

from sli.guard import DEFAULT_THRESHOLDS, Batch, Decision, Observation, ResetReason, State, Thresholds, reduce
from sli.replay.logged import input_resets, modes, placed
from sli.replay.prompts import PROMPT, prompts
from sli.replay.verdicts import UNNAMED, succeeded

_OBSERVATION = (
    "call_id",
    "function_name",
    "tool_type",
    "status",
    "execution_status",
    "execution_error_type",
    "provider_duplicate",
)
_ROW = ("prompt", "batch", "nth", "fed", *_OBSERVATION)

# Name and type of what is told of a decision, in order.
_DECISION = {
    "prompt": pl.Int64,
    "batch": pl.Int64,
    "nth": pl.Int64,
    "decision": pl.String,
    "phase_before": pl.String,
    "phase_after": pl.String,
    "failure_count": pl.Int64,
    "batch_count": pl.Int64,
    "failure_count_bucket": pl.String,
    "batch_count_bucket": pl.String,
    "candidate_ordinal": pl.Int64,
    "reset_reason": pl.String,
    "function_name": pl.String,
    "execution_error_type": pl.String,
    "tool_type": pl.String,
}


def decisions(
    batches: pl.DataFrame,
    logged: pl.DataFrame | None = None,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
) -> pl.DataFrame:
    """The decisions of all replayable prompts.

    Args:
        batches: as `sli.replay.batches` gives them.
        logged: rows of `guard_decisions`: their input resets are fed in, and their modes are taken.
            Left out: shadow, and no input.

    Returns:
        One row a decision, by prompt and in order: `prompt`, the columns of `PROMPT`, `mode`; `batch` and
        `nth` (0; more where a logged input reset belongs to no known batch), and what a producer logs:
        `decision`, `phase_before`, `phase_after`, the two counts and their buckets, `candidate_ordinal`,
        `reset_reason`, `execution_error_type`, `tool_type`; and `function_name`, which it does not.
    """
    known = prompts(batches).filter("replayable").select("prompt", *PROMPT)
    fed = pl.DataFrame(schema={"prompt": pl.Int64, "batch": pl.Int64, "nth": pl.Int64, "fed": pl.String})
    if logged is None:
        known = known.with_columns(mode=pl.lit(None, pl.String))
    else:
        known = modes(logged, known)
        fed = input_resets(placed(batches, logged)).select("prompt", "batch", "nth", fed="reset_reason")
    mode_of = dict(known.select("prompt", "mode").iter_rows())
    rows = [row for prompt in _prompts(batches, fed) for row in _walk(prompt, mode_of, thresholds)]
    found = pl.DataFrame(rows, schema=_DECISION, orient="row")
    return (
        found.join(known, on="prompt", how="left")
        .sort(*PROMPT, "batch", "nth")
        .select("prompt", *PROMPT, "mode", *(name for name in _DECISION if name != "prompt"))
    )


def _prompts(batches: pl.DataFrame, fed: pl.DataFrame) -> Iterator[list[tuple[Any, ...]]]:
    """The rows (`_ROW`) of each prompt in which anything can be decided, in order of batches."""
    live = batches.filter(pl.col("batch").is_not_null())
    eventful = pl.concat([live.filter(~succeeded()).select("prompt"), fed.select("prompt")]).unique()
    calls = live.join(eventful, on="prompt", how="semi").select(
        "prompt",
        "batch",
        pl.lit(0, pl.Int64).alias("nth"),
        pl.lit(None, pl.String).alias("fed"),
        *_OBSERVATION,
    )
    rows = pl.concat([calls, fed], how="diagonal").select(_ROW).sort("prompt", "batch", "nth")
    for _, prompt in groupby(rows.iter_rows(), key=itemgetter(0)):
        yield list(prompt)


def _walk(
    prompt: list[tuple[Any, ...]], mode_of: dict[int, str | None], thresholds: Thresholds
) -> Iterator[tuple[Any, ...]]:
    state = State()
    for (number, batch, nth), group in groupby(prompt, key=itemgetter(0, 1, 2)):
        state, decision = reduce(state, _batch(list(group)), mode_of[number], thresholds)
        if decision is not None:
            yield (number, batch, nth, *_told(decision))


def _batch(rows: list[tuple[Any, ...]]) -> Batch:
    fed = {row[3] for row in rows if row[3] is not None}
    return Batch(
        # A row without a status was fed in, and is no call.
        [_observation(*row[4:]) for row in rows if row[3] is None],
        input_reliable=ResetReason.UNRELIABLE_INPUT not in fed,
        has_external_input=ResetReason.EXTERNAL_INPUT in fed,
        has_queued_prompt=ResetReason.QUEUED_PROMPT in fed,
    )


def _observation(call_id: str | None, function_name: str | None, *others: Any) -> Observation:
    return Observation(call_id, None if function_name in UNNAMED else function_name, *others)


def _told(decision: Decision) -> tuple[Any, ...]:
    return (
        str(decision.name),
        str(decision.phase_before),
        str(decision.phase_after),
        decision.failure_count,
        decision.batch_count,
        decision.failure_count_bucket,
        decision.batch_count_bucket,
        decision.candidate_ordinal,
        None if decision.reset_reason is None else str(decision.reset_reason),
        None if decision.key is None else decision.key.policy_tool_name,
        None if decision.key is None else decision.key.execution_error_type,
        decision.tool_type,
    )
