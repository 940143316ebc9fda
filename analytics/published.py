"""The published events: what the manifest lists, as lazy polars frames."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TypeVar

import polars as pl

from analytics.exceptions import (
    EventsBusyError,
    ManifestUnreadableError,
    NewerManifestFoundError,
    SegmentsMissingError,
    SegmentUnreadableError,
)
from sli.data_directory import DataDirectory
from sli.manifest import Manifest, ManifestError, NewerManifestError
from sli.schemas import EVENT_FORMAT, Dataset

Result = TypeVar("Result")

# A merge replaces a day's segments once; that several merges hit one job in a row is not expected.
ATTEMPTS = 5

# How DuckDB's types arrive from Parquet. A UUID comes as its 16 bytes, in the order of its text.
_POLARS_TYPES: dict[str, pl.DataType] = {
    "UUID": pl.Binary(),
    "TIMESTAMPTZ": pl.Datetime("us", "UTC"),
    "DATE": pl.Date(),
    "BIGINT": pl.Int64(),
    "INTEGER": pl.Int32(),
    "DOUBLE": pl.Float64(),
    "BOOLEAN": pl.Boolean(),
    "VARCHAR": pl.String(),
    "VARCHAR[]": pl.List(pl.String()),
}


def polars_schema(dataset: Dataset) -> pl.Schema:
    """The columns of `dataset` with the types that polars reads them with."""
    return pl.Schema({column.name: _POLARS_TYPES[column.type] for column in dataset.columns})


@dataclass(frozen=True, slots=True)
class Published:
    """What one manifest lists.

    Attributes:
        folder: the folder that the segments' paths are relative to.
    """

    folder: Path
    manifest: Manifest

    def days(self, dataset: Dataset, after: int = 0) -> list[date]:
        """The days whose segments may hold commits later than `after`, in order."""
        return sorted({segment.day for segment in self.manifest.select(dataset.name, after=after)})

    def scan(self, dataset: Dataset, days: Collection[date] | None = None, after: int = 0) -> pl.LazyFrame:
        """The rows of `dataset`: of `days` if given, of commits later than `after`.

        Returns:
            All columns of the dataset (`polars_schema`), in no particular order; no rows where no
            segment is published. Reading it fails with a FileNotFoundError where a merge has
            replaced a segment meanwhile: see `on_published`.
        """
        segments = self.manifest.select(dataset.name, days, after)
        if not segments:
            return pl.LazyFrame(schema=polars_schema(dataset))
        paths = [self.folder / segment.path for segment in segments]
        rows = pl.scan_parquet(paths, glob=False, hive_partitioning=False)
        commit, last = pl.col("commit_number"), self.manifest.published_through
        # Where the segments' bounds already say it, the column need not be read.
        if any(segment.first_commit <= after for segment in segments):
            rows = rows.filter(commit > after)
        if any(segment.last_commit > last for segment in segments):
            rows = rows.filter(commit <= last)
        return rows

    def missing(self) -> list[Path]:
        """The listed segments that are not on the disk."""
        paths = [self.folder / segment.path for segment in self.manifest.segments]
        return [path for path in paths if not path.exists()]

    def damaged(self) -> list[Path]:
        """The listed segments that are on the disk and are not what was written; reads all of them."""
        found = []
        for segment in self.manifest.segments:
            path = self.folder / segment.path
            if path.exists() and not segment.is_what(path.read_bytes()):
                found.append(path)
        return found


def read_published(directory: DataDirectory) -> Published | None:
    """What is published now; None where nothing ever was.

    Raises:
        ManifestUnreadableError: the manifest is damaged or of another version.
    """
    try:
        text = directory.manifest.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestUnreadableError(directory.manifest, str(error)) from error
    try:
        return Published(directory.events, Manifest.parse(text))
    except NewerManifestError as error:
        raise NewerManifestFoundError(directory.manifest, error.found, EVENT_FORMAT) from error
    except ManifestError as error:
        raise ManifestUnreadableError(directory.manifest, error.reason) from error


def on_published(directory: DataDirectory, job: Callable[[Published], Result]) -> Result | None:
    """Run `job` over what is published, again with a new manifest if segments vanish meanwhile.

    Segments vanish when they are merged, after the manifest that lists the merged one is in place.
    `job` may be started several times and must not leave anything half done.

    Returns:
        What the job returned; None where nothing is published.

    Raises:
        ManifestUnreadableError: the manifest is damaged or of another version.
        SegmentsMissingError: segments are missing that the newest manifest lists.
        SegmentUnreadableError: a segment is damaged.
        EventsBusyError: the segments vanished at every attempt.
    """
    published = read_published(directory)
    for _ in range(ATTEMPTS):
        if published is None:
            return None
        try:
            return job(published)
        except (FileNotFoundError, pl.exceptions.PolarsError) as error:
            missing = published.missing()
            if not missing and isinstance(error, pl.exceptions.ComputeError):
                raise SegmentUnreadableError(published.folder, published.damaged(), str(error)) from error
            if not missing:
                raise
            newest = read_published(directory)
            if newest == published:
                raise SegmentsMissingError(missing) from error
            published = newest
    raise EventsBusyError(directory.events, ATTEMPTS)
