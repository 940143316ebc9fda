"""Made-up traffic with the shape of the real producer's: tool calls in export requests."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

_TOOLS = ("run_shell_command", "read_file", "edit", "grep_search", "mcp__tracker__search_issues")
_START = 1_796_000_000_000_000_000


def tool_call_requests(count: int, per_request: int, seed: int = 1) -> Iterator[bytes]:
    """`count` serialised export requests of `per_request` distinct tool calls each."""
    rng = random.Random(seed)
    number = 0
    for _ in range(count):
        request = ExportLogsServiceRequest()
        by_resource = request.resource_logs.add(
            resource=Resource(
                attributes=_key_values(
                    {
                        "service.name": "qwen-code",
                        "service.version": "0.24.4",
                        "deployment.environment": "internal",
                        "owner.id": f"owner-{rng.randrange(200)}",
                    }
                )
            )
        )
        records = by_resource.scope_logs.add()
        records.scope.name = "qwen-code"
        session = f"{rng.getrandbits(128):032x}"
        for _ in range(per_request):
            records.log_records.append(_tool_call(rng, session, number))
            number += 1
        yield request.SerializeToString()


def as_json(body: bytes) -> bytes:
    """The same request as OTLP/JSON, in the form in which this producer sends it."""
    tree = json_format.MessageToDict(ExportLogsServiceRequest.FromString(body), use_integers_for_enums=True)
    for by_resource in tree["resourceLogs"]:
        for by_scope in by_resource["scopeLogs"]:
            for record in by_scope["logRecords"]:
                for name in ("traceId", "spanId"):
                    record[name] = base64.b64decode(record[name]).hex()
                for attribute in record["attributes"]:
                    value = attribute["value"]
                    if "intValue" in value:
                        value["intValue"] = int(value["intValue"])
    return json.dumps(tree, separators=(",", ":")).encode()


def with_long_texts(count: int, size: int) -> bytes:
    """A request of `count` tool calls, each with dropped texts of `size` bytes together."""
    request = ExportLogsServiceRequest.FromString(next(tool_call_requests(1, count, seed=7)))
    for record in request.resource_logs[0].scope_logs[0].log_records:
        record.attributes.add(key="result").value.string_value = "x" * (size // 2)
        record.body.string_value = "y" * (size // 2)
    return request.SerializeToString()


def _tool_call(rng: random.Random, session: str, number: int) -> LogRecord:
    tool = rng.choice(_TOOLS)
    failed = rng.random() < 0.06
    time = _START + number * 3_000_000
    outcome = "error" if failed else "success"
    attributes: dict[str, str | int | bool] = {
        "session.id": session,
        "event.name": "qwen-code.tool_call",
        "event.timestamp": "2026-11-30T00:53:20.000Z",
        "call_id": f"call_{rng.getrandbits(96):024x}",
        "function_name": tool,
        "function_args": json.dumps(
            {"file_path": f"/srv/demo/{rng.getrandbits(64):x}.ts", "limit": 100}, indent=2
        ),
        "duration_ms": rng.randrange(5000),
        "status": outcome,
        "execution_status": outcome,
        "success": not failed,
        "decision": "auto_accept",
        "prompt_id": f"{session}########{number % 9}",
        "response_id": f"chatcmpl-{rng.getrandbits(128):032x}",
        "tool_type": "mcp" if tool.startswith("mcp") else "native",
        "content_length": rng.randrange(20_000),
    }
    if failed:
        attributes |= {
            "error_type": "file_not_found",
            "error": "File not found",
            "error.type": "file_not_found",
        }
    return LogRecord(
        time_unix_nano=time,
        observed_time_unix_nano=time,
        body=AnyValue(string_value=f"Tool call: {tool}. Success: {not failed}. Duration: 12ms."),
        attributes=_key_values(attributes),
        trace_id=rng.randbytes(16),
        span_id=rng.randbytes(8),
    )


def _key_values(attributes: dict[str, str | int | bool]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_any_value(value)) for key, value in attributes.items()]


def _any_value(value: str | int | bool) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    return AnyValue(string_value=value)
