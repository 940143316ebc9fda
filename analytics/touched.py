"""Which days a refresh has to compute again."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import polars as pl

from analytics.prompt_partials import PROMPT_DATASETS
from analytics.published import Published
from analytics.repeats import Repeats
from sli.calls import key_hash, with_call_id
from sli.days import DAY
from sli.foreground import PROMPT_KEY
from sli.prompts import GIVEN_UP_AFTER
from sli.schemas import EVENT_DATASETS, GUARD_DECISIONS, PROMPT_EVENTS, RECEIVER_UPTIME, TOOL_CALLS


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
    touched = {day for dataset in EVENT_DATASETS for day in published.days(dataset, after)}
    for day in published.days(TOOL_CALLS, after):
        rows = with_call_id(published.scan(TOOL_CALLS, [day], after))
        hashes = rows.select(key_hash()).unique().collect(engine="streaming")["key_hash"]
        if len(hashes):
            touched |= repeats.days_with(hashes, day)
    for day in sorted({day for dataset in PROMPT_DATASETS for day in published.days(dataset, after)}):
        prompts, sessions = _told_of(published, day, after)
        beside = {day - DAY, day + DAY}
        touched |= {each for each in beside if _mentions(published, each, prompts, sessions)}
    # Such a row lies on the day of its end.
    spans = published.scan(RECEIVER_UPTIME, after=after).select("since", "until").collect()
    for since, until in spans.iter_rows():
        touched |= {since.date(), until.date()}
    open_since = (previously_as_of - GIVEN_UP_AFTER).date()
    while previously_as_of < as_of and open_since <= as_of.date():
        touched.add(open_since)
        open_since += timedelta(days=1)
    return touched & _days(published)


def _days(published: Published) -> set[date]:
    return {day for dataset in EVENT_DATASETS for day in published.days(dataset)}


def _told_of(published: Published, day: date, after: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The prompts that the new rows of a day mention, and the sessions that new guard records do."""
    new = {dataset: published.scan(dataset, [day], after) for dataset in PROMPT_DATASETS}
    mentioned = [rows.select(PROMPT_KEY) for rows in new.values()]
    # A conversation that finished is known by its trace alone.
    around = published.scan(PROMPT_EVENTS, [day - DAY, day, day + DAY])
    finished = new[PROMPT_EVENTS].filter(pl.col("kind") == "conversation_finished").select("trace_id")
    mentioned.append(around.join(finished, on="trace_id", how="semi").select(PROMPT_KEY))
    prompts = pl.concat(mentioned).filter(pl.col("prompt_id").is_not_null()).unique()
    # Any new row may also be a retry, or show a session's mode.
    told = [new[dataset].select("session_id") for dataset in (GUARD_DECISIONS, PROMPT_EVENTS)]
    sessions = pl.concat(told).filter(pl.col("session_id").is_not_null()).unique()
    return prompts.collect(engine="streaming"), sessions.collect(engine="streaming")


def _mentions(published: Published, day: date, prompts: pl.DataFrame, sessions: pl.DataFrame) -> bool:
    for dataset in PROMPT_DATASETS:
        rows = published.scan(dataset, [day])
        for keys, on in ((prompts, list(PROMPT_KEY)), (sessions, ["session_id"])):
            if len(keys) and len(rows.join(keys.lazy(), on=on, how="semi").select(on).head(1).collect()):
                return True
    return False
