"""What the demo fleet exports: the same bytes each time, and nothing that would not be kept."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest

from ingest.decode.points import Points
from ingest.decode.protobuf import decode_fields
from ingest.decode.wire import Signal
from ingest.normalise.counters import normalise_points
from sli.schemas import EVENT_DATASETS
from toolgauge.demo.days import Export, Outage, day_of
from toolgauge.demo.fleet import OUTAGE, Fleet

LAST_DAY = date(2026, 12, 2)
SMALL = Fleet(LAST_DAY, size=0.15, days=6)

_DIGEST = """
import hashlib
from datetime import date
from toolgauge.demo.days import Export, day_of
from toolgauge.demo.fleet import Fleet
fleet = Fleet(date(2026, 12, 2), size=0.15, days=6)
digest = hashlib.sha256()
for ago in range(5, 2, -1):
    for step in day_of(fleet, ago):
        for request in step.requests if isinstance(step, Export) else []:
            digest.update(request.body)
print(digest.hexdigest())
"""


@pytest.fixture(scope="module")
def exports() -> list[Export]:
    steps = [step for ago in range(SMALL.days - 1, -1, -1) for step in day_of(SMALL, ago)]
    return [step for step in steps if isinstance(step, Export)]


def test_the_same_seed_and_day_give_the_same_bytes_in_every_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", _DIGEST],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1
    digest = hashlib.sha256()
    for step in day_of(Fleet(LAST_DAY, seed=2, size=0.15, days=6), 5):
        for request in step.requests if isinstance(step, Export) else []:
            digest.update(request.body)
    assert digest.hexdigest().encode() not in digests.pop()


def test_exports_are_in_order_and_nothing_is_exported_while_the_receiver_is_down() -> None:
    before = 0
    for ago in (OUTAGE + 1, OUTAGE, OUTAGE - 1):
        outages = []
        for step in day_of(SMALL, ago):
            if isinstance(step, Outage):
                outages.append(step)
                assert before < step.since_unix_nano < step.until_unix_nano
                before = step.until_unix_nano
            else:
                assert before < step.unix_nano
                assert datetime.fromtimestamp(step.unix_nano / 1e9, UTC).date() == SMALL.day(ago)
                before = step.unix_nano
        assert len(outages) == (ago == OUTAGE)


def test_everything_decodes_and_nothing_is_rejected_or_ahead_of_its_arrival(
    otlp: Any, exports: list[Export]
) -> None:
    rows: Counter[str] = Counter()
    calls: Counter[tuple[str, str, str]] = Counter()
    for export in exports:
        for request in export.requests:
            if request.signal == "metrics":
                arrival = np.array([export.unix_nano], dtype=np.int64)
                points = Points.of(decode_fields(Signal.METRICS, [request.body]))
                events = normalise_points(points, arrival, "owner.id", otlp.owner_key)
            else:
                signal = Signal(request.signal)
                events = otlp.normalised(request.body, signal=signal, arrival=export.unix_nano)
            assert not any(records.any() for records in events.rejected.values())
            for found in events.rows:
                rows[found.dataset] += len(found.table)
                assert found.table["time_unix_nano"].to_numpy().max() <= export.unix_nano
                sources = set(found.table["time_source"].to_pylist())
                assert sources == {"record"}
    own = {"ingest_counts", "rejected", "receiver_uptime", "loops"}
    assert set(rows) | own == {dataset.name for dataset in EVENT_DATASETS}
    for export in exports:
        calls += export.calls
    # Some batches come twice.
    assert sum(calls.values()) <= rows["tool_calls"] <= 1.2 * sum(calls.values())


def test_the_fleet_is_what_the_tour_says() -> None:
    fleet = Fleet(LAST_DAY, size=0.4)
    found: Counter[tuple[str, str, str]] = Counter()
    decisions: Counter[str] = Counter()
    for ago in (33, 25, 15, 13, 8, 1):
        for step in day_of(fleet, ago):
            if isinstance(step, Export):
                found += step.calls
                decisions += step.decisions
    assert {environment for environment, _, _ in found} == {
        "internal",
        "staging",
        "private_cloud",
        "public_cloud",
        "unset",
    }
    assert {status for _, version, status in found if version == "0.15.10"} == {"unknown"}
    assert {"tracked", "reset", "would_warn", "would_stop", "warned"} <= set(decisions)

    def rate(version: str) -> float:
        error, success = (
            sum(n for (_, v, status), n in found.items() if v == version and status == wanted)
            for wanted in ("error", "success")
        )
        return error / (error + success)

    assert rate("0.24.3") > rate("0.24.4") + 0.01
    assert rate("0.23.4") > rate("0.21.10") + 0.01
