"""Builders that all tests share: OTLP requests by hand, and what becomes of them."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
import structlog
from hypothesis import HealthCheck, settings
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
    KeyValueList,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from ingest.decode.records import Records
from ingest.decode.wire import Signal
from ingest.normalise.events import normalise
from ingest.normalise.rows import Events

# How long an example takes says nothing about the code while other tests run beside it.
_untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples at each run, so that a red run speaks of the change; new ones are looked for on purpose:
# make test ARGS=--hypothesis-profile=explore
settings.register_profile("gate", _untimed, derandomize=True)
settings.register_profile("explore", _untimed, print_blob=True)
settings.load_profile("gate")

FIXTURES = Path(__file__).parent / "fixtures"

# 2026-11-30T12:00:00Z and what a record of that time says.
NOON = 1_796_040_000_000_000_000
NOON_TEXT = "2026-11-30T12:00:00.000Z"
# When everything in these tests arrives.
ARRIVAL = NOON + 60_000_000_000

RESOURCE = {"service.name": "qwen-code", "service.version": "0.24.4", "deployment.environment": "internal"}
TOOL_CALL = {
    "event.name": "qwen-code.tool_call",
    "event.timestamp": NOON_TEXT,
    "session.id": "s-1",
    "prompt_id": "s-1########1",
    "call_id": "call-1",
    "function_name": "read_file",
    "tool_type": "native",
    "status": "success",
    "execution_status": "success",
    "duration_ms": 12,
}
GUARD = {
    "event.name": "qwen-code.repeated_tool_failure_guard",
    "event.timestamp": NOON_TEXT,
    "prompt_id": "s-1########1",
    "route": "acp_foreground",
    "mode": "shadow",
    "phase_before": "idle",
    "phase_after": "tracking",
    "decision": "tracked",
    "failure_count_bucket": "3-4",
    "batch_count_bucket": "1",
    "candidate_ordinal": 1,
    "terminal_status": "error",
    "execution_status": "error",
    "execution_error_type": "file_not_found",
    "tool_type": "native",
}


class _Unset:
    """An attribute that is sent with nothing in it."""


class Otlp:
    """Makes OTLP by hand, and normalises it."""

    noon = NOON
    noon_text = NOON_TEXT
    arrival = ARRIVAL
    resource = RESOURCE
    tool_call = TOOL_CALL
    guard = GUARD
    unset = _Unset()
    owner_key = b"k" * 32

    def value(self, value: Any) -> AnyValue:
        match value:
            case _Unset():
                return AnyValue()
            case bool():
                return AnyValue(bool_value=value)
            case int():
                return AnyValue(int_value=value)
            case float():
                return AnyValue(double_value=value)
            case bytes():
                return AnyValue(bytes_value=value)
            case list():
                return AnyValue(array_value=ArrayValue(values=[self.value(item) for item in value]))
            case dict():
                return AnyValue(kvlist_value=KeyValueList(values=self.attributes(value)))
        return AnyValue(string_value=value)

    def attributes(self, attributes: Mapping[str, Any] | list[tuple[str, Any]]) -> list[KeyValue]:
        pairs = attributes.items() if isinstance(attributes, Mapping) else attributes
        return [KeyValue(key=key, value=self.value(value)) for key, value in pairs]

    def log(self, attributes: Any, time: int = NOON, **fields: Any) -> LogRecord:
        return LogRecord(time_unix_nano=time, attributes=self.attributes(attributes), **fields)

    def span(
        self, attributes: Any, time: int = NOON, name: str = "qwen-code.tool_call", **fields: Any
    ) -> Span:
        return Span(
            name=name,
            start_time_unix_nano=time,
            end_time_unix_nano=time + 17_000_000,
            attributes=self.attributes({**attributes, "log.bridge": True}),
            **fields,
        )

    def logs(
        self, *records: LogRecord, resource: Mapping[str, Any] = RESOURCE, scope: str = "qwen-code"
    ) -> bytes:
        request = ExportLogsServiceRequest()
        by_resource = request.resource_logs.add(resource=Resource(attributes=self.attributes(resource)))
        by_resource.scope_logs.add(scope=InstrumentationScope(name=scope), log_records=records)
        return request.SerializeToString()

    def spans(self, *records: Span, resource: Mapping[str, Any] = RESOURCE) -> bytes:
        request = ExportTraceServiceRequest()
        by_resource = request.resource_spans.add(resource=Resource(attributes=self.attributes(resource)))
        by_resource.scope_spans.add(scope=InstrumentationScope(name="qwen-code"), spans=records)
        return request.SerializeToString()

    def normalised(
        self,
        *bodies: bytes,
        signal: Signal = Signal.LOGS,
        arrival: int = ARRIVAL,
        owner_attribute: str = "owner.id",
    ) -> Events:
        records = Records.of_protobuf(signal, list(bodies))
        arrivals = np.full(len(bodies), arrival, dtype=np.int64)
        return normalise(records, arrivals, owner_attribute, self.owner_key)

    def rows(self, *bodies: bytes, dataset: str = "tool_calls", **options: Any) -> list[dict[str, Any]]:
        found = [each for each in self.normalised(*bodies, **options).rows if each.dataset == dataset]
        return found[0].table.to_pylist() if found else []

    def call(self, without: tuple[str, ...] = (), **attributes: Any) -> dict[str, Any]:
        """The row that a tool call with these attributes becomes; `_` in names stands for itself."""
        sent = {**TOOL_CALL, **attributes}
        (row,) = self.rows(self.logs(self.log({k: v for k, v in sent.items() if k not in without})))
        return row


@pytest.fixture(autouse=True)
def _logs_of_its_own() -> Iterator[None]:
    """A command that ran within the process has set up logging for a stream that is gone."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def otlp() -> Otlp:
    return Otlp()


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return FIXTURES


