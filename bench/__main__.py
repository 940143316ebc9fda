"""`make bench`: prints speed as ratios, all measured in one run."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from bench.traffic import tool_call_requests
from ingest.decode.wire import Signal
from ingest.exceptions import IngestError
from ingest.keep.store import Store
from ingest.keep.writer import Encoding, Outcome, Request, Writer

PER_REQUEST = 512


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure; `target` is what the project promises, in the same unit."""

    what: str
    value: float
    unit: str
    target: str


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "--requests", type=int, default=200, help="requests of 512 records (default %(default)s)"
    )
    parser.add_argument("--format", choices=("table", "json"), default="table")
    options = parser.parse_args()
    measurements = []
    for measured in chain(decode_to_commit(options.requests), over_the_network(options.requests)):
        measurements.append(asdict(measured))
        if options.format == "table":
            what, value = measured.what, f"{measured.value:,.2f}"
            print(f"{what:<48} {value:>12} {measured.unit:<10} target {measured.target}", flush=True)
    if options.format == "json":
        print(json.dumps(measurements, indent=1))


def decode_to_commit(requests: int) -> Iterator[Measurement]:
    """CPU of decode to commit against the bare decode of the same bytes, in this process."""
    bodies = list(tool_call_requests(requests, PER_REQUEST))
    records = len(bodies) * PER_REQUEST
    started = time.process_time()
    for body in bodies:
        ExportLogsServiceRequest.FromString(body)
    bare = (time.process_time() - started) / records * 1e6
    yield Measurement("bare protobuf decode", bare, "µs/record", "-")

    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "events.duckdb")
        writer = Writer(store, "owner.id", b"k" * 32)
        _keep(writer, list(tool_call_requests(4, PER_REQUEST, seed=99)))
        started = time.process_time()
        _keep(writer, bodies)
        kept = (time.process_time() - started) / records * 1e6
        yield Measurement("decode to commit, CPU", kept, "µs/record", "-")
        yield Measurement(
            "decode to commit against bare decode", kept / bare, "×", "≤ 6 (≤ 12 before the fast path)"
        )
        started = time.process_time()
        _keep(writer, bodies)
        again = (time.process_time() - started) / records * 1e6
        yield Measurement("the same records again, all duplicates", again / bare, "×", "-")
        writer.close()
        store.close()


def _keep(writer: Writer, bodies: list[bytes]) -> None:
    answered = threading.Semaphore(0)
    failures: list[IngestError] = []

    def answer(result: Outcome | IngestError) -> None:
        if isinstance(result, IngestError):
            failures.append(result)
        answered.release()

    for body in bodies:
        writer.submit(Request(Signal.LOGS, Encoding.PROTOBUF, body, time.time_ns()), answer)
    for _ in bodies:
        answered.acquire()
    if failures:
        raise failures[0]


def over_the_network(requests: int) -> Iterator[Measurement]:
    """Durable records a second against a running service, with the client in a process of its own."""
    with tempfile.TemporaryDirectory() as folder, _service(Path(folder)) as addresses:
        for transport in ("http", "grpc"):
            _client(transport, addresses[transport], 8, PER_REQUEST + 1, 4)
            result = _client(transport, addresses[transport], requests, PER_REQUEST, 8)
            rate = result["records"] / result["seconds"]
            yield Measurement(f"durable records over {transport}", rate, "records/s", "≥ 120,000")
            yield Measurement(f"  latency p99 over {transport}", result["p99_ms"], "ms", "-")
            small = _client(transport, addresses[transport], requests * 20, 5, 64)
            rate = small["requests"] / small["seconds"]
            yield Measurement(f"requests of 5 records over {transport}", rate, "requests/s", "≥ 4,000")
            yield Measurement(f"  latency p99 over {transport}", small["p99_ms"], "ms", "< 150")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    yield Measurement("largest process of the service (or client)", peak, "MiB", "≤ 600")


@contextmanager
def _service(folder: Path) -> Iterator[dict[str, str]]:
    command = [sys.executable, "-m", "toolgauge", "serve", "--only", "ingest", "--data-dir", str(folder)]
    process = subprocess.Popen([*command, "--grpc-port", "0", "--http-port", "0"], stderr=subprocess.DEVNULL)
    endpoints = folder / "endpoints.json"
    try:
        while not endpoints.exists():
            if process.poll() is not None:
                raise RuntimeError("the service did not start; run the same command by hand to see why")
            time.sleep(0.05)
        yield json.loads(endpoints.read_text())
    finally:
        process.terminate()
        process.wait()


def _client(
    transport: str, address: str, requests: int, per_request: int, connections: int
) -> dict[str, float]:
    arguments = [transport, address, str(requests), str(per_request), str(connections)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.client", *arguments], stdout=subprocess.PIPE, check=True, text=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    main()
