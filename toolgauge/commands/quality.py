"""`toolgauge quality`: how far the SLI can be believed."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from sli.schemas import (
    COMPLETENESS_DAILY,
    COVERAGE,
    FAILURE_CLASSES_DAILY,
    FIELD_COVERAGE_DAILY,
    QUALITY_DAILY,
    REJECTIONS_DAILY,
)
from toolgauge.filters import Environments, Filters, Since, Until, Versions, select, show
from toolgauge.options import Config, DataDir, Format, NoWait, settings_in_force
from toolgauge.output import OutputFormat, write_rows


class Part(StrEnum):
    """Which signals."""

    SIGNALS = "signals"
    CLASSES = "classes"
    COMPLETENESS = "completeness"
    FIELDS = "fields"
    REJECTIONS = "rejections"
    COVERAGE = "coverage"


_TABLES = {
    Part.SIGNALS: (QUALITY_DAILY, []),
    Part.CLASSES: (FAILURE_CLASSES_DAILY, ['"class"', "error_type"]),
    Part.COMPLETENESS: (COMPLETENESS_DAILY, ["counter", "status"]),
    Part.FIELDS: (FIELD_COVERAGE_DAILY, ["event", "field"]),
    Part.REJECTIONS: (REJECTIONS_DAILY, ["signal", "reason"]),
    Part.COVERAGE: (COVERAGE, ["environment", "day"]),
}
_SHOWN = (
    *("time", "environment", "service_version", "total", "unknown_ratio", "contract_violations"),
    *("call_conflicts", "provider_duplicates", "duplicates", "rejected", "completeness"),
    *("lateness_p95_s", "late_after_close", "contract_bearing", "revision"),
)


def quality(
    context: typer.Context,
    part: Annotated[
        Part,
        typer.Option(
            "--show",
            help="All signals; failure classes; completeness by counter; fields; rejections; the receiver's "
            "coverage.",
        ),
    ] = Part.SIGNALS,
    environment: Environments = None,
    version: Versions = None,
    since: Since = None,
    until: Until = None,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
    no_wait: NoWait = False,
) -> None:
    """How far the SLI can be believed: unknown, missing, doubled, lost and late events, day by day.

    Completeness is what is stored over what the agents' own counters say: below 1 telemetry was lost on the
    way, above 1 it is doubled, null where the version has no counter. JSON and CSV have all columns.

    \b
    Examples:
      toolgauge quality
      toolgauge quality --show completeness --environment internal --since 7d
      toolgauge quality --show coverage
    """
    settings = settings_in_force(context, data_dir, config).settings
    filters = Filters.of(environment, version, since, until)
    table, split = _TABLES[part]
    columns = None
    if part is Part.SIGNALS and format in (OutputFormat.TABLE, OutputFormat.MD):
        columns = list(_SHOWN)
    by_version = ["time", "environment", "version_order"]
    order = [*(name for name in by_version if name in table.names), *split]
    time = "time" if "time" in table.names else "day"
    query, parameters = select(table, filters, order, columns, time=time)
    write_rows(show(settings, query, parameters, filters, wait=not no_wait), format)
