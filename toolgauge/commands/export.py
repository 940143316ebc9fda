"""`toolgauge export`: the tables as Parquet files for other tools."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from sli.schemas import EVENT_DATASETS, FILED_DATASETS, RESULT_DATASETS
from toolgauge.exceptions import EmptyPeriod, UnknownDataset
from toolgauge.filters import parse_time
from toolgauge.options import Config, DataDir, Format, note, settings_in_force
from toolgauge.output import OutputFormat, write_rows


def export(
    context: typer.Context,
    target: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write; made here.")],
    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", metavar="NAME", help="Only this table; may be repeated.  [default: all]"),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Rows of then or later: a date, RFC 3339, 7d, 24h."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="Rows of before then; written as for --since."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier export in DIR; nothing else is.")
    ] = False,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Write tables as Parquet, under their public names: DIR/<events>/<day>.parquet, DIR/<results>.parquet.

    Works whether or not the service runs. Days are UTC. docs/tables.md lists tables and columns.

    \b
    Examples:
      toolgauge export ./export
      toolgauge export --dataset tool_calls --since 2026-11-01 --until 2026-12-01 ./november
      toolgauge export --dataset sli_daily --overwrite ./sli --format json
    """
    import pyarrow as pa

    names = {each.name: each for each in (*EVENT_DATASETS, *RESULT_DATASETS, *FILED_DATASETS)}
    for name in dataset or ():
        if name not in names:
            raise UnknownDataset(name, list(names))
    now = datetime.now(UTC)
    first, end = parse_time("--since", since, now), parse_time("--until", until, now)
    if first and end and first >= end:
        raise EmptyPeriod

    from analytics.export import Period
    from analytics.export import export as write_export
    from sli.data_directory import DataDirectory
    from toolgauge.freshness import bring_up_to_date
    from toolgauge.progress import step_progress

    directory = DataDirectory(settings_in_force(context, data_dir, config).settings.data_dir)
    bring_up_to_date(directory, note)
    chosen = [names[name] for name in dict.fromkeys(dataset or names)]
    with step_progress() as show:
        exported = write_export(
            directory, target, chosen, Period(first, end), overwrite=overwrite, on_progress=show
        )
    columns = {
        "dataset": [each.dataset for each in exported],
        "files": [each.files for each in exported],
        "rows": [each.rows for each in exported],
        "bytes": [each.bytes for each in exported],
    }
    write_rows(pa.table(columns), format)
