"""Which prompts a replay has to look into: most have too few failures for anything to happen in them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sli.replay.batches import without_round
from sli.replay.prompts import PARTITION, PROMPT
from sli.replay.sweep import GRID
from sli.vocabulary import Route

FEWEST_FAILURES = min(each.failures for each in GRID)
"""With fewer failed executions no cell of the grid gives a reminder."""


@dataclass(frozen=True, slots=True)
class ReplayedPrompts:
    """Prompts with tool calls, the rounds of a subagent as one prompt.

    Attributes:
        eventful: `PROMPT` (of subagents: of each round) of those with failures enough for a reminder, or
            with records of the guard.
        others: by the columns of `PARTITION`: `prompts` and `replayable` (Int64), of all others.
    """

    eventful: pl.DataFrame
    others: pl.DataFrame


def tell_apart(prompts: pl.DataFrame) -> ReplayedPrompts:
    """Tell prompts with something to find from the others.

    Args:
        prompts: of `sli.prompts.prompts_of`.
    """
    by_subagent = pl.col("route") == str(Route.SUBAGENT)
    # Of the answers under a foreground prompt's id, a subagent's asks for none of the foreground's calls.
    answer = pl.when(by_subagent).then("first_own_answer").otherwise("first_answer")
    rounds = prompts.filter(pl.col("calls") > 0).select(
        *PROMPT,
        "route",
        "failed",
        "guarded",
        "without_response",
        "first_call",
        answer=answer,
        whole=pl.when(by_subagent).then(without_round()).otherwise("prompt_id"),
    )
    whole = [*PROMPT[:3], "whole"]
    found = rounds.group_by(whole).agg(
        pl.col("route").min(),
        eventful=(pl.col("failed").sum() >= FEWEST_FAILURES) | (pl.col("guarded").sum() > 0),
        replayable=(pl.col("without_response").sum() == 0)
        | (pl.col("answer").min() <= pl.col("first_call").min()).fill_null(False),
    )
    eventful = found.filter("eventful").select(whole)
    others = (
        found.filter(~pl.col("eventful"))
        .group_by(PARTITION)
        .agg(prompts=pl.len().cast(pl.Int64), replayable=pl.col("replayable").sum().cast(pl.Int64))
    )
    return ReplayedPrompts(
        rounds.join(eventful, on=whole, how="semi", nulls_equal=True).select(PROMPT), others
    )
