"""A secret in whatever field of whatever signal is kept nowhere, said nowhere, and logged nowhere.

Left out are the few attributes that are kept as they are: what the resource says of service and
environment, and the ids, status words and names of registered tools.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sli.schemas import EVENT_DATASETS

SECRET = "SECRET-7f3a"
REQUESTS: dict[str, Any] = {
    "logs": ExportLogsServiceRequest,
    "traces": ExportTraceServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}


def _fill(message: Message, depth: int = 0) -> None:
    """Put the secret into every text and every byte string of a message, and of all within it."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None:
            if depth > 12 or (field.name in ("array_value", "kvlist_value") and depth > 9):
                continue
            repeated = field.is_repeated
            inner = getattr(message, field.name).add() if repeated else getattr(message, field.name)
            _fill(inner, depth + 1)
        elif field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            value = SECRET if field.type == FieldDescriptor.TYPE_STRING else SECRET.encode()
            if field.is_repeated:
                getattr(message, field.name).append(value)
            elif not (field.containing_oneof and field.name == "bytes_value"):
                setattr(message, field.name, value)


def _events(otlp: Any) -> list[dict[str, Any]]:
    """Every kind of event, with the secret in all that is not kept of it."""
    stamp = {"event.timestamp": otlp.noon_text, "session.id": "s-1", "prompt_id": "s-1########1"}
    texts = (
        "function_args", "error", "error.message", "prompt", "request_text", "response_text", "result",
        "execution_summary", "mcp_server_name", "metadata", "url.full", "gen_ai.input.messages", "body",
        "gen_ai.tool.call.arguments", "user.email", "subagent_name", "error_message", "success", "other",
    )  # fmt: skip
    secrets = dict.fromkeys(texts, SECRET) | {"nested": {"a": [SECRET, {"b": SECRET}]}}
    invented = {"function_name": SECRET, "status": "error", "error_type": "tool_not_registered"}
    names = (
        "qwen-code.api_response",
        "qwen-code.api_error",
        "qwen-code.user_prompt",
        "loop_detected",
        "session.start",
        "qwen-code.daemon.sse.closed",
        f"qwen-code.daemon.session.{SECRET}",
        f"qwen-code.{SECRET}",
        SECRET,
    )
    return [
        otlp.tool_call | invented | secrets,
        {k: v for k, v in otlp.tool_call.items() if k != "call_id"} | secrets,
        otlp.guard | {"unlisted": SECRET},
        # Refused: too long an id, an id of a wrong type.
        otlp.tool_call | secrets | {"call_id": SECRET * 1000},
        otlp.tool_call | secrets | {"call_id": [SECRET]},
        *(stamp | {"event.name": name} | secrets for name in names),
    ]


def _bodies(otlp: Any) -> Iterator[tuple[str, bytes]]:
    resource = otlp.resource | dict.fromkeys(
        ("owner.id", "host.name", "user.email", "process.command_line"), SECRET
    )
    events = _events(otlp)
    fields = {"severity_text": SECRET, "body": otlp.value(SECRET)}
    yield "logs", otlp.logs(*(otlp.log(event, **fields) for event in events), resource=resource, scope=SECRET)
    names = (
        "qwen-code.tool.execution",
        "qwen-code.tool",
        "qwen-code.interaction",
        "qwen-code.tool_call",
        SECRET,
    )
    spans = [otlp.span(event, name=name, trace_state=SECRET) for event in events for name in names]
    yield "traces", otlp.spans(*spans, resource=resource)
    for signal, kind in REQUESTS.items():
        message = kind()
        _fill(message)
        yield signal, message.SerializeToString()
    labels = {"function_name": SECRET, "status": SECRET, "mode": SECRET, "type": SECRET, "x": SECRET}
    metrics = ExportMetricsServiceRequest()
    scope = metrics.resource_metrics.add().scope_metrics.add()
    for name in ("qwen-code.tool.call.count", "qwen-code.token.usage", SECRET):
        counter = scope.metrics.add(name=name, description=SECRET, unit=SECRET).sum
        counter.aggregation_temporality, counter.is_monotonic = 2, True  # type: ignore[assignment]
        counter.data_points.add(as_int=1, time_unix_nano=otlp.noon, attributes=otlp.attributes(labels))
        counter.data_points.add(as_double=-1, time_unix_nano=otlp.noon, attributes=otlp.attributes(labels))
    yield "metrics", metrics.SerializeToString()


def _as_json(signal: str, body: bytes) -> bytes:
    message = REQUESTS[signal].FromString(body)
    tree = json_format.MessageToDict(message, use_integers_for_enums=True)

    def hexadecimal(node: Any) -> Any:
        if isinstance(node, list):
            return [hexadecimal(each) for each in node]
        if not isinstance(node, dict):
            return node
        ids = {"traceId": 16, "spanId": 8, "parentSpanId": 8}
        return {
            # Ids of a wrong size are none in JSON, and would refuse everything.
            key: base64.b64decode(value).hex().ljust(2 * ids[key], "0")[: 2 * ids[key]]
            if key in ids
            else hexadecimal(value)
            for key, value in node.items()
        }

    return json.dumps(hexadecimal(tree)).encode()


def test_every_field_is_filled() -> None:
    for kind in REQUESTS.values():
        message = kind()
        _fill(message)
        assert message.SerializeToString().count(SECRET.encode()) > 10


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_a_secret_is_nowhere(
    otlp: Any, start_service: Callable[..., Any], toolgauge: Any, encoding: str
) -> None:
    service = start_service()
    said: list[bytes] = []
    for signal, body in _bodies(otlp):
        sent = body if encoding == "protobuf" else _as_json(signal, body)
        media_type = "application/x-protobuf" if encoding == "protobuf" else "application/json"
        for each in (sent, sent[:-3], sent[: len(sent) // 2]):
            response = service.post(signal, each, content_type=media_type)
            said.append(response.content + repr(response.headers).encode())
            if each is sent:
                assert response.status_code == 200, response.content
        if encoding == "protobuf":
            said.append(service.export(signal, body))
    said += [service.http.get(page).content for page in ("/metrics", "/readyz", f"/{SECRET}"[:1])]
    kept = 0
    for dataset in EVENT_DATASETS:
        done = toolgauge(
            "sql", f"FROM {dataset.name}", "--data-dir", str(service.data_dir), "--format", "json"
        )
        assert done.returncode == 0, done.stderr
        kept += len(json.loads(done.stdout))
        said.append((done.stdout + done.stderr).encode())
    assert kept > 20
    service.kill()
    on_disk = [path.read_bytes() for path in [*service.data_dir.rglob("*"), service.log] if path.is_file()]
    assert len(on_disk) > 8
    for found in said + on_disk:
        assert SECRET.encode() not in found
        assert SECRET.encode().hex().encode() not in found
