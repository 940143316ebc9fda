"""The doctor finds what is wrong, says what to do, and changes nothing."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analytics.refresh import refresh
from ingest.keep.owner_key import with_digest
from tests.analytics.segments import EventFolder
from tests.toolgauge.services import service
from toolgauge.commands.doctor import examine
from toolgauge.doctor.findings import Finding, State
from toolgauge.settings import load_settings

FREE = {"grpc_port": 0, "http_port": 0}


@pytest.fixture
def healthy(folder: EventFolder) -> EventFolder:
    folder.publish(folder.call("2026-11-30T10:00"), folder.call("2026-11-30T11:00", "error"))
    refresh(folder.directory)
    folder.directory.store.touch()
    folder.directory.owner_key.write_bytes(b"k" * 32)
    folder.directory.owner_key.chmod(0o600)
    return folder


def findings(folder: EventFolder, **flags: Any) -> list[Finding]:
    return examine(load_settings({"data_dir": folder.directory.root, **FREE, **flags}).settings)


def worrying(folder: EventFolder, **flags: Any) -> list[tuple[str, State, str]]:
    found = [each for each in findings(folder, **flags) if each.state is not State.OK]
    assert all(each.advice for each in found)
    return [(each.check, each.state, each.detail) for each in found]


def test_a_healthy_installation_has_no_findings_but_ok(healthy: EventFolder) -> None:
    assert worrying(healthy) == []
    checks = {each.check for each in findings(healthy)}
    assert checks >= {"python", "library", "data directory", "free space", "owner key", "service", "ports"}
    assert checks >= {"manifest", "segments", "results", "leftover files", "set aside", "events", "clock"}


def test_an_empty_data_directory_is_well(folder: EventFolder) -> None:
    folder.directory.root.mkdir()
    assert worrying(folder) == []


def test_no_data_directory_is_a_problem(folder: EventFolder) -> None:
    ((check, state, detail),) = worrying(folder)
    assert (check, state) == ("data directory", State.PROBLEM)
    assert str(folder.directory.root) in detail


def _wide_open(folder: EventFolder) -> None:
    folder.directory.owner_key.chmod(0o644)


def _cut_short(folder: EventFolder) -> None:
    folder.directory.owner_key.write_bytes(b"k")


def _without_key(folder: EventFolder) -> None:
    folder.directory.owner_key.unlink()


def _without_segment(folder: EventFolder) -> None:
    folder.path(folder.segments[0]).unlink()


def _with_short_segment(folder: EventFolder) -> None:
    path = folder.path(folder.segments[0])
    path.write_bytes(path.read_bytes()[:-10])


def _with_flipped_segment(folder: EventFolder) -> None:
    path = folder.path(folder.segments[0])
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])


def _with_damaged_journal(folder: EventFolder) -> None:
    folder.directory.journal.mkdir()
    (folder.directory.journal / "000000000001.journal").write_bytes(b"no frame at all")


def _with_another_key(folder: EventFolder) -> None:
    folder.directory.owner_key_copy.write_bytes(with_digest(b"K" * 32))


def _with_damaged_manifest(folder: EventFolder) -> None:
    folder.directory.manifest.write_text("[]")


def _with_damaged_results(folder: EventFolder) -> None:
    folder.directory.results.write_bytes(b"x" * 5000)


def _with_results_behind(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-30T12:00"))


def _without_results(folder: EventFolder) -> None:
    folder.directory.results.unlink()


def _with_orphan(folder: EventFolder) -> None:
    path = folder.path(folder.segments[0])
    path.with_name("000000000007-000000000007.parquet").write_bytes(path.read_bytes())


def _with_file_set_aside(folder: EventFolder) -> None:
    folder.directory.root.joinpath("events.duckdb.damaged-20261130T000000Z").touch()


def _with_event_of_tomorrow(folder: EventFolder) -> None:
    call = folder.call("2200-01-01T00:00")
    folder.publish(call | {"received_at": folder.call("2026-11-30T10:00")["time"]})
    refresh(folder.directory)


def _with_arrival_of_tomorrow(folder: EventFolder) -> None:
    folder.publish(folder.call("2200-01-01T00:00"))
    refresh(folder.directory)


def _with_stale_endpoints(folder: EventFolder) -> None:
    folder.directory.endpoints.write_text('{"http": "127.0.0.1:1"}')


@pytest.mark.parametrize(
    ("damage", "check", "state", "words"),
    [
        (_wide_open, "owner key", State.PROBLEM, "0644"),
        (_cut_short, "owner key", State.PROBLEM, "1 bytes"),
        (_without_key, "owner key", State.PROBLEM, "missing"),
        (_without_segment, "segments", State.PROBLEM, "is missing"),
        (_with_short_segment, "segments", State.PROBLEM, "bytes, not"),
        (_with_flipped_segment, "segments", State.PROBLEM, "not what was written"),
        (_with_damaged_journal, "journal", State.PROBLEM, "000000000001.journal"),
        (_with_another_key, "owner key", State.WARNING, "is not its copy"),
        (_with_damaged_manifest, "manifest", State.PROBLEM, "damaged"),
        (_with_damaged_results, "results", State.PROBLEM, "cannot be read"),
        (_with_results_behind, "results", State.WARNING, "1 commits behind"),
        (_without_results, "results", State.WARNING, "none"),
        (_with_orphan, "leftover files", State.WARNING, "000000000007"),
        (_with_file_set_aside, "set aside", State.WARNING, "events.duckdb.damaged-"),
        (_with_event_of_tomorrow, "clock", State.PROBLEM, "2200-01-01T00:00:00Z"),
        (_with_arrival_of_tomorrow, "clock", State.PROBLEM, "arrived at 2200"),
        (_with_stale_endpoints, "endpoints", State.WARNING, "gone"),
    ],
)
def test_what_is_wrong_is_found(
    healthy: EventFolder, damage: Callable[[EventFolder], None], check: str, state: State, words: str
) -> None:
    damage(healthy)
    found = [each for each in worrying(healthy) if each[0] == check]
    assert [each[1] for each in found] == [state]
    assert words in found[0][2]


def test_a_port_that_somebody_else_has_is_a_problem(healthy: EventFolder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ((check, state, detail),) = worrying(healthy, grpc_port=port)
    assert (check, state) == ("ports", State.PROBLEM)
    assert f"grpc_port {port}" in detail


def test_a_running_service_is_well(healthy: EventFolder) -> None:
    state = {"ready": True, "committed": 1, "published": 1, "publishing": True}
    with service(healthy.directory, state), socket.create_server(("127.0.0.1", 0)) as its_own:
        assert worrying(healthy, grpc_port=its_own.getsockname()[1]) == []
        running = [each.detail for each in findings(healthy) if each.check == "service"]
        assert running == ["running, process 4711"]


@pytest.mark.parametrize(
    ("readiness", "words"),
    [
        ({"ready": False, "committed": 7, "published": 1}, "takes no events"),
        ({"ready": True, "committed": 7, "published": 1, "publishing": False}, "cannot publish"),
    ],
)
def test_a_service_in_trouble_is_a_problem(
    healthy: EventFolder, readiness: dict[str, Any], words: str
) -> None:
    with service(healthy.directory, readiness):
        ((check, state, detail),) = worrying(healthy)
    assert (check, state) == ("readiness", State.PROBLEM)
    assert words in detail


def test_an_address_where_nothing_answers_is_a_problem(healthy: EventFolder) -> None:
    with service(healthy.directory, {"ready": True}):
        healthy.directory.endpoints.write_text(json.dumps({"grpc": "127.0.0.1:1"}))
        ((check, state, _),) = worrying(healthy)
    assert (check, state) == ("endpoints", State.PROBLEM)


def test_files_that_the_service_will_remove_are_well(healthy: EventFolder) -> None:
    _with_orphan(healthy)
    with service(healthy.directory, {"ready": True}):
        assert worrying(healthy) == []


def test_nothing_is_changed(healthy: EventFolder) -> None:
    def state(root: Path) -> dict[Path, tuple[int, bytes]]:
        return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in root.rglob("*") if p.is_file()}

    _with_orphan(healthy)
    _with_file_set_aside(healthy)
    before = state(healthy.directory.root)
    findings(healthy)
    assert state(healthy.directory.root) == before
