"""What every reading command does: bring up to date, ask, write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sli.data_directory import DataDirectory
from toolgauge.freshness import bring_up_to_date, note_lost, require
from toolgauge.options import note

if TYPE_CHECKING:
    import pyarrow as pa

    from dashboards.sql.snapshot import Limits
    from toolgauge.settings import Settings


def limits_of(settings: Settings) -> Limits:
    """The limits that the settings put on a query."""
    from dashboards.sql.snapshot import Limits

    return Limits(
        seconds=settings.query_timeout_seconds,
        memory_bytes=settings.query_memory_bytes,
        rows=settings.query_max_rows,
    )


def read(
    settings: Settings,
    sql: str,
    parameters: list[Any] | None = None,
    *,
    wait: bool = True,
    again: bool = False,
) -> pa.Table:
    """Answer a query from everything that producers were told is kept.

    Args:
        wait: whether to wait for the service and to refresh the results before.
        again: the command has read before: it has waited, and said what there is to say.

    Raises:
        NoDataDirectory: there is nothing to read from.
        SqlError: the query was not answered.
        AnalyticsError: the results could not be computed.
    """
    from dashboards.sql.reader import Reader
    from toolgauge.settings import parse_order

    directory = DataDirectory(settings.data_dir)
    if again:
        require(directory)
    elif wait:
        bring_up_to_date(directory, note, parse_order(settings.rollout_after))
    else:
        require(directory)
        note_lost(directory, note)
    with Reader(directory, limits_of(settings)) as reader:
        return reader.query(sql, parameters=parameters)