class Service:
    """A real service in processes of its own, on free ports."""

    transport_error = httpx.TransportError

    def __init__(
        self,
        data_dir: Path,
        *arguments: str,
        only: str | None = None,
        clock_file: Path | None = None,
        **environment: str,
    ) -> None:
        self.data_dir = data_dir
        self.log = data_dir.parent / f"{data_dir.name}.log"
        half = ["--only", only] if only else []
        ports = ["--grpc-port", "0", "--http-port", "0", "--web-port", "0", "--sql-port", "0"]
        self.command = [
            sys.executable,
            "-m",
            "toolgauge",
            "serve",
            *half,
            "--data-dir",
            str(data_dir),
            *ports,
        ]
        self.command += arguments
        if clock_file is not None:
            # Moved with ingest.clock.move_clock: requests arrive at the time that it says.
            self.command += ["--clock-file", str(clock_file)]
        self.environment = os.environ | environment
        self.start()

    def start(self) -> None:
        endpoints = self.data_dir / "endpoints.json"
        endpoints.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            # A group of its own, so that all of it can be killed at once.
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, start_new_session=True, env=self.environment
            )
        deadline = time.monotonic() + 60
        while not endpoints.exists():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)
        self.endpoints: dict[str, str] = json.loads(endpoints.read_text())
        self.http = httpx.Client(base_url=f"http://{self.endpoints['http']}", timeout=60)
        self.channel = grpc.insecure_channel(
            self.endpoints["grpc"],
            options=[("grpc.max_send_message_length", -1), ("grpc.enable_retries", 0)],
            compression=grpc.Compression.Gzip,
        )

    def post(
        self,
        signal: str,
        body: Any,
        content_type: str = "application/x-protobuf",
        path: str | None = None,
        **headers: str,
    ) -> httpx.Response:
        sent = {"content-type": content_type} | {k.replace("_", "-"): v for k, v in headers.items()}
        return self.http.post(path or f"/v1/{signal}", content=body, headers=sent)

    def export(self, signal: str, body: bytes, timeout: float = 60) -> bytes:
        names = {
            "logs": "logs.v1.LogsService",
            "traces": "trace.v1.TraceService",
            "metrics": "metrics.v1.MetricsService",
        }
        method = f"/opentelemetry.proto.collector.{names[signal]}/Export"
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(method)
        return call(body, timeout=timeout)

    def kill(self) -> None:
        """SIGKILL, to every process of it."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        # The halves are nobody's children any more; their locks end with them.
        lock = self.data_dir / "ingest.lock"
        deadline = time.monotonic() + 30
        while lock.exists() and _is_locked(lock):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self._close()

    def stop(self) -> int:
        self.process.terminate()
        status = self.process.wait(timeout=60)
        self._close()
        return status

    def _close(self) -> None:
        self.http.close()
        self.channel.close()


def _is_locked(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.fixture
def start_service(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Starts services; whatever still runs at the end is killed."""
    running: list[Service] = []

    def start(*arguments: str, data_dir: Path | None = None, **options: Any) -> Service:
        service = Service(data_dir or tmp_path / "data", *arguments, **options)
        running.append(service)
        return service

    yield start
    for service in running:
        if service.process.poll() is None:
            service.kill()


def run_toolgauge(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "toolgauge", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=os.environ | environment, check=False
    )


@pytest.fixture(scope="session")
def toolgauge() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command of the program to its end."""
    return run_toolgauge


@pytest.fixture(scope="session")
def service_class() -> type[Service]:
    """For a service that several tests share; whoever makes one kills it."""
    return Service
