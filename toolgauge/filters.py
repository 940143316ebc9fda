"""Which rows of a result table a command shows: the options that say so, and the query that follows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from sli.schemas import Dataset
from toolgauge.exceptions import BadTime, EmptyPeriod, NotSplit, UnknownPart
from toolgauge.options import note

if TYPE_CHECKING:
    import pyarrow as pa

    from toolgauge.settings import Settings

Environments = Annotated[
    list[str] | None,
    typer.Option("--environment", metavar="NAME", help="Only this environment; may be repeated."),
]
Versions = Annotated[
    list[str] | None,
    typer.Option("--version", metavar="VERSION", help="Only this service.version; may be repeated."),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="What starts then or later: a date, an RFC 3339 time, 7d, 24h."
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="What starts earlier; written as for --since."),
]

_OPTIONS = {"environment": "--environment", "service_version": "--version"}
_AGO = re.compile(r"\A([0-9]{1,5})([dh])\Z")
_DATE = re.compile(r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")


@dataclass(frozen=True, slots=True)
class Filters:
    """What rows have to be; empty or None does not restrict.

    Attributes:
        first: only rows that start then or later.
        end: only rows that start earlier.
    """

    environments: Sequence[str] = ()
    versions: Sequence[str] = ()
    first: datetime | None = None
    end: datetime | None = None

    @staticmethod
    def of(
        environments: list[str] | None, versions: list[str] | None, since: str | None, until: str | None
    ) -> Filters:
        """The filters that the options say.

        Raises:
            BadTime: a time is none.
            EmptyPeriod: it ends before it begins.
        """
        now = datetime.now(UTC)
        first, end = parse_time("--since", since, now), parse_time("--until", until, now)
        if first and end and first >= end:
            raise EmptyPeriod
        return Filters(environments or (), versions or (), first, end)

    def where(self, dataset: Dataset, time: str = "time") -> tuple[str, list[object]]:
        """The conditions on rows of a table, as ` WHERE ...` or nothing, and their parameters.

        Args:
            time: the column that tells when a row starts.

        Raises:
            NotSplit: the table has no such column, so the rows cannot be told apart.
        """
        conditions: list[str] = []
        parameters: list[object] = []
        for column, condition, value in (
            ("environment", "list_contains(?, environment)", list(self.environments)),
            ("service_version", "list_contains(?, service_version)", list(self.versions)),
            (time, f"{time} >= ?", self.first),
            (time, f"{time} < ?", self.end),
        ):
            if not value:
                continue
            if column not in dataset.names:
                raise NotSplit(_OPTIONS[column], dataset.name)
            conditions.append(condition)
            parameters.append(value)
        return (f" WHERE {' AND '.join(conditions)}" if conditions else ""), parameters


def select(
    dataset: Dataset,
    filters: Filters,
    order: Sequence[str],
    columns: Sequence[str] | None = None,
    extra: Sequence[str] = (),
    time: str = "time",
    conditions: Sequence[str] = (),
) -> tuple[str, list[object]]:
    """A query for rows of a table, and its parameters.

    Args:
        order: columns to sort by.
        columns: which ones to show; all but `version_order` if not given.
        extra: expressions to show behind them.
        conditions: further ones, without parameters.
    """
    where, parameters = filters.where(dataset, time)
    if conditions:
        where += (" AND " if where else " WHERE ") + " AND ".join(conditions)
    shown = columns or [name for name in dataset.names if name != "version_order"]
    what = ", ".join([*(f'"{name}"' for name in shown), *extra])
    return f"SELECT {what} FROM {dataset.name}{where} ORDER BY {', '.join(order)}", parameters


def show(
    settings: Settings,
    query: str,
    parameters: list[object],
    filters: Filters,
    wait: bool,
    options: Mapping[str, str] = _OPTIONS,
    again: bool = False,
) -> pa.Table:
    """Ask; where nothing matches, say so.

    Args:
        options: where environments and versions were named, by column.
        wait, again: as `read` takes them.

    Raises:
        UnknownPart: an environment or a version was named that nobody ever reported: also where others
            were that do match, since nobody would notice.
        NoDataDirectory, SqlError, AnalyticsError: the query was not answered.
    """
    from toolgauge.reading import read

    rows = read(settings, query, parameters, wait=wait, again=again)
    for column, named in (("environment", filters.environments), ("service_version", filters.versions)):
        known = _known(settings, column) if named else []
        unknown = [name for name in named if name not in known]
        if unknown and known:
            raise UnknownPart(options[column], unknown[0], known)
    if not len(rows):
        some = filters != Filters()
        note("no data match; without options, all days are shown" if some else "there are no data yet")
    return rows


def _known(settings: Settings, column: str) -> list[str]:
    from toolgauge.reading import read

    by_order = ", min(version_order)" if column == "service_version" else ""
    query = f"SELECT {column}{by_order} FROM quality_daily GROUP BY ALL ORDER BY {2 if by_order else 1}"
    return [str(name) for name in read(settings, query, again=True).column(0).to_pylist()]


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
