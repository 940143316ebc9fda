"""Noting runs of jobs that change nothing of what is computed."""

from __future__ import annotations

from datetime import UTC, datetime

from analytics.results_draft import Run, results_draft
from analytics.results_file import previous_results, results_locked
from sli.data_directory import DataDirectory


def note_run(
    directory: DataDirectory,
    job: str,
    started: datetime,
    status: str,
    rows: int,
    detail: str,
    inputs: int | None = None,
) -> bool:
    """Note a run that ends now, as a row of `runs`.

    Args:
        inputs: the last commit number that was read; that of the results if not given.

    Returns:
        Whether it was noted; it is not where there are no results yet, or of another version.

    Raises:
        ResultsNotWrittenError: the results cannot be written.
    """
    with results_locked(directory):
        info = previous_results(directory).info
        if info is None or not info.current:
            return False
        through = info.computed_through if inputs is None else inputs
        with results_draft(directory, keep_previous=True) as draft:
            draft.note(Run(job, started, datetime.now(UTC), status, through, rows, detail))
            draft.publish()
    return True
