"""Files of a newer version are refused by every command, by name and with what to do, and left alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
import structlog

from analytics.refresh import refresh
from ingest.keep.backup import back_up
from ingest.keep.store import Store
from sli.data_directory import DataDirectory
from sli.manifest import Manifest
from sli.schemas import EVENT_FORMAT, RESULT_FORMAT
from tests.analytics.segments import EventFolder

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Commands of the service set up logging to a stream that ends with the test."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data directory `data` (store, events, results), a backup of it `there`, and a body."""
    root = tmp_path_factory.mktemp("made")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        folder = EventFolder(root / "data", connection)
        folder.directory.root.mkdir()
        store = Store(folder.directory.store)
        folder.store = store.id
        store.close()
        folder.publish(folder.call("2026-11-30T10:00"))
    refresh(folder.directory)
    folder.directory.owner_key.write_bytes(b"k" * 32)
    folder.directory.owner_key.chmod(0o600)
    back_up(folder.directory, root / "there", datetime.now(UTC))
    (root / "body.json").write_text('{"resourceLogs":[]}')
    return root


@pytest.fixture
def directory(made: Path, tmp_path: Path) -> DataDirectory:
    """A copy of it, in the folder where the commands run."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return DataDirectory(tmp_path / "data")


def _state(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


def _without_key_copy(directory: DataDirectory) -> dict[str, bytes]:
    """What is there, without what may be made before anything of another version is looked at."""
    state = _state(directory.root)
    state.pop(directory.owner_key_copy.name, None)
    return state


COMMANDS: dict[str, tuple[str, ...]] = {
    "serve": ("serve", "--only", "ingest", "--http-port", "0", "--grpc-port", "0"),
    "import": ("import", "body.json"),
    "sli": ("sli",),
    "sli --no-wait": ("sli", "--no-wait"),
    "sql": ("sql", "FROM tool_calls"),
    "refresh": ("refresh",),
    "rebuild": ("rebuild",),
    "export": ("export", "out"),
    "backup": ("backup", "there"),
    "check": ("check",),
}


def _refused(run: Run, command: str, name: str, known: int) -> None:
    done = run(*COMMANDS[command], "--data-dir", "data")
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert name in line
    assert "format 999" in line
    assert f"up to {known}" in line
    assert "the version that wrote it" in line or "the toolgauge that wrote it" in line


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_newer_manifest(toolgauge: Run, directory: DataDirectory, command: str) -> None:
    directory.manifest.write_text('{"format":999,"something":"else"}')
    before = _state(directory.root)
    _refused(toolgauge, command, "manifest.json", EVENT_FORMAT)
    assert _without_key_copy(directory) == before


@pytest.mark.parametrize("command", ["serve", "import"])
def test_a_newer_store(toolgauge: Run, directory: DataDirectory, command: str) -> None:
    with duckdb.connect(str(directory.store)) as connection:
        connection.execute("UPDATE store_info SET format = 999")
    before = _state(directory.root)
    _refused(toolgauge, command, "events.duckdb", EVENT_FORMAT)
    assert _without_key_copy(directory) == before


@pytest.mark.parametrize("command", ["sli", "sli --no-wait", "sql", "refresh", "rebuild", "export", "check"])
def test_newer_results(toolgauge: Run, directory: DataDirectory, command: str) -> None:
    with duckdb.connect(str(directory.results)) as connection:
        connection.execute("UPDATE results_info SET format = 999")
    before = _state(directory.root)
    _refused(toolgauge, command, "results.duckdb", RESULT_FORMAT)
    assert _state(directory.root) == before


def test_a_newer_directory_without_its_store(toolgauge: Run, directory: DataDirectory) -> None:
    directory.store.unlink()
    directory.manifest.write_text('{"format":999}')
    before = _state(directory.root)
    _refused(toolgauge, "import", "manifest.json", EVENT_FORMAT)
    assert _without_key_copy(directory) == before


@pytest.mark.parametrize("command", ["restore", "backup"])
def test_a_newer_backup(toolgauge: Run, directory: DataDirectory, tmp_path: Path, command: str) -> None:
    (tmp_path / "there" / "backup.json").write_text('{"format":999}')
    before = _state(tmp_path / "there")
    done = toolgauge(command, "there", "--data-dir", "fresh" if command == "restore" else "data")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "error: there/backup.json has format 999, this version knows formats up to 1"
    )
    assert _state(tmp_path / "there") == before


def test_results_of_an_older_version_are_computed_again(toolgauge: Run, directory: DataDirectory) -> None:
    with duckdb.connect(str(directory.results)) as connection:
        connection.execute(f"UPDATE results_info SET format = {RESULT_FORMAT - 1}")
    done = toolgauge("sli", "--data-dir", "data", "--format", "csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 2
    # A manifest of an older version is read as it is.
    text = Manifest.parse(directory.manifest.read_text()).render()
    older = text.replace(f'"format":{EVENT_FORMAT}', f'"format":{EVENT_FORMAT - 1}')
    directory.manifest.write_text(older[: older.rindex(',"crc32"')] + "}")
    shutil.rmtree(directory.results_folder)
    again = toolgauge("sli", "--data-dir", "data", "--format", "csv")
    assert (again.stderr, again.stdout) == ("", done.stdout)
