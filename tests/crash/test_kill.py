"""SIGKILL at any moment: what was answered is there once, what was not comes again.

CRASH_KILLS sets how often the ingest process is killed (6 if not set).
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import duckdb
import grpc
import httpx
import pytest

from sli.manifest import Manifest

KILLS = int(os.environ.get("CRASH_KILLS", "6"))
PER_REQUEST = 25
SENDERS = 4
# Small, so that the log is folded in and journal files are dropped between two kills too.
_PROGRAM = (
    "import ingest.keep.database as database; database._CHECKPOINT_BYTES = '200KiB'; "
    "import ingest.keep.journal as journal; journal._FILE_BYTES = 200_000; "
    "from toolgauge.cli import main; main()"
)


class Load:
    """Senders over both transports that send each request until it is answered, and some of them again."""

    def __init__(self, otlp: Any, service: Any, rng: random.Random) -> None:
        self._otlp, self._service, self._rng = otlp, service, rng
        self._lock = threading.Lock()
        self._next = 0
        self._again: list[int] = []
        self._stopping = threading.Event()
        # Cleared while the service is down: senders that fail at once take the processor from its start.
        self.service_is_up = threading.Event()
        self.service_is_up.set()
        self.sent: set[int] = set()
        self.answered: Counter[int] = Counter()
        self.cut_off = 0
        self._threads = [threading.Thread(target=self._send, args=(n % 2 == 0,)) for n in range(SENDERS)]
        for thread in self._threads:
            thread.start()

    def body(self, number: int) -> bytes:
        """Every fourth record is one of the request before, as overlapping batches have it."""
        made: bytes = self._otlp.logs(
            *(
                self._otlp.log(
                    self._otlp.tool_call | {"call_id": f"{of}-{n}"}, time=self._otlp.noon + of * 10**9 + n
                )
                for n in range(PER_REQUEST)
                for of in ((number, number - 1) if n % 4 == 0 and number else (number,))
            )
        )
        return made

    def wait_for(self, answers: int) -> None:
        """Wait until so many more requests are answered."""
        wanted = self.answered.total() + answers
        until = time.monotonic() + 120
        while self.answered.total() < wanted:
            assert time.monotonic() < until, f"{self.answered.total()} answers"
            time.sleep(0.005)

    def finish(self) -> None:
        """Stop once everything that was sent is answered."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _take(self) -> int | None:
        with self._lock:
            if self._again and (self._stopping.is_set() or self._rng.random() < 0.5):
                return self._again.pop(self._rng.randrange(len(self._again)))
            if self._stopping.is_set():
                return None
            self._next += 1
            self.sent.add(self._next - 1)
            return self._next - 1

    def _send(self, over_grpc: bool) -> None:
        while (number := self._take()) is not None:
            self.service_is_up.wait()
            try:
                if over_grpc:
                    self._service.export("logs", self.body(number), timeout=30)
                else:
                    assert self._service.post("logs", self.body(number)).status_code == 200
            except (httpx.HTTPError, grpc.RpcError, RuntimeError, ValueError):
                # Refused, cut off, or the service is being started again.
                with self._lock:
                    self._again.append(number)
                    self.cut_off += 1
            else:
                with self._lock:
                    self.answered[number] += 1
                    if self.answered[number] == 1 and self._rng.random() < 0.1:
                        # The answer is lost on its way to another collector, which sends the same.
                        self._again.append(number)


