"""`toolgauge sli`: the execution-failure rate, by hour, day, type of tool or function."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer

from sli.schemas import SLI_BY_FUNCTION_DAILY, SLI_BY_TOOL_TYPE_DAILY, SLI_DAILY, SLI_HOURLY, Dataset
from toolgauge.exceptions import BadTime, EmptyPeriod
from toolgauge.options import Config, DataDir, Format, NoWait, note, settings_in_force
from toolgauge.output import OutputFormat, write_rows


class By(StrEnum):
    """What the rows are by, beside environment and version."""

    HOUR = "hour"
    DAY = "day"
    TOOL_TYPE = "tool_type"
    FUNCTION = "function"


_TABLES = {
    By.HOUR: SLI_HOURLY,
    By.DAY: SLI_DAILY,
    By.TOOL_TYPE: SLI_BY_TOOL_TYPE_DAILY,
    By.FUNCTION: SLI_BY_FUNCTION_DAILY,
}
_PART_COLUMNS = ("time", "environment", "service_version")
_AGO = re.compile(r"\A([0-9]{1,5})([dh])\Z")
_DATE = re.compile(r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")


def sli(
    context: typer.Context,
    by: Annotated[
        By, typer.Option("--by", help="Hours, days, or days split by tool type or function.")
    ] = By.DAY,
    environment: Annotated[
        list[str] | None,
        typer.Option("--environment", metavar="NAME", help="Only this environment; may be repeated."),
    ] = None,
    version: Annotated[
        list[str] | None,
        typer.Option("--version", metavar="VERSION", help="Only this service.version; may be repeated."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", help="Hours or days that start then or later: a date, an RFC 3339 time, 7d, 24h."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="TIME", help="Hours or days that start earlier; written as for --since."
        ),
    ] = None,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
    no_wait: NoWait = False,
) -> None:
    """The execution-failure rate of tool calls: error / (success + error), by environment and version.

    A rate without executed calls is null; of a rate of 0, look at its upper bound. Days and hours are UTC.

    \b
    Examples:
      toolgauge sli
      toolgauge sli --by function --environment internal --since 7d
      toolgauge sli --by hour --version 0.24.4 --since 2026-10-01 --until 2026-10-02 --format csv
    """
    from toolgauge.reading import read

    settings = settings_in_force(context, data_dir, config).settings
    now = datetime.now(UTC)
    first, end = parse_time("--since", since, now), parse_time("--until", until, now)
    if first and end and first >= end:
        raise EmptyPeriod
    query, parameters = question(_TABLES[by], environment, version, first, end)
    rows = read(settings, query, parameters, wait=not no_wait)
    if not len(rows):
        note("no tool calls match; `toolgauge sli` without options shows all environments and versions")
    write_rows(rows, format)


# A bare zero looks like proof; its upper bound beside it says how little it may be.
_NOTE = "CASE WHEN executed = 0 THEN 'no executed calls' WHEN error = 0 THEN 'no failure seen' END AS note"


def question(
    table: Dataset,
    environments: list[str] | None,
    versions: list[str] | None,
    first: datetime | None,
    end: datetime | None,
) -> tuple[str, list[object]]:
    """The query for the rows of an SLI table, and its parameters; what is None or empty does not restrict.

    Args:
        first: only rows that start then or later.
        end: only rows that start earlier.
    """
    conditions: list[str] = []
    parameters: list[object] = []
    for condition, value in (
        ("list_contains(?, environment)", environments),
        ("list_contains(?, service_version)", versions),
        ("time >= ?", first),
        ("time < ?", end),
    ):
        if value:
            conditions.append(condition)
            parameters.append(value)
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    columns = [name for name in table.names if name != "version_order"]
    split = [name for name in ("tool_type", "function_name") if name in columns]
    order = ", ".join(["time", "environment", "version_order", *split])
    return f"SELECT {', '.join(columns)}, {_NOTE} FROM {table.name} {where}ORDER BY {order}", parameters


def parse_time(option: str, text: str | None, now: datetime) -> datetime | None:
    """A point in time from a date (its beginning in UTC), an RFC 3339 time, or `7d` or `24h` before `now`.

    Raises:
        BadTime: it is none of them.
    """
    if text is None:
        return None
    ago = _AGO.match(text)
    try:
        if ago:
            return now - timedelta(**{"days" if ago[2] == "d" else "hours": int(ago[1])})
        if _DATE.match(text):
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise BadTime(option, text) from error
    if moment.tzinfo is None:
        raise BadTime(option, text)
    return moment.astimezone(UTC)
