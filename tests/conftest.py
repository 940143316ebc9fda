"""Builders that all tests share: OTLP requests by hand, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
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

from ingest.decode.records import decode_records
from ingest.decode.wire import Signal
from ingest.normalise.events import Events, normalise

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

    def span(self, attributes: Any, time: int = NOON, name: str = "qwen-code.tool_call", **fields: Any) -> Span:
        return Span(
            name=name,
            start_time_unix_nano=time,
            end_time_unix_nano=time + 17_000_000,
            attributes=self.attributes({**attributes, "log.bridge": True}),
            **fields,
        )

    def logs(self, *records: LogRecord, resource: Mapping[str, Any] = RESOURCE, scope: str = "qwen-code") -> bytes:
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
        records = decode_records(signal, list(bodies))
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


@pytest.fixture(scope="session")
def otlp() -> Otlp:
    return Otlp()


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return FIXTURES
