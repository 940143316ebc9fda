"""SIGKILL at any moment: what was answered is there once, what was not comes again."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import grpc
import httpx
import pytest

KILLS = 5
REQUESTS = 240
PER_REQUEST = 25


@pytest.mark.timeout(240)
def test_every_record_is_there_once_after_kills_under_load(
    otlp: Any, start_service: Callable[..., Any], toolgauge: Any
) -> None:
    service = start_service()
    bodies = {
        number: otlp.logs(
            *(
                otlp.log(otlp.tool_call | {"call_id": f"{number}-{n}"}, time=otlp.noon + number * 10**9 + n)
                for n in range(PER_REQUEST)
            )
        )
        for number in range(REQUESTS)
    }
    rng = random.Random(5)
    waiting = list(bodies)
    rng.shuffle(waiting)
    lock = threading.Lock()
    answered: set[int] = set()
    finished = threading.Event()

    def send(over_grpc: bool) -> None:
        """Send until everything was answered; what was not answered is sent again, as exporters do."""
        while not finished.is_set():
            with lock:
                number = waiting.pop() if waiting else None
            if number is None:
                time.sleep(0.02)
                continue
            try:
                if over_grpc:
                    service.export("logs", bodies[number])
                else:
                    assert service.post("logs", bodies[number]).status_code == 200
            except (httpx.HTTPError, grpc.RpcError, RuntimeError, ValueError):
                # Refused, cut off, or the service is being started again.
                with lock:
                    waiting.insert(0, number)
                time.sleep(0.02)
            else:
                with lock:
                    answered.add(number)
                    if len(answered) == REQUESTS:
                        finished.set()

    threads = [threading.Thread(target=send, args=(n % 2 == 0,)) for n in range(6)]
    for thread in threads:
        thread.start()
    kills_with_loss = 0
    for _ in range(KILLS):
        if finished.wait(rng.uniform(0.05, 0.5)):
            break
        service.kill()
        with lock:
            kills_with_loss += len(answered) < REQUESTS
        service.start()
    assert finished.wait(120), f"{len(answered)} of {REQUESTS} answered"
    for thread in threads:
        thread.join()
    assert kills_with_loss >= 2

    query = "SELECT call_id, count(*) AS n FROM tool_calls GROUP BY ALL"
    done = toolgauge("sql", query, "--data-dir", str(service.data_dir), "--format", "json")
    assert done.returncode == 0, done.stderr
    found = Counter({row["call_id"]: row["n"] for row in json.loads(done.stdout)})
    assert found == Counter(f"{number}-{n}" for number in bodies for n in range(PER_REQUEST))


def test_an_answered_record_is_there_after_a_kill_right_behind_the_answer(
    otlp: Any, start_service: Callable[..., Any], toolgauge: Any
) -> None:
    service = start_service()
    for number in range(3):
        call = otlp.tool_call | {"call_id": f"call-{number}"}
        assert service.post("logs", otlp.logs(otlp.log(call))).status_code == 200
        service.kill()
        service.start()
    done = toolgauge(
        "sql",
        "SELECT call_id FROM tool_calls ORDER BY ALL",
        "--data-dir",
        str(service.data_dir),
        "--format",
        "csv",
    )
    assert done.stdout.split() == ["call_id", "call-0", "call-1", "call-2"]
