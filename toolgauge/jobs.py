"""The query half of the service: keeps the results in step with the published events."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from cronsim import CronSim

from analytics.duplicates import JOB, check_duplicates
from analytics.exceptions import AnalyticsError
from analytics.refresh import refresh
from analytics.results_file import last_run
from ingest.exceptions import whereabouts
from sli.data_directory import DataDirectory
from toolgauge.reports import JOB as REPORT_JOB
from toolgauge.reports import write_due_reports
from toolgauge.rollout.record import acts_for_results

_CHECK_EVERY = timedelta(days=1)
_LOOK_EVERY_SECONDS = 60.0
FileState = tuple[int, int, int] | None

# Whoever reads steps back behind the receiver, whose answers agents wait for.
_NICENESS = 10


def run_jobs(
    data_dir: Path,
    interval_seconds: float,
    report_schedule: str,
    rollout_after: Mapping[str, str],
    on_ready: Callable[[dict[str, str]], None],
) -> None:
    """Refresh the results whenever something was published, until SIGINT or SIGTERM.

    A refresh that fails is said once and tried again; the results it left are the previous ones.

    Args:
        report_schedule: when reports are due, as a cron expression in UTC; empty: never.
        rollout_after: for an environment, the one whose gates have to pass first.
        on_ready: called once, after the first refresh that succeeded or had nothing to read.
    """
    os.nice(_NICENESS)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    # Under a supervisor a terminal's Ctrl-C is ignored here: it is passed on as SIGTERM, once.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: stopping.set())
    directory = DataDirectory(data_dir)
    log = structlog.get_logger("jobs")
    failing = False
    lost: tuple[Path, ...] = ()
    look_again = 0.0
    checking = _DailyCheck(directory)
    reporting = ReportSchedule(directory, report_schedule)
    seen: tuple[FileState, FileState] | None = None
    ready = False

    def acts_unknown(reason: str) -> None:
        log.error("acts_not_known", reason=reason, next="the rollout's tables stay as they are")

    while not stopping.is_set():
        found = _state(directory.manifest), _state(directory.acts)
        overdue = bool(lost) and time.monotonic() >= look_again
        if found[0] is not None and (found != seen or failing or overdue):
            try:
                outcome = refresh(
                    directory,
                    acts=acts_for_results(directory, acts_unknown),
                    rollout_after=rollout_after,
                )
            except Exception as error:
                # Whatever it is, the service goes on; a refresh starts from the published events each time.
                if not failing:
                    log.error("refresh_failed", reason=_reason(error), next="tried again")
                failing = True
            else:
                failing, seen = False, found
                if outcome.set_aside is not None:
                    log.warning("results_set_aside", kept_as=str(outcome.set_aside), next="rebuilt")
                if outcome.lost != lost:
                    _say_lost(log, outcome.lost)
                lost, look_again = outcome.lost, time.monotonic() + _LOOK_EVERY_SECONDS
                if not outcome.up_to_date:
                    log.debug(
                        "refreshed", through=outcome.computed_through, seconds=round(outcome.seconds, 3)
                    )
        if seen is not None and not failing:
            checking.start_if_due()
            reporting.run_if_due(datetime.now(UTC))
        if not ready:
            ready = True
            on_ready({})
        stopping.wait(interval_seconds)


def _say_lost(log: Any, lost: Sequence[Path]) -> None:
    if lost:
        log.error(
            "results_incomplete",
            segments=[str(path) for path in lost],
            next="restart the service: it writes them again from its store",
        )
    else:
        log.info("results_complete_again")


class ReportSchedule:
    """The nightly report, when it is due; one that was missed is made up for at the next look."""

    def __init__(self, directory: DataDirectory, schedule: str) -> None:
        self._directory = directory
        self._schedule = schedule
        self._log = structlog.get_logger("jobs")
        self._next: datetime | None = None

    def run_if_due(self, now: datetime) -> None:
        """Make the reports if the schedule has come due since they were last made."""
        if not self._schedule:
            return
        if self._next is None:
            last = last_run(self._directory, REPORT_JOB)
            self._next = self._after(last.started) if last is not None else now
        if now < self._next:
            return
        self._next = self._after(now)
        try:
            written = write_due_reports(self._directory)
        except Exception as error:
            self._log.error("report_failed", reason=_reason(error), next="tried again when it is due")
        else:
            changed = [each.day.isoformat() for each in written if each.changed]
            if changed:
                self._log.info("reports_written", days=changed, folder=str(self._directory.reports))

    def _after(self, moment: datetime) -> datetime:
        return next(CronSim(self._schedule, moment.astimezone(UTC)))


class _DailyCheck:
    """The check for duplicates, once a day, beside the refreshes: it may take longer than they may wait."""

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory
        self._log = structlog.get_logger("jobs")
        self._thread: threading.Thread | None = None
        self._next_look = 0.0

    def start_if_due(self) -> None:
        """Start a check if the last one that is noted in the results began a day ago."""
        if time.monotonic() < self._next_look or (self._thread is not None and self._thread.is_alive()):
            return
        self._next_look = time.monotonic() + _LOOK_EVERY_SECONDS
        last = last_run(self._directory, JOB)
        if last is None or datetime.now(UTC) - last.started >= _CHECK_EVERY:
            # A daemon: the end of the process does not wait for it, and one that is cut off leaves nothing.
            self._thread = threading.Thread(target=self._check, name="duplicate-check", daemon=True)
            self._thread.start()

    def _check(self) -> None:
        try:
            outcome = check_duplicates(self._directory)
        except Exception as error:
            self._log.error("duplicate_check_failed", reason=_reason(error), next="tried again")
            return
        for each in outcome.datasets if outcome is not None else ():
            if each.duplicated:
                self._log.error(
                    "events_stored_twice",
                    dataset=each.dataset,
                    events=each.duplicated,
                    examples=[str(event_id) for event_id in each.examples],
                    next="report this, with the service's log of when they came in",
                )


def _reason(error: Exception) -> str:
    # Errors of the jobs quote no telemetry; of others, only where they arose is said.
    return str(error) if isinstance(error, AnalyticsError) else whereabouts(error)


def _state(path: Path) -> FileState:
    """What changes whenever a file is replaced or added to; None while there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
