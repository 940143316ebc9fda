"""Compaction: the segments of a day that is over become one.

A day that is still growing is merged by its publications, a few small segments at a time. Its large ones are
merged here, so that the busiest day has hundreds of segments and not thousands. What is left of it when it
is over, and what comes late, is merged here too, once nothing more has come for a while.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta

import duckdb

from ingest.keep.publisher import LARGE_ROWS, Publisher, grouped, mergeable
from ingest.keep.segments import SegmentFolder
from sli.manifest import Manifest, Segment

# Segments of more rows than these are left alone until their day is over: to merge them takes minutes.
_LARGEST_ROWS = 1_000_000
# Exporters that retry, and clocks that are a little off, still add to a day for so long.
CLOSED_AFTER = timedelta(hours=2)
# While old events are brought in, each publication adds to old days: they are merged when that is over.
QUIET = timedelta(minutes=15)


def uncompacted_days(manifest: Manifest, now: datetime) -> list[tuple[str, date]]:
    """The datasets and days, oldest first, that are over and have more than one segment."""
    segments: dict[tuple[str, date], int] = defaultdict(int)
    for segment in manifest.segments:
        segments[segment.dataset, segment.day] += 1
    several = [key for key, number in segments.items() if number > 1 and _is_closed(key[1], now)]
    return sorted(several, key=lambda key: (key[1], key[0]))


def compact_next(
    publisher: Publisher, folder: SegmentFolder, now: datetime, without: set[tuple[str, date]]
) -> bool:
    """Merge some large segments of a day that still grows, or else the oldest day that is due.

    Ingest and publishing go on meanwhile; readers see the old segments or the new one.

    Args:
        folder: that of the published events, for this thread alone.
        now: UTC; what was written just before it is left for later.
        without: datasets and days to leave alone; one that cannot be merged is added.

    Returns:
        Whether there was one.

    Raises:
        MergeGivenUp: the folder's `give_up` was called.
        duckdb.Error, OSError: it could not be merged; the segments are as they were.
    """
    manifest = publisher.manifest
    for segments in _due(manifest, folder, now):
        key = segments[0].dataset, segments[0].day
        if key in without:
            continue
        try:
            merged = folder.merge(segments)
        except (duckdb.Error, OSError):
            without.add(key)
            raise
        publisher.put_in_place_of(segments, merged)
        return True
    return False


def _due(manifest: Manifest, folder: SegmentFolder, now: datetime) -> Iterator[list[Segment]]:
    for (_, day), segments in grouped(manifest.segments).items():
        run = mergeable(segments, at_least=LARGE_ROWS, below=_LARGEST_ROWS)
        if run and not _is_closed(day, now):
            yield run
    for dataset, day in uncompacted_days(manifest, now):
        segments = manifest.select(dataset, {day})
        if _is_quiet(folder, segments, now):
            yield segments


def _is_closed(day: date, now: datetime) -> bool:
    return datetime.combine(day, time(), UTC) + timedelta(days=1) + CLOSED_AFTER <= now


def _is_quiet(folder: SegmentFolder, segments: list[Segment], now: datetime) -> bool:
    written = max((folder.folder / segment.path).stat().st_mtime for segment in segments)
    return datetime.fromtimestamp(written, UTC) + QUIET <= now
