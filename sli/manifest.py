"""The manifest: which Parquet segments make up the published events.

A segment is in the manifest or it does not exist: readers never look into the folder. Since the
manifest is replaced as a whole, a set of new segments, or the merge of old ones, appears at once.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias

from sli.schemas import EVENT_FORMAT

# `bytes` is also the name of a field below.
Buffer: TypeAlias = bytes


@dataclass(frozen=True, slots=True)
class Segment:
    """One Parquet file: the rows of one dataset, one day and a run of commits.

    Attributes:
        path: relative to the folder of the events, with forward slashes.
        rows: number of rows.
        bytes: size of the file.
        first_commit: lowest commit number that it may hold.
        last_commit: highest commit number that it may hold.
        crc32: of the file's bytes; None where an older version wrote it.
    """

    dataset: str
    day: date
    path: str
    rows: int
    bytes: int
    first_commit: int
    last_commit: int
    crc32: int | None = None

    def is_what(self, content: Buffer) -> bool:
        """Whether a file with this content is the one that was written."""
        return len(content) == self.bytes and self.crc32 in (None, zlib.crc32(content))


class ManifestError(ValueError):
    """The text is not a manifest that this version can read; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the manifest of the published events cannot be read: {reason}")
        self.reason = reason


class NewerManifestError(ManifestError):
    """A newer version wrote the manifest.

    Attributes:
        found: its format.
    """

    def __init__(self, found: int) -> None:
        super().__init__(
            f"it has format {found}, this version reads up to {EVENT_FORMAT}; use the toolgauge that wrote it"
        )
        self.found = found


@dataclass(frozen=True, slots=True)
class Manifest:
    """All published segments.

    Attributes:
        store: id of the event store that the segments were published from.
        published_through: every row of a commit up to this number is in the segments.
    """

    store: str
    published_through: int
    segments: tuple[Segment, ...]

    def select(self, dataset: str, days: Collection[date] | None = None, after: int = 0) -> list[Segment]:
        """The segments of `dataset`, of `days` if given, that may hold commits later than `after`."""
        return [
            segment
            for segment in self.segments
            if segment.dataset == dataset
            and (days is None or segment.day in days)
            and segment.last_commit > after
        ]

    def render(self) -> str:
        """The manifest as JSON text; `parse` gives it back."""
        tree = {
            "format": EVENT_FORMAT,
            "store": self.store,
            "published_through": self.published_through,
            "segments": [asdict(s) | {"day": s.day.isoformat()} for s in self.segments],
        }
        # Last, so that it is over all that stands before it.
        return _compact(tree | {"crc32": zlib.crc32(_compact(tree).encode())})

    @staticmethod
    def parse(text: str) -> Manifest:
        """Read what `render` wrote, in this version or an older one.

        The formats so far differ in which datasets there are, and not in the shape of the manifest.

        Raises:
            NewerManifestError: a newer version wrote it.
            ManifestError: the text is damaged.
        """
        try:
            tree = json.loads(text)
            found = tree["format"]
            if not isinstance(found, int) or isinstance(found, bool) or found < 1:
                raise ManifestError("damaged (its format is no number)")
            if found > EVENT_FORMAT:
                raise NewerManifestError(found)
            # Older versions wrote none.
            crc32 = tree.pop("crc32", None)
            if crc32 is not None and crc32 != zlib.crc32(_compact(tree).encode()):
                raise ManifestError("damaged (its checksum does not fit)")
            segments = tuple(
                Segment(**(entry | {"day": date.fromisoformat(entry["day"])})) for entry in tree["segments"]
            )
            return Manifest(tree["store"], tree["published_through"], segments)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ManifestError):
                raise
            raise ManifestError(f"damaged ({type(error).__name__})") from error


def _compact(tree: dict[str, Any]) -> str:
    return json.dumps(tree, separators=(",", ":"))


def segment_path(dataset: str, day: date, first_commit: int, last_commit: int) -> str:
    """The name of a segment: a function of what it holds, so that a repeated write replaces itself."""
    name = f"{first_commit:012d}-{last_commit:012d}.parquet"
    return str(Path(dataset) / f"day={day.isoformat()}" / name)
