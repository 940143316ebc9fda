"""From OTLP over the network to the rates that the command line prints, to the last count."""

from __future__ import annotations

import json
import math
import random
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

ENVIRONMENTS = ("internal", "public_cloud", None)
VERSIONS = ("0.24.4", "0.9.0", "0.21.2", None)
OUTCOMES = (
    ("success", "success"),
    ("success", "success"),
    ("error", "error"),
    ("error", "not_started"),
    ("cancelled", "cancelled"),
    ("error", "success"),
    ("success", "error"),
    ("success", None),
)
DAY = 86_400 * 10**9
RECORDS = 12_000


def _fleet(otlp: Any, rng: random.Random) -> tuple[list[bytes], dict[tuple[str, str, str], dict[str, int]]]:
    """Requests of a small fleet, and the truth: counts by day, environment and version."""
    truth: dict[tuple[str, str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    requests = []
    number = 0
    while number < RECORDS:
        environment, version = rng.choice(ENVIRONMENTS), rng.choice(VERSIONS)
        resource = {"service.name": "qwen-code", "owner.id": f"owner-{rng.randrange(20)}"}
        if environment:
            resource["deployment.environment"] = environment
        if version:
            resource["service.version"] = version
        records = []
        for _ in range(rng.randrange(1, 200)):
            status, execution = rng.choice(OUTCOMES)
            day = rng.randrange(3)
            time = otlp.noon - day * DAY + rng.randrange(11 * 3600 * 10**9)
            call = otlp.tool_call | {"call_id": f"c{number}", "status": status, "execution_status": execution}
            if execution is None:
                del call["execution_status"]
            records.append(otlp.log(call, time=time))
            cell = truth[f"2026-11-{30 - day:02d}T00:00:00Z", environment or "unset", version or "unknown"]
            cell["total"] += 1
            cell[execution or "unknown"] += 1
            cell["contract_violations"] += (status, execution) == ("success", "error")
            number += 1
        requests.append(otlp.logs(*records, resource=resource))
    return requests, truth


@pytest.mark.timeout(180)
def test_the_sli_equals_the_truth_whatever_is_sent_twice(
    otlp: Any, start_service: Callable[..., Any], toolgauge: Any
) -> None:
    rng = random.Random(11)
    requests, truth = _fleet(otlp, rng)
    service = start_service()
    deliveries = requests + rng.sample(requests, len(requests) // 5)
    rng.shuffle(deliveries)

    def send(numbered: tuple[int, bytes]) -> None:
        number, body = numbered
        if number % 2:
            assert service.post("logs", body).status_code == 200
        else:
            service.export("logs", body)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(send, enumerate(deliveries)))

    done = toolgauge("sli", "--data-dir", str(service.data_dir), "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    found = {(row["time"], row["environment"], row["service_version"]): row for row in rows}
    assert set(found) == set(truth)
    for key, cell in truth.items():
        row = found[key]
        counts = ("total", "success", "error", "cancelled", "not_started", "unknown", "contract_violations")
        assert {name: row[name] for name in counts} == {name: cell[name] for name in counts}
        executed = cell["success"] + cell["error"]
        assert row["executed"] == executed
        assert row["failure_rate"] == pytest.approx(cell["error"] / executed)
        low, high = _wilson(cell["error"], executed)
        assert (row["failure_rate_low"], row["failure_rate_high"]) == (
            pytest.approx(low),
            pytest.approx(high),
        )
        assert row["unknown_ratio"] == pytest.approx(cell["unknown"] / cell["total"])
    versions = [row["service_version"] for row in rows if row["environment"] == "internal"][:4]
    assert versions == ["0.9.0", "0.21.2", "0.24.4", "unknown"]

    hourly = json.loads(
        toolgauge("sli", "--by", "hour", "--data-dir", str(service.data_dir), "--format", "json").stdout
    )
    assert sum(row["total"] for row in hourly) == sum(cell["total"] for cell in truth.values())
    service.stop()
    rebuilt = toolgauge("rebuild", "--data-dir", str(service.data_dir))
    assert rebuilt.returncode == 0, rebuilt.stderr
    again = toolgauge("sli", "--data-dir", str(service.data_dir), "--format", "json")
    assert again.stdout == done.stdout


def _wilson(events: int, trials: int) -> tuple[float, float]:
    """Wilson's score interval, written out once more."""
    z = 1.959963984540054
    middle = (events + z * z / 2) / (trials + z * z)
    half = z / (trials + z * z) * math.sqrt(events * (trials - events) / trials + z * z / 4)
    return middle - half, middle + half
