"""The full duplicate check: whether any event is published twice, however far apart.

Ingest looks for duplicates of what arrives; this looks at all that is there, so that a fault of that
search, of a merge or of a restored backup shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

import polars as pl

from analytics.published import Published, on_published
from analytics.runs import note_run
from sli.data_directory import DataDirectory
from sli.schemas import EVENT_DATASETS, Dataset

JOB = "duplicate_check"

# Of so many rows the first halves of the ids are held at once, and once more while they are sorted: 256 MiB.
_ROWS_AT_ONCE = 16_000_000
_EXAMPLES = 5

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class DatasetCheck:
    """What was found in one dataset.

    Attributes:
        rows: that were looked at.
        duplicated: distinct events that have more than one row.
        examples: event ids of some of them.
    """

    dataset: str
    rows: int
    duplicated: int
    examples: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class DuplicateCheck:
    """The outcome of a check.

    Attributes:
        through: the last commit number that was looked at.
        datasets: one entry for each dataset that has rows.
        recorded: whether it was noted in `runs`; it is not where there are no results yet.
    """

    through: int
    datasets: tuple[DatasetCheck, ...]
    recorded: bool

    @property
    def found(self) -> bool:
        """Whether any event is there twice."""
        return any(each.duplicated for each in self.datasets)

    @property
    def summary(self) -> str:
        """The outcome in words."""
        rows = sum(each.rows for each in self.datasets)
        if not self.found:
            return f"no event twice among {rows} rows"
        named = [f"{each.duplicated} of {each.dataset}" for each in self.datasets if each.duplicated]
        return f"events that are there more than once: {', '.join(named)}; {rows} rows in all"


def check_duplicates(directory: DataDirectory, on_progress: Progress | None = None) -> DuplicateCheck | None:
    """Look through all published events, and note the outcome as a row of `runs`.

    Args:
        on_progress: called with a dataset, the passes over it that are done, and all of them.

    Returns:
        The outcome; None where nothing is published.

    Raises:
        AnalyticsError: the events cannot be read, or the outcome cannot be written.
    """
    started = datetime.now(UTC)
    found = on_published(directory, partial(_check, on_progress))
    if found is None:
        return None
    status = "failed" if found.found else "ok"
    rows = sum(each.rows for each in found.datasets)
    noted = note_run(directory, JOB, started, status, rows, found.summary, inputs=found.through)
    return DuplicateCheck(found.through, found.datasets, noted)


def _check(on_progress: Progress | None, published: Published) -> DuplicateCheck:
    checks = (_check_dataset(published, dataset, on_progress) for dataset in EVENT_DATASETS)
    through = published.manifest.published_through
    return DuplicateCheck(through, tuple(check for check in checks if check.rows), recorded=False)


def _check_dataset(published: Published, dataset: Dataset, on_progress: Progress | None) -> DatasetCheck:
    rows = sum(segment.rows for segment in published.manifest.select(dataset.name))
    if rows == 0:
        return DatasetCheck(dataset.name, 0, 0, ())
    ids = published.scan(dataset).select("event_id")
    # Ids are hashes: any part of them spreads evenly, and equal ids fall into the same pass.
    half = pl.col("event_id").bin.slice(0, 8).bin.reinterpret(dtype=pl.UInt64)
    passes = -(-rows // _ROWS_AT_ONCE)
    suspects = []
    for number in range(passes):
        if on_progress:
            on_progress(dataset.name, number, passes)
        halves = ids.select(half.alias("half"))
        if passes > 1:
            halves = halves.filter(pl.col("half") % passes == number)
        ordered = halves.collect(engine="streaming")["half"].sort()
        suspects.append(ordered.filter(ordered == ordered.shift(1)).unique())
    # Halves may be equal by chance; whole ids are not.
    suspected = pl.concat(suspects)
    if suspected.is_empty():
        return DatasetCheck(dataset.name, rows, 0, ())
    twice = (
        ids.filter(half.is_in(suspected.implode()))
        .group_by("event_id")
        .len()
        .filter(pl.col("len") > 1)
        .collect(engine="streaming")["event_id"]
        .sort()
    )
    examples = tuple(UUID(bytes=event_id) for event_id in twice.head(_EXAMPLES))
    return DatasetCheck(dataset.name, rows, len(twice), examples)
