"""`make bench`: prints speed as ratios, all measured in one run."""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from bench.service import client, service
from bench.stored import fill, looked_for, plainly
from bench.traffic import as_json, tool_call_requests, with_long_texts
from ingest.decode.records import Records
from ingest.decode.wire import Signal
from ingest.exceptions import IngestError
from ingest.keep.database import open_database
from ingest.keep.recovery import open_store
from ingest.keep.store import Store
from ingest.keep.writer import Encoding, Outcome, Request, Writer
from ingest.normalise.events import normalise
from sli.data_directory import DataDirectory

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
    parser.add_argument(
        "--stored-rows",
        type=int,
        default=2_000_000,
        help="rows to look for copies among (default %(default)s)",
    )
    parser.add_argument("--format", choices=("table", "json"), default="table")
    options = parser.parse_args()
    measurements = []
    parts = (
        decode_to_commit(options.requests),
        against_many_rows(options.stored_rows),
        over_the_network(options.requests),
    )
    for measured in chain(*parts):
        measurements.append(asdict(measured))
        if options.format == "table":
            what, value = measured.what, f"{measured.value:,.2f}"
            print(f"{what:<52} {value:>12} {measured.unit:<10} target {measured.target}", flush=True)
    if options.format == "json":
        print(json.dumps(measurements, indent=1))


def decode_to_commit(requests: int) -> Iterator[Measurement]:
    """CPU of decode to commit against the bare decode of the same bytes, in this process."""
    bodies = list(tool_call_requests(requests, PER_REQUEST))
    records = len(bodies) * PER_REQUEST
    bare = _bare_decode(bodies) / records
    yield Measurement("bare protobuf decode", bare * 1e6, "µs/record", "-")
    some = bodies[: max(len(bodies) // 4, 1)]
    as_json_some = [as_json(body) for body in some]
    long = [with_long_texts(100, 150_000)]
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(DataDirectory(Path(folder)))
        writer = Writer(store, "owner.id", b"k" * 32)
        _keep(writer, list(tool_call_requests(4, PER_REQUEST, seed=99)))
        kept = _keep(writer, bodies) / records
        yield Measurement("decode to commit, CPU", kept * 1e6, "µs/record", "-")
        yield Measurement("decode to commit against bare decode", kept / bare, "×", "≤ 6")
        again = _keep(writer, bodies) / records
        yield Measurement("the same records again, all duplicates", again / bare, "×", "-")
        # The same records as JSON have the same identities: here the reading is measured.
        from_json = _keep(writer, as_json_some, Encoding.JSON) / (len(some) * PER_REQUEST)
        yield Measurement("  the same as OTLP/JSON, all duplicates", from_json / bare, "×", "-")
        fresh = [as_json(body) for body in tool_call_requests(len(some), PER_REQUEST, seed=55)]
        from_json = _keep(writer, fresh, Encoding.JSON) / (len(some) * PER_REQUEST)
        yield Measurement("OTLP/JSON to commit against bare protobuf decode", from_json / bare, "×", "≤ 12")
        bare_long = min(_bare_decode(long) for _ in range(5))
        yield Measurement(
            "150 KB of dropped texts a record, against bare decode",
            _keep(writer, long) / bare_long,
            "×",
            "≤ 2",
        )
        writer.close()
        store.close()


def _bare_decode(bodies: list[bytes]) -> float:
    started = time.process_time()
    for body in bodies:
        ExportLogsServiceRequest.FromString(body)
    return time.process_time() - started


def _keep(writer: Writer, bodies: list[bytes], encoding: Encoding = Encoding.PROTOBUF) -> float:
    """Have requests kept; returns the CPU seconds of this process."""
    answered = threading.Semaphore(0)
    failures: list[IngestError] = []

    def answer(result: Outcome | IngestError) -> None:
        if isinstance(result, IngestError):
            failures.append(result)
        answered.release()

    started = time.process_time()
    for body in bodies:
        writer.submit(Request(Signal.LOGS, encoding, body, time.time_ns()), answer)
    for _ in bodies:
        answered.acquire()
    if failures:
        raise failures[0]
    return time.process_time() - started


def against_many_rows(rows: int) -> Iterator[Measurement]:
    """What looking for copies among many stored rows costs, and how long a start takes with them."""
    with tempfile.TemporaryDirectory() as folder:
        directory = DataDirectory(Path(folder))
        fill(directory, rows)
        started = time.perf_counter()
        store = open_store(directory)
        yield Measurement(
            f"from opening to open, {rows:,} rows stored", time.perf_counter() - started, "s", "< 3"
        )
        store.close()
        plain = open_database(Path(folder) / "plain.duckdb")
        # Without the journal, which a plain insert has not either.
        searching = Store(directory.store)
        ratios = []
        for turn in range(5):
            body = list(tool_call_requests(24, PER_REQUEST, seed=100 + turn))
            records = Records.of_protobuf(Signal.LOGS, body)
            events = normalise(records, np.full(len(body), time.time_ns()), "owner.id", b"k" * 32)
            base = plainly(plain, events)
            ratios.append(looked_for(searching, events) / base)
        ratio = sorted(ratios)[len(ratios) // 2]
        yield Measurement(f"insert, looked for among {rows:,} rows, against plain", ratio, "×", "≤ 1.5")
        searching.close()
        plain.close()


def over_the_network(requests: int) -> Iterator[Measurement]:
    """Durable records a second against a running service, with the client in a process of its own."""
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as addresses:
        for form in ("http", "json", "grpc"):
            address = addresses["grpc" if form == "grpc" else "http"]
            client(form, address, 8, PER_REQUEST + 1, 4)
            result = client(form, address, requests, PER_REQUEST, 8)
            rate = result["records"] / result["seconds"]
            yield Measurement(f"durable records over {form}", rate, "records/s", "≥ 120,000")
            yield Measurement(f"  latency p99 over {form}", result["p99_ms"], "ms", "-")
            small = client(form, address, requests * 40, 5, 200)
            rate = small["requests"] / small["seconds"]
            yield Measurement(f"requests of 5 records over {form}", rate, "requests/s", "≥ 4,000")
            yield Measurement(f"  latency p99 over {form}", small["p99_ms"], "ms", "< 150")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    yield Measurement("largest process of the service (or client)", peak, "MiB", "≤ 600")


if __name__ == "__main__":
    main()
