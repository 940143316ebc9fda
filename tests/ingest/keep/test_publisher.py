"""What is published is what is stored, once, whatever happened in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.keep.publisher import MERGE_WIDTH, Publisher
from sli.data_directory import DataDirectory
from sli.manifest import Manifest


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    return DataDirectory(tmp_path)


def _published(directory: DataDirectory, dataset: str = "tool_calls") -> list[Any]:
    manifest = Manifest.parse(directory.manifest.read_text())
    files = [str(directory.events / segment.path) for segment in manifest.select(dataset)]
    if not files:
        return []
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute(
            "FROM read_parquet(?, hive_partitioning = false) ORDER BY time_unix_nano, event_id", [files]
        ).fetchall()


def _stored(keeper: Any, dataset: str = "tool_calls") -> list[Any]:
    found: list[Any] = keeper.query(f"FROM {dataset} ORDER BY time_unix_nano, event_id")
    return found


def test_published_rows_are_the_stored_rows(otlp: Any, keeper: Any, directory: DataDirectory) -> None:
    keeper.keep(keeper.call_body(otlp, range(10)), otlp.logs(otlp.log(otlp.guard | {"x": 1})))
    publisher = Publisher(keeper.store, directory)
    assert publisher.publish() == 11
    assert _published(directory) == _stored(keeper)
    assert _published(directory, "guard_decisions") == _stored(keeper, "guard_decisions")
    assert publisher.published_through == keeper.store.last_commit
    assert publisher.publish() == 0


def test_each_utc_day_has_its_own_segment(otlp: Any, keeper: Any, directory: DataDirectory) -> None:
    midnight = otlp.noon + 12 * 3600 * 10**9
    for n, time in enumerate((midnight - 1, midnight)):
        keeper.keep(otlp.logs(otlp.log(otlp.tool_call | {"call_id": f"c{n}"}, time=time)))
    Publisher(keeper.store, directory).publish()
    segments = Manifest.parse(directory.manifest.read_text()).segments
    assert [(segment.day.isoformat(), segment.rows) for segment in segments] == [
        ("2026-11-30", 1),
        ("2026-12-01", 1),
    ]


def test_what_a_killed_publication_left_is_removed_and_written_again_the_same(
    otlp: Any, keeper: Any, directory: DataDirectory
) -> None:
    keeper.keep_calls(otlp, range(10))
    Publisher(keeper.store, directory).publish()
    (segment,) = Manifest.parse(directory.manifest.read_text()).segments
    path = directory.events / segment.path
    before = path.read_bytes()
    # Killed after the file had its name and before the manifest listed it.
    directory.manifest.unlink()
    (path.parent / "000000000009-000000000009.tmp").write_bytes(b"half")
    publisher = Publisher(keeper.store, directory)
    assert not path.parent.exists()
    assert publisher.publish() == 10
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_a_damaged_segment_is_set_aside_and_written_again(
    otlp: Any, keeper: Any, directory: DataDirectory, damage: str
) -> None:
    keeper.keep_calls(otlp, range(10))
    Publisher(keeper.store, directory).publish()
    (segment,) = Manifest.parse(directory.manifest.read_text()).segments
    path = directory.events / segment.path
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(whole[:-9])
    Publisher(keeper.store, directory)
    assert path.read_bytes() == whole
    aside = [file for file in path.parent.iterdir() if ".damaged-" in file.name]
    assert [file.read_bytes() for file in aside] == ([whole[:-9]] if damage == "truncated" else [])


def test_a_segment_that_goes_bad_later_is_found_in_the_next_round(
    otlp: Any, keeper: Any, directory: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper.keep_calls(otlp, range(10))
    publisher = Publisher(keeper.store, directory)
    publisher.publish()
    publisher.check(60)
    (segment,) = Manifest.parse(directory.manifest.read_text()).segments
    path = directory.events / segment.path
    whole = path.read_bytes()
    flipped = whole[:50] + bytes([whole[50] ^ 4]) + whole[51:]
    path.write_bytes(flipped)
    publisher.check(60)
    assert path.read_bytes() == flipped
    monkeypatch.setattr("ingest.keep.verification.ROUND_SECONDS", 0.0)
    publisher.check(60)
    assert path.read_bytes() == whole
    assert [file.read_bytes() for file in path.parent.glob("*.damaged-*")] == [flipped]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format":"2"}', '{"format":1,"store":"x"', "\x00"])
def test_a_damaged_manifest_is_set_aside_and_all_is_published_again(
    otlp: Any, keeper: Any, directory: DataDirectory, text: str
) -> None:
    keeper.keep_calls(otlp, range(10))
    Publisher(keeper.store, directory).publish()
    directory.manifest.write_text(text)
    publisher = Publisher(keeper.store, directory)
    assert publisher.published_through == 0
    publisher.publish()
    assert _published(directory) == _stored(keeper)
    assert [file.read_text() for file in directory.events.glob("manifest.json.damaged-*")] == [text]


def test_a_manifest_of_another_store_is_not_believed(
    otlp: Any, keeper: Any, directory: DataDirectory, tmp_path: Path, open_keeper: Any
) -> None:
    keeper.keep_calls(otlp, range(10))
    Publisher(keeper.store, directory).publish()
    other = open_keeper(tmp_path / "other.duckdb")
    other.keep_calls(otlp, range(3))
    publisher = Publisher(other.store, directory)
    publisher.publish()
    assert _published(directory) == _stored(other)
    other.close()
    # What the other store published is kept: nothing else may hold it.
    (aside,) = directory.root.glob("events.damaged-*")
    assert len(list(aside.rglob("*.parquet"))) == 1


def test_many_small_segments_are_merged_and_nothing_is_read_twice(
    otlp: Any, keeper: Any, directory: DataDirectory
) -> None:
    publisher = Publisher(keeper.store, directory)
    files = set()
    for n in range(MERGE_WIDTH + 1):
        keeper.keep_calls(otlp, [n])
        publisher.publish()
        files |= {segment.path for segment in Manifest.parse(directory.manifest.read_text()).segments}
    segments = Manifest.parse(directory.manifest.read_text()).segments
    assert [(segment.rows, segment.first_commit, segment.last_commit) for segment in segments] == [
        (MERGE_WIDTH, 1, MERGE_WIDTH),
        (1, MERGE_WIDTH + 1, MERGE_WIDTH + 1),
    ]
    assert _published(directory) == _stored(keeper)
    # A reader that still holds the manifest of before finds its files.
    assert all((directory.events / path).exists() for path in files)
    Publisher(keeper.store, directory)
    assert len(list(directory.events.rglob("*.parquet"))) == 2


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.sampled_from(["keep", "keep", "publish", "restart", "restart"]), max_size=30),
    seed=st.integers(0, 99),
)
def test_after_any_steps_every_stored_row_is_published_once(
    otlp: Any, tmp_path_factory: pytest.TempPathFactory, open_keeper: Any, steps: list[str], seed: int
) -> None:
    root = tmp_path_factory.mktemp("steps")
    directory = DataDirectory(root)
    keeper = open_keeper(directory.store)
    publisher = Publisher(keeper.store, directory)
    for number, step in enumerate(steps):
        if step == "keep":
            keeper.keep_calls(otlp, range(number * 3000 + seed, number * 3000 + seed + 1 + number % 12))
        elif step == "publish":
            publisher.publish()
        else:
            keeper.restart()
            publisher = Publisher(keeper.store, directory)
    publisher.publish()
    if directory.manifest.exists():
        assert _published(directory) == _stored(keeper)
    else:
        assert _stored(keeper) == []
    keeper.close()
