"""Days come to few segments, and to one when they are over; no row is lost, doubled or hidden by it."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ingest.keep.compaction import CLOSED_AFTER, QUIET, compact_next, uncompacted_days
from ingest.keep.publisher import MERGE_WIDTH, Publisher
from ingest.keep.segments import MergeGivenUp, SegmentFolder
from sli.data_directory import DataDirectory
from sli.manifest import Manifest, Segment

# The calls of these tests lie on 2026-11-30.
DAY_ENDS = datetime(2026, 12, 1, tzinfo=UTC)
LATER = DAY_ENDS + CLOSED_AFTER


class Published:
    """A store, and its publisher, that can be started again."""

    def __init__(self, otlp: Any, keeper: Any, root: Path) -> None:
        self.otlp = otlp
        self.keeper = keeper
        self.directory = DataDirectory(root)
        self.without: set[Any] = set()
        self.restart()

    def restart(self) -> None:
        self.publisher = Publisher(self.keeper.store, self.directory)

    def publish(self, *numbers: int) -> None:
        """Publish calls, which were written long ago."""
        self.keeper.keep_calls(self.otlp, numbers)
        self.publisher.publish()
        for path in self.files():
            os.utime(path, (0, 0))

    def compact(self, now: datetime = LATER) -> bool:
        folder = SegmentFolder(self.directory.events)
        return compact_next(self.publisher, folder, now, self.without)

    @property
    def segments(self) -> list[Segment]:
        return list(Manifest.parse(self.directory.manifest.read_text()).segments)

    def files(self) -> set[Path]:
        return set(self.directory.events.rglob("*.parquet"))

    def rows(self) -> list[Any]:
        files = [str(self.directory.events / segment.path) for segment in self.segments]
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            rows: list[Any] = connection.execute(
                "FROM read_parquet(?, hive_partitioning = false)", [files]
            ).fetchall()
        return rows

    def stored(self) -> list[Any]:
        rows: list[Any] = self.keeper.query("FROM tool_calls ORDER BY time_unix_nano, event_id")
        return rows


@pytest.fixture
def published(otlp: Any, keeper: Any, tmp_path: Path) -> Published:
    published = Published(otlp, keeper, tmp_path)
    # In no order of time, so that merging has something to sort.
    for numbers in ((5, 9), (1, 7), (0, 3)):
        published.publish(*numbers)
    return published


def test_a_day_that_is_over_becomes_one_sorted_segment(published: Published) -> None:
    before = published.files()
    assert published.compact()
    (segment,) = published.segments
    assert (segment.rows, segment.first_commit, segment.last_commit) == (6, 1, 3)
    assert segment.bytes == (published.directory.events / segment.path).stat().st_size
    assert published.rows() == published.stored()
    # Readers that hold the manifest of before still find its files, until the next start.
    assert before < published.files()
    published.restart()
    assert len(published.files()) == 1
    assert not published.compact()


@pytest.mark.parametrize("now", [DAY_ENDS - timedelta(seconds=1), LATER - timedelta(seconds=1)])
def test_a_day_that_may_still_grow_is_left_alone(published: Published, now: datetime) -> None:
    assert not published.compact(now)
    assert uncompacted_days(published.publisher.manifest, now) == []
    assert len(published.segments) == 3


def test_large_segments_of_a_day_that_grows_are_merged_beside_the_publications(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    while len(published.segments) < MERGE_WIDTH - 1:
        published.publish(50 + len(published.segments))
    # From here on segments of one row are large ones: publications leave them alone.
    for module in ("publisher", "compaction"):
        monkeypatch.setattr(f"ingest.keep.{module}.LARGE_ROWS", 1)
    before = DAY_ENDS - timedelta(hours=6)
    assert not published.compact(before)
    published.publish(100)
    assert len(published.segments) == MERGE_WIDTH
    assert published.compact(before)
    assert [segment.rows for segment in published.segments] == [len(published.stored())]
    assert sorted(published.rows()) == sorted(published.stored())
    assert not published.compact(before)


def test_a_day_that_something_was_just_added_to_is_left_for_later(published: Published) -> None:
    newest = max(published.files())
    os.utime(newest, (LATER.timestamp() - QUIET.total_seconds() + 1,) * 2)
    assert not published.compact()
    assert published.compact(LATER + timedelta(seconds=1))


def test_late_rows_are_merged_the_next_time(published: Published) -> None:
    published.compact()
    published.publish(2, 4)
    assert len(published.segments) == 2
    for path in published.files():
        os.utime(path, (0, 0))
    assert published.compact()
    (segment,) = published.segments
    assert (segment.first_commit, segment.last_commit) == (1, 4)
    assert published.rows() == published.stored()
    published.publish(6)
    assert published.publisher.published_through == 5


def test_killed_before_the_manifest_lists_it_a_merged_segment_goes_and_is_made_again(
    published: Published,
) -> None:
    before = published.segments
    SegmentFolder(published.directory.events).merge(before)
    (published.directory.events / before[0].path).with_suffix(".4711.tmp").write_bytes(b"half")
    published.restart()
    assert published.segments == before
    assert published.files() == {published.directory.events / segment.path for segment in before}
    assert list(published.directory.events.rglob("*.tmp")) == []
    assert published.compact()
    assert published.rows() == published.stored()


def test_of_two_merges_of_the_same_segments_the_first_counts(published: Published) -> None:
    old = published.segments
    merged = SegmentFolder(published.directory.events).merge(old[:2])
    for number in range(20, 20 + MERGE_WIDTH):
        published.publish(number)
    assert all(segment not in published.segments for segment in old)
    listed = published.segments
    assert not published.publisher.put_in_place_of(old[:2], merged)
    assert published.segments == listed
    assert not (published.directory.events / merged.path).exists()
    # One that came to the very same segment does not take it away.
    again = listed[0]
    assert not published.publisher.put_in_place_of(old, again)
    assert (published.directory.events / again.path).exists()


def test_a_segment_that_cannot_be_read_stops_only_its_own_day(published: Published, otlp: Any) -> None:
    first = published.directory.events / published.segments[0].path
    first.write_bytes(b"x" * first.stat().st_size)
    os.utime(first, (0, 0))
    next_day = 24 * 3600 // 7
    published.publish(next_day, next_day + 5)
    published.publish(next_day + 1)
    now = LATER + timedelta(days=1)
    with pytest.raises(duckdb.Error):
        published.compact(now)
    assert len(published.segments) == 5
    assert published.compact(now)
    assert not published.compact(now)
    assert [segment.rows for segment in published.segments] == [2, 2, 2, 3]


def test_a_damaged_segment_keeps_nothing_from_being_published(published: Published) -> None:
    while len(published.segments) < MERGE_WIDTH - 1:
        published.publish(20 + len(published.segments))
    first = published.directory.events / published.segments[0].path
    first.write_bytes(b"x" * first.stat().st_size)
    published.publish(40)
    assert published.publisher.published_through == MERGE_WIDTH
    assert len(published.segments) == MERGE_WIDTH
    # It was found, is found again by its checksum, and then the merge is made up for.
    published.publisher.check(60)
    assert sorted(published.rows()) == sorted(published.stored())
    published.publish(41)
    assert len(published.segments) == 1
    assert sorted(published.rows()) == sorted(published.stored())


def test_a_merge_that_is_given_up_leaves_nothing(published: Published) -> None:
    before = published.files()
    folder = SegmentFolder(published.directory.events)
    folder.give_up()
    with pytest.raises(MergeGivenUp):
        folder.merge(published.segments)
    assert published.files() == before
    assert list(published.directory.events.rglob("*.tmp")) == []
