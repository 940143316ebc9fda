"""`toolgauge sli`: the execution-failure rate, by hour, day, type of tool, route or function."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from sli.schemas import (
    FUNCTION_ERRORS_DAILY,
    SLI_BY_FUNCTION_DAILY,
    SLI_BY_ROUTE_DAILY,
    SLI_BY_TOOL_TYPE_DAILY,
    SLI_DAILY,
    SLI_HOURLY,
)
from toolgauge.filters import Environments, Filters, Since, Until, Versions, select, show
from toolgauge.options import Config, DataDir, Format, NoWait, note, settings_in_force
from toolgauge.output import OutputFormat, write_rows


class By(StrEnum):
    """What the rows are by, beside environment and version."""

    HOUR = "hour"
    DAY = "day"
    TOOL_TYPE = "tool_type"
    ROUTE = "route"
    FUNCTION = "function"


_TABLES = {
    By.HOUR: SLI_HOURLY,
    By.DAY: SLI_DAILY,
    By.TOOL_TYPE: SLI_BY_TOOL_TYPE_DAILY,
    By.ROUTE: SLI_BY_ROUTE_DAILY,
    By.FUNCTION: SLI_BY_FUNCTION_DAILY,
}
_SPLITS = ("tool_type", "route", "function_name")
# What fits on a screen; JSON and CSV have every column.
_SHOWN = ("total", "executed", "error", "failure_rate", "failure_rate_low", "failure_rate_high")
_SHOWN_OWNERS = ("clustered_low", "clustered_high", "owners", "unknown_ratio")

# A bare zero looks like proof; its upper bound beside it says how little it may be.
_NOTE = "CASE WHEN executed = 0 THEN 'no executed calls' WHEN error = 0 THEN 'no failure seen' END AS note"
_TOP_ERRORS = (
    "(SELECT string_agg(error_type || ' ' || calls, ', ' ORDER BY calls DESC, error_type) FROM "
    f"(FROM {FUNCTION_ERRORS_DAILY.name} e WHERE e.calls > 0 AND e.time = {SLI_BY_FUNCTION_DAILY.name}.time "
    f"AND e.environment = {SLI_BY_FUNCTION_DAILY.name}.environment "
    f"AND e.service_version = {SLI_BY_FUNCTION_DAILY.name}.service_version "
    f"AND e.function_name = {SLI_BY_FUNCTION_DAILY.name}.function_name "
    "ORDER BY calls DESC, error_type LIMIT 3)) AS top_errors"
)


def sli(
    context: typer.Context,
    by: Annotated[
        By, typer.Option("--by", help="Hours, days, or days split by tool type, route or function.")
    ] = By.DAY,
    environment: Environments = None,
    version: Versions = None,
    since: Since = None,
    until: Until = None,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
    no_wait: NoWait = False,
) -> None:
    """The execution-failure rate of tool calls: error / (success + error), by environment and version.

    A rate without executed calls is null; of a rate of 0, look at its upper bound. Days and hours are UTC.
    Beside the interval over calls stands the one over owners, whose calls are not independent. JSON and CSV
    have all columns.

    \b
    Examples:
      toolgauge sli
      toolgauge sli --by function --environment internal --since 7d
      toolgauge sli --by hour --version 0.24.4 --since 2026-10-01 --until 2026-10-02 --format csv
    """
    settings = settings_in_force(context, data_dir, config).settings
    filters = Filters.of(environment, version, since, until)
    table = _TABLES[by]
    split = [name for name in _SPLITS if name in table.names]
    columns = None
    if format in (OutputFormat.TABLE, OutputFormat.MD):
        columns = ["time", "environment", "service_version", *split, *_SHOWN, *_SHOWN_OWNERS]
    extra = [_NOTE, *([_TOP_ERRORS] if by is By.FUNCTION else [])]
    order = ["time", "environment", "version_order", *split]
    query, parameters = select(table, filters, order, columns, extra)
    rows = show(settings, query, parameters, filters, wait=not no_wait)
    if by is By.TOOL_TYPE and len(rows):
        note("a call that was cancelled before its tool was found is reported as native")
    write_rows(rows, format)
