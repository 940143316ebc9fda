"""What producers logged of the guard, put at its place among the batches.

A decision is logged when its batch has settled and before the model is asked again: its batch is the
last one of the prompt of which a call had started. Where a batch has a decision already, the next
one belongs to a batch of which no call is known (answered from memory, say).
"""

from __future__ import annotations

import polars as pl

from sli.guard.words import INPUT_RESETS
from sli.replay.prompts import PROMPT, prompts
from sli.vocabulary import Route

_SESSION = PROMPT[:3]


def placed(batches: pl.DataFrame, decisions: pl.DataFrame) -> pl.DataFrame:
    """The logged decisions of replayable prompts, each at its batch.

    Args:
        batches: as `sli.replay.batches` gives them.
        decisions: rows of `guard_decisions`.

    Returns:
        The rows, ordered by prompt and time, with `prompt`, `batch` (0: before the first) and `nth`: 0
        for the first decision of the batch, then 1, 2, … Decisions of other prompts are left out.
    """
    numbers = prompts(batches).filter("replayable").select("prompt", *PROMPT)
    known = decisions.join(numbers, on=PROMPT, how="inner", nulls_equal=True)
    starts = (
        batches.filter(pl.col("batch").is_not_null())
        .join(known.select("prompt").unique(), on="prompt", how="semi")
        .group_by("prompt", "batch")
        .agg(time_unix_nano=pl.col("started_unix_nano").min())
        # Of batches that began at once the later one has settled.
        .sort("time_unix_nano", "batch")
    )
    return (
        known.sort("time_unix_nano", "event_id")
        .join_asof(starts, on="time_unix_nano", by="prompt", strategy="backward", check_sortedness=False)
        .with_columns(pl.col("batch").fill_null(0))
        .sort("prompt", "time_unix_nano", "event_id")
        .with_columns(nth=pl.int_range(pl.len()).over("prompt", "batch"))
    )


def input_resets(placed_decisions: pl.DataFrame) -> pl.DataFrame:
    """Those of the placed decisions that no call caused: the replay has to be told them."""
    return placed_decisions.filter(pl.col("reset_reason").is_in([str(reason) for reason in INPUT_RESETS]))


def modes(decisions: pl.DataFrame, of: pl.DataFrame) -> pl.DataFrame:
    """The modes of prompts.

    Args:
        decisions: rows of `guard_decisions`.
        of: prompts, with the columns of `PROMPT`.

    Returns:
        `of` with `mode`: that of the prompt's first logged decision, else of the session's last one, else
        null (off looks like a quiet shadow).
    """
    ordered = decisions.sort("time_unix_nano", "event_id")
    own = ordered.unique(PROMPT, keep="first").select(*PROMPT, own_mode="mode")
    session = ordered.unique(_SESSION, keep="last").select(*_SESSION, session_mode="mode")
    return (
        of.join(own, on=PROMPT, how="left", nulls_equal=True)
        .join(session, on=_SESSION, how="left", nulls_equal=True)
        .with_columns(mode=pl.coalesce("own_mode", "session_mode"))
        .drop("own_mode", "session_mode")
    )


def foreground(decisions: pl.DataFrame, of: pl.DataFrame) -> pl.DataFrame:
    """Those of the prompts `of` whose route, their own or a logged one, is the foreground's."""
    route = str(Route.ACP_FOREGROUND)
    logged = decisions.filter(pl.col("route") == route).select(PROMPT).unique()
    says_so = of.filter(pl.col("route") == route)
    others = of.filter((pl.col("route") != route).fill_null(True))
    return pl.concat([says_so, others.join(logged, on=PROMPT, how="semi", nulls_equal=True)])
