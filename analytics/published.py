"""The published events: what the manifest lists, as lazy polars frames."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
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
from sli.manifest import Manifest, ManifestError, NewerManifestError, Segment
from sli.schemas import EVENT_FORMAT, Dataset

Result = TypeVar("Result")

# A merge replaces a day's segments once; that several merges hit one job in a row is not expected.
ATTEMPTS = 5
_CHUNK_BYTES = 2**20

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
        lost: paths of listed segments that cannot be read and are left out.
    """

    folder: Path
    manifest: Manifest
    lost: frozenset[str] = frozenset()

    @property
    def lost_segments(self) -> list[Segment]:
        """The segments that are listed and left out."""
        return [segment for segment in self.manifest.segments if segment.path in self.lost]

    def days(self, dataset: Dataset, after: int = 0) -> list[date]:
        """The days whose segments may hold commits later than `after`, in order."""
        return sorted({segment.day for segment in self._select(dataset, None, after)})

    def scan(self, dataset: Dataset, days: Collection[date] | None = None, after: int = 0) -> pl.LazyFrame:
        """The rows of `dataset`: of `days` if given, of commits later than `after`.

        Returns:
            All columns of the dataset (`polars_schema`), in no particular order; no rows where no
            segment is published. Reading it fails with a FileNotFoundError where a merge has
            replaced a segment meanwhile: see `on_published`.

        Raises:
            _NotWhatWasWritten: of a segment. Much damage would be read as other values, without an error.
        """
        segments = self._select(dataset, days, after)
        if not segments:
            return pl.LazyFrame(schema=polars_schema(dataset))
        paths = [self.folder / segment.path for segment in segments]
        for path, segment in zip(paths, segments, strict=True):
            _verify(path, segment)
        rows = pl.scan_parquet(paths, glob=False, hive_partitioning=False)
        commit, last = pl.col("commit_number"), self.manifest.published_through
        # Where the segments' bounds already say it, the column need not be read.
        if any(segment.first_commit <= after for segment in segments):
            rows = rows.filter(commit > after)
        if any(segment.last_commit > last for segment in segments):
            rows = rows.filter(commit <= last)
        return rows

    def missing(self) -> list[Path]:
        """The segments that are not on the disk."""
        return [path for path, _ in self._files() if not path.exists()]

    def damaged(self) -> list[Path]:
        """The segments that are on the disk and are not what was written; reads all of them."""
        return [path for path, segment in self._files() if path.exists() and not _is_readable(path, segment)]

    def still_lost(self, paths: Collection[str]) -> frozenset[str]:
        """Of these, the listed segments that still cannot be read; reads them."""
        asked = [(path, segment) for path, segment in self._files() if segment.path in paths]
        return frozenset(segment.path for path, segment in asked if not _is_readable(path, segment))

    def _files(self) -> Iterator[tuple[Path, Segment]]:
        for segment in self.manifest.segments:
            if segment.path not in self.lost:
                yield self.folder / segment.path, segment

    def _select(self, dataset: Dataset, days: Collection[date] | None, after: int) -> list[Segment]:
        found = self.manifest.select(dataset.name, days, after)
        return [segment for segment in found if segment.path not in self.lost]


class _NotWhatWasWritten(Exception):
    """The bytes of a segment are not those that its checksum was made of."""


def _verify(path: Path, segment: Segment) -> None:
    state = path.stat()
    _verify_once(path, segment, state.st_ino, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=100_000)
def _verify_once(path: Path, segment: Segment, *_state: int) -> None:
    # Segments do not change: one that this process has read as a whole need not be read so again.
    if not _is_what_was_written(path, segment):
        raise _NotWhatWasWritten(path)


def _is_what_was_written(path: Path, segment: Segment) -> bool:
    size, crc32 = 0, 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            size, crc32 = size + len(chunk), zlib.crc32(chunk, crc32)
    return size == segment.bytes and segment.crc32 in (None, crc32)


def _is_readable(path: Path, segment: Segment) -> bool:
    try:
        if not _is_what_was_written(path, segment):
            return False
        if segment.crc32 is None:
            # An older version wrote no checksum: then it is asked of who would read it.
            pl.scan_parquet([path], glob=False).collect(engine="streaming")
    except (OSError, pl.exceptions.PolarsError):
        return False
    return True


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


def on_published(
    directory: DataDirectory, job: Callable[[Published], Result], lost: frozenset[str] = frozenset()
) -> Result | None:
    """Run `job` over what is published, again with a new manifest if segments vanish meanwhile.

    Segments vanish when they are merged, after the manifest that lists the merged one is in place.
    `job` may be started several times and must not leave anything half done.

    Args:
        lost: paths of segments to leave out.

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
            published = replace(published, lost=lost)
            return job(published)
        except (OSError, pl.exceptions.PolarsError, _NotWhatWasWritten) as error:
            missing = published.missing()
            damaged = [] if missing else published.damaged()
            if damaged or (not missing and isinstance(error, pl.exceptions.ComputeError)):
                raise SegmentUnreadableError(published.folder, damaged, _reason(error)) from error
            if not missing and not isinstance(error, _NotWhatWasWritten):
                raise
            newest = read_published(directory)
            if missing and newest is not None and newest.manifest == published.manifest:
                raise SegmentsMissingError(missing) from error
            published = newest
    raise EventsBusyError(directory.events, ATTEMPTS)


def _reason(error: Exception) -> str:
    return "it is not what was written" if isinstance(error, _NotWhatWasWritten) else str(error)
