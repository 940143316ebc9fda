"""Which prompts are a person's, asked through ACP: the route that the guard, baselines and gates concern.

The form of a prompt id cannot tell the screen from ACP. What can: the prompt's interaction span says
`acp_prompt`, or the guard watched it, or a conversation finished in its trace (only ACP sends that).
The evidence may come after the call, so it is looked for when results are computed, among the records of
the call's own day and of the days beside it.
"""

from __future__ import annotations

import polars as pl

from sli.vocabulary import Route

PROMPT_KEY = ("environment", "service_version", "prompt_id")
"""What names a prompt. Its id contains the session; two versions are never pooled."""

_ACP_PROMPT = "acp_prompt"


def foreground_prompts(prompt_events: pl.LazyFrame, guard_decisions: pl.LazyFrame) -> pl.LazyFrame:
    """The prompts that are known to be foreground ones.

    Args:
        prompt_events: `kind`, `message_type`, `trace_id` and the columns of `PROMPT_KEY`.
        guard_decisions: `route` and the columns of `PROMPT_KEY`.

    Returns:
        The columns of `PROMPT_KEY`, each prompt once.
    """
    named = prompt_events.filter(pl.col("prompt_id").is_not_null())
    kind = pl.col("kind")
    asked = named.filter((kind == "interaction") & (pl.col("message_type") == _ACP_PROMPT))
    finished = prompt_events.filter((kind == "conversation_finished") & pl.col("trace_id").is_not_null())
    in_finished = named.join(finished.select("trace_id").unique(), on="trace_id", how="semi")
    watched = guard_decisions.filter(
        (pl.col("route") == str(Route.ACP_FOREGROUND)) & pl.col("prompt_id").is_not_null()
    )
    return pl.concat([rows.select(PROMPT_KEY) for rows in (asked, in_finished, watched)]).unique()


def with_settled_route(rows: pl.LazyFrame, foreground: pl.LazyFrame) -> pl.LazyFrame:
    """Give each row its route, now that the evidence is there.

    Args:
        rows: the columns of `PROMPT_KEY`, and `route` as far as the prompt id tells.
        foreground: what `foreground_prompts` gave.

    Returns:
        The same rows and columns. Only `screen_or_cli` becomes `acp_foreground`: what the agent asked
        itself, and what its subagents did, is not the person's even where the guard watched it.
    """
    known = foreground.with_columns(is_foreground=pl.lit(True))
    could_be = pl.col("route") == str(Route.SCREEN_OR_CLI)
    return (
        rows.join(known, on=list(PROMPT_KEY), how="left")
        .with_columns(
            route=pl.when(could_be & pl.col("is_foreground").fill_null(False))
            .then(pl.lit(str(Route.ACP_FOREGROUND)))
            .otherwise(pl.col("route"))
        )
        .drop("is_foreground")
    )
