"""Publishing: what is committed becomes Parquet segments that everybody else reads.

A publication writes the rows of the new commits, one file a dataset and day, and then replaces the
manifest. Killed in between, it leaves files that no manifest lists; they are removed at the next start
and written again, under the same names, with the same rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from itertools import groupby
from pathlib import Path

import duckdb
import structlog

from ingest.exceptions import StoreUnavailable
from ingest.keep.files import checksum, make_folder, put_in_place, set_aside, write_whole
from ingest.keep.store import Store
from ingest.keep.verification import Verification
from sli.data_directory import DataDirectory
from sli.manifest import Manifest, ManifestError, Segment, segment_path
from sli.schemas import EVENT_DATASETS

# So many neighbouring segments of about one size are merged into one: each row is then written again only as
# often as the logarithm of the day's rows, and a day never has more than a few dozen segments.
MERGE_WIDTH = 8
# Readers may hold a manifest for this long after it was replaced; then the merged files go.
RETIRED_SECONDS = 120.0

# At the start so much is read of what is published, newest first, before requests are taken; the rest is read
# in small pieces between publications.
_FIRST_CHECK_SECONDS = 0.5
_CHECK_SECONDS = 0.05

_COPY_OPTIONS = "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880"


class Publisher:
    """Keeps the published segments in step with the store; `publish` is for one thread at a time."""

    def __init__(self, store: Store, directory: DataDirectory) -> None:
        """Read the manifest, and see that what it lists is there.

        A manifest that is damaged or belongs to another store is set aside, and so is a segment that is
        damaged; what they held is published again from the store.
        """
        self._store = store
        self._directory = directory
        self._log = structlog.get_logger("ingest.publisher")
        self._retired: list[tuple[float, Path]] = []
        make_folder(directory.events)
        self._verification = Verification(directory.events)
        self._manifest = self._load()
        for segment, reason in self._verification.damaged_at_a_glance(self._manifest.segments):
            self._repair(segment, reason)
        self.check(_FIRST_CHECK_SECONDS)
        self._remove_unlisted()

    @property
    def published_through(self) -> int:
        """The number of the last commit whose rows are published."""
        return self._manifest.published_through

    def publish(self) -> int:
        """Publish all commits that are not published yet.

        Returns:
            The number of rows that were published.

        Raises:
            duckdb.Error, OSError, StoreUnavailable: nothing was published; the next call tries again.
        """
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
            self._write(reader, dataset.name, day, first, last)
            for dataset in EVENT_DATASETS
            for day in _days(reader, dataset.name, first, last)
        ]
        listed = [*self._manifest.segments, *segments]
        replaced: list[Segment] = []
        for dataset, day in {(segment.dataset, segment.day) for segment in segments}:
            while run := _mergeable([s for s in listed if (s.dataset, s.day) == (dataset, day)]):
                merged = self._write(reader, dataset, day, run[0].first_commit, run[-1].last_commit)
                listed = [segment for segment in listed if segment not in run] + [merged]
                replaced.extend(run)
        with self._store.steady() as still:
            if still != rebuilt:
                # What was read has other numbers by now.
                return 0
            self._replace(Manifest(self._store.id, last, tuple(sorted(listed, key=_order))))
        self._store.is_published(last)
        self._retire(replaced)
        return sum(segment.rows for segment in segments)

    def check(self, seconds: float = _CHECK_SECONDS) -> None:
        """Read some of the published segments, and write those again that are not what was written.

        Raises:
            duckdb.Error, OSError: one cannot be written again now.
        """
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
        path = self._directory.events / segment.path
        aside = set_aside(path) if path.exists() else None
        of = (segment.dataset, segment.day, segment.first_commit, segment.last_commit)
        try:
            again = self._write(self._store.reader(), *of)
        except duckdb.Error as error:
            if not self._store.mend(error):
                raise
            again = self._write(self._store.reader(), *of)
        listed = tuple(again if each == segment else each for each in self._manifest.segments)
        self._replace(replace(self._manifest, segments=listed))
        self._log.warning(
            "segment_repaired",
            segment=segment.path,
            reason=reason,
            kept_as=str(aside) if aside else None,
            rows=again.rows,
        )
        if again.rows < segment.rows:
            self._log.error("rows_lost", segment=segment.path, rows=segment.rows - again.rows)

    def _remove_unlisted(self) -> None:
        """Remove what a killed publication, or one whose readers are gone, left behind."""
        listed = {self._directory.events / segment.path for segment in self._manifest.segments}
        for path in self._directory.events.rglob("*"):
            if path.suffix == ".tmp" or (path.suffix == ".parquet" and path not in listed):
                path.unlink()

    def _write(
        self, reader: duckdb.DuckDBPyConnection, dataset: str, day: date, first: int, last: int
    ) -> Segment:
        name = segment_path(dataset, day, first, last)
        path = self._directory.events / name
        make_folder(path.parent)
        temporary = path.with_suffix(".tmp")
        quoted = str(temporary).replace("'", "''")
        # Sorted: neighbours are alike and the file is small, and the same rows give the same file.
        rows = reader.execute(
            f"""
            COPY (
                FROM {dataset}
                WHERE commit_number BETWEEN {first} AND {last} AND day = DATE '{day.isoformat()}'
                ORDER BY time_unix_nano, event_id
            ) TO '{quoted}' ({_COPY_OPTIONS})
            """
        ).fetchall()[0][0]
        size, crc32 = temporary.stat().st_size, checksum(temporary)
        put_in_place(temporary, path)
        return Segment(dataset, day, name, rows, size, first, last, crc32)

    def _replace(self, manifest: Manifest) -> None:
        write_whole(self._directory.manifest, manifest.render())
        self._manifest = manifest

    def _retire(self, segments: Iterable[Segment]) -> None:
        now = time.monotonic()
        due = [path for since, path in self._retired if now - since >= RETIRED_SECONDS]
        self._retired = [entry for entry in self._retired if now - entry[0] < RETIRED_SECONDS]
        self._retired.extend((now, self._directory.events / segment.path) for segment in segments)
        for path in due:
            path.unlink(missing_ok=True)


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


def _days(reader: duckdb.DuckDBPyConnection, dataset: str, first: int, last: int) -> list[date]:
    rows = reader.execute(
        f"SELECT DISTINCT day FROM {dataset} WHERE commit_number BETWEEN {first} AND {last} ORDER BY day"
    ).fetchall()
    return [day for (day,) in rows]


def _mergeable(segments: list[Segment]) -> list[Segment]:
    """The last run of neighbouring segments of about one size, if it is long enough to be merged."""
    in_order = sorted(segments, key=_order)
    runs = [list(run) for _, run in groupby(in_order, key=lambda segment: len(str(segment.rows)))]
    long_enough = [run for run in runs if len(run) >= MERGE_WIDTH]
    return long_enough[-1] if long_enough else []


def _order(segment: Segment) -> tuple[str, date, int]:
    return segment.dataset, segment.day, segment.first_commit
