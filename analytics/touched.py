"""Which days a refresh has to compute again."""

from __future__ import annotations

from datetime import date, datetime

import polars as pl

from analytics.prompt_partials import PROMPT_DATASETS
from analytics.published import Published
from analytics.repeats import Repeats
from sli.calls import key_hash, with_call_id
from sli.days import DAY
from sli.foreground import PROMPT_KEY
from sli.prompts import GIVEN_UP_AFTER
from sli.schemas import EVENT_DATASETS, GUARD_DECISIONS, PROMPT_EVENTS, RECEIVER_UPTIME, SESSIONS, TOOL_CALLS

TELLING_DATASETS = (*PROMPT_DATASETS, SESSIONS)
"""The tables whose rows change what is known of a prompt of the days beside theirs."""


def touched_days(
    published: Published, repeats: Repeats, after: int, previously_as_of: datetime, as_of: datetime
) -> set[date]:
    """The days whose results new rows, or the passing of time, may have changed.

    These are the days of the new rows; those beside them that hold a repeat of a new call, or a record of
    a prompt or of a guarded session that new rows tell of; and those on which a prompt may have become
    unfinished since the last refresh.

    Args:
        after: rows of later commits are new.
        previously_as_of: until when the events told anything at the last refresh.
        as_of: until when they do now.
    """
    days = _days(published)
    touched = {day for dataset in EVENT_DATASETS for day in published.days(dataset, after)}
    for day in published.days(TOOL_CALLS, after):
        touched |= _with_repeats(published, repeats, day, after)
    for day in sorted({day for dataset in TELLING_DATASETS for day in published.days(dataset, after)}):
        prompts, sessions = _told_of(published, day, after)
        beside = {day - DAY, day + DAY}
        touched |= {each for each in beside if _mentions(published, each, prompts, sessions)}
    for since, until in _new_uptime(published, after):
        touched |= _within(days, since, until)
    given_up, now_given_up = previously_as_of - GIVEN_UP_AFTER, as_of - GIVEN_UP_AFTER
    if previously_as_of < as_of:
        touched |= _within(days, given_up, as_of)
        for day in _within(days, given_up, now_given_up):
            silent = _silent_since(published, day, given_up, now_given_up)
            if _mentions(published, day - DAY, silent):
                touched.add(day - DAY)
    return touched & days


def _within(days: set[date], first: datetime, last: datetime) -> set[date]:
    # Of the days that there are: one wrong clock may put two centuries between two moments.
    return {day for day in days if first.date() <= day <= last.date()}


def _with_repeats(published: Published, repeats: Repeats, day: date, after: int) -> set[date]:
    """The days that hold a repeat of a new call of `day`, and those beside these that hold its prompt.

    Whether the repeat counts may have changed, and so the prompt's records of that day.
    """
    calls = with_call_id(published.scan(TOOL_CALLS, [day], after)).with_columns(key_hash())
    hashes = calls.select("key_hash").unique().collect(engine="streaming")["key_hash"]
    found = repeats.days_with(hashes, day) if len(hashes) else set()
    for holding in sorted(found):
        repeated = (
            repeats.repeated_on(holding, hashes) if holding == day else repeats.hashes_of(holding, hashes)
        )
        # A repeat may have come from another version: the prompt's id alone is part of the call's key.
        prompts = (
            calls.filter(pl.col("key_hash").is_in(repeated.implode()) & pl.col("prompt_id").is_not_null())
            .select("prompt_id")
            .unique()
            .collect(engine="streaming")
        )
        beside = {holding - DAY, holding + DAY} - {day}
        found |= {each for each in beside if _mentions(published, each, prompts)}
    return found


def _new_uptime(published: Published, after: int) -> list[tuple[datetime, datetime]]:
    rows = published.scan(RECEIVER_UPTIME, after=after).select("since", "until")
    return rows.drop_nulls().collect(engine="streaming").rows()


def _silent_since(published: Published, day: date, first: datetime, last: datetime) -> pl.DataFrame:
    """The prompts that have a record on `day` between two moments: they may have become unfinished.

    What happened ten minutes before a refresh can have become it, though no new row tells of it.
    """
    between = pl.col("time").is_between(first, last)
    found = [published.scan(dataset, [day]).filter(between).select(PROMPT_KEY) for dataset in PROMPT_DATASETS]
    return pl.concat(found).filter(pl.col("prompt_id").is_not_null()).unique().collect(engine="streaming")


def _days(published: Published) -> set[date]:
    return {day for dataset in EVENT_DATASETS for day in published.days(dataset)}


def _told_of(published: Published, day: date, after: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The prompts that the new rows of a day mention, and the sessions that new guard records do."""
    new = {dataset: published.scan(dataset, [day], after) for dataset in PROMPT_DATASETS}
    mentioned = [rows.select(PROMPT_KEY) for rows in new.values()]
    # A conversation that finished is known by its trace alone.
    # Its prompt's other records may be two days away: a day between the two sees both.
    around = published.scan(PROMPT_EVENTS, [day + n * DAY for n in range(-2, 3)])
    finished = new[PROMPT_EVENTS].filter(pl.col("kind") == "conversation_finished").select("trace_id")
    mentioned.append(around.join(finished, on="trace_id", how="semi").select(PROMPT_KEY))
    prompts = pl.concat(mentioned).filter(pl.col("prompt_id").is_not_null()).unique()
    # Any new row may also be a retry, a disconnect, or show a session's mode.
    told = [
        published.scan(dataset, [day], after).select("session_id")
        for dataset in (GUARD_DECISIONS, PROMPT_EVENTS, SESSIONS)
    ]
    sessions = pl.concat(told).filter(pl.col("session_id").is_not_null()).unique()
    return prompts.collect(engine="streaming"), sessions.collect(engine="streaming")


def _mentions(
    published: Published, day: date, prompts: pl.DataFrame, sessions: pl.DataFrame | None = None
) -> bool:
    """Whether a record of `day` is of one of the prompts (by the columns given) or of the sessions."""
    for dataset in PROMPT_DATASETS:
        rows = published.scan(dataset, [day])
        for keys, on in ((prompts, prompts.columns), (sessions, ["session_id"])):
            if (
                keys is not None
                and len(keys)
                and len(rows.join(keys.lazy(), on=on, how="semi").select(on).head(1).collect())
            ):
                return True
    return False
