"""Flipped, torn and missing bytes anywhere: the service comes up, and every answered row is there once.

CRASH_DAMAGE_ROUNDS sets how many random places of each file are damaged (4 if not set, one of each kind).
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from structlog.testing import capture_logs

from ingest.decode.wire import Signal
from ingest.exceptions import IngestError, StoreUnavailable
from ingest.keep.publisher import Publisher
from ingest.keep.recovery import open_store
from ingest.keep.store import Store
from ingest.keep.writer import Encoding, Outcome, Request, Writer
from sli.data_directory import DataDirectory
from sli.manifest import Manifest
from sli.schemas import EVENT_DATASETS

ROUNDS = int(os.environ.get("CRASH_DAMAGE_ROUNDS", "4"))

Rows = dict[str, list[Any]]
EVENTS = ("tool_calls", "guard_decisions")


@dataclass(frozen=True)
class Killed:
    """A data directory as a kill leaves it: commits in the file, in its log, published, and not yet."""

    directory: DataDirectory
    rows: Rows


@pytest.fixture(scope="module")
def killed(otlp: Any, tmp_path_factory: pytest.TempPathFactory) -> Killed:
    folder = tmp_path_factory.mktemp("killed")
    directory = DataDirectory(folder / "running")
    store = open_store(directory)
    writer = Writer(store, "owner.id", b"k" * 32)
    publisher = Publisher(store, directory)
    for commit in range(24):
        keep(writer, body(otlp, commit))
        if commit in (5, 11):
            publisher.publish()
        if commit == 8:
            store.reader().execute("CHECKPOINT store")
    rows = stored(store)
    shutil.copytree(directory.root, folder / "killed")
    writer.close()
    store.close()
    left = DataDirectory(folder / "killed")
    assert left.store_log.stat().st_size > 1000
    assert len(list(left.journal.iterdir())) == 1
    assert len(list(left.events.rglob("*.parquet"))) == 4
    assert {name: len(found) for name, found in rows.items() if found} == {
        "tool_calls": 240,
        "guard_decisions": 24,
    }
    return Killed(left, rows)


@pytest.fixture
def directory(killed: Killed, tmp_path: Path) -> DataDirectory:
    shutil.copytree(killed.directory.root, tmp_path / "data")
    return DataDirectory(tmp_path / "data")


def body(otlp: Any, commit: int) -> bytes:
    at = otlp.noon + commit * 60_000_000_000
    calls = [
        otlp.log(otlp.tool_call | {"call_id": f"c{commit}-{n}"}, time=at + n * 1_000_003) for n in range(10)
    ]
    # One of them has no time of the producer's.
    del calls[3].attributes[1]
    calls[3].time_unix_nano = 0
    made: bytes = otlp.logs(*calls, otlp.log(otlp.guard | {"candidate_ordinal": commit}, time=at))
    return made


def keep(writer: Writer, *bodies: bytes) -> list[Outcome | IngestError]:
    answers: list[Outcome | IngestError] = []
    for each in bodies:
        writer.submit(
            Request(Signal.LOGS, Encoding.PROTOBUF, each, 1_796_045_000_000_000_000), answers.append
        )
    until = time.monotonic() + 60
    while len(answers) < len(bodies):
        assert time.monotonic() < until
        time.sleep(0.001)
    return answers


def stored(store: Store) -> Rows:
    """All rows but their commit numbers, which a recovery may change."""
    return {
        dataset.name: store.reader()
        .execute(f"SELECT * EXCLUDE (commit_number) FROM {dataset.name} ORDER BY time_unix_nano, event_id")
        .fetchall()
        for dataset in EVENT_DATASETS
    }


def published(directory: DataDirectory) -> Rows:
    manifest = Manifest.parse(directory.manifest.read_text())
    found: Rows = {}
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for dataset in EVENT_DATASETS:
            files = [str(directory.events / segment.path) for segment in manifest.select(dataset.name)]
            found[dataset.name] = (
                connection.execute(
                    "SELECT * EXCLUDE (commit_number) FROM read_parquet(?, hive_partitioning = false) "
                    "ORDER BY time_unix_nano, event_id",
                    [files],
                ).fetchall()
                if files
                else []
            )
    return found


def come_up(directory: DataDirectory) -> tuple[Rows, Rows, list[Any]]:
    """Start as the service does, publish, and read everything; what is stored, published and logged."""
    with capture_logs() as log:
        store = open_store(directory)
        try:
            publisher = Publisher(store, directory)
            publisher.publish()
            try:
                rows = stored(store)
            except duckdb.Error as error:
                # A block that nobody had read yet; a reader of the service does the same.
                if not store.mend(error):
                    raise
                publisher.publish()
                rows = stored(store)
            publisher.publish()
        finally:
            store.close()
    return rows, published(directory), list(log)


def flipped(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


def torn(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def zeroed(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + bytes(len(content) - at)


def garbled(content: bytes, rng: random.Random) -> bytes:
    at, size = rng.randrange(len(content)), min(len(content), 4096)
    return content[:at] + rng.randbytes(size) + content[at + size :]


DAMAGES = (flipped, torn, zeroed, garbled)


def _rounds() -> Iterator[tuple[int, Callable[[bytes, random.Random], bytes]]]:
    for number in range(ROUNDS):
        yield number, DAMAGES[number % len(DAMAGES)]


@pytest.mark.parametrize(("number", "damage"), list(_rounds()))
@pytest.mark.parametrize("file", ["store", "store_log", "journal", "segment", "manifest"])
def test_every_answered_row_is_there_once_whatever_byte_is_damaged(
    killed: Killed, directory: DataDirectory, file: str, number: int, damage: Any
) -> None:
    rng = random.Random(f"{file}-{number}")
    path = _path(directory, file, rng)
    before = path.read_bytes()
    damaged = damage(before, rng)
    path.write_bytes(damaged)
    rows, shown, log = come_up(directory)
    assert rows == killed.rows
    assert shown == killed.rows
    if damaged == before:
        return
    aside = sorted(directory.root.rglob("*.damaged-*"))
    # Damage in the store or the journal is not always noticed: bytes that are not used, or an
    # end that a kill could have left. What is noticed is kept, and named.
    assert aside or file in ("store", "store_log", "journal")
    assert all(str(each) in str(log) for each in aside)
    if aside and file != "store":
        assert any(each.read_bytes() == damaged for each in aside)
    elif aside:
        # Its log may have been folded in before the damage showed.
        assert any(each.name.startswith("events.duckdb.damaged-") for each in aside)


def _path(directory: DataDirectory, file: str, rng: random.Random) -> Path:
    match file:
        case "segment":
            return rng.choice(sorted(directory.events.rglob("*.parquet")))
        case "journal":
            return next(directory.journal.iterdir())
    path: Path = getattr(directory, file)
    return path


@pytest.mark.parametrize("gone", ["store", "store_log", "both", "journal", "manifest", "events"])
def test_what_is_missing_is_put_in_again(killed: Killed, directory: DataDirectory, gone: str) -> None:
    match gone:
        case "journal" | "events":
            shutil.rmtree(getattr(directory, gone))
        case "both":
            directory.store.unlink()
            directory.store_log.unlink()
        case _:
            getattr(directory, gone).unlink()
    assert come_up(directory)[:2] == (killed.rows, killed.rows)


@pytest.mark.parametrize("store_too", ["store", "store_log"])
def test_without_a_manifest_the_segments_are_found_all_the_same(
    killed: Killed, directory: DataDirectory, store_too: str
) -> None:
    directory.manifest.write_text("damaged")
    getattr(directory, store_too).unlink()
    assert come_up(directory)[:2] == (killed.rows, killed.rows)


def test_a_rebuilt_store_has_the_id_and_the_published_commits_of_the_old(directory: DataDirectory) -> None:
    before = Manifest.parse(directory.manifest.read_text())
    segments = {path: path.read_bytes() for path in directory.events.rglob("*.parquet")}
    directory.store.write_bytes(b"damaged")
    store = open_store(directory)
    assert store.id == before.store
    numbers = store.reader().execute("SELECT DISTINCT commit_number FROM tool_calls ORDER BY ALL").fetchall()
    assert [number for (number,) in numbers][: before.published_through] == list(
        range(1, before.published_through + 1)
    )
    Publisher(store, directory)
    assert {path: path.read_bytes() for path in directory.events.rglob("*.parquet")} == segments
    assert Manifest.parse(directory.manifest.read_text()) == before
    store.close()


def test_a_rebuilding_that_is_killed_is_done_again(killed: Killed, directory: DataDirectory) -> None:
    directory.store.rename(directory.store.with_name("events.duckdb.damaged-20261130T120000Z"))
    directory.store_log.unlink()
    (directory.root / "events.duckdb.building").write_bytes(b"half")
    (directory.root / "events.duckdb.building.wal").write_bytes(b"half")
    assert come_up(directory)[:2] == (killed.rows, killed.rows)
    assert not list(directory.root.glob("*.building*"))


@pytest.mark.parametrize("fails_first", [False, True])
def test_a_damage_that_shows_while_requests_come_is_mended_at_once(
    otlp: Any, killed: Killed, directory: DataDirectory, fails_first: bool
) -> None:
    # Everything is folded into the file and published; then the file goes bad under the running service.
    store = open_store(directory)
    Publisher(store, directory).publish()
    store.close()
    store = open_store(directory)
    store_id = store.id
    writer = Writer(store, "owner.id", b"k" * 32)
    publisher = Publisher(store, directory)
    content = bytearray(directory.store.read_bytes())
    for at in range(3 * 4096 + 64, len(content), 64):
        content[at] ^= 0xFF
    directory.store.write_bytes(bytes(content))
    building = directory.root / "events.duckdb.building"
    if fails_first:
        # Something is in the way of the new store; that there is none meanwhile must not make an empty one.
        building.mkdir()
        assert all(isinstance(keep(writer, body(otlp, 3))[0], StoreUnavailable) for _ in range(3))
        building.rmdir()
    answers = [keep(writer, body(otlp, 3))[0] for _ in range(2)]
    writer.close()
    publisher.publish()
    assert answers[-1] == Outcome(duplicates=11)
    assert store.id == store_id
    rows = stored(store)
    assert published(directory) == rows
    # The writer itself adds rows on how the service fared.
    assert {name: rows[name] for name in EVENTS} == {name: killed.rows[name] for name in EVENTS}
    store.close()


def test_both_the_store_and_a_segment_damaged_loses_only_what_neither_holds(
    killed: Killed, directory: DataDirectory
) -> None:
    """The damaged segment's rows come from the old store's file, which opens; only its log does not."""
    segment = sorted(directory.events.rglob("*.parquet"))[-1]
    segment.write_bytes(segment.read_bytes()[:-20])
    directory.store_log.write_bytes(flipped(directory.store_log.read_bytes(), random.Random(1)))
    rows, shown, _ = come_up(directory)
    assert rows == shown
    missing = {
        name: len(killed.rows[name]) - len(found)
        for name, found in rows.items()
        if len(found) != len(killed.rows[name])
    }
    # The segment's last three commits were in the log alone.
    assert missing == {"tool_calls": 30}


def test_what_is_lost_is_named(killed: Killed, directory: DataDirectory) -> None:
    segment = sorted(directory.events.rglob("*.parquet"))[-1]
    segment.unlink()
    directory.store.write_bytes(b"nothing of it is left")
    rows, shown, log = come_up(directory)
    assert rows == shown
    lost = [each for each in log if each["event"] == "rows_lost"]
    assert lost[0]["segment"] == str(segment.relative_to(directory.events))
    assert sum(map(len, killed.rows.values())) - sum(map(len, rows.values())) == lost[0]["rows"]


def test_a_commit_after_a_loss_is_published(otlp: Any, directory: DataDirectory) -> None:
    """Its number must not be one that counts as published already."""
    for segment in directory.events.rglob("*.parquet"):
        segment.unlink()
    shutil.rmtree(directory.journal)
    directory.store.write_bytes(b"nothing of it is left")
    store = open_store(directory)
    writer = Writer(store, "owner.id", b"k" * 32)
    assert keep(writer, body(otlp, 99)) == [Outcome(stored=11)]
    writer.close()
    Publisher(store, directory).publish()
    assert len(published(directory)["tool_calls"]) == 10
    store.close()
