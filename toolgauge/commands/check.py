"""`toolgauge check`: whether any event is stored twice."""

from __future__ import annotations

import typer

from toolgauge.options import Config, DataDir, Format, note, settings_in_force
from toolgauge.output import OutputFormat, write_rows


def check(
    context: typer.Context,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Look through all events for one that is there twice; exit 1 if there is. A service does so once a day.

    The outcome is a row of the table `runs`, and `toolgauge doctor` names the last one.

    \b
    Examples:
      toolgauge check
      toolgauge check --data-dir /var/lib/toolgauge --format json
    """
    import pyarrow as pa

    from analytics.duplicates import check_duplicates
    from sli.data_directory import DataDirectory
    from toolgauge.freshness import bring_up_to_date
    from toolgauge.progress import step_progress

    directory = DataDirectory(settings_in_force(context, data_dir, config).settings.data_dir)
    bring_up_to_date(directory, note)
    with step_progress() as show:
        outcome = check_duplicates(directory, show)
    checks = outcome.datasets if outcome is not None else ()
    columns = {
        "dataset": pa.array([each.dataset for each in checks], pa.string()),
        "rows": pa.array([each.rows for each in checks], pa.int64()),
        "duplicated": pa.array([each.duplicated for each in checks], pa.int64()),
        "examples": pa.array([[str(id) for id in each.examples] for each in checks], pa.list_(pa.string())),
    }
    write_rows(pa.table(columns), format)
    if outcome is None:
        note("nothing is published yet")
    elif outcome.found:
        note(f"{outcome.summary}; please report this, with what the service logged when they came in")
        raise typer.Exit(1)
