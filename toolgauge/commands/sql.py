"""`toolgauge sql`: read-only SQL over the published events and the results."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from toolgauge.options import Config, DataDir, Format, NoWait, settings_in_force
from toolgauge.output import OutputFormat, write_rows


def sql(
    context: typer.Context,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="SELECT or EXPLAIN; - reads it from standard input.")
    ],
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
    no_wait: NoWait = False,
) -> None:
    """Ask the events and the results in SQL (DuckDB's), read-only.

    \b
    Examples:
      toolgauge sql "SHOW TABLES"
      toolgauge sql "DESCRIBE tool_calls"
      toolgauge sql "SELECT error_type, count(*) FROM tool_calls GROUP BY ALL ORDER BY 2 DESC"
      toolgauge sql --format json "FROM sli_daily WHERE environment = 'internal'"
      toolgauge sql - < question.sql
    """
    from toolgauge.reading import read

    settings = settings_in_force(context, data_dir, config).settings
    text = sys.stdin.read() if query == "-" else query
    write_rows(read(settings, text, wait=not no_wait), format)
