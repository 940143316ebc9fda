"""Whether the published segments are still what was written."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ingest.keep.files import checksum
from sli.manifest import Segment

# Every segment is read again this often: 500 MB, which hold 10 M rows, take half a second of it.
ROUND_SECONDS = 3600.0


def damage_of(path: Path, segment: Segment) -> str | None:
    """What is wrong with a segment's file, in words; None if nothing is.

    Raises:
        OSError: it is there but cannot be read.
    """
    reason = damage_at_a_glance(path, segment)
    if reason is None and segment.crc32 is not None and checksum(path) != segment.crc32:
        reason = "its bytes are not what was written"
    return reason


class Verification:
    """Goes through the segments in rounds, a little at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sound: set[Segment] = set()
        self._begun = time.monotonic()

    def damaged(self, segments: Iterable[Segment], seconds: float) -> Iterator[tuple[Segment, str]]:
        """The damaged ones of the segments that are next in turn, newest first, and what is wrong.

        Args:
            seconds: how long to go on; the rest comes in turn at the next calls.
        """
        until = time.monotonic() + seconds
        listed = sorted(segments, key=lambda segment: segment.last_commit, reverse=True)
        if time.monotonic() - self._begun >= ROUND_SECONDS:
            self._sound.clear()
            self._begun = time.monotonic()
        self._sound.intersection_update(listed)
        for segment in listed:
            if segment in self._sound:
                continue
            if time.monotonic() >= until:
                return
            reason = damage_of(self._folder / segment.path, segment)
            if reason is None:
                self._sound.add(segment)
            else:
                yield segment, reason

    def look_again(self, segments: Iterable[Segment]) -> None:
        """Take these for sound no longer, so that they are next in turn."""
        self._sound.difference_update(segments)

    def damaged_at_a_glance(self, segments: Iterable[Segment]) -> Iterator[tuple[Segment, str]]:
        """Those that are missing or of a wrong size; no file is read."""
        for segment in segments:
            reason = damage_at_a_glance(self._folder / segment.path, segment)
            if reason is not None:
                yield segment, reason


def damage_at_a_glance(path: Path, segment: Segment) -> str | None:
    """As `damage_of`, without reading the file."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return "it is missing"
    return None if size == segment.bytes else f"it has {size} bytes, not {segment.bytes}"
