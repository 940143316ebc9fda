"""A damaged event store, built again from what is published.

Every answered row is held twice: in the store, and in the journal or the published segments. What is
damaged is set aside; the new store keeps the id, so that what was published and computed stays valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import duckdb
import structlog

from ingest.keep.database import connect, first_line, open_database, tells_of_the_system, text
from ingest.keep.files import put_in_place, set_aside
from ingest.keep.verification import damage_of
from sli.data_directory import DataDirectory
from sli.manifest import Manifest, ManifestError, Segment
from sli.schemas import EVENT_DATASETS, Dataset

_BUILDING = ".building"


class Rebuilding:
    """Puts a store together from the segments of a data directory."""

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory
        self._log = structlog.get_logger("ingest.rebuilding")

    def is_store_missing(self) -> bool:
        """Whether there is no store where something was published or logged."""
        if self._directory.store.exists():
            return False
        return (
            self._directory.manifest.exists() or self._directory.store_log.exists() or len(self._files()) > 0
        )

    def rebuild(self, reason: str) -> None:
        """Set the store aside, and build one with its id from the published segments.

        Killed on the way, it leaves no store beside the manifest, and is done again at the next start.

        Raises:
            OSError, duckdb.Error: it cannot be written now.
        """
        # The log first: a store without its log is an older store, but a log without its store is nothing.
        aside = {
            path: set_aside(path)
            for path in (self._directory.store_log, self._directory.store)
            if path.exists()
        }
        self._log.error(
            "store_set_aside",
            reason=reason,
            kept_as=[str(path) for path in aside.values()],
            next="built again from the published segments and the journal",
        )
        building = self._directory.store.with_name(self._directory.store.name + _BUILDING)
        for left in (building, building.with_name(building.name + ".wal")):
            left.unlink(missing_ok=True)
        connection = open_database(building)
        try:
            with _attached(connection, self._old_store(aside)) as old:
                rows = self._fill(connection, old)
        finally:
            # Closing folds the log in.
            connection.close()
        put_in_place(building, self._directory.store)
        self._log.warning("store_rebuilt", rows=rows)

    def published_through(self, store_id: str) -> int:
        """The last published commit of a store; 0 if nothing of it is published."""
        manifest = self._manifest()
        if manifest is None:
            return max((_last_commit_in(path) for path in self._files()), default=0)
        return manifest.published_through if manifest.store == store_id else 0

    def complete(self, connection: duckdb.DuckDBPyConnection, stored_through: int) -> int:
        """Put in the published rows of commits that a store has not; returns their number.

        A store has fewer commits than are published when its log is gone, or ends early.
        """
        manifest = self._manifest()
        if manifest is None:
            later = [path for path in self._files() if _last_commit_in(path) > stored_through]
            rows = sum(self._take_unlisted(connection, path) for path in later)
        else:
            listed = [segment for segment in manifest.segments if segment.last_commit > stored_through]
            rows = sum(self._take(connection, False, segment, stored_through) for segment in listed)
        if rows:
            self._log.warning(
                "store_completed",
                reason="its log was gone or ended early",
                stored_through=stored_through,
                rows=rows,
            )
        return rows

    def _files(self) -> list[Path]:
        """The segments on the disk, whether listed or not."""
        found = [
            self._directory.events.glob(f"{dataset.name}/day=*/*-*.parquet") for dataset in EVENT_DATASETS
        ]
        return sorted(chain.from_iterable(found))

    def _fill(self, connection: duckdb.DuckDBPyConnection, old: bool) -> int:
        manifest = self._manifest()
        if manifest is None:
            rows = sum(self._take_unlisted(connection, path) for path in self._files())
            through = max((_last_commit(connection, dataset) for dataset in EVENT_DATASETS), default=0)
        else:
            connection.execute("UPDATE store_info SET id = ?", [manifest.store])
            rows = sum(self._take(connection, old, segment, 0) for segment in manifest.segments)
            through = manifest.published_through
            # Its last commits may have no rows any more; their numbers are not given again.
            connection.execute("UPDATE store_info SET removed_through = ?", [through])
        if old:
            rows += self._take_unpublished(connection, through)
        return rows

    def _take(self, connection: duckdb.DuckDBPyConnection, old: bool, segment: Segment, after: int) -> int:
        """The rows of a segment; where it is damaged, from what can still be read of the old store."""
        path = self._directory.events / segment.path
        dataset = _dataset(segment.dataset)
        range_ = f"commit_number BETWEEN {max(after + 1, segment.first_commit)} AND {segment.last_commit}"
        damage = damage_of(path, segment)
        if damage is None:
            source = f"read_parquet({text(str(path))}, hive_partitioning = false)"
            try:
                return _insert(connection, dataset, f"FROM {source} WHERE {range_}")
            except duckdb.Error as error:
                if tells_of_the_system(error):
                    raise
                damage = first_line(error)
        rows = 0
        if old:
            # Its file may be good where the segment is not.
            day = f"day = DATE '{segment.day.isoformat()}'"
            try:
                rows = _insert(connection, dataset, f"FROM old.{dataset.name} WHERE {range_} AND {day}")
            except duckdb.Error as error:
                self._log.warning("old_store_unreadable", reason=first_line(error))
        if not rows or (after == 0 and rows < segment.rows):
            self._log.error(
                "rows_lost",
                segment=segment.path,
                reason=damage,
                rows=segment.rows - rows,
                next="put the segment, or the data directory, back from a backup",
            )
        return rows

    def _take_unlisted(self, connection: duckdb.DuckDBPyConnection, path: Path) -> int:
        """The rows of a file that no manifest tells of: merged files and their parts hold the same rows."""
        dataset = _dataset(path.parent.parent.name)
        found = f"read_parquet({text(str(path))}, hive_partitioning = false) AS found"
        new = f"NOT EXISTS (FROM {dataset.name} AS taken WHERE taken.event_id = found.event_id)"
        try:
            return _insert(connection, dataset, f"FROM {found} WHERE {new}")
        except duckdb.Error as error:
            if tells_of_the_system(error):
                raise
            aside = set_aside(path)
            self._log.error("segment_unreadable", reason=first_line(error), kept_as=str(aside))
            return 0

    def _take_unpublished(self, connection: duckdb.DuckDBPyConnection, through: int) -> int:
        """What can be read of the old store beyond what was published; the journal holds it as well."""
        rows = 0
        for dataset in EVENT_DATASETS:
            try:
                rows += _insert(
                    connection,
                    dataset,
                    f"FROM old.{dataset.name} WHERE commit_number > {through}",
                )
            except duckdb.Error as error:
                self._log.warning("old_store_unreadable", table=dataset.name, reason=first_line(error))
        return rows

    def _manifest(self) -> Manifest | None:
        try:
            return Manifest.parse(self._directory.manifest.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, ManifestError):
            # The publisher sets it aside and says so.
            return None

    def _old_store(self, aside: dict[Path, Path]) -> Path | None:
        path = aside.get(self._directory.store)
        if path is None:
            return None
        # Apart first: an engine that fails at a damaged file must not take the new store with it.
        with connect() as trial:
            try:
                trial.execute(f"ATTACH {text(str(path))} AS old (READ_ONLY)")
            except duckdb.Error:
                return None
        return path


@contextmanager
def _attached(connection: duckdb.DuckDBPyConnection, path: Path | None) -> Iterator[bool]:
    if path is None:
        yield False
        return
    connection.execute(f"ATTACH {text(str(path))} AS old (READ_ONLY)")
    try:
        yield True
    finally:
        connection.execute("DETACH old")


def _insert(connection: duckdb.DuckDBPyConnection, dataset: Dataset, rows: str) -> int:
    # By name: what an earlier version wrote may lack a column of this one.
    found = connection.execute(f"INSERT INTO {dataset.name} BY NAME SELECT * {rows}").fetchall()
    return int(found[0][0])


def _dataset(name: str) -> Dataset:
    return next(dataset for dataset in EVENT_DATASETS if dataset.name == name)


def _last_commit_in(path: Path) -> int:
    """The last commit that a segment may hold, by its name."""
    return int(path.stem.rpartition("-")[2])


def _last_commit(connection: duckdb.DuckDBPyConnection, dataset: Dataset) -> int:
    rows = connection.execute(f"SELECT coalesce(max(commit_number), 0) FROM {dataset.name}").fetchall()
    return int(rows[0][0])
