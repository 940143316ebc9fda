"""The doctor finds what is wrong, says what to do, and changes nothing."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from analytics.duplicates import check_duplicates
from analytics.refresh import refresh
from ingest.keep.backup import back_up
from ingest.keep.owner_key import with_digest
from sli.schemas import EVENT_FORMAT
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


def test_segments_that_were_merged_are_no_cause_for_worry(healthy: EventFolder) -> None:
    healthy.publish(healthy.call("2026-11-30T12:00"))
    before = {path: path.read_bytes() for path in healthy.directory.events.rglob("*.parquet")}
    healthy.merge(healthy.segments[0].day)
    refresh(healthy.directory)
    # As when the service ended while readers might still have had the manifest of before.
    for path, content in before.items():
        path.write_bytes(content)
    assert worrying(healthy) == []
    _with_orphan(healthy)
    assert [each[0] for each in worrying(healthy)] == ["leftover files"]


def _details(folder: EventFolder, check: str, **flags: Any) -> list[tuple[State, str]]:
    return [(each.state, each.detail) for each in findings(folder, **flags) if each.check == check]


def test_an_old_format_is_named_and_a_newer_one_is_a_problem(healthy: EventFolder) -> None:
    text = healthy.directory.manifest.read_text()
    healthy.directory.manifest.write_text(text.replace(f'"format":{EVENT_FORMAT}', '"format":1'))
    assert _details(healthy, "format") == [
        (State.OK, f"1; the next start of the service makes it {EVENT_FORMAT}")
    ]
    healthy.directory.manifest.write_text(text.replace(f'"format":{EVENT_FORMAT}', '"format":999'))
    ((state, detail),) = _details(healthy, "manifest")
    assert state is State.PROBLEM
    assert "format 999" in detail


def test_newer_results_are_a_problem_that_rebuild_does_not_solve(healthy: EventFolder) -> None:
    with duckdb.connect(healthy.directory.results) as results:
        results.execute("UPDATE results_info SET format = 999")
    (finding,) = [each for each in findings(healthy) if each.check == "results"]
    assert finding.state is State.PROBLEM
    assert "format 999" in finding.detail
    assert "install the version that wrote it" in finding.advice


def test_days_that_nobody_merges_are_named(healthy: EventFolder) -> None:
    assert _details(healthy, "compaction") == [(State.OK, "all days that are over are merged")]
    for hour in (10, 11):
        healthy.publish(healthy.call(f"2026-11-03T{hour}:00"))
    ((state, detail),) = _details(healthy, "compaction")
    assert (state, detail) == (
        State.WARNING,
        "1 days are over and still in pieces, the first is 2026-11-03 of tool_calls",
    )


def test_retention_is_named_and_what_is_older_is_a_warning(healthy: EventFolder) -> None:
    assert _details(healthy, "retention") == [(State.OK, "everything is kept; the oldest day is 2026-11-30")]
    day = 86_400
    age = int(time.time()) // day - (date(2026, 11, 30) - date(1970, 1, 1)).days
    assert _details(healthy, "retention", retention_days=age + 1)[0][0] is State.OK
    if age > 1:
        assert _details(healthy, "retention", retention_days=age - 1)[0][0] is State.WARNING


def test_the_last_duplicate_check_is_named(healthy: EventFolder) -> None:
    ((state, detail),) = _details(healthy, "duplicate check")
    assert (state, detail[:8]) == (State.OK, "none yet")
    check_duplicates(healthy.directory)
    ((state, detail),) = _details(healthy, "duplicate check")
    assert state is State.OK
    assert detail.endswith("no event twice among 2 rows")
    _change_runs(healthy, "SET started = started - INTERVAL 3 DAY")
    assert _details(healthy, "duplicate check")[0][0] is State.WARNING
    twice = healthy.call("2026-11-30T13:00")
    healthy.publish(twice, twice)
    check_duplicates(healthy.directory)
    ((state, detail),) = _details(healthy, "duplicate check")
    assert state is State.PROBLEM
    assert "1 of tool_calls" in detail


def _change_runs(folder: EventFolder, change: str) -> None:
    with duckdb.connect(folder.directory.results) as results:
        results.execute(f"UPDATE runs {change} WHERE job = 'duplicate_check'")


def test_the_last_backup_is_named(healthy: EventFolder, tmp_path: Path) -> None:
    assert _details(healthy, "backup")[0][0] is State.OK
    back_up(healthy.directory, tmp_path / "there", datetime.now(UTC))
    ((state, detail),) = _details(healthy, "backup")
    assert state is State.OK
    assert detail.endswith(f" to {tmp_path / 'there'}, through commit 1")
    back_up(healthy.directory, tmp_path / "there", datetime.now(UTC) - timedelta(days=8))
    assert _details(healthy, "backup")[0][0] is State.WARNING
    healthy.directory.last_backup.write_text("[]")
    assert _details(healthy, "backup")[0][0] is State.WARNING


def test_nothing_is_changed(healthy: EventFolder) -> None:
    def state(root: Path) -> dict[Path, tuple[int, bytes]]:
        return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in root.rglob("*") if p.is_file()}

    _with_orphan(healthy)
    _with_file_set_aside(healthy)
    before = state(healthy.directory.root)
    findings(healthy)
    assert state(healthy.directory.root) == before