@pytest.mark.timeout(7200)
def test_every_record_is_there_once_after_kills_under_load(
    otlp: Any, service_class: type[Any], tmp_path: Any
) -> None:
    class Killed(service_class):  # type: ignore[misc]
        def start(self) -> None:
            self.command: list[str] = [
                self.command[0],
                "-c",
                _PROGRAM,
                *self.command[self.command.index("serve") :],
            ]
            super().start()

    rng = random.Random(5)
    service = Killed(tmp_path / "data", only="ingest", TOOLGAUGE_PUBLISH_INTERVAL_SECONDS="0.2")
    load = Load(otlp, service, rng)
    try:
        for _ in range(KILLS):
            load.wait_for(rng.randrange(1, 20))
            time.sleep(rng.uniform(0, 0.05))
            load.service_is_up.clear()
            service.kill()
            service.start()
            load.service_is_up.set()
        load.wait_for(5)
        load.finish()
        assert service.stop() == 0
    finally:
        if service.process.poll() is None:
            service.kill()
    assert set(load.answered) == load.sent
    assert load.cut_off >= KILLS / 2

    manifest = Manifest.parse((service.data_dir / "events/manifest.json").read_text())
    files = [str(service.data_dir / "events" / segment.path) for segment in manifest.select("tool_calls")]
    wanted = Counter(f"{number}-{n}" for number in load.sent for n in range(PER_REQUEST))
    with duckdb.connect() as connection:
        shown = connection.execute("SELECT call_id FROM read_parquet(?)", [files]).fetchall()
        connection.execute(f"ATTACH '{service.data_dir / 'events.duckdb'}' AS store (READ_ONLY)")
        stored = connection.execute("SELECT call_id FROM store.tool_calls").fetchall()
    assert Counter(call_id for (call_id,) in stored) == wanted
    assert Counter(call_id for (call_id,) in shown) == wanted
    # Kills damage nothing.
    assert list(service.data_dir.rglob("*.damaged-*")) == []
    print(f"{KILLS} kills, {load.cut_off} cut off, {len(load.sent)} requests, {len(stored)} rows")


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


def test_a_lost_answer_does_not_count_twice(otlp: Any, start_service: Callable[..., Any]) -> None:
    """The client goes away while it waits; its bytes come again, over both transports."""
    service = start_service(only="ingest")
    body = otlp.logs(
        *(otlp.log(otlp.tool_call | {"call_id": f"c{n}"}, time=otlp.noon + n) for n in range(50))
    )
    with pytest.raises((httpx.HTTPError, grpc.RpcError)):
        service.export("logs", body, timeout=0.001)
    with httpx.Client(base_url=service.http.base_url, timeout=0.001) as hasty, pytest.raises(httpx.HTTPError):
        hasty.post("/v1/logs", content=body, headers={"content-type": "application/x-protobuf"})
    service.export("logs", body)
    answer = service.post("logs", body)
    assert (answer.status_code, answer.headers["toolgauge-duplicates"]) == (200, "50")
    assert service.stop() == 0
    with duckdb.connect(str(service.data_dir / "events.duckdb"), read_only=True) as connection:
        found = connection.execute("SELECT count(*), count(DISTINCT call_id) FROM tool_calls").fetchall()
    assert found == [(50, 50)]


def test_the_live_file_cannot_be_opened_by_a_second_process(
    otlp: Any, start_service: Callable[..., Any]
) -> None:
    """Which is why everybody reads the published segments: the documented error, and nothing worse."""
    service = start_service(only="ingest")
    assert service.post("logs", otlp.logs(otlp.log(otlp.tool_call))).status_code == 200
    for read_only in (False, True):
        with pytest.raises(duckdb.Error, match="Could not set lock on file"):
            duckdb.connect(str(service.data_dir / "events.duckdb"), read_only=read_only)
    assert service.post("logs", otlp.logs(otlp.log(otlp.guard))).status_code == 200


def test_queries_are_answered_while_records_arrive(
    otlp: Any, start_service: Callable[..., Any], toolgauge: Any
) -> None:
    service = start_service(only="ingest", TOOLGAUGE_PUBLISH_INTERVAL_SECONDS="0.2")
    load = Load(otlp, service, random.Random(1))
    query = "SELECT count(*) AS n, count(DISTINCT call_id) AS d FROM tool_calls"
    seen = []
    for _ in range(3):
        load.wait_for(60)
        done = toolgauge("sql", query, "--data-dir", str(service.data_dir), "--format", "json")
        assert done.returncode == 0, done.stderr
        (row,) = json.loads(done.stdout)
        assert row["n"] == row["d"]
        seen.append(row["n"])
    load.finish()
    assert seen == sorted(seen)
    assert seen[-1] > 1000
