"""Publishing: what is committed becomes Parquet segments that everybody else reads.

A publication writes the rows of the new commits, one file a dataset and day, and then replaces the
manifest. Killed in between, it leaves files that no manifest lists; they are removed at the next start
and written again, under the same names, with the same rows.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date
from itertools import chain, groupby
from pathlib import Path

import duckdb
import structlog

from ingest.exceptions import NewerManifest, StoreUnavailable
from ingest.keep.database import first_line
from ingest.keep.files import make_folder, set_aside, write_whole
from ingest.keep.segments import SegmentFolder
from ingest.keep.store import Store
from ingest.keep.verification import Verification
from sli.data_directory import DataDirectory
from sli.manifest import Manifest, ManifestError, NewerManifestError, Segment
from sli.schemas import EVENT_DATASETS, EVENT_FORMAT

# So many neighbouring segments of about one size are merged into one: each row is then written again only as
# often as the logarithm of the day's rows, and a day never has more than a few dozen segments.
MERGE_WIDTH = 8
# Segments of so many rows are merged beside the publications (`compaction.py`): under full load it would take
# more time than publishing.
LARGE_ROWS = 100_000
# Readers may hold a manifest for this long after it was replaced; then the merged files go.
RETIRED_SECONDS = 120.0


# At the start so much is read of what is published, newest first, before requests are taken; the rest is read
# in small pieces between publications.
_FIRST_CHECK_SECONDS = 0.5
_CHECK_SECONDS = 0.05


class Publisher:
    """Keeps the published segments in step with the store."""

    def __init__(self, store: Store, directory: DataDirectory) -> None:
        """Read the manifest, and see that what it lists is there.

        A manifest that is damaged or belongs to another store is set aside, and so is a segment that is
        damaged; what they held is published again from the store.

        Raises:
            NewerManifest: a newer version wrote it.
        """
        self._store = store
        self._directory = directory
        self._log = structlog.get_logger("ingest.publisher")
        self.folder = SegmentFolder(directory.events)
        # A publication and a compaction run beside each other; the manifest is changed by one at a time.
        self._changing = threading.Lock()
        self._retired: list[tuple[float, Path]] = []
        make_folder(directory.events)
        self._verification = Verification(directory.events)
        self._manifest = self._load()
        if store.kept_since is not None:
            # Killed between the store and the manifest, a removal of old days is finished here.
            self.drop_before(store.kept_since)
        for segment, reason in self._verification.damaged_at_a_glance(self._manifest.segments):
            self._repair(segment, reason)
        self.check(_FIRST_CHECK_SECONDS)
        self._remove_unlisted()

    @property
    def published_through(self) -> int:
        """The number of the last commit whose rows are published."""
        return self._manifest.published_through

    @property
    def manifest(self) -> Manifest:
        """What is published now."""
        return self._manifest

    def publish(self) -> int:
        """Publish all commits that are not published yet.

        Returns:
            The number of rows that were published.

        Raises:
            duckdb.Error, OSError, StoreUnavailable: nothing was published; the next call tries again.
        """
        with self._changing:
            self._remove_retired()
            try:
                return self._publish()
            except duckdb.Error as error:
                if not self._store.mend(error):
                    raise
                return self._publish()

    def _publish(self) -> int:
        with self._store.steady() as rebuilt:
            first, last = self.published_through + 1, self._store.last_commit
        if first > last:
            self._store.is_published(self.published_through)
            return 0
        reader = self._store.reader()
        segments = [
            segment
            for dataset in EVENT_DATASETS
            for segment in self.folder.write_commits(reader, dataset.name, first, last)
        ]
        listed = grouped((*self._manifest.segments, *segments))
        replaced: list[Segment] = []
        for key in {(segment.dataset, segment.day) for segment in segments}:
            while run := mergeable(listed[key], below=LARGE_ROWS):
                merged = self._merge(run)
                if merged is None:
                    break
                listed[key] = [segment for segment in listed[key] if segment not in run] + [merged]
                replaced += run
        with self._store.steady() as still:
            if still != rebuilt:
                # What was read has other numbers by now.
                return 0
            self._replace(last, chain.from_iterable(listed.values()))
        self._store.is_published(last)
        self._retire(replaced)
        return sum(segment.rows for segment in segments)

    def _merge(self, run: Sequence[Segment]) -> Segment | None:
        """Merge segments; None where it cannot be done, which must keep no new event from being published."""
        try:
            return self.folder.merge(run)
        except duckdb.Error as error:
            # One of them is damaged, most likely: the next check reads them again.
            self._verification.look_again(run)
            self._log.warning(
                "merge_put_off",
                dataset=run[0].dataset,
                day=run[0].day.isoformat(),
                reason=first_line(error),
            )
            return None

    def put_in_place_of(self, old: Sequence[Segment], merged: Segment) -> bool:
        """List `merged` in the place of the segments whose rows it holds.

        Returns:
            False if another merge came first; then nothing is changed.

        Raises:
            OSError: nothing is changed.
        """
        with self._changing:
            listed = self._manifest.segments
            if not set(old) <= set(listed):
                if merged not in listed:
                    (self.folder.folder / merged.path).unlink(missing_ok=True)
                return False
            self._replace(self.published_through, [*(s for s in listed if s not in old), merged])
            self._retire(old)
            return True

    def drop_before(self, day: date) -> int:
        """Take the segments of earlier days out of what is published.

        Returns:
            How many segments went.

        Raises:
            OSError: nothing is changed.
        """
        with self._changing:
            dropped = [segment for segment in self._manifest.segments if segment.day < day]
            if dropped:
                kept = [segment for segment in self._manifest.segments if segment.day >= day]
                self._replace(self.published_through, kept)
                self._retire(dropped)
            return len(dropped)

    def check(self, seconds: float = _CHECK_SECONDS) -> None:
        """Read some of the published segments, and write those again that are not what was written.

        Raises:
            duckdb.Error, OSError: one cannot be written again now.
        """
        with self._changing:
            for segment, reason in self._verification.damaged(self._manifest.segments, seconds):
                self._repair(segment, reason)

    def _load(self) -> Manifest:
        empty = Manifest(self._store.id, 0, ())
        path = self._directory.manifest
        if not path.exists():
            return empty
        try:
            manifest = Manifest.parse(path.read_text())
            reason = None
            if manifest.store != self._store.id:
                # Its segments are not ours to remove: this store does not hold what is in them.
                reason, path = "it was published from another store", self._directory.events
            elif manifest.published_through > self._store.last_commit:
                reason = "it is ahead of the store"
        except NewerManifestError as error:
            raise NewerManifest(path, error.found, EVENT_FORMAT) from error
        except (ManifestError, UnicodeDecodeError) as error:
            reason = str(error)
        if reason is None:
            return manifest
        aside = set_aside(path)
        make_folder(self._directory.events)
        self._log.warning("manifest_set_aside", reason=reason, kept_as=str(aside), next="published again")
        return empty

    def _repair(self, segment: Segment, reason: str) -> None:
        """Set a damaged segment aside and write it again from the store."""
        path = self.folder.folder / segment.path
        aside = set_aside(path) if path.exists() else None
        try:
            again = self._write_again(segment)
        except duckdb.Error as error:
            if not self._store.mend(error):
                raise
            again = self._write_again(segment)
        rows = sum(each.rows for each in again)
        listed = [each for each in self._manifest.segments if each != segment]
        self._replace(self.published_through, [*listed, *again])
        self._log.warning(
            "segment_repaired",
            segment=segment.path,
            reason=reason,
            kept_as=str(aside) if aside else None,
            rows=rows,
        )
        if rows < segment.rows:
            self._log.error("rows_lost", segment=segment.path, rows=segment.rows - rows)

    def _write_again(self, segment: Segment) -> list[Segment]:
        """Its rows from the store: one segment, or none where the store has no row of it any more."""
        return self.folder.write_commits(
            self._store.reader(), segment.dataset, segment.first_commit, segment.last_commit, segment.day
        )

    def _remove_unlisted(self) -> None:
        """Remove what a killed publication, or one whose readers are gone, left behind."""
        listed = {self._directory.events / segment.path for segment in self._manifest.segments}
        for path in list(self._directory.events.rglob("*")):
            if path.is_file() and (
                path.suffix == ".tmp" or (path.suffix == ".parquet" and path not in listed)
            ):
                path.unlink()
                _remove_if_empty(path.parent)

    def _replace(self, published_through: int, segments: Iterable[Segment]) -> None:
        manifest = Manifest(self._store.id, published_through, tuple(sorted(segments, key=_order)))
        write_whole(self._directory.manifest, manifest.render())
        self._manifest = manifest

    def _retire(self, segments: Iterable[Segment]) -> None:
        now = time.monotonic()
        self._retired.extend((now, self.folder.folder / segment.path) for segment in segments)

    def _remove_retired(self) -> None:
        """Remove the files that were replaced so long ago that nobody reads them any more."""
        now = time.monotonic()
        due = [path for since, path in self._retired if now - since >= RETIRED_SECONDS]
        self._retired = [entry for entry in self._retired if now - entry[0] < RETIRED_SECONDS]
        for path in due:
            path.unlink(missing_ok=True)
            _remove_if_empty(path.parent)


class PublishingThread:
    """Publishes every few moments until it is stopped, and once more then."""

    def __init__(self, publisher: Publisher, interval_seconds: float) -> None:
        self._publisher = publisher
        self._interval = interval_seconds
        self._stopping = threading.Event()
        self._log = structlog.get_logger("ingest.publisher")
        self.failing = False
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    @property
    def published_through(self) -> int:
        """The number of the last commit whose rows are published."""
        return self._publisher.published_through

    def stop(self) -> None:
        """Publish what is left and end."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            self._publish()
        self._publish()

    def _publish(self) -> None:
        try:
            self._publisher.publish()
            self._publisher.check()
            self.failing = False
        except (duckdb.Error, OSError, StoreUnavailable) as error:
            # The events are safe in the store; readers see them later. Said once, not at every try.
            if not self.failing:
                self._log.error("publishing_failed", reason=str(error).splitlines()[0], next="tried again")
            self.failing = True


def grouped(segments: Iterable[Segment]) -> dict[tuple[str, date], list[Segment]]:
    """The segments by dataset and day."""
    groups: dict[tuple[str, date], list[Segment]] = defaultdict(list)
    for segment in segments:
        groups[segment.dataset, segment.day].append(segment)
    return groups


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def mergeable(segments: Iterable[Segment], at_least: int = 0, below: int = sys.maxsize) -> list[Segment]:
    """The last run of neighbouring segments of about one size, if it is long enough to be merged.

    Args:
        segments: of one dataset and day.
        at_least, below: of how many rows the first segment of the run may be.
    """
    in_order = sorted(segments, key=_order)
    runs = [list(run) for _, run in groupby(in_order, key=lambda segment: len(str(segment.rows)))]
    long_enough = [run for run in runs if len(run) >= MERGE_WIDTH and at_least <= run[0].rows < below]
    return long_enough[-1] if long_enough else []


def _order(segment: Segment) -> tuple[str, date, int]:
    return segment.dataset, segment.day, segment.first_commit
