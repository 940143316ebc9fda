"""A backup comes up again with every event once, and whatever is wrong with one is said before it is used."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ingest.exceptions import BackupFailed, BackupUnusable, NewerFile, NothingToBackUp, RestoreFailed
from ingest.keep import backup as backups
from ingest.keep.backup import back_up, read_backup, restore
from sli.data_directory import DataDirectory
from sli.manifest import Manifest
from sli.schemas import EVENT_FORMAT
from tests.analytics.segments import EventFolder

NOW = datetime(2026, 12, 1, 4, 0, tzinfo=UTC)
Run = Callable[..., Any]


@pytest.fixture
def published(folder: EventFolder) -> EventFolder:
    for hour in (10, 11, 12):
        folder.publish(folder.call(f"2026-11-29T{hour}:00"), folder.call(f"2026-11-30T{hour}:00", "error"))
    folder.directory.owner_key.write_bytes(b"k" * 32)
    folder.directory.owner_key.chmod(0o600)
    return folder


def _files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_is_restored_is_what_was_published(published: EventFolder, tmp_path: Path) -> None:
    target, fresh = tmp_path / "backup", DataDirectory(tmp_path / "fresh")
    outcome = back_up(published.directory, target, NOW)
    assert outcome.copied_bytes == outcome.backup.bytes == 32 + sum(s.bytes for s in published.segments)
    assert stat.S_IMODE((target / "owner.key").stat().st_mode) == 0o600
    assert restore(target, fresh) == outcome.backup
    manifest = Manifest.parse(fresh.manifest.read_text())
    assert manifest == Manifest.parse(published.directory.manifest.read_text())
    for segment in manifest.segments:
        assert (fresh.events / segment.path).read_bytes() == published.path(segment).read_bytes()
    assert fresh.owner_key.read_bytes() == b"k" * 32
    assert stat.S_IMODE(fresh.owner_key.stat().st_mode) == 0o600
    assert {path.name for path in fresh.root.iterdir()} == {"events", "owner.key"}
    assert [path.name for path in tmp_path.iterdir() if "restoring" in path.name] == []


def test_every_file_stands_in_the_description_with_its_checksum(
    published: EventFolder, tmp_path: Path
) -> None:
    back_up(published.directory, tmp_path / "backup", NOW)
    tree = json.loads((tmp_path / "backup" / "backup.json").read_text())
    assert (tree["format"], tree["made_at"]) == (1, "2026-12-01T04:00:00Z")
    found = _files(tmp_path / "backup")
    assert {entry["path"]: entry["sha256"] for entry in tree["files"]} == {
        path: hashlib.sha256(content).hexdigest()
        for path, content in found.items()
        if path not in ("backup.json", "backup.lock")
    }


def test_into_the_same_folder_only_what_is_new_is_copied(published: EventFolder, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    back_up(published.directory, target, NOW)
    assert back_up(published.directory, target, NOW).copied_bytes == 0
    published.publish(published.call("2026-11-30T13:00"))
    outcome = back_up(published.directory, target, NOW)
    assert outcome.copied_bytes == published.segments[-1].bytes
    # What was merged meanwhile goes, when the new backup is in place.
    published.merge(published.segments[0].day)
    back_up(published.directory, target, NOW)
    assert len(list(target.rglob("*.parquet"))) == len(published.segments)
    restore(target, DataDirectory(tmp_path / "fresh"))


def test_killed_on_the_way_the_earlier_backup_is_whole(
    published: EventFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "backup"
    back_up(published.directory, target, NOW)
    before = read_backup(target)
    published.merge(published.segments[0].day)
    published.publish(published.call("2026-11-30T13:00"))
    with monkeypatch.context() as patch:
        patch.setattr(backups, "write_whole", _killed)
        with pytest.raises(KeyboardInterrupt):
            back_up(published.directory, target, NOW)
    assert restore(target, DataDirectory(tmp_path / "first")) == before
    # And the next one takes up from there.
    back_up(published.directory, target, NOW)
    after = restore(target, DataDirectory(tmp_path / "second"))
    assert after.manifest == Manifest.parse(published.directory.manifest.read_text())
    assert len(list(target.rglob("*.parquet"))) == len(published.segments)


def _killed(path: Path, text: str) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_first_backup_is_none_and_can_be_taken_up(
    published: EventFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "backup"
    with monkeypatch.context() as patch:
        patch.setattr(backups, "write_whole", _killed)
        with pytest.raises(KeyboardInterrupt):
            back_up(published.directory, target, NOW)
    with pytest.raises(BackupUnusable, match=r"no backup\.json"):
        restore(target, DataDirectory(tmp_path / "fresh"))
    (target / "events" / "half.4711.tmp").write_bytes(b"half")
    back_up(published.directory, target, NOW)
    assert list(target.rglob("*.tmp")) == []


def test_segments_that_are_merged_meanwhile_do_not_matter(
    published: EventFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = published.segments[0].day
    copy, copied = backups._copy_segment, []

    def merging(*arguments: Any) -> Any:
        file = copy(*arguments)
        copied.append(file)
        if len(copied) == 1:
            published.merge(day)
        return file

    monkeypatch.setattr(backups, "_copy_segment", merging)
    outcome = back_up(published.directory, tmp_path / "backup", NOW)
    assert outcome.backup.manifest == Manifest.parse(published.directory.manifest.read_text())
    restored = restore(tmp_path / "backup", DataDirectory(tmp_path / "fresh"))
    assert sum(segment.rows for segment in restored.manifest.segments) == 6


def _flip(target: Path) -> None:
    path = max(target.rglob("*.parquet"))
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


def _cut(target: Path) -> None:
    path = max(target.rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-1])


def _drop(target: Path) -> None:
    max(target.rglob("*.parquet")).unlink()


def _swap_key(target: Path) -> None:
    (target / "owner.key").write_bytes(b"x" * 32)


def _edit(**changes: Any) -> Callable[[Path], None]:
    def edit(target: Path) -> None:
        path = target / "backup.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return edit


def _without_key(target: Path) -> None:
    tree = json.loads((target / "backup.json").read_text())
    _edit(files=[entry for entry in tree["files"] if entry["path"] != "owner.key"])(target)


def _outside(target: Path) -> None:
    tree = json.loads((target / "backup.json").read_text())
    tree["files"][0]["restored_as"] = "../../evil"
    _edit(files=tree["files"])(target)


@pytest.mark.parametrize(
    ("damage", "error", "words"),
    [
        (_flip, BackupUnusable, r"\.parquet is not what was written"),
        (_cut, BackupUnusable, r"\.parquet is not what was written"),
        (_drop, BackupUnusable, r"\.parquet is missing"),
        (_swap_key, BackupUnusable, r"owner\.key is not what was written"),
        (_without_key, BackupUnusable, r"owner\.key is not in it"),
        (_outside, BackupUnusable, "outside of it"),
        (_edit(files=[]), BackupUnusable, "is not in it, and 6 more"),
        (_edit(files=7), BackupUnusable, "damaged"),
        (_edit(manifest={}), BackupUnusable, "damaged"),
        (_edit(format="1"), BackupUnusable, "damaged"),
        (lambda target: (target / "backup.json").write_text("{"), BackupUnusable, "damaged"),
        (lambda target: (target / "backup.json").unlink(), BackupUnusable, r"no backup\.json"),
        (shutil.rmtree, BackupUnusable, r"no backup\.json"),
        (_edit(format=999), NewerFile, r"backup\.json has format 999, .* up to 1; install"),
        (_edit(manifest={"format": 999}), NewerFile, rf"format 999, .* up to {EVENT_FORMAT}; install"),
    ],
)
def test_a_backup_that_is_not_whole_is_refused_and_nothing_is_restored(
    published: EventFolder, tmp_path: Path, damage: Callable[[Path], None], error: Any, words: str
) -> None:
    back_up(published.directory, tmp_path / "backup", NOW)
    damage(tmp_path / "backup")
    with pytest.raises(error, match=words):
        restore(tmp_path / "backup", DataDirectory(tmp_path / "fresh"))
    assert not (tmp_path / "fresh").exists()
    assert not [path for path in tmp_path.iterdir() if "restoring" in path.name]


def test_a_damaged_file_in_an_earlier_backup_is_copied_again(published: EventFolder, tmp_path: Path) -> None:
    back_up(published.directory, tmp_path / "backup", NOW)
    _flip(tmp_path / "backup")
    assert back_up(published.directory, tmp_path / "backup", NOW).copied_bytes > 0
    restore(tmp_path / "backup", DataDirectory(tmp_path / "fresh"))


@pytest.mark.parametrize("there", ["events.duckdb", ".hidden"])
def test_nothing_is_restored_over_anything(published: EventFolder, tmp_path: Path, there: str) -> None:
    back_up(published.directory, tmp_path / "backup", NOW)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    restore(tmp_path / "backup", DataDirectory(fresh))
    shutil.rmtree(fresh)
    fresh.mkdir()
    (fresh / there).touch()
    with pytest.raises(RestoreFailed, match="it is not empty"):
        restore(tmp_path / "backup", DataDirectory(fresh))
    assert [path.name for path in fresh.iterdir()] == [there]


def test_a_backup_goes_nowhere_where_something_else_lies(published: EventFolder, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    with pytest.raises(BackupFailed, match=r"other files, such as letter\.txt"):
        back_up(published.directory, tmp_path / "full", NOW)
    (tmp_path / "file").touch()
    with pytest.raises(BackupFailed, match="file"):
        back_up(published.directory, tmp_path / "file", NOW)
    with pytest.raises(BackupFailed, match="within the data directory"):
        back_up(published.directory, published.directory.root / "backup", NOW)
    assert not (published.directory.root / "backup").exists()


def test_a_backup_of_another_store_or_key_is_not_replaced(published: EventFolder, tmp_path: Path) -> None:
    back_up(published.directory, tmp_path / "backup", NOW)
    before = _files(tmp_path / "backup")
    published.directory.owner_key.write_bytes(b"x" * 32)
    with pytest.raises(BackupFailed, match=r"its owner\.key is another one"):
        back_up(published.directory, tmp_path / "backup", NOW)
    published.directory.owner_key.write_bytes(b"k" * 32)
    published.store = "store-2"
    published.write_manifest()
    with pytest.raises(BackupFailed, match="a backup of another store"):
        back_up(published.directory, tmp_path / "backup", NOW)
    assert _files(tmp_path / "backup") == before


def test_two_backups_into_one_folder_do_not_meet(published: EventFolder, tmp_path: Path) -> None:
    failures: list[BackupFailed] = []

    def show(what: str, done: int, total: int) -> None:
        if not failures and what == "copying":
            try:
                back_up(published.directory, tmp_path / "backup", NOW)
            except BackupFailed as error:
                failures.append(error)

    back_up(published.directory, tmp_path / "backup", NOW, show)
    assert "another backup into it is under way" in str(failures[0])


def test_events_that_cannot_be_read_are_not_called_a_backup(published: EventFolder, tmp_path: Path) -> None:
    published.path(published.segments[0]).unlink()
    with pytest.raises(BackupFailed, match="a published segment is missing"):
        back_up(published.directory, tmp_path / "one", NOW)
    published.path(published.segments[0]).write_bytes(b"short")
    with pytest.raises(BackupFailed, match="it has 5 bytes"):
        back_up(published.directory, tmp_path / "two", NOW)
    published.directory.manifest.write_text('{"format":999}')
    with pytest.raises(NewerFile, match=r"manifest\.json has format 999"):
        back_up(published.directory, tmp_path / "three", NOW)
    published.directory.manifest.unlink()
    with pytest.raises(NothingToBackUp):
        back_up(published.directory, tmp_path / "four", NOW)


def test_the_commands(toolgauge: Run, published: EventFolder, tmp_path: Path) -> None:
    done = toolgauge("backup", "there", "--data-dir", "data", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    (row,) = json.loads(done.stdout)
    assert (row["segments"], row["rows"], row["published_through"]) == (6, 6, 3)
    done = toolgauge("restore", "there", "--data-dir", "fresh")
    assert (done.returncode, done.stderr) == (0, "note: restored to fresh; start `toolgauge serve` with it\n")
    done = toolgauge("restore", "there", "--data-dir", "fresh")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: nothing was restored to fresh: it is not empty")
    done = toolgauge("backup", "there", "--data-dir", "nowhere")
    assert (done.returncode, done.stderr.split(";")[0]) == (1, "error: no data directory at nowhere")
    assert toolgauge("backup").returncode == toolgauge("restore").returncode == 2


@pytest.mark.timeout(180)
def test_a_running_service_is_backed_up_and_comes_up_elsewhere(
    otlp: Any, start_service: Any, toolgauge: Run, tmp_path: Path
) -> None:
    resource = otlp.resource | {"owner.id": "alice"}

    def body(*numbers: int) -> bytes:
        calls = [otlp.tool_call | {"call_id": f"c{n}"} for n in numbers]
        records = [otlp.log(call, time=otlp.noon + n) for n, call in zip(numbers, calls, strict=True)]
        sent: bytes = otlp.logs(*records, resource=resource)
        return sent

    first = start_service(data_dir=tmp_path / "first", only="ingest")
    for n in range(20):
        assert first.post("logs", body(n)).status_code == 200
    stopping = threading.Event()
    later = 100

    def go_on() -> None:
        nonlocal later
        while not stopping.is_set():
            assert first.post("logs", body(later)).status_code == 200
            later += 1

    sender = threading.Thread(target=go_on)
    sender.start()
    try:
        done = toolgauge("backup", "there", "--data-dir", "first")
    finally:
        stopping.set()
        sender.join()
    assert done.returncode == 0, done.stderr
    query = ("sql", "SELECT call_id, owner FROM tool_calls ORDER BY ALL", "--format", "json", "--data-dir")
    owners = {row["owner"] for row in json.loads(toolgauge(*query, "first").stdout)}
    first.kill()

    assert toolgauge("restore", "there", "--data-dir", "second").returncode == 0
    # Readable at once, without a service, and with one.
    before = json.loads(toolgauge(*query, "second").stdout)
    second = start_service(data_dir=tmp_path / "second", only="ingest")
    found = json.loads(toolgauge(*query, "second").stdout)
    assert found == before
    assert {f"c{n}" for n in range(20)} <= {row["call_id"] for row in found}
    assert len({row["call_id"] for row in found}) == len(found)
    assert {row["owner"] for row in found} == owners
    # What is sent again is known, what came after the backup is new.
    answer = second.post("logs", body(*range(20), *range(100, later)))
    assert int(answer.headers["toolgauge-duplicates"]) == len(found)
    assert int(answer.headers["toolgauge-stored"]) == 20 + later - 100 - len(found)
    assert second.stop() == 0
    assert not list((tmp_path / "second").rglob("*.damaged-*"))
