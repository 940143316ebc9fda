"""The result tables that have rows for each day, and how the rows of a day come about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from analytics.day import Day
from analytics.published import polars_schema
from sli.days import start_of
from sli.failure_classes import FailureClass, failure_class
from sli.foreground import PROMPT_KEY
from sli.histogram import quantiles
from sli.partials import sli_rows
from sli.quality import (
    PART,
    STORED_AS,
    completeness,
    contract_bearing,
    field_coverage,
    keeps_the_contract,
    lateness_bucket,
    quality_expressions,
)
from sli.rate import with_rates
from sli.replay import agreement, replay, sweep_totals, trips
from sli.schemas import (
    COMPLETENESS_DAILY,
    FAILURE_CLASSES_DAILY,
    FIELD_COVERAGE_DAILY,
    FUNCTION_ERRORS_DAILY,
    GUARD_DECISIONS,
    INGEST_COUNTS,
    METRIC_INCREASES,
    MODEL_CALLS,
    PROMPT_EVENTS,
    QUALITY_DAILY,
    REJECTED,
    REJECTIONS_DAILY,
    REPLAY_AGREEMENT_DAILY,
    REPLAY_DAILY,
    SHADOW_DAILY,
    SHADOW_RESETS_DAILY,
    SLI_BY_FUNCTION_DAILY,
    SLI_BY_ROUTE_DAILY,
    SLI_BY_TOOL_TYPE_DAILY,
    SLI_DAILY,
    SLI_HOURLY,
    TOOL_CALLS,
    TOOL_EXECUTIONS,
    Dataset,
)
from sli.shadow import candidates, foreground_only, resets, shadow_volumes
from sli.version_column import with_version_order
from sli.vocabulary import UNKNOWN_ERROR_TYPE, Route


@dataclass(frozen=True, slots=True)
class DayTable:
    """One table.

    Attributes:
        rows: gives the rows of a day, without `version_order`; a row's `time` is null where it is the day's.
        split: the columns of its key beside time, environment and version.
    """

    dataset: Dataset
    rows: Callable[[Day], pl.DataFrame]
    split: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[str, ...]:
        """The columns that the rows are sorted by; no two rows share them."""
        if "version_order" not in self.dataset.names:
            return ("time", *self.split)
        return ("time", "environment", "version_order", *self.split)

    def compute(self, day: Day) -> pl.DataFrame:
        """The rows of `day`: the columns of the dataset, sorted by `order`."""
        rows = self.rows(day)
        if "time" not in rows.columns:
            rows = rows.with_columns(start_of(pl.lit(day.day)))
        if "version_order" in self.dataset.names:
            rows = with_version_order(rows)
        schema = polars_schema(self.dataset)
        return rows.select(pl.col(name).cast(schema[name]) for name in self.dataset.names).sort(self.order)


def _sli(*split: str, hourly: bool = False) -> Callable[[Day], pl.DataFrame]:
    key = [*(["time"] if hourly else []), *PART, *split]
    return lambda day: sli_rows(day.cells.lazy(), key).collect(engine="streaming")


def _failure_classes(day: Day) -> pl.DataFrame:
    classed = day.calls.with_columns(failure_class()).filter(pl.col("class").is_not_null())
    return (
        classed.group_by(*PART, "class", "error_type")
        .agg(calls=pl.len().cast(pl.Int64))
        .collect(engine="streaming")
    )


def _function_errors(day: Day) -> pl.DataFrame:
    failed = day.calls.filter(failure_class() == str(FailureClass.EXECUTION))
    key = [*PART, "function_name", "error_type"]
    calls = (
        failed.with_columns(pl.col("error_type").fill_null(UNKNOWN_ERROR_TYPE))
        .group_by(key)
        .agg(calls=pl.len().cast(pl.Int64))
        .collect(engine="streaming")
    )
    tripped = (
        trips(day.batches, day.logged)
        .filter(pl.col("route") == str(Route.ACP_FOREGROUND))
        .select(*PART, "function_name", "would_warn", "would_stop", error_type="execution_error_type")
    )
    return calls.join(tripped, on=key, how="full", coalesce=True).with_columns(
        pl.col("calls", "would_warn", "would_stop").cast(pl.Int64).fill_null(0)
    )


def _quality(day: Day) -> pl.DataFrame:
    stored = day.rows(TOOL_CALLS).group_by(PART).agg(quality_expressions())
    counts = with_rates(day.cells.lazy().group_by(PART).agg(pl.col(_COUNTED).sum()))
    found = stored.join(counts, on=list(PART), how="left").collect(engine="streaming")
    arrived = day.rows(INGEST_COUNTS).group_by(PART).agg(pl.col("duplicates", "rejected").sum()).collect()
    # Once: what is unique has another order each time that it is asked for.
    versions = found["service_version"].unique()
    contract = pl.DataFrame([versions, keeps_the_contract(versions).alias("contract_release")])
    return (
        found.join(arrived, on=list(PART), how="full", coalesce=True)
        .join(_counted_rows(day, day.conflicts, "call_conflicts"), on=list(PART), how="left")
        .join(_counted_rows(day, day.uncounted, "provider_duplicates"), on=list(PART), how="left")
        .join(_lateness(day), on=list(PART), how="left")
        .join(_completeness_of_version(day), on=list(PART), how="left")
        .join(contract, on="service_version", how="left")
        .with_columns(contract_bearing(pl.col("contract_release").fill_null(False)))
        .with_columns(
            pl.col(name).fill_null(0)
            for name, column in polars_schema(QUALITY_DAILY).items()
            if column == pl.Int64
        )
    )


_COUNTED = ("total", "success", "error", "unknown", "contract_violations")


def _counted_rows(day: Day, events: pl.DataFrame, name: str) -> pl.DataFrame:
    """How many rows of `tool_calls` have these event ids, by partition."""
    if not len(events):
        return pl.DataFrame(schema={**dict.fromkeys(PART, pl.String), name: pl.Int64})
    rows = day.rows(TOOL_CALLS).join(events.lazy(), on="event_id", how="semi")
    return rows.group_by(PART).agg(pl.len().cast(pl.Int64).alias(name)).collect(engine="streaming")


def _lateness(day: Day) -> pl.DataFrame:
    histogram = day.rows(TOOL_CALLS).group_by(*PART, lateness_bucket()).agg(calls=pl.len().cast(pl.Int64))
    percentiles = quantiles(
        histogram, list(PART), {"lateness_p50_s": 0.5, "lateness_p95_s": 0.95}
    ).with_columns(pl.col("lateness_p50_s", "lateness_p95_s") / 1000)
    seconds = (pl.col("received_at") - pl.col("time")).dt.total_microseconds() / 1e6
    latest = day.rows(TOOL_CALLS).group_by(PART).agg(lateness_max_s=seconds.max())
    return percentiles.join(latest, on=list(PART), how="left").collect(engine="streaming")


def _completeness(day: Day) -> pl.DataFrame:
    increases = day.rows(METRIC_INCREASES).filter(pl.col("counter").is_in(list(STORED_AS)))
    label = pl.coalesce(
        pl.when(pl.col("counter") == counter).then(pl.col(column))
        for counter, (_, column) in STORED_AS.items()
    )
    counted = (
        increases.with_columns(status=label)
        .group_by(*PART, "counter", "status")
        # Sorted, so that the sum of fractions would not depend on the order of rows.
        .agg(counted=pl.col("increase").sort().sum())
        .filter(pl.col("counted") > 0)
    )
    tables = {"tool_calls": day.rows(TOOL_CALLS), "guard_decisions": day.rows(GUARD_DECISIONS)}
    stored = [
        tables[table]
        .group_by(*PART, pl.col(column).fill_null("unknown").alias("status"))
        .agg(stored=pl.len().cast(pl.Int64))
        .with_columns(counter=pl.lit(counter))
        .select(*PART, "counter", "status", "stored")
        for counter, (table, column) in STORED_AS.items()
    ]
    return completeness(counted, pl.concat(stored)).collect()


def _completeness_of_version(day: Day) -> pl.DataFrame:
    """Over all statuses of the counter that tells most: executions, else calls."""
    by_counter = (
        _completeness(day)
        .filter(pl.col("counter").is_in(["tool_executions", "tool_calls"]))
        .group_by(*PART, "counter")
        .agg(pl.col("counted").sum(), pl.col("stored").sum())
        .filter(pl.col("counted") > 0)
        .sort("counter")
    )
    return (
        by_counter.with_columns(completeness=pl.col("stored") / pl.col("counted"))
        .group_by(PART, maintain_order=True)
        .agg(pl.col("completeness").last())
    )


_OPTIONAL_FIELDS = {
    dataset: [
        column.name
        for column in dataset.columns
        if column.name
        not in {
            *("event_id", "time", "time_unix_nano", "time_source", "day", "received_at", "commit_number"),
            *("environment", "service_name", "service_version", "contract_violation", "kind", "outcome"),
            "unlisted_attributes",
        }
    ]
    for dataset in (TOOL_CALLS, GUARD_DECISIONS, MODEL_CALLS, PROMPT_EVENTS, TOOL_EXECUTIONS)
}


def _field_coverage(day: Day) -> pl.DataFrame:
    return pl.concat(
        [
            field_coverage(day.rows(dataset), dataset.name, fields).collect(engine="streaming")
            for dataset, fields in _OPTIONAL_FIELDS.items()
        ]
    )


def _rejections(day: Day) -> pl.DataFrame:
    return (
        day.rows(REJECTED)
        .group_by("day", "signal", "reason")
        .agg(pl.col("records").sum())
        .collect(engine="streaming")
    )


def _foreground(day: Day) -> pl.LazyFrame:
    saved = replay(day.batches, day.logged).lazy().select(*PROMPT_KEY, "calls_saved")
    return (
        foreground_only(day.prompts.lazy())
        .join(candidates(day.logged.lazy()), on=list(PROMPT_KEY), how="left")
        .join(saved, on=list(PROMPT_KEY), how="left")
        .with_columns(start_of(pl.lit(day.day)))
    )


def _shadow(day: Day) -> pl.DataFrame:
    return shadow_volumes(_foreground(day)).collect(engine="streaming")


def _shadow_resets(day: Day) -> pl.DataFrame:
    return resets(day.logged.lazy(), _foreground(day)).collect(engine="streaming")


def _replay(day: Day) -> pl.DataFrame:
    return sweep_totals(day.batches, day.logged).select(
        *PART,
        "route",
        "prompts",
        "calls_saved",
        failures="failure_threshold",
        batches="batch_threshold",
        not_replayable=pl.col("prompts") - pl.col("replayable"),
        prompts_would_warn="would_warn",
        prompts_would_stop="would_stop",
    )


def _agreement(day: Day) -> pl.DataFrame:
    return agreement(day.batches, day.logged)


DAY_TABLES: Sequence[DayTable] = (
    DayTable(SLI_HOURLY, _sli(hourly=True)),
    DayTable(SLI_DAILY, _sli()),
    DayTable(SLI_BY_TOOL_TYPE_DAILY, _sli("tool_type"), ("tool_type",)),
    DayTable(SLI_BY_ROUTE_DAILY, _sli("route"), ("route",)),
    DayTable(SLI_BY_FUNCTION_DAILY, _sli("function_name"), ("function_name",)),
    DayTable(FUNCTION_ERRORS_DAILY, _function_errors, ("function_name", "error_type")),
    DayTable(FAILURE_CLASSES_DAILY, _failure_classes, ("class", "error_type")),
    DayTable(QUALITY_DAILY, _quality),
    DayTable(COMPLETENESS_DAILY, _completeness, ("counter", "status")),
    DayTable(FIELD_COVERAGE_DAILY, _field_coverage, ("event", "field")),
    DayTable(REJECTIONS_DAILY, _rejections, ("signal", "reason")),
    DayTable(SHADOW_DAILY, _shadow, ("mode", "supported_host")),
    DayTable(SHADOW_RESETS_DAILY, _shadow_resets, ("mode", "supported_host", "reset_reason")),
    DayTable(REPLAY_DAILY, _replay, ("route", "failures", "batches")),
    DayTable(REPLAY_AGREEMENT_DAILY, _agreement, ("reason",)),
)
