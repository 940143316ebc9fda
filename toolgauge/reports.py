"""The nightly report: which days it is due for, and putting it where people find it.

A report is a folder `reports/<day>` with `report.json` and `report.md`. It is written again only where it
would say something else, so the same results leave the same files untouched.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from analytics.exceptions import ReportNotWrittenError
from analytics.report import REVISED_WITHIN, closed_days, report_data
from analytics.results_file import sync
from analytics.runs import note_run
from dashboards.report.markdown import markdown
from sli.data_directory import DataDirectory

JOB = "report"
DATA_FILE, MARKDOWN_FILE = "report.json", "report.md"
# Of what is written and not in place yet.
_FRESH = ".tmp"


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report.

    Attributes:
        changed: whether it says something else than the one that was there.
    """

    day: date
    folder: Path
    data: dict[str, Any]
    changed: bool


def write_report(directory: DataDirectory, day: date) -> WrittenReport:
    """Make the report of a closed day.

    Raises:
        AnalyticsError: the results do not have the day, or a file cannot be written; a report that was
            there before is whole.
    """
    folder = directory.reports / day.isoformat()
    try:
        with _locked(directory):
            data = report_data(directory, day)
            contents = {
                DATA_FILE: json.dumps(data, indent=1, ensure_ascii=False) + "\n",
                MARKDOWN_FILE: markdown(data),
            }
            folder.mkdir(parents=True, exist_ok=True)
            for left in folder.glob(f"*{_FRESH}"):
                left.unlink()
            changed = [name for name, text in contents.items() if _write(folder / name, text)]
            if changed:
                sync(folder)
    except OSError as error:
        raise ReportNotWrittenError(folder, error.strerror or type(error).__name__) from error
    return WrittenReport(day, folder, data, bool(changed))


def write_due_reports(directory: DataDirectory) -> list[WrittenReport]:
    """Make the reports of the last closed days, and note the run.

    Days that late events may have changed are made again; a day that was missed is made up for.

    Raises:
        AnalyticsError: a report cannot be made; the run is noted as failed, and those before it are there.
    """
    started = datetime.now(UTC)
    written: list[WrittenReport] = []
    days = closed_days(directory)
    failed = ""
    try:
        for day in days:
            if day > days[-1] - REVISED_WITHIN:
                failed = f"; failed on {day}"
                written.append(write_report(directory, day))
        failed = ""
    finally:
        changed = [each.day.isoformat() for each in written if each.changed]
        detail = f"{len(written)} reports, changed: {', '.join(changed) or 'none'}{failed}"
        note_run(directory, JOB, started, "failed" if failed else "ok", len(changed), detail)
    return written


def newest_closed_day(directory: DataDirectory) -> date | None:
    """The last day of which there can be a report; None where none has closed."""
    days = closed_days(directory)
    return days[-1] if days else None


@contextmanager
def _locked(directory: DataDirectory) -> Iterator[None]:
    """One writer at a time: both files of a report are of the same results. Ends with the process."""
    directory.reports.mkdir(parents=True, exist_ok=True)
    with (directory.reports / ".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(path: Path, text: str) -> bool:
    """Put a file in place as a whole, if it says something else than what is there."""
    content = text.encode()
    try:
        if path.read_bytes() == content:
            return False
    except FileNotFoundError:
        pass
    fresh = path.with_name(f"{path.name}{_FRESH}")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
    return True
