"""A small demo, loaded through the real service: what is stored is exactly what the fleet says it sent."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from sli.data_directory import DataDirectory
from toolgauge.demo.days import Export, Outage, day_of
from toolgauge.demo.fleet import OUTAGE, Fleet
from toolgauge.demo.loaded import read_loaded
from toolgauge.demo.loading import load, what_is_loaded
from toolgauge.demo.receiver import DemoReceiver
from toolgauge.exceptions import NotEmpty

# Days that are long over, the one of the outage among them.
FLEET = Fleet(date(2026, 3, 6), size=0.06, days=OUTAGE + 2)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    """A directory with the demo in it, whose loading was cut off once and has begun a day again."""
    directory = DataDirectory(tmp_path_factory.mktemp("demo") / "data")
    directory.root.mkdir()
    shown: list[int] = []
    noon_of_second_day = (_midnight(FLEET.day(FLEET.days - 2)) + 12 * 3600) * 10**9
    move = DemoReceiver.move

    def interrupted(self: DemoReceiver, unix_nano: int, goes_on: bool = False) -> None:
        move(self, unix_nano, goes_on)
        if goes_on and unix_nano > noon_of_second_day:
            # What was sent waits to be written.
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DemoReceiver, "move", interrupted)
        with pytest.raises(KeyboardInterrupt):
            load(directory, what_is_loaded(directory, FLEET), None, lambda what, done, total: None)
    loaded = read_loaded(directory.demo)
    assert loaded is not None
    assert (loaded.days_loaded, loaded.finished) == (1, False)
    another = Fleet(date(2020, 1, 1))
    load(directory, what_is_loaded(directory, another), None, lambda what, done, total: shown.append(done))
    assert shown == list(range(1, FLEET.days))
    return directory


def _midnight(day: date) -> int:
    """The beginning of a day, seconds since 1970."""
    return int(datetime.combine(day, datetime.min.time(), UTC).timestamp())


def _rows(toolgauge: Any, directory: DataDirectory, query: str) -> list[dict[str, Any]]:
    done = toolgauge("sql", query, "--data-dir", str(directory.root), "--format", "json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def _steps() -> list[Export | Outage]:
    return [step for ago in range(FLEET.days - 1, -1, -1) for step in day_of(FLEET, ago)]


def test_what_is_stored_is_what_was_sent(toolgauge: Any, directory: DataDirectory) -> None:
    calls: Counter[tuple[str, ...]] = Counter()
    decisions: Counter[str] = Counter()
    for step in _steps():
        if isinstance(step, Export):
            calls += step.calls
            decisions += step.decisions
    where = "environment, service_version, execution_status"
    stored = _rows(toolgauge, directory, f"SELECT {where}, count(*) FROM tool_calls GROUP BY ALL")
    assert {tuple(row.values())[:3]: tuple(row.values())[3] for row in stored} == calls
    guards = _rows(toolgauge, directory, "SELECT decision, count(*) FROM guard_decisions GROUP BY ALL")
    assert {row["decision"]: tuple(row.values())[1] for row in guards} == decisions
    assert _rows(toolgauge, directory, "SELECT * FROM rejected") == []


def test_the_outage_is_the_only_gap_and_arrivals_lie_in_the_past(
    toolgauge: Any, directory: DataDirectory
) -> None:
    (outage,) = (step for step in _steps() if isinstance(step, Outage))
    uptime = _rows(
        toolgauge,
        directory,
        "SELECT epoch_us(since) AS since, epoch_us(until) AS until FROM receiver_uptime ORDER BY ALL",
    )
    until = _midnight(FLEET.day(FLEET.days - 1)) * 10**6
    gaps = []
    for row in uptime:
        if row["since"] - until > 1_000_000:
            gaps.append((until * 1000, row["since"] * 1000))
        until = max(until, row["until"])
    assert gaps == [(outage.since_unix_nano, outage.until_unix_nano)]
    assert _midnight(FLEET.day(-1)) * 10**6 - until <= 1
    (late,) = _rows(
        toolgauge,
        directory,
        "SELECT min(epoch(received_at) - epoch(time)) AS least, "
        "median(epoch(received_at) - epoch(time)) AS usual FROM tool_calls",
    )
    assert late["least"] >= 0
    assert late["usual"] < 3600


def test_a_finished_demo_just_starts_and_goes_on_receiving(
    otlp: Any, directory: DataDirectory, start_service: Callable[..., Any], toolgauge: Any
) -> None:
    before = directory.demo.stat()
    service = start_service("--demo", data_dir=directory.root)
    assert "a bad release" in service.log.read_text()
    assert "loading" not in service.log.read_text()
    now = time.time_ns()
    sent = {k: v for k, v in otlp.tool_call.items() if k != "event.timestamp"}
    assert service.post("logs", otlp.logs(otlp.log(sent, time=now))).status_code == 200
    (row,) = _rows(
        toolgauge,
        directory,
        f"SELECT abs(epoch(received_at) - {now // 10**9}) < 60 AS is_now FROM tool_calls "
        "WHERE call_id = 'call-1'",
    )
    assert row["is_now"]
    assert service.stop() == 0
    assert directory.demo.stat().st_mtime_ns == before.st_mtime_ns


def test_where_other_events_are_the_demo_is_refused(toolgauge: Any, tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.store.touch()
    with pytest.raises(NotEmpty):
        what_is_loaded(directory, FLEET)
    done = toolgauge("serve", "--demo", "--data-dir", str(tmp_path))
    assert done.returncode == 2
    assert "--data-dir" in done.stderr
    assert toolgauge("serve", "--demo", "--only", "ingest", "--data-dir", str(tmp_path)).returncode == 2
