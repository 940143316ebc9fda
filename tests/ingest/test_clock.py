"""A clock that is moved: real requests arrive at made-up times, and never among real ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.clock import MovedClock, move_clock, open_clock, system_clock
from ingest.exceptions import ClockNotMoved
from sli.data_directory import DataDirectory

HOUR = 3600 * 1_000_000_000


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def test_a_moved_clock_says_what_its_file_says(tmp_path: Path) -> None:
    file = tmp_path / "clock"
    with pytest.raises(ClockNotMoved):
        MovedClock(file)
    move_clock(file, 5)
    clock = MovedClock(file)
    assert clock() == 5
    move_clock(file, 7)
    assert clock() == 7
    file.write_text("moved clock 12")
    assert clock() == 7, "half a time is none"
    file.unlink()
    assert clock() == 7


def test_the_clock_is_the_systems_unless_a_file_is_named(tmp_path: Path) -> None:
    assert open_clock(None, DataDirectory(tmp_path), on_loopback=False) is system_clock


def test_no_clock_is_moved_beyond_loopback_or_over_real_events(tmp_path: Path) -> None:
    directory, file = DataDirectory(tmp_path), tmp_path / "clock"
    move_clock(file, 5)
    with pytest.raises(ClockNotMoved, match="loopback"):
        open_clock(file, directory, on_loopback=False)
    directory.store.touch()
    with pytest.raises(ClockNotMoved, match="real time"):
        open_clock(file, directory, on_loopback=True)
    directory.store.unlink()
    assert open_clock(file, directory, on_loopback=True)() == 5
    directory.store.touch()
    assert open_clock(file, directory, on_loopback=True)() == 5, "moved from the first event on"


def test_arrival_and_uptime_follow_the_moved_clock_and_an_outage_is_a_gap(
    otlp: Any, start_service: Callable[..., Any], toolgauge: Any, tmp_path: Path
) -> None:
    file = tmp_path / "clock"

    def serve() -> Any:
        return start_service(data_dir=tmp_path / "data", clock_file=file)

    def call(number: int, time: int) -> bytes:
        record = dict(otlp.tool_call, call_id=f"call-{number}")
        del record["event.timestamp"]
        return bytes(otlp.logs(otlp.log(record, time=time)))

    start = otlp.noon
    move_clock(file, start)
    service = serve()
    for hour in range(1, 4):
        move_clock(file, start + hour * HOUR)
        assert service.post("logs", call(hour, start + hour * HOUR - 1_000_000_000)).status_code == 200
    service.stop()
    move_clock(file, start + 8 * HOUR)
    service = serve()
    move_clock(file, start + 9 * HOUR)
    assert service.post("logs", call(9, start + 9 * HOUR - 1_000_000_000)).status_code == 200
    service.stop()

    def rows(query: str) -> list[dict[str, str]]:
        done = toolgauge("sql", query, "--data-dir", str(service.data_dir), "--format", "json")
        found: list[dict[str, str]] = json.loads(done.stdout)
        return found

    calls = rows("SELECT time, received_at FROM tool_calls ORDER BY time")
    assert [_time(row["received_at"]) - _time(row["time"]) for row in calls] == [timedelta(seconds=1)] * 4
    uptime = rows("SELECT since, until FROM receiver_uptime ORDER BY since, until")
    noon = _time(otlp.noon_text)
    gaps, until = [], noon
    for row in uptime:
        if _time(row["since"]) > until:
            gaps.append((until - noon, _time(row["since"]) - noon))
        until = max(until, _time(row["until"]))
    assert gaps == [(timedelta(hours=3), timedelta(hours=8))]
    assert until - noon == timedelta(hours=9)
