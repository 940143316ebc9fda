"""Bringing the results up to the published events: what is new, or everything."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType

import duckdb
import polars as pl

from analytics.day import Day
from analytics.day_job import DayJob
from analytics.exceptions import ResultsNotWrittenError, SegmentsMissingError, SegmentUnreadableError
from analytics.prompt_partials import PromptPartials
from analytics.published import Published, on_published, read_published
from analytics.repeats import Repeats
from analytics.results_draft import Run, results_draft
from analytics.results_file import (
    ResultsInfo,
    is_readable,
    previous_baselines,
    previous_results,
    previous_rollout,
    previous_runs,
    results_locked,
    set_aside,
)
from analytics.rollout_tables import last_hash, write_rollout_tables
from analytics.touched import touched_days
from analytics.windows import WindowJob
from sli.data_directory import DataDirectory
from sli.days import DAY
from sli.manifest import Manifest
from sli.rollout.act import FIRST_HASH, Act
from sli.schemas import ACTS, BASELINES, EVENT_DATASETS, GATES, RECEIVER_UPTIME, ROLLOUT, RUNS

Progress = Callable[[str, int, int], None]
"""Called with a stage, how much of it is done, and how much it has."""

_NAMED = 3


_NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class RefreshOutcome:
    """What a refresh did.

    Attributes:
        computed_through: the last commit number whose rows are in the results; 0 without events.
        previously_through: the same before; 0 where no results could be built upon.
        days: days that were computed again.
        rows: rows that were written.
        seconds: how long it took, waiting for another refresh included.
        up_to_date: nothing was new, nothing was written.
        set_aside: where the damaged results that were found now lie.
        lost: published segments that cannot be read: the results are incomplete, and the next refresh
            looks at them again.
    """

    computed_through: int
    previously_through: int
    days: int
    rows: int
    seconds: float
    up_to_date: bool
    set_aside: Path | None = None
    lost: tuple[Path, ...] = ()


def refresh(
    directory: DataDirectory,
    *,
    acts: Sequence[Act] | None = None,
    rollout_after: Mapping[str, str] = MappingProxyType({}),
    rebuild: bool = False,
    on_progress: Progress | None = None,
) -> RefreshOutcome:
    """Compute the results from the published events and put them in place.

    Only the days that new rows touch are computed again (`touched_days`), and the windows that hold
    such a day. Everything is computed again, day by day, where there are no results to build upon: none,
    of another format or store, ahead of the events, or damaged. The tables are the same either way, but
    for the revisions of baselines, which say what was known when.

    Published segments that are missing or damaged are left out and named. Once they can be read again,
    their days are computed again.

    Args:
        acts: all acts of the rollout, in the order of the record; None: those that the results know of stay.
        rollout_after: for an environment, the one whose gates have to pass first.
        rebuild: count everything again.
        on_progress: called with `days`, the days done, and the days to do.

    Raises:
        AnalyticsError: one of its kinds; the results in place are as they were, or have been set
            aside if they were damaged.
    """
    started, began = datetime.now(UTC), clock.monotonic()
    outcome, aside = None, None
    # Asked first, so that looking at a folder without events does not make folders in it.
    found = read_published(directory)
    if found is not None:
        with results_locked(directory):
            previous = previous_results(directory)
            aside = set_aside(directory) if previous.damaged else None
            info = None if rebuild else previous.info
            attempt = partial(_attempt, directory, started, on_progress, acts, rollout_after)
            lost = found.still_lost(info.lost) if info is not None else frozenset()
            try:
                outcome = _on_what_is_readable(directory, partial(attempt, info), lost)
            except ResultsNotWrittenError as error:
                if info is None or not isinstance(error.__cause__, duckdb.Error) or is_readable(directory):
                    raise
                # The damage lay deeper than what was looked at above.
                aside = set_aside(directory)
                outcome = _on_what_is_readable(directory, partial(attempt, None), lost)
    seconds = clock.monotonic() - began
    return replace(outcome or _unchanged(0), seconds=seconds, set_aside=aside)


def _on_what_is_readable(
    directory: DataDirectory, attempt: Callable[[Published], RefreshOutcome], lost: frozenset[str]
) -> RefreshOutcome | None:
    """Leave out what turns out to be missing or damaged, until the rest can be read."""
    while True:
        try:
            return on_published(directory, attempt, lost)
        except (SegmentsMissingError, SegmentUnreadableError) as error:
            found = {path.relative_to(directory.events).as_posix() for path in error.paths}
            if found <= lost:
                raise
            lost |= found


def _attempt(
    directory: DataDirectory,
    started: datetime,
    on_progress: Progress | None,
    acts: Sequence[Act] | None,
    rollout_after: Mapping[str, str],
    info: ResultsInfo | None,
    published: Published,
) -> RefreshOutcome:
    """One refresh over one manifest; nothing is left of it if it fails."""
    manifest = published.manifest
    base = info.computed_through if info and _can_build_upon(info, manifest) else None
    lost = published.lost_segments
    paths = tuple(published.folder / segment.path for segment in lost)
    repaired = (
        _around(day for path, day in info.lost.items() if path not in published.lost) if info else set()
    )
    known_acts = info.acts if info else FIRST_HASH
    new_acts = acts is not None and last_hash(acts) != known_acts
    if base == manifest.published_through and not repaired and not new_acts:
        return replace(_unchanged(base), lost=paths)
    repeats = Repeats(published)
    as_of = _as_of(published, base or 0, info.as_of if base and info else _NEVER)
    if lost and info:
        # The segment that would tell how late it is may be one of those.
        as_of = max(as_of, info.as_of)
    everything = {day for dataset in EVENT_DATASETS for day in published.days(dataset)}
    touched = everything
    if base and info:
        touched = touched_days(published, repeats, base, info.as_of, as_of) | (repaired & everything)
    with results_draft(directory, keep_previous=bool(base)) as draft:
        if not base:
            draft.keep(RUNS, previous_runs(directory))
            draft.keep(BASELINES, previous_baselines(directory))
            if acts is None:
                kept = previous_rollout(directory, ACTS)
                draft.keep(ACTS, kept)
                for dataset in (ROLLOUT, GATES):
                    draft.keep(dataset, previous_rollout(directory, dataset))
                known_acts = kept["hash"][-1] if len(kept) else FIRST_HASH
        job = DayJob(draft)
        partials = PromptPartials(published, repeats)
        for done, day in enumerate(sorted(touched)):
            if on_progress:
                on_progress("days", done, len(touched))
            job.compute(Day(published, repeats, partials, day, as_of))
        job.finish()
        previously = info.as_of if base and info else None
        windows = WindowJob(draft, as_of, _around(segment.day for segment in lost))
        rows = job.rows + windows.run(touched | repaired, previously, started)
        if acts is not None:
            rows += write_rollout_tables(draft, acts, as_of, rollout_after)
            known_acts = last_hash(acts)
        through = manifest.published_through
        kind, detail = "refresh" if base else "rebuild", f"{len(touched)} days"
        if lost:
            more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
            detail += f", without {', '.join(segment.path for segment in lost[:_NAMED])}{more}"
        run = Run(kind, started, datetime.now(UTC), "incomplete" if lost else "ok", through, rows, detail)
        draft.record(run, manifest.store, as_of, known_acts, lost)
        draft.publish()
    if on_progress:
        on_progress("days", len(touched), len(touched))
    return RefreshOutcome(through, base or 0, len(touched), rows, 0.0, up_to_date=False, lost=paths)


def _around(days: Iterable[date]) -> set[date]:
    """The days whose results read these: no day reads further than the ones beside it."""
    return {day + DAY * step for day in days for step in (-1, 0, 1)}


def _as_of(published: Published, after: int, previously: datetime) -> datetime:
    """Until when the published events tell anything: when the latest row came, or the receiver was up.

    Args:
        after: rows of later commits are new.
        previously: the same of the rows before.
    """
    moments = [
        published.scan(dataset, after=after).select(latest=pl.col("received_at").max())
        for dataset in EVENT_DATASETS
    ]
    moments.append(published.scan(RECEIVER_UPTIME, after=after).select(latest=pl.col("until").max()))
    latest = pl.concat(moments).select(pl.col("latest").max()).collect(engine="streaming").item()
    return max(previously, latest) if isinstance(latest, datetime) else previously


def _can_build_upon(info: ResultsInfo, manifest: Manifest) -> bool:
    # Results ahead of the events were computed from events that a restore has taken away.
    return (
        info.current and info.store == manifest.store and info.computed_through <= manifest.published_through
    )


def _unchanged(computed_through: int) -> RefreshOutcome:
    return RefreshOutcome(computed_through, computed_through, 0, 0, 0.0, up_to_date=True)
