"""Prompts, from the records that mention them: one row a prompt.

A prompt belongs to the UTC day of its first record, with its records of that day and of the next. A record
on a later day is left out: no prompt is known to last so long.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import polars as pl

from sli.days import revision
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

_PERSONS = (str(Route.ACP_FOREGROUND), str(Route.SCREEN_OR_CLI))
_MILLISECOND = 1_000_000
_WITHIN_NANOSECONDS = 600_000_000_000


def prompt_records(
    calls: pl.LazyFrame,
    model_calls: pl.LazyFrame,
    prompt_events: pl.LazyFrame,
    guard_decisions: pl.LazyFrame,
) -> pl.LazyFrame:
    """All records that mention a prompt, with what each tells of it.

    Args:
        calls: rows of `tool_calls` that count.
        model_calls, prompt_events, guard_decisions: rows of the tables of these names.

    Returns:
        The columns of `PROMPT_KEY`, `day`, `received_at`, `session_id`, `owner`, `first` and `last` (Int64,
        nanoseconds since 1970), `event_id`, and facts that are null where a record does not tell of them.
    """
    # What the user cancelled on the screen carries the id of the prompt that comes next.
    models = model_calls.filter(pl.col("outcome") != "cancel")
    is_answer = (pl.col("outcome") == "response") & ~pl.col("by_subagent").fill_null(False)
    tokens = pl.coalesce(
        "total_tokens", pl.sum_horizontal(pl.col("input_tokens", "output_tokens"), ignore_nulls=True)
    )
    is_interaction = pl.col("kind") == "interaction"
    lasted = pl.when(is_interaction).then(pl.col("duration_ms").fill_null(0) * _MILLISECOND).otherwise(0)
    sources = (
        _shared(calls).with_columns(
            calls=1,
            failed=(pl.col("execution_status") == "error").cast(pl.Int64),
        ),
        _shared(models).with_columns(
            rounds=is_answer.cast(pl.Int64),
            tokens=pl.when(pl.col("outcome") == "response").then(tokens),
        ),
        _shared(prompt_events).with_columns(
            last=pl.col("time_unix_nano") + lasted.cast(pl.Int64),
            turn_status=pl.when(is_interaction).then("turn_status"),
            duration_ms=pl.when(is_interaction).then("duration_ms"),
            retry=((pl.col("kind") == "user_retry") | (is_interaction & (pl.col("message_type") == "retry"))),
        ),
        _shared(guard_decisions).with_columns(
            guard_mode=pl.col("mode").fill_null("shadow"),
            unreliable=(pl.col("reset_reason") == "unreliable_input").fill_null(False),
            **{name: (pl.col("decision") == name).fill_null(False).cast(pl.Int64) for name in DECISIONS},
        ),
    )
    kept = (*_SHARED, *_FACTS)
    return pl.concat(
        [source.select(pl.col(name) for name in kept if name in _columns(source)) for source in sources],
        how="diagonal",
    ).filter(pl.col("prompt_id").is_not_null())


_SHARED = (*PROMPT_KEY, "event_id", "day", "received_at", "session_id", "owner", "first", "last")
_FACTS = (
    "calls",
    "failed",
    "rounds",
    "tokens",
    "turn_status",
    "duration_ms",
    "retry",
    "guard_mode",
    "unreliable",
    *DECISIONS,
)


def _shared(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.with_columns(first=pl.col("time_unix_nano"), last=pl.col("time_unix_nano"))


def _columns(rows: pl.LazyFrame) -> list[str]:
    return rows.collect_schema().names()


def prompts_of(records: pl.LazyFrame, foreground: pl.LazyFrame, as_of: datetime) -> pl.LazyFrame:
    """The prompts that the records tell of.

    Args:
        records: of `prompt_records`.
        foreground: of `foreground_prompts`.
        as_of: what was published last tells of this moment; decides what is unfinished.

    Returns:
        One row a prompt: the columns of `PROMPT_KEY`, `first_day` (Date), `session_id`, `owner`, `route`,
        `guard_mode` (null without a guard record), `supported_host` (of foreground prompts, else null),
        `turn_status`, `started` and `ended` (nanoseconds), `duration_ms`, `rounds`, `tokens`, `calls`,
        `failed`, `retries`, `guarded` (Boolean), a count for each word of `DECISIONS`, and `revision`.
    """
    in_order = [pl.col("first"), pl.col("event_id")]
    grouped = records.group_by(PROMPT_KEY).agg(
        pl.col("day").min().alias("first_day"),
        pl.col("session_id").min(),
        pl.col("owner").min(),
        pl.col("first").min().alias("started"),
        pl.col("last").max().alias("ended"),
        pl.col("turn_status").sort_by(in_order).drop_nulls().last(),
        pl.col("duration_ms").sort_by(in_order).drop_nulls().last(),
        *(pl.col(name).sum().cast(pl.Int64) for name in ("rounds", "tokens", "calls", "failed", *DECISIONS)),
        pl.col("retry").sum().cast(pl.Int64).alias("retries"),
        pl.col("guard_mode").sort_by(in_order).drop_nulls().first(),
        pl.col("guard_mode").is_not_null().any().alias("guarded"),
        pl.col("unreliable").any().fill_null(False),
        revision(),
    )
    given_up = pl.col("ended") < int((as_of - GIVEN_UP_AFTER).timestamp() * 1000) * _MILLISECOND
    silent = pl.when(given_up).then(pl.lit(UNFINISHED)).otherwise(pl.lit(OPEN))
    is_foreground = pl.col("route") == str(Route.ACP_FOREGROUND)
    return with_settled_route(
        grouped.with_columns(route=route_expression(pl.col("prompt_id"))), foreground
    ).with_columns(
        supported_host=pl.when(is_foreground).then(~pl.col("unreliable")),
        # Only a person's prompt has an interaction that could be missed.
        turn_status=pl.coalesce("turn_status", pl.when(pl.col("route").is_in(_PERSONS)).then(silent)),
    )


def with_disconnect_or_retry(prompts: pl.LazyFrame, breaks: pl.LazyFrame) -> pl.LazyFrame:
    """Whether each prompt was followed by a break of its session within ten minutes of its end.

    Args:
        prompts: of `prompts_of`.
        breaks: `environment`, `service_version`, `session_id`, `at` (Int64, nanoseconds): see `breaks`.

    Returns:
        The same rows, with `disconnect_or_retry` (Boolean).
    """
    session = ["environment", "service_version", "session_id"]
    ended = prompts.select(*PROMPT_KEY, "session_id", "ended")
    soon = pl.col("at") - pl.col("ended")
    followed = (
        ended.join(breaks, on=session, how="inner")
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
    columns = ("environment", "service_version", "session_id", pl.col("time_unix_nano").alias("at"))
    found = [prompt_events.filter(retried).select(columns), sessions.filter(closed).select(columns)]
    return pl.concat(found).filter(pl.col("session_id").is_not_null())


def with_modes(prompts: pl.LazyFrame, session_modes: pl.LazyFrame) -> pl.LazyFrame:
    """Give each foreground prompt its mode: of its own guard records, else of its session's, else unknown.

    Args:
        prompts: of `prompts_of`.
        session_modes: of `session_modes`.

    Returns:
        The same rows, with `mode`; null for prompts that the guard does not concern.
    """
    is_foreground = pl.col("route") == str(Route.ACP_FOREGROUND)
    return (
        prompts.join(session_modes, on=["environment", "service_version", "session_id"], how="left")
        .with_columns(
            mode=pl.when(is_foreground).then(pl.coalesce("guard_mode", "session_mode", pl.lit(UNKNOWN_MODE)))
        )
        .drop("guard_mode", "session_mode")
    )


def session_modes(guard_decisions: pl.LazyFrame) -> pl.LazyFrame:
    """The mode that the first guard record of each session names.

    Returns:
        `environment`, `service_version`, `session_id`, `session_mode`; one row a session.
    """
    return (
        guard_decisions.filter(pl.col("session_id").is_not_null())
        .group_by("environment", "service_version", "session_id")
        .agg(session_mode=pl.col("mode").fill_null("shadow").sort_by("time_unix_nano", "event_id").first())
    )
