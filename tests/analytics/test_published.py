"""The published events as frames: which rows, of which type, and what if they are not there."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from analytics.exceptions import (
    EventsBusyError,
    ManifestUnreadableError,
    SegmentsMissingError,
    SegmentUnreadableError,
)
from analytics.published import ATTEMPTS, Published, on_published, polars_schema, read_published
from sli.schemas import EVENT_DATASETS, GUARD_DECISIONS, RESULT_DATASETS, TOOL_CALLS

if TYPE_CHECKING:
    from tests.analytics.segments import EventFolder

DAY = date(2026, 11, 3)


def times(rows: pl.LazyFrame) -> list[str]:
    found = rows.select(pl.col("time").dt.strftime("%d %H:%M").sort()).collect(engine="streaming")
    return found["time"].to_list()


def read(folder: EventFolder) -> Published:
    published = read_published(folder.directory)
    assert published is not None
    return published


def count(published: Published) -> int:
    return len(published.scan(TOOL_CALLS).collect(engine="streaming"))


def three_commits(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:01"))
    folder.publish(folder.call("2026-11-03T10:02"), folder.call("2026-11-04T10:02"))
    folder.publish(folder.call("2026-11-03T10:03"))


def test_nothing_is_published(folder: EventFolder) -> None:
    assert read_published(folder.directory) is None
    assert on_published(folder.directory, lambda _: 1) is None


@pytest.mark.parametrize("dataset", [*EVENT_DATASETS, *RESULT_DATASETS])
def test_every_dataset_has_types(dataset: object) -> None:
    assert isinstance(dataset, type(TOOL_CALLS))
    assert tuple(polars_schema(dataset)) == dataset.names


def test_a_dataset_without_segments_is_an_empty_frame_of_the_right_types(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:01"))
    published = read(folder)
    assert published.scan(TOOL_CALLS, [date(2026, 1, 1)]).collect().is_empty()
    assert published.scan(TOOL_CALLS, [date(2026, 1, 1)]).collect_schema() == polars_schema(TOOL_CALLS)
    assert published.scan(TOOL_CALLS).collect_schema() == polars_schema(TOOL_CALLS)
    assert published.scan(GUARD_DECISIONS).collect_schema() == polars_schema(GUARD_DECISIONS)


def test_an_event_id_is_the_bytes_of_its_text(folder: EventFolder) -> None:
    row = folder.call("2026-11-03T10:01")
    folder.publish(row)
    (found,) = read(folder).scan(TOOL_CALLS).collect()["event_id"]
    assert found == row["event_id"].bytes


def test_rows_are_chosen_by_day_and_by_commit(folder: EventFolder) -> None:
    three_commits(folder)
    published = read(folder)
    assert times(published.scan(TOOL_CALLS)) == ["03 10:01", "03 10:02", "03 10:03", "04 10:02"]
    assert times(published.scan(TOOL_CALLS, [DAY])) == ["03 10:01", "03 10:02", "03 10:03"]
    assert times(published.scan(TOOL_CALLS, after=1)) == ["03 10:02", "03 10:03", "04 10:02"]
    assert times(published.scan(TOOL_CALLS, [DAY], after=2)) == ["03 10:03"]
    assert published.days(TOOL_CALLS) == [DAY, date(2026, 11, 4)]
    assert published.days(TOOL_CALLS, after=2) == [DAY]


def test_a_merged_segment_is_cut_at_the_commit(folder: EventFolder) -> None:
    three_commits(folder)
    folder.merge(DAY)
    assert times(read(folder).scan(TOOL_CALLS, [DAY], after=2)) == ["03 10:03"]
    assert times(read(folder).scan(TOOL_CALLS, [DAY], after=1)) == ["03 10:02", "03 10:03"]
    assert times(read(folder).scan(TOOL_CALLS, [DAY])) == ["03 10:01", "03 10:02", "03 10:03"]


def test_rows_beyond_what_the_manifest_promises_are_not_read(folder: EventFolder) -> None:
    three_commits(folder)
    folder.merge(DAY)
    folder.published_through = 2
    folder.write_manifest()
    assert times(read(folder).scan(TOOL_CALLS, [DAY])) == ["03 10:01", "03 10:02"]


@pytest.mark.parametrize("text", ["", "{}", '{"format":"1"}', "\xff"])
def test_an_unreadable_manifest(folder: EventFolder, text: str) -> None:
    folder.publish()
    folder.directory.manifest.write_bytes(text.encode("latin-1"))
    with pytest.raises(ManifestUnreadableError, match=r"manifest\.json cannot be read") as caught:
        read_published(folder.directory)
    assert caught.value.path == folder.directory.manifest


def test_a_job_is_tried_again_when_segments_were_merged(folder: EventFolder) -> None:
    three_commits(folder)
    seen: list[Published] = []

    def job(published: Published) -> int:
        if not seen:
            folder.merge(DAY)
        seen.append(published)
        return count(published)

    assert on_published(folder.directory, job) == 4
    assert len(seen) == 2


def test_a_segment_that_vanishes_while_it_is_decoded_is_not_called_damaged(folder: EventFolder) -> None:
    three_commits(folder)
    tried = 0

    def job(published: Published) -> int:
        nonlocal tried
        tried += 1
        if tried == 1:
            folder.merge(DAY)
            raise pl.exceptions.ComputeError("parquet: the file ended early")
        return count(published)

    assert on_published(folder.directory, job) == 4


def test_a_job_is_not_tried_for_ever(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:00"))
    tried = 0

    def job(published: Published) -> int:
        nonlocal tried
        tried += 1
        folder.publish(folder.call("2026-11-03T10:00"))
        folder.merge(DAY)
        return count(published)

    with pytest.raises(EventsBusyError, match="Try again"):
        on_published(folder.directory, job)
    assert tried == ATTEMPTS


def test_a_missing_segment_is_named(folder: EventFolder) -> None:
    three_commits(folder)
    gone = folder.path(folder.segments[1])
    gone.unlink()
    with pytest.raises(SegmentsMissingError) as caught:
        on_published(folder.directory, count)
    assert caught.value.paths == (gone,)
    assert str(gone) in str(caught.value)


def test_a_damaged_segment_is_told_from_a_missing_one(folder: EventFolder) -> None:
    three_commits(folder)
    folder.path(folder.segments[1]).write_bytes(b"PAR1, but nothing else of a segment")
    with pytest.raises(SegmentUnreadableError) as caught:
        on_published(folder.directory, count)
    assert caught.value.paths == (folder.path(folder.segments[1]),)
    assert str(folder.path(folder.segments[1])) in str(caught.value)


def test_an_error_of_the_job_itself_is_passed_on(folder: EventFolder) -> None:
    three_commits(folder)

    def mistaken(published: Published) -> pl.DataFrame:
        return published.scan(TOOL_CALLS).select("no_such_column").collect()

    def without_its_own_file(_: Published) -> str:
        return (folder.directory.root / "none").read_text()

    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        on_published(folder.directory, mistaken)
    with pytest.raises(FileNotFoundError):
        on_published(folder.directory, without_its_own_file)


def test_only_the_needed_segments_are_opened(folder: EventFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    three_commits(folder)
    opened: list[str] = []
    original: Any = pl.scan_parquet

    def noted(paths: list[object], **options: object) -> Any:
        opened.extend(str(path) for path in paths)
        return original(paths, **options)

    monkeypatch.setattr("analytics.published.pl.scan_parquet", noted)
    assert times(read(folder).scan(TOOL_CALLS, [DAY], after=2)) == ["03 10:03"]
    assert len(opened) == 1
