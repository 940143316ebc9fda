"""What of a day is kept to be added up over windows."""

from __future__ import annotations

import polars as pl

from analytics.day import Day
from analytics.partials import LATENCY_DAYS, OWNER_DAYS, PROMPT_DAYS, RECEIVER_DAYS
from sli.coverage import not_accepting
from sli.days import start_of
from sli.foreground import PROMPT_KEY
from sli.histogram import bucket
from sli.partials import added
from sli.quality import PART
from sli.rate import COUNTS
from sli.schemas import PROMPTS
from sli.shadow import foreground_only
from sli.vocabulary import Route

_NANOSECONDS_A_MICROSECOND = 1000
_OWNER = [*PART, "owner"]


def prompt_rows(day: Day) -> pl.DataFrame:
    """`PROMPTS`, of the prompts that began on the day, and what the jobs know beside it; in order."""
    moment = (
        (pl.col(name) // _NANOSECONDS_A_MICROSECOND).cast(pl.Datetime("us", "UTC"))
        for name in ("started", "ended")
    )
    known = day.prompts.with_columns(*moment)
    return known.select(*PROMPTS.names, "retries", "disconnect_or_retry", "would_warn", "would_stop").sort(
        PROMPT_KEY
    )


def owner_rows(day: Day) -> pl.DataFrame:
    """`OWNER_DAYS`: calls of foreground prompts on the day, and foreground prompts that began on it."""
    foreground = day.cells.lazy().filter(pl.col("route") == str(Route.ACP_FOREGROUND))
    prompts = foreground_only(day.prompts.lazy()).group_by(_OWNER).agg(prompts=pl.len().cast(pl.Int64))
    return (
        added(foreground, _OWNER)
        .join(prompts, on=_OWNER, how="full", coalesce=True, nulls_equal=True)
        .with_columns(pl.col(*COUNTS, "prompts").fill_null(0), day=pl.lit(day.day))
        .select(OWNER_DAYS.names)
        .collect(engine="streaming")
        .sort(_OWNER)
    )


def latency_rows(day: Day) -> pl.DataFrame:
    """`LATENCY_DAYS`: the histogram of how long interactions took."""
    return (
        foreground_only(day.prompts.lazy())
        .group_by(*PART, bucket(pl.col("duration_ms")).alias("bucket"))
        .agg(calls=pl.len().cast(pl.Int64))
        .filter(pl.col("bucket").is_not_null())
        .with_columns(day=pl.lit(day.day))
        .select(LATENCY_DAYS.names)
        .collect(engine="streaming")
        .sort(*PART, "bucket")
    )


def prompt_day_rows(day: Day) -> pl.DataFrame:
    """`PROMPT_DAYS`."""
    shadowed = (pl.col("mode") == "shadow") & pl.col("supported_host")
    counts = {
        "prompts": pl.len(),
        "completed": (pl.col("turn_status") == "ok").sum(),
        "cancelled": (pl.col("turn_status") == "cancelled").sum(),
        "disconnect_or_retry": pl.col("disconnect_or_retry").sum(),
        "tokens": pl.col("tokens").sum(),
        "rounds": pl.col("rounds").sum(),
        "shadow_prompts": shadowed.sum(),
        "would_warn": (shadowed & (pl.col("would_warn") > 0)).sum(),
        "would_stop": (shadowed & (pl.col("would_stop") > 0)).sum(),
    }
    found = (
        foreground_only(day.prompts.lazy())
        .group_by(PART)
        .agg(count.cast(pl.Int64).alias(name) for name, count in counts.items())
    )
    return found.with_columns(start_of(pl.lit(day.day))).select(PROMPT_DAYS.names).collect().sort(PART)


def receiver_rows(day: Day) -> pl.DataFrame:
    """`RECEIVER_DAYS`: one row; none where the receiver left no record of the day."""
    uptime = day.uptime()
    if not len(uptime):
        return pl.DataFrame(schema={"time": pl.Datetime("us", "UTC"), **_RECEIVER})
    seconds, gaps = not_accepting(uptime, day.day, day.as_of)
    row = pl.DataFrame({"seconds_not_accepting": [seconds], "gaps": [gaps]}, schema=_RECEIVER)
    return row.with_columns(start_of(pl.lit(day.day))).select(RECEIVER_DAYS.names)


_RECEIVER = {"seconds_not_accepting": pl.Float64(), "gaps": pl.Int64()}
