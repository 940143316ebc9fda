"""Tables over windows of days: coverage, baselines, and comparisons of baselines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise

import polars as pl

from analytics.partials import LATENCY_DAYS, OWNER_DAYS, PROMPT_DAYS, RECEIVER_DAYS
from analytics.published import polars_schema
from analytics.results_draft import ResultsDraft
from sli.baseline import CALENDAR_DAYS, Window, WindowDay, choose_window, complete_days
from sli.comparison import compared
from sli.coverage import MOST_SECONDS_NOT_ACCEPTING
from sli.days import CLOSES_AFTER, DAY
from sli.histogram import quantiles
from sli.partials import sli_rows
from sli.quality import PART, keeps_the_contract
from sli.schemas import (
    BASELINES,
    COMPARISONS,
    COMPLETENESS_DAILY,
    COVERAGE,
    FUNCTION_ERRORS_DAILY,
    QUALITY_DAILY,
    SLI_BY_FUNCTION_DAILY,
)
from sli.version_column import with_version_order

_COUNTERS = ("tool_calls", "tool_executions")
_WINDOW = ["environment", "service_version", "window_end"]


class WindowJob:
    """Computes the tables over windows from a draft that already holds the new days."""

    def __init__(self, draft: ResultsDraft, as_of: datetime, lost: Collection[date] = ()) -> None:
        """Start from what the draft holds.

        Args:
            as_of: until when the events tell anything.
            lost: days whose results were computed without a segment. They are not complete, and baselines
                over them stay as they are until the segment can be read again.
        """
        self._draft = draft
        self._as_of = as_of
        self._lost = frozenset(lost)
        self._receiver = _with_day(draft.read(RECEIVER_DAYS))
        self._quality = _with_day(draft.read(QUALITY_DAILY))

    def run(self, touched: Collection[date], previously_as_of: datetime | None, now: datetime) -> int:
        """Compute what the touched days, and the closing of days, may have changed.

        Args:
            previously_as_of: until when the events told anything at the last refresh; None: all is new.
            now: noted with a revision.

        Returns:
            The number of rows that were written.
        """
        coverage = self._coverage()
        self._draft.replace_all(COVERAGE, coverage)
        ends = list(self._ends(touched, previously_as_of))
        if not ends:
            return len(coverage)
        fresh = self._baselines(ends)
        baselines = _revised(self._draft.read(BASELINES), fresh, now)
        self._draft.replace_all(BASELINES, baselines)
        comparisons = self._comparisons(baselines)
        self._draft.replace_all(COMPARISONS, comparisons)
        return len(coverage) + len(fresh) + len(comparisons)

    def _closed(self, day: date) -> bool:
        end = datetime(day.year, day.month, day.day, tzinfo=self._as_of.tzinfo) + DAY
        return self._as_of >= end + CLOSES_AFTER

    def _ends(self, touched: Collection[date], previously_as_of: datetime | None) -> Iterator[date]:
        """The closed days on which a window ends that has to be computed."""
        # A window may end on quiet days after the last event of a version.
        near = {
            day + timedelta(days=ahead)
            for day in self._quality["day"].unique()
            for ahead in range(CALENDAR_DAYS)
        }
        # How far back the receiver's record goes is said of every window.
        back_further = len(self._receiver) > 0 and self._receiver["day"].min() in touched
        for end in sorted(near):
            window = {end - timedelta(days=back) for back in range(CALENDAR_DAYS)}
            if not window.isdisjoint(self._lost):
                continue
            was_open = (
                previously_as_of is None
                or datetime(end.year, end.month, end.day, tzinfo=self._as_of.tzinfo) + DAY + CLOSES_AFTER
                > previously_as_of
            )
            if self._closed(end) and (was_open or back_further or not window.isdisjoint(touched)):
                yield end

    def _coverage(self) -> pl.DataFrame:
        environments = self._quality.select("environment").unique()
        events = self._quality.group_by("environment", "day").agg(events=pl.col("stored").sum())
        days = self._receiver.select("day")
        if len(days):
            # A day that the receiver slept through is there as well: left out, it would look like no day.
            days = days.select(pl.date_range(pl.col("day").min(), pl.col("day").max()))
        days = pl.concat([days, self._quality.select("day")]).unique()
        closed = pl.Series(
            [day for day in days["day"] if self._closed(day) and day not in self._lost], dtype=pl.Date
        )
        return (
            environments.join(days, how="cross")
            .join(self._receiver.drop("time"), on="day", how="left")
            .join(events, on=["environment", "day"], how="left")
            .with_columns(
                pl.col("events").fill_null(0),
                complete=pl.col("day").is_in(closed.implode())
                & (pl.col("seconds_not_accepting") <= MOST_SECONDS_NOT_ACCEPTING).fill_null(False),
            )
            .select(COVERAGE.names)
            .sort("environment", "day")
        )

    def _baselines(self, ends: Sequence[date]) -> pl.DataFrame:
        first = ends[0] - timedelta(days=CALENDAR_DAYS - 1)
        days = [first + timedelta(days=n) for n in range((ends[-1] - first).days + 1)]
        owners = self._draft.filed(OWNER_DAYS, days).collect()
        latency = self._draft.filed(LATENCY_DAYS, days).collect()
        windows = [window for end in ends for window in self._windows(end, owners)]
        if not windows:
            return pl.DataFrame(schema=polars_schema(BASELINES))
        heads = pl.DataFrame(
            [_head(environment, version, window) for environment, version, window in windows],
            schema={name: polars_schema(BASELINES)[name] for name in _HEAD},
            orient="row",
        )
        chosen = pl.DataFrame(
            [(e, v, w.end, day) for e, v, w in windows for day in w.days],
            schema={
                **dict.fromkeys(PART, pl.String),
                "window_end": pl.Date,
                "day": pl.Date,
            },
            orient="row",
        )
        measured = self._measured(chosen, owners, latency)
        rows = heads
        for measure in measured:
            rows = rows.join(measure, on=_WINDOW, how="left")
        counts = ("total", "executed", "owners", "prompts", "late_events")
        rows = rows.with_columns(pl.col(name).fill_null(0) for name in counts).with_columns(
            revision=pl.lit(0, pl.Int64), revised_at=pl.lit(None, pl.Datetime("us", "UTC"))
        )
        schema = polars_schema(BASELINES)
        return with_version_order(rows).select(pl.col(n).cast(schema[n]) for n in BASELINES.names)

    def _windows(self, end: date, owners: pl.DataFrame) -> Iterator[tuple[str, str, Window]]:
        first = end - timedelta(days=CALENDAR_DAYS - 1)
        quality = self._quality.filter(pl.col("day").is_between(first, end))
        receiver = dict(
            self._receiver.filter(pl.col("day").is_between(first, end))
            .select("day", "seconds_not_accepting")
            .iter_rows()
        )
        # Versions with equal days have equal shares to look up.
        mixed: dict[date, dict[tuple[str, str], float]] = {}
        earliest = self._receiver["day"].min() if len(self._receiver) else end
        versions = quality.filter(pl.col("stored") > 0).select(PART).unique().sort(PART)
        for environment, version in versions.iter_rows():
            own = quality.filter(
                (pl.col("environment") == environment) & (pl.col("service_version") == version)
            )
            known = {
                day: WindowDay(day, receiver.get(day), complete, calls, unknown)
                for day, complete, calls, unknown in _day_rows(own)
            }
            for back in range(CALENDAR_DAYS):
                day = end - timedelta(days=back)
                if day not in known and isinstance(earliest, date) and day >= earliest:
                    known[day] = WindowDay(day, receiver.get(day), None, 0, 0)
            days = complete_days(list(known.values()), end)
            start = days[0].day if days else end
            if start not in mixed:
                mixed[start] = _mixed(owners.filter(pl.col("day").is_between(start, end)))
            window = choose_window(
                environment,
                version,
                keeps_the_contract(pl.Series([version]))[0],
                end,
                list(known.values()),
                mixed[start].get((environment, version), 0.0),
            )
            yield environment, version, window

    def _measured(
        self, chosen: pl.DataFrame, owners: pl.DataFrame, latency: pl.DataFrame
    ) -> Iterator[pl.DataFrame]:
        key = [*PART, "day"]
        cells = chosen.join(owners, on=key, how="inner")
        yield (
            sli_rows(cells.lazy(), _WINDOW)
            .select(
                *_WINDOW,
                "total",
                "executed",
                "failure_rate",
                "failure_rate_low",
                "failure_rate_high",
                "clustered_low",
                "clustered_high",
                "owners",
                "unknown_ratio",
            )
            .collect()
        )
        daily = (
            cells.group_by(*_WINDOW, "day").agg(pl.col("error").sum(), pl.col("success").sum()).sort("day")
        )
        rate = pl.col("error") / (pl.col("error") + pl.col("success"))
        yield (
            daily.filter(pl.col("error") + pl.col("success") > 0)
            .group_by(_WINDOW, maintain_order=True)
            .agg(daily_sd=rate.std())
        )
        prompts = chosen.join(_with_day(self._draft.read(PROMPT_DAYS)), on=key, how="inner")
        of_prompts, shadowed = pl.col("prompts"), pl.col("shadow_prompts")
        yield (
            prompts.group_by(_WINDOW)
            .agg(pl.col(_PROMPT_COUNTS).sum())
            .with_columns(
                completion_rate=pl.when(of_prompts > 0).then(pl.col("completed") / of_prompts),
                cancellation_rate=pl.when(of_prompts > 0).then(pl.col("cancelled") / of_prompts),
                disconnect_or_retry_rate=pl.when(of_prompts > 0).then(
                    pl.col("disconnect_or_retry") / of_prompts
                ),
                tokens_mean=pl.when(of_prompts > 0).then(pl.col("tokens") / of_prompts),
                rounds_mean=pl.when(of_prompts > 0).then(pl.col("rounds") / of_prompts),
                would_warn_per_1000=pl.when(shadowed > 0).then(pl.col("would_warn") / shadowed * 1000),
                would_stop_per_1000=pl.when(shadowed > 0).then(pl.col("would_stop") / shadowed * 1000),
            )
            .select(
                *_WINDOW,
                "prompts",
                "completion_rate",
                "cancellation_rate",
                "disconnect_or_retry_rate",
                "tokens_mean",
                "rounds_mean",
                "would_warn_per_1000",
                "would_stop_per_1000",
            )
        )
        yield quantiles(
            chosen.join(latency, on=key, how="inner").lazy(),
            _WINDOW,
            {"latency_p50_ms": 0.5, "latency_p95_ms": 0.95},
        ).collect()
        quality = chosen.join(self._quality, on=key, how="inner")
        yield quality.group_by(_WINDOW).agg(late_events=pl.col("late_after_close").sum())
        yield self._completeness(chosen)

    def _completeness(self, chosen: pl.DataFrame) -> pl.DataFrame:
        """Over the whole window, by the counter that tells most: executions, else calls."""
        counters = _with_day(self._draft.read(COMPLETENESS_DAILY)).filter(pl.col("counter").is_in(_COUNTERS))
        sums = (
            chosen.join(counters, on=[*PART, "day"], how="inner")
            .sort("day", "status")
            .group_by(*_WINDOW, "counter", maintain_order=True)
            .agg(pl.col("counted").sum(), pl.col("stored").sum())
            .filter(pl.col("counted") > 0)
            .sort("counter")
        )
        lost = (pl.col("counted") - pl.col("stored")).clip(lower_bound=0).round().cast(pl.Int64)
        return (
            sums.with_columns(completeness=pl.col("stored") / pl.col("counted"), lost_events=lost)
            .group_by(_WINDOW, maintain_order=True)
            .agg(pl.col("completeness", "lost_events").last())
        )

    def _comparisons(self, baselines: pl.DataFrame) -> pl.DataFrame:
        """Each environment's latest good baselines, each version beside the one before it."""
        functions = _with_day(self._draft.read(SLI_BY_FUNCTION_DAILY))
        errors = _with_day(self._draft.read(FUNCTION_ERRORS_DAILY))
        latest = latest_good(baselines)
        found = [pl.DataFrame(schema=polars_schema(COMPARISONS))]
        for _, of_environment in latest.group_by("environment", maintain_order=True):
            rows = of_environment.sort("version_order").rows(named=True)
            for a, b in pairwise(rows):
                found.append(compared(a, b, functions, errors))
        schema = polars_schema(COMPARISONS)
        return pl.concat(each.select(pl.col(n).cast(schema[n]) for n in COMPARISONS.names) for each in found)


