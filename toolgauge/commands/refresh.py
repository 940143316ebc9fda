"""`toolgauge refresh` and `toolgauge rebuild`: the jobs by hand."""

from __future__ import annotations

import sys

import typer

from toolgauge.options import Config, DataDir, Format, note, settings_in_force
from toolgauge.output import OutputFormat, write_rows


def refresh(
    context: typer.Context,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Compute the results for what is new since the last time. A running service does this by itself.

    \b
    Examples:
      toolgauge refresh
      toolgauge refresh --data-dir /var/lib/toolgauge --format json
    """
    _compute(context, data_dir, config, format, rebuild=False)


def rebuild(
    context: typer.Context,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Compute all results from the events again. The old ones are read until the new ones are in place.

    \b
    Examples:
      toolgauge rebuild
      toolgauge rebuild --data-dir /var/lib/toolgauge
    """
    _compute(context, data_dir, config, format, rebuild=True)


def _compute(
    context: typer.Context, data_dir: DataDir, config: Config, format: OutputFormat, *, rebuild: bool
) -> None:
    import pyarrow as pa
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from analytics.refresh import refresh as compute
    from sli.data_directory import DataDirectory
    from toolgauge.freshness import note_lost, require, wait_until_published
    from toolgauge.rollout.record import acts_for_results
    from toolgauge.settings import parse_order

    settings = settings_in_force(context, data_dir, config).settings
    directory = DataDirectory(settings.data_dir)
    require(directory)
    wait_until_published(directory, note)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as progress:
        task = progress.add_task("computing", total=None)

        def show(stage: str, done: int, total: int) -> None:
            progress.update(task, description=stage, completed=done, total=total)

        outcome = compute(
            directory,
            acts=acts_for_results(directory, note),
            rollout_after=parse_order(settings.rollout_after),
            rebuild=rebuild,
            on_progress=show,
        )
    if outcome.set_aside is not None:
        note(f"the results were damaged; they are kept as {outcome.set_aside} and were computed again")
    note_lost(directory, note)
    row = {
        "computed_through": outcome.computed_through,
        "previously_through": outcome.previously_through,
        "days": outcome.days,
        "rows": outcome.rows,
        "seconds": round(outcome.seconds, 3),
        "up_to_date": outcome.up_to_date,
        "lost_segments": len(outcome.lost),
    }
    write_rows(pa.Table.from_pylist([row]), format)
