"""A store of an older format comes up as one of today's, with all that it held, or stays what it was."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ingest.exceptions import DamagedStore, NewerManifest
from ingest.keep import migrations
from ingest.keep.publisher import Publisher
from ingest.keep.store import Store
from sli.data_directory import DataDirectory
from sli.manifest import Manifest
from sli.schemas import EVENT_DATASETS, EVENT_FORMAT
from tests.ingest.keep.format_1 import STORE_ID, TABLES, make_format_1


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    return DataDirectory(tmp_path / "data")


@pytest.fixture
def filled(otlp: Any, tmp_path: Path, open_keeper: Any, directory: DataDirectory) -> DataDirectory:
    """A directory of format 1 with ten calls on two days and a guard decision."""
    today = open_keeper(tmp_path / "today.duckdb")
    today.keep(*_bodies(otlp))
    today.close()
    make_format_1(directory, tmp_path / "today.duckdb")
    return directory


def _bodies(otlp: Any) -> list[bytes]:
    calls = [
        otlp.log(otlp.tool_call | {"call_id": f"c{n}"}, time=otlp.noon + n * 5 * 3600 * 10**9)
        for n in range(10)
    ]
    return [otlp.logs(*calls), otlp.logs(otlp.log(otlp.guard | {"x": 1}))]


def _format(path: Path) -> int:
    with duckdb.connect(str(path), read_only=True) as connection:
        return int(connection.execute("SELECT format FROM store_info").fetchall()[0][0])


def test_there_is_a_step_from_every_older_format() -> None:
    assert sorted(migrations.STEPS) == list(range(1, EVENT_FORMAT))


def test_an_empty_store_comes_up(directory: DataDirectory) -> None:
    make_format_1(directory)
    store = Store(directory.store)
    assert (store.id, store.last_commit, store.kept_since) == (STORE_ID, 0, None)
    for dataset in EVENT_DATASETS:
        assert store.reader().execute(f"SELECT count(*) FROM {dataset.name}").fetchall() == [(0,)]
    store.close()
    assert _format(directory.store) == EVENT_FORMAT


def test_a_filled_directory_comes_up_with_every_row(
    otlp: Any, filled: DataDirectory, open_keeper: Any
) -> None:
    with duckdb.connect(str(filled.store), read_only=True) as connection:
        before = {name: connection.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in TABLES}
    old = Manifest.parse(filled.manifest.read_text())
    keeper = open_keeper(filled.store)
    publisher = Publisher(keeper.store, filled)
    assert publisher.manifest == old
    for name, rows in before.items():
        assert keeper.query(f"FROM {name} ORDER BY ALL") == rows
        assert len(rows) == sum(segment.rows for segment in old.select(name)) > 0
    # What was stored is known again, and what is new is published beside the old segments.
    outcomes = keeper.keep(*_bodies(otlp), otlp.logs(otlp.log(otlp.tool_call | {"call_id": "new"})))
    assert [(each.stored, each.duplicates) for each in outcomes] == [(0, 10), (0, 1), (1, 0)]
    assert publisher.publish() == 1
    keeper.close()
    new = Manifest.parse(filled.manifest.read_text())
    assert set(old.segments) <= set(new.segments)
    assert f'"format":{EVENT_FORMAT},' in filled.manifest.read_text()
    assert not list(filled.root.rglob("*.damaged-*"))


def test_a_step_that_fails_leaves_the_store_as_it_was(
    filled: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute("DROP TABLE guard_decisions")
        connection.execute("SELECT * FROM no_such_table")

    monkeypatch.setattr(migrations, "STEPS", {1: fails})
    with pytest.raises(DamagedStore, match="no_such_table"):
        Store(filled.store)
    monkeypatch.undo()
    assert _format(filled.store) == 1
    store = Store(filled.store)
    assert store.reader().execute("SELECT count(*) FROM guard_decisions").fetchall() == [(1,)]
    store.close()


_KILLED_HALF_WAY = """
import os, signal, sys
from pathlib import Path
from ingest.keep import migrations
from ingest.keep.store import Store

step = migrations.STEPS[1]
def half(connection):
    step(connection)
    connection.execute("DELETE FROM tool_calls")
    os.kill(os.getpid(), signal.SIGKILL)
migrations.STEPS = {1: half}
Store(Path(sys.argv[1]))
"""


def test_killed_half_way_it_starts_again(filled: DataDirectory) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED_HALF_WAY, str(filled.store)], check=False)
    assert done.returncode == -signal.SIGKILL
    store = Store(filled.store)
    assert store.reader().execute("SELECT count(*) FROM tool_calls").fetchall() == [(10,)]
    store.close()
    assert _format(filled.store) == EVENT_FORMAT


def test_a_newer_manifest_is_refused_and_left_alone(keeper: Any, tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.events.mkdir()
    directory.manifest.write_text('{"format":999}')
    with pytest.raises(NewerManifest, match=r"manifest\.json has format 999, this version knows .* install"):
        Publisher(keeper.store, directory)
    assert directory.manifest.read_text() == '{"format":999}'
