"""What was answered is waited for; what cannot be had is said."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from analytics.exceptions import ManifestUnreadableError
from analytics.refresh import refresh
from sli.data_directory import DataDirectory
from tests.analytics.segments import EventFolder
from tests.toolgauge.services import service
from toolgauge.exceptions import NoDataDirectory
from toolgauge.freshness import (
    bring_up_to_date,
    is_locked,
    read_results_state,
    results_behind,
    wait_until_published,
)


@pytest.fixture
def notes() -> list[str]:
    return []


def test_without_a_service_nothing_is_waited_for(folder: EventFolder, notes: list[str]) -> None:
    folder.publish(folder.call("2026-11-30T10:00"))
    wait_until_published(folder.directory, notes.append)
    assert notes == []
    assert not folder.directory.ingest_lock.exists()


def test_what_is_committed_is_waited_for(folder: EventFolder, notes: list[str]) -> None:
    folder.publish(folder.call("2026-11-30T10:00"))
    publish: Callable[[], int] = lambda: folder.publish(folder.call("2026-11-30T11:00"))  # noqa: E731
    with service(folder.directory, {"ready": True, "committed": 2, "published": 1}):
        timer = threading.Timer(0.3, publish)
        timer.start()
        wait_until_published(folder.directory, notes.append)
        assert folder.published_through == 2
    assert notes == []


def test_a_service_that_takes_no_more_is_asked_as_well(folder: EventFolder, notes: list[str]) -> None:
    folder.publish(folder.call("2026-11-30T10:00"))
    with service(folder.directory, {"ready": False, "committed": 1, "published": 1}):
        wait_until_published(folder.directory, notes.append)
    assert notes == []


def test_patience_ends(folder: EventFolder, notes: list[str]) -> None:
    folder.publish(folder.call("2026-11-30T10:00"))
    with service(folder.directory, {"ready": True, "committed": 5}):
        wait_until_published(folder.directory, notes.append, patience_seconds=0.2)
    assert notes == ["commits 2 to 5 are not published yet and not shown"]


@pytest.mark.parametrize("readiness", [{}, {"committed": None}, {"committed": "many"}])
def test_an_answer_that_says_nothing_is_noted(
    folder: EventFolder, notes: list[str], readiness: dict[str, object]
) -> None:
    with service(folder.directory, readiness):
        wait_until_published(folder.directory, notes.append)
    assert "cannot be asked" in notes[0]


def test_a_service_that_is_not_reachable_is_noted(folder: EventFolder, notes: list[str]) -> None:
    with service(folder.directory, {"committed": 1}):
        folder.directory.endpoints.write_text('{"http": "127.0.0.1:1"}')
        wait_until_published(folder.directory, notes.append)
        folder.directory.endpoints.write_text("{")
        wait_until_published(folder.directory, notes.append)
    assert len(notes) == 2


def test_the_lock_is_seen_and_left_alone(folder: EventFolder) -> None:
    lock = folder.directory.ingest_lock
    assert not is_locked(lock)
    with service(folder.directory, {}):
        assert is_locked(lock)
        assert is_locked(lock)
    assert not is_locked(lock)


def test_results_that_are_behind_are_computed(folder: EventFolder, notes: list[str]) -> None:
    folder.publish(folder.call("2026-11-30T10:00"))
    assert results_behind(folder.directory)
    bring_up_to_date(folder.directory, notes.append)
    assert not results_behind(folder.directory)
    assert read_results_state(folder.directory) == ("store-1", 1)
    folder.publish(folder.call("2026-11-30T11:00"))
    assert results_behind(folder.directory)
    bring_up_to_date(folder.directory, notes.append)
    assert folder.table("sli_daily")[0]["total"] == 2
    assert notes == []


def test_results_that_are_not_behind_are_left(folder: EventFolder, notes: list[str]) -> None:
    folder.publish(folder.call("2026-11-30T10:00"))
    refresh(folder.directory)
    before = folder.directory.results.stat()
    bring_up_to_date(folder.directory, notes.append)
    after = folder.directory.results.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_damaged_results_are_set_aside_and_computed_again(folder: EventFolder, notes: list[str]) -> None:
    folder.publish(folder.call("2026-11-30T10:00"))
    refresh(folder.directory)
    folder.directory.results.write_bytes(b"x" * 5000)
    bring_up_to_date(folder.directory, notes.append)
    assert "damaged" in notes[0]
    assert folder.table("sli_daily")[0]["total"] == 1


def test_results_that_cannot_be_written_are_read_as_they_are(
    folder: EventFolder, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.publish(folder.call("2026-11-30T10:00"))
    # A file where the folder should be: nobody can write there, not even root.
    folder.directory.results_folder.write_text("")
    bring_up_to_date(folder.directory, notes.append)
    assert "those of the last refresh" in notes[0]


def test_a_damaged_manifest_is_an_error(folder: EventFolder, notes: list[str]) -> None:
    folder.publish(folder.call("2026-11-30T10:00"))
    folder.directory.manifest.write_text("{")
    with pytest.raises(ManifestUnreadableError):
        bring_up_to_date(folder.directory, notes.append)


def test_no_data_directory_is_an_error_and_an_empty_one_is_none(tmp_path: Path, notes: list[str]) -> None:
    with pytest.raises(NoDataDirectory, match="--data-dir"):
        bring_up_to_date(DataDirectory(tmp_path / "nowhere"), notes.append)
    bring_up_to_date(DataDirectory(tmp_path), notes.append)
    assert list(tmp_path.iterdir()) == []
    assert notes == []
