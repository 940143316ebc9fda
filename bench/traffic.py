"""Made-up traffic with the shape of the real producer's: tool calls in export requests."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

_TOOLS = ("run_shell_command", "read_file", "edit", "grep_search", "mcp__tracker__search_issues")
_START = 1_796_000_000_000_000_000
# Between one record and the next: 333 a second, so that a day's records are as dense as a large fleet's.
_STEP = 3_000_000


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
    time = _START + number * _STEP
    outcome = "error" if failed else "success"
    attributes: dict[str, str | int | bool] = {
        "session.id": session,
        "event.name": "qwen-code.tool_call",
        "event.timestamp": _timestamp(time),
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


def _timestamp(unix_nano: int) -> str:
    """As JavaScript writes it, to the millisecond."""
    return f"{np.datetime_as_string(np.datetime64(unix_nano // 1_000_000, 'ms'))}Z"


class Stream:
    """Requests without end, each of records that were never sent, made from one by changing a few bytes.

    Making them anew would take more time than the service takes to keep them.
    """

    def __init__(self, per_request: int, seed: int) -> None:
        """Make the pattern.

        Args:
            per_request: records in each request.
            seed: streams of different seeds have no record in common.
        """
        self._seed = seed
        body = next(tool_call_requests(1, per_request, seed=1))
        record = ExportLogsServiceRequest.FromString(body).resource_logs[0].scope_logs[0].log_records[0]
        self._session = record.attributes[0].value.string_value.encode()
        self._pattern = np.frombuffer(body, dtype=np.uint8)
        times = [_START + number * _STEP for number in range(per_request)]
        self._times = np.array(times, dtype=np.uint64)
        self._binary = [
            _places(body, [time.to_bytes(8, "little") for time in times], turn) for turn in (0, 1)
        ]
        self._texts = _places(body, [_timestamp(time).encode() for time in times], 0)
        self._span = per_request * _STEP

    def request(self, number: int) -> bytes:
        """The request of this number."""
        body = self._pattern.copy()
        times = self._times + np.uint64(number * self._span)
        for places in self._binary:
            body[places[:, None] + np.arange(8)] = times.astype("<u8").view(np.uint8).reshape(-1, 8)
        texts = np.datetime_as_string((times // 1_000_000).astype("datetime64[ms]")).astype("S23")
        body[self._texts[:, None] + np.arange(23)] = texts.view(np.uint8).reshape(-1, 23)
        session = f"{self._seed:016x}{number:016x}".encode()
        return body.tobytes().replace(self._session, session)


def _places(body: bytes, texts: list[bytes], turn: int) -> npt.NDArray[np.int64]:
    """Where each text stands, one after the other; with `turn` 1 the second time that it stands there."""
    places = []
    at = 0
    for text in texts:
        at = body.index(text, at)
        if turn:
            at = body.index(text, at + len(text))
        places.append(at)
        at += 1
    return np.array(places)


def _key_values(attributes: dict[str, str | int | bool]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_any_value(value)) for key, value in attributes.items()]


def _any_value(value: str | int | bool) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    return AnyValue(string_value=value)
