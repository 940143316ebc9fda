"""Two halves that stand and fall apart, and come and go together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any


def _wait(until: Callable[[], Any], seconds: float = 40) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := until()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return found


def _halves(service: Any) -> dict[str, int]:
    """The process ids of the halves, by name."""
    children = subprocess.run(
        ["ps", "--ppid", str(service.process.pid), "-o", "pid=,args="],
        capture_output=True,
        text=True,
        check=True,
    )
    pairs = (line.split(None, 1) for line in children.stdout.splitlines())
    return {half: int(pid) for pid, args in pairs for half in ("ingest", "query") if f"--only {half}" in args}


def _is_another(service: Any, half: str, before: int) -> bool:
    return _halves(service).get(half) not in (None, before)


def _ready(service: Any) -> bool:
    """Whether the addresses are written and answer."""
    path = service.data_dir / "endpoints.json"
    try:
        service.endpoints = json.loads(path.read_text())
        return bool(service.http.get("/readyz").status_code == 200)
    except (OSError, ValueError, service.transport_error):
        return False


def test_a_half_that_dies_is_started_again_on_its_ports(
    otlp: Any, start_service: Callable[..., Any], toolgauge: Any
) -> None:
    service = start_service()
    before, halves = dict(service.endpoints), _halves(service)
    assert set(halves) == {"ingest", "query"}
    for half in ("query", "ingest"):
        os.kill(halves[half], signal.SIGKILL)
        _wait(partial(_is_another, service, half, halves[half]))
        _wait(lambda: _ready(service))
        assert service.endpoints == before
    assert service.post("logs", otlp.logs(otlp.log(otlp.tool_call))).status_code == 200
    done = toolgauge("sli", "--data-dir", str(service.data_dir), "--format", "json")
    assert [row["total"] for row in json.loads(done.stdout)] == [1]


def test_the_halves_end_when_their_supervisor_is_killed(otlp: Any, start_service: Callable[..., Any]) -> None:
    service = start_service()
    halves = _halves(service)
    assert service.post("logs", otlp.logs(otlp.log(otlp.tool_call))).status_code == 200
    service.process.kill()
    service.process.wait()
    _wait(lambda: not any(_runs(pid) for pid in halves.values()))
    service.start()
    assert service.post("logs", otlp.logs(otlp.log(otlp.tool_call))).headers["toolgauge-duplicates"] == "1"


def test_a_second_service_does_no_harm_to_the_first(otlp: Any, start_service: Callable[..., Any]) -> None:
    service = start_service()
    command = [sys.executable, "-m", "toolgauge", "serve", "--data-dir", str(service.data_dir)]
    second = subprocess.run(
        [*command, "--grpc-port", "0", "--http-port", "0"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert second.returncode == 1
    assert f"is in use by process {_halves(service)['ingest']}; stop it, or choose another" in second.stderr
    assert json.loads((service.data_dir / "endpoints.json").read_text()) == service.endpoints
    assert service.post("logs", otlp.logs(otlp.log(otlp.tool_call))).status_code == 200


def test_stopping_publishes_what_was_answered_and_leaves_no_addresses(
    otlp: Any, start_service: Callable[..., Any], toolgauge: Any
) -> None:
    service = start_service()
    assert service.post("logs", otlp.logs(otlp.log(otlp.tool_call))).status_code == 200
    assert service.stop() == 0
    assert not (service.data_dir / "endpoints.json").exists()
    done = toolgauge(
        "sql", "SELECT call_id FROM tool_calls", "--no-wait", "--data-dir", str(service.data_dir)
    )
    assert "call-1" in done.stdout
    assert "Traceback" not in service.log.read_text()
    assert "Fatal" not in service.log.read_text()


def test_a_terminals_ctrl_c_stops_in_order(
    otlp: Any, start_service: Callable[..., Any], toolgauge: Any
) -> None:
    service = start_service()
    assert service.post("logs", otlp.logs(otlp.log(otlp.tool_call))).status_code == 200
    os.killpg(service.process.pid, signal.SIGINT)
    assert service.process.wait(timeout=40) == 0
    log = service.log.read_text()
    assert '"event": "stopped"' in log
    assert "Traceback" not in log
    assert not (service.data_dir / "events.duckdb.wal").exists()
    done = toolgauge(
        "sql", "SELECT call_id FROM tool_calls", "--no-wait", "--data-dir", str(service.data_dir)
    )
    assert "call-1" in done.stdout


def test_after_a_kill_commands_show_what_was_answered_without_a_service(
    otlp: Any, start_service: Callable[..., Any], toolgauge: Any
) -> None:
    service = start_service("--config", "/dev/null", TOOLGAUGE_PUBLISH_INTERVAL_SECONDS="600")
    assert service.post("logs", otlp.logs(otlp.log(otlp.tool_call))).status_code == 200
    service.kill()
    done = toolgauge("sli", "--data-dir", str(service.data_dir), "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [row["total"] for row in json.loads(done.stdout)] == [1]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