_HEAD = (*_WINDOW, "status", "reason", "window_start", "complete_days", "quiet_days")
_PROMPT_COUNTS = tuple(name for name in PROMPT_DAYS.names if name not in ("time", *PART))


def latest_good(baselines: pl.DataFrame) -> pl.DataFrame:
    """The latest revision of the latest baseline of each environment and version that is not refused."""
    revised = baselines.sort("revision").group_by(_WINDOW, maintain_order=True).last()
    good = revised.filter(pl.col("status") == "ok").sort("window_end")
    return good.group_by(PART).last().sort("environment", "version_order")


def _head(environment: str, version: str, window: Window) -> tuple[object, ...]:
    status = "refused" if window.reasons else "ok"
    reason = "; ".join(window.reasons) or None
    counts = (len(window.days), window.quiet_days)
    return (environment, version, window.end, status, reason, window.start, *counts)


def _with_day(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(day=pl.col("time").dt.date())


def _day_rows(quality: pl.DataFrame) -> Iterator[tuple[date, float | None, int, int]]:
    unknown = (pl.col("unknown_ratio").fill_null(0.0) * pl.col("total")).round().cast(pl.Int64)
    yield from quality.select("day", "completeness", "total", unknown.alias("unknown")).iter_rows()


def _mixed(owners: pl.DataFrame) -> dict[tuple[str, str], float]:
    """For each environment and version: the share of its owners' foreground prompts that ran another one."""
    prompts = (
        owners.filter(pl.col("owner").is_not_null() & (pl.col("prompts") > 0))
        .group_by(*PART, "owner")
        .agg(own=pl.col("prompts").sum())
        .with_columns(everything=pl.col("own").sum().over("environment", "owner"))
    )
    own, everything = pl.col("own").sum(), pl.col("everything").sum()
    shares = prompts.group_by(PART).agg(share=(everything - own) / everything)
    return {(environment, version): share for environment, version, share in shares.iter_rows()}


def _revised(stored: pl.DataFrame, fresh: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """The stored baselines and the fresh ones that differ from them: these are new revisions."""
    values = [name for name in BASELINES.names if name not in ("revision", "revised_at")]
    latest = stored.sort("revision").group_by(_WINDOW, maintain_order=True).last()
    unchanged = fresh.join(latest.select(values), on=values, how="semi", nulls_equal=True)
    changed = fresh.join(unchanged.select(_WINDOW), on=_WINDOW, how="anti")
    numbered = (
        changed.drop("revision", "revised_at")
        .join(latest.select(*_WINDOW, known="revision"), on=_WINDOW, how="left")
        .with_columns(
            revision=pl.col("known").fill_null(-1) + 1,
            revised_at=pl.when(pl.col("known").is_not_null()).then(pl.lit(now)),
        )
    )
    schema = polars_schema(BASELINES)
    added = numbered.select(pl.col(n).cast(schema[n]) for n in BASELINES.names)
    return pl.concat([stored, added]).sort("window_end", "environment", "version_order", "revision")
