"""The query half of the service: keeps the results in step with the published events."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path

import structlog

from analytics.exceptions import AnalyticsError
from analytics.refresh import refresh
from ingest.exceptions import whereabouts
from sli.data_directory import DataDirectory


def run_jobs(data_dir: Path, interval_seconds: float, on_ready: Callable[[dict[str, str]], None]) -> None:
    """Refresh the results whenever something was published, until SIGINT or SIGTERM.

    A refresh that fails is said once and tried again; the results it left are the previous ones.

    Args:
        on_ready: called once, after the first refresh that succeeded or had nothing to read.
    """
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    # Under a supervisor a terminal's Ctrl-C is ignored here: it is passed on as SIGTERM, once.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: stopping.set())
    directory = DataDirectory(data_dir)
    log = structlog.get_logger("jobs")
    failing = False
    seen: tuple[int, int] | None = None
    ready = False
    while not stopping.is_set():
        published = _state(directory.manifest)
        if published is not None and (published != seen or failing):
            try:
                outcome = refresh(directory)
            except Exception as error:
                # Whatever it is, the service goes on; a refresh starts from the published events each time.
                if not failing:
                    log.error("refresh_failed", reason=_reason(error), next="tried again")
                failing = True
            else:
                failing, seen = False, published
                if outcome.set_aside is not None:
                    log.warning("results_set_aside", kept_as=str(outcome.set_aside), next="rebuilt")
                if not outcome.up_to_date:
                    log.debug(
                        "refreshed", through=outcome.computed_through, seconds=round(outcome.seconds, 3)
                    )
        if not ready:
            ready = True
            on_ready({})
        stopping.wait(interval_seconds)


def _reason(error: Exception) -> str:
    # Errors of the jobs quote no telemetry; of others, only where they arose is said.
    return str(error) if isinstance(error, AnalyticsError) else whereabouts(error)


def _state(manifest: Path) -> tuple[int, int] | None:
    """What changes whenever the manifest is replaced; None while nothing was ever published."""
    try:
        found = manifest.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns
