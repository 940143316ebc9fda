"""`toolgauge report`: the nightly report of a day."""

from __future__ import annotations

import json
import sys
from datetime import date
from enum import StrEnum
from typing import Annotated

import typer

from sli.data_directory import DataDirectory
from toolgauge.exceptions import BadDay, NothingClosed, WrongUsage
from toolgauge.freshness import bring_up_to_date, note_lost, require
from toolgauge.options import Config, DataDir, NoWait, note, settings_in_force
from toolgauge.output import printable


class ReportFormat(StrEnum):
    """How the report is shown; both files are written either way."""

    MD = "md"
    JSON = "json"


def report(
    context: typer.Context,
    day: Annotated[
        str | None,
        typer.Option("--day", metavar="DATE", help="A closed UTC day.  [default: the last closed one]"),
    ] = None,
    due: Annotated[
        bool,
        typer.Option(
            "--due", help="Write those of the last ten closed days and show none; for cron or systemd."
        ),
    ] = False,
    data_dir: DataDir = None,
    config: Config = None,
    format: Annotated[ReportFormat, typer.Option("--format", help="What to show of it.")] = ReportFormat.MD,
    no_wait: NoWait = False,
) -> None:
    """The report of a closed day: written to reports/<day>/ in the data directory, and shown.

    A report that would say nothing new is left as it is: the same results give the same bytes. The service
    makes it by itself at report_schedule (see `toolgauge config`). A day closes an hour after its end
    (UTC).

    \b
    Examples:
      toolgauge report
      toolgauge report --day 2026-10-01 --format json
      toolgauge report --due
    """
    from toolgauge.reports import newest_closed_day, write_due_reports, write_report

    if due and day is not None:
        raise WrongUsage("--due makes all reports that are due, --day makes one; choose one of them")
    settings = settings_in_force(context, data_dir, config).settings
    directory = DataDirectory(settings.data_dir)
    wanted = _date(day)
    if no_wait:
        require(directory)
        note_lost(directory, note)
    else:
        bring_up_to_date(directory, note)
    if due:
        for each in write_due_reports(directory):
            note(f"{each.folder} {'written' if each.changed else 'unchanged'}")
        return
    wanted = wanted or newest_closed_day(directory)
    if wanted is None:
        raise NothingClosed
    written = write_report(directory, wanted)
    note(f"{written.folder} {'written' if written.changed else 'unchanged'}")
    if format is ReportFormat.JSON:
        json.dump(written.data, sys.stdout, indent=1)
        print()
    else:
        for line in (written.folder / "report.md").read_text("utf-8").splitlines():
            print(printable(line))


def _date(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise BadDay(text) from error
