"""Prompts, from the records that mention them: one row a prompt.

A prompt belongs to the UTC day of its first record, with its records of that day and of the next. A record
on a later day is left out: no prompt is known to last so long.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import polars as pl

from sli.days import is_late
from sli.foreground import PROMPT_KEY, with_settled_route
from sli.prompt import route_expression
from sli.vocabulary import Route

UNFINISHED = "unfinished"
"""The turn status of a prompt whose agent was killed, as far as anybody can tell."""

OPEN = "open"
"""The turn status of a prompt that may still be answered."""

GIVEN_UP_AFTER = timedelta(minutes=10)
"""A prompt without an interaction span so long after its last record is unfinished."""

UNKNOWN_MODE = "unknown"
"""The mode of a prompt where no guard record tells; `off` and a quiet `shadow` look alike."""

DECISIONS = ("tracked", "would_warn", "warned", "would_stop", "stopped", "reset")

SESSION_KEY = ("environment", "service_version", "session_id")

_PERSONS = (str(Route.ACP_FOREGROUND), str(Route.SCREEN_OR_CLI))
_MILLISECOND = 1_000_000
_WITHIN_NANOSECONDS = 600_000_000_000


def prompt_partials(
    calls: pl.LazyFrame,
    model_calls: pl.LazyFrame,
    prompt_events: pl.LazyFrame,
    guard_decisions: pl.LazyFrame,
) -> pl.LazyFrame:
    """What the records of one day tell of each prompt that they mention; days add up (`merged`).

    Args:
        calls: rows of `tool_calls` that count.
        model_calls, prompt_events, guard_decisions: rows of the tables of these names.

    Returns:
        One row a prompt: the columns of `PROMPT_KEY` and of `_MERGED`. Times are nanoseconds since 1970.
    """
    # What the user cancelled on the screen carries the id of the prompt that comes next.
    models = model_calls.filter(pl.col("outcome") != "cancel")
    is_response = pl.col("outcome") == "response"
    is_answer = is_response & ~pl.col("by_subagent").fill_null(False)
    tokens = pl.coalesce(
        "total_tokens", pl.sum_horizontal(pl.col("input_tokens", "output_tokens"), ignore_nulls=True)
    )
    is_interaction = pl.col("kind") == "interaction"
    retried = (pl.col("kind") == "user_retry") | (is_interaction & (pl.col("message_type") == "retry"))
    lasted = pl.when(is_interaction).then(pl.col("duration_ms").fill_null(0) * _MILLISECOND).otherwise(0)
    at = pl.col("time_unix_nano")
    sources = (
        calls.select(
            *_NAMES,
            calls=_ONE,
            failed=_number(pl.col("execution_status") == "error"),
            without_response=_number(pl.col("response_id").is_null()),
            first_call=at,
        ),
        models.select(
            *_NAMES,
            rounds=_number(is_answer),
            tokens=pl.when(is_response).then(tokens),
            first_answer=pl.when(is_answer).then(at),
            first_own_answer=pl.when(is_response).then(at),
        ),
        prompt_events.select(
            *_NAMES,
            ended=at + lasted.cast(pl.Int64),
            retries=_number(retried),
        ),
        guard_decisions.select(*_NAMES),
    )
    records = pl.concat(
        [
            source.with_columns(late_first=_LATE, late_last=_LATE)
            .drop("received_at")
            .filter(pl.col("prompt_id").is_not_null())
            for source in sources
        ],
        how="diagonal",
    ).with_columns(started=pl.col("time_unix_nano"), ended=pl.coalesce("ended", "time_unix_nano"))
    found = records.group_by(PROMPT_KEY).agg(*_aggregations(_OF_RECORDS))
    # Records of the guard are few: counted apart, they cost the others no columns.
    guarded = guard_decisions.group_by(PROMPT_KEY).agg(
        guarded=pl.len().cast(pl.Int64),
        unreliable=_number(pl.col("reset_reason") == "unreliable_input").sum(),
        **{name: _number(pl.col("decision") == name).sum() for name in DECISIONS},
    )
    return found.join(guarded, on=list(PROMPT_KEY), how="left").with_columns(pl.col(_OF_GUARD).fill_null(0))


def merged(partials: Sequence[pl.DataFrame]) -> pl.LazyFrame:
    """The partials of several days as one row a prompt: the columns of `PROMPT_KEY` and of `_MERGED`."""
    rows = pl.concat(partials).lazy()
    return rows.group_by(PROMPT_KEY).agg(*_aggregations((*_OF_RECORDS, *_OF_GUARD)))


_LATE = pl.when(is_late()).then(pl.col("received_at").dt.date())
_ONE = pl.lit(1, pl.Int64)
_NAMES = (*PROMPT_KEY, "day", "received_at", "session_id", "owner", "time_unix_nano")
_SMALLEST = ("session_id", "owner", "started", "first_call", "first_answer", "first_own_answer", "late_first")
_LARGEST = ("ended", "late_last")
_OF_RECORDS = ("calls", "failed", "without_response", "rounds", "tokens", "retries")
_OF_GUARD = ("guarded", "unreliable", *DECISIONS)


def _number(condition: pl.Expr) -> pl.Expr:
    return condition.fill_null(False).cast(pl.Int64)


def _aggregations(sums: Sequence[str]) -> list[pl.Expr]:
    return [
        pl.col("day").min(),
        *(pl.col(name).min() for name in _SMALLEST),
        *(pl.col(name).max() for name in _LARGEST),
        *(pl.col(name).sum().cast(pl.Int64) for name in sums),
    ]


def last_interactions(prompt_events: pl.LazyFrame) -> pl.LazyFrame:
    """How each prompt's last interaction ended.

    Returns:
        The columns of `PROMPT_KEY`, `turn_status`, `duration_ms`; one row a prompt that has an interaction.
    """
    return (
        prompt_events.filter((pl.col("kind") == "interaction") & pl.col("prompt_id").is_not_null())
        .select(*PROMPT_KEY, "time_unix_nano", "event_id", "turn_status", "duration_ms")
        .sort("time_unix_nano", "event_id")
        .unique(PROMPT_KEY, keep="last", maintain_order=True)
        .drop("time_unix_nano", "event_id")
    )


def first_modes(guard_decisions: pl.LazyFrame, by: Sequence[str], name: str) -> pl.LazyFrame:
    """The mode that the first guard record of each prompt, or of each session, names.

    Args:
        by: the columns that name it.
        name: of the new column.
    """
    return (
        guard_decisions.filter(pl.col(by[-1]).is_not_null())
        .sort("time_unix_nano", "event_id")
        .unique(list(by), keep="first", maintain_order=True)
        .select(*by, pl.col("mode").fill_null("shadow").alias(name))
    )


def prompts_of(
    partials: pl.LazyFrame,
    interactions: pl.LazyFrame,
    modes: pl.LazyFrame,
    session_modes: pl.LazyFrame,
    foreground: pl.LazyFrame,
    as_of: datetime,
) -> pl.LazyFrame:
    """The prompts that partials tell of.

    Args:
        partials: of `prompt_partials` or `merged`; one row a prompt.
        interactions: of `last_interactions`.
        modes: of `first_modes` by prompt, as `guard_mode`.
        session_modes: of `first_modes` by environment, version and session, as `session_mode`.
        foreground: of `foreground_prompts`.
        as_of: what was published last tells of this moment; decides what is unfinished.

    Returns:
        The columns of `partials`, and: `route`, settled; `turn_status`, `duration_ms`; `mode`: of the
        prompt's own guard records, else of its session's, else unknown, and null for prompts that the guard
        does not concern; `supported_host` (Boolean, of foreground prompts, else null); `revision` (Int64).
    """
    given_up = pl.col("ended") < int((as_of - GIVEN_UP_AFTER).timestamp() * 1000) * _MILLISECOND
    silent = pl.when(given_up).then(pl.lit(UNFINISHED)).otherwise(pl.lit(OPEN))
    is_foreground = pl.col("route") == str(Route.ACP_FOREGROUND)
    key = list(PROMPT_KEY)
    return (
        with_settled_route(partials.with_columns(route=route_expression(pl.col("prompt_id"))), foreground)
        .join(interactions, on=key, how="left")
        .join(modes, on=key, how="left")
        .join(session_modes, on=list(SESSION_KEY), how="left")
        .with_columns(
            supported_host=pl.when(is_foreground).then(pl.col("unreliable") == 0),
            # Only a person's prompt has an interaction that could be missed.
            turn_status=pl.coalesce("turn_status", pl.when(pl.col("route").is_in(_PERSONS)).then(silent)),
            revision=pl.when(pl.col("late_first").is_null())
            .then(0)
            .when(pl.col("late_first") == pl.col("late_last"))
            .then(1)
            .otherwise(2)
            .cast(pl.Int64),
            mode=pl.when(is_foreground).then(pl.coalesce("guard_mode", "session_mode", pl.lit(UNKNOWN_MODE))),
        )
        .drop("guard_mode", "session_mode")
    )


def with_disconnect_or_retry(prompts: pl.LazyFrame, breaks: pl.LazyFrame) -> pl.LazyFrame:
    """Whether each prompt was followed by a break of its session within ten minutes of its end.

    Args:
        prompts: of `prompts_of`.
        breaks: `environment`, `service_version`, `session_id`, `at` (Int64, nanoseconds): see `breaks`.

    Returns:
        The same rows, with `disconnect_or_retry` (Boolean).
    """
    ended = prompts.select(*PROMPT_KEY, "session_id", "ended")
    soon = pl.col("at") - pl.col("ended")
    followed = (
        ended.join(breaks, on=list(SESSION_KEY), how="inner")
        .filter((soon > 0) & (soon <= _WITHIN_NANOSECONDS))
        .select(*PROMPT_KEY, disconnect_or_retry=pl.lit(True))
        .unique()
    )
    return prompts.join(followed, on=list(PROMPT_KEY), how="left").with_columns(
        pl.col("disconnect_or_retry").fill_null(False)
    )


def breaks(
    prompt_events: pl.LazyFrame, sessions: pl.LazyFrame, disconnect_reasons: Sequence[str]
) -> pl.LazyFrame:
    """The moments at which a user tried again, or a session lost its client.

    Args:
        disconnect_reasons: the reasons of a closed stream that mean a disconnect. A closed tab gives
            `client_disconnect` as well, so which ones count is the operator's to say.

    Returns:
        `environment`, `service_version`, `session_id`, `at` (Int64, nanoseconds).
    """
    kind = pl.col("kind")
    retried = (kind == "user_retry") | ((kind == "interaction") & (pl.col("message_type") == "retry"))
    closed = (kind == "sse_closed") & pl.col("close_reason").is_in(list(disconnect_reasons))
    columns = (*SESSION_KEY, pl.col("time_unix_nano").alias("at"))
    found = [prompt_events.filter(retried).select(columns), sessions.filter(closed).select(columns)]
    return pl.concat(found).filter(pl.col("session_id").is_not_null())
