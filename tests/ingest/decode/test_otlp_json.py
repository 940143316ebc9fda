"""OTLP/JSON says the same as protobuf, and says where it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from ingest.decode.json_columns import decode_json
from ingest.decode.otlp_json import json_to_wire
from ingest.decode.protobuf import decode_fields
from ingest.decode.wire import Signal
from ingest.exceptions import MalformedBody

TRACE_ID = "5B8EFFF798038103D269B633813FC60C"


def _logs(record: Any, **resource: Any) -> bytes:
    body = {"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": [record]}]}]}
    return json.dumps(body).encode()


def _call(otlp: Any, record: dict[str, Any]) -> dict[str, Any]:
    attributes = [
        {"key": k, "value": {"stringValue": v}} for k, v in otlp.tool_call.items() if k != "duration_ms"
    ]
    whole = {"timeUnixNano": str(otlp.noon), "attributes": attributes + record.pop("attributes", [])} | record
    body = _logs(whole)
    (row,) = otlp.rows(json_to_wire(Signal.LOGS, body))
    assert decode_json(Signal.LOGS, [body]).equals(
        decode_fields(Signal.LOGS, [json_to_wire(Signal.LOGS, body)])
    )
    return dict(row)


@pytest.mark.parametrize("form", [str, int])
def test_integers_come_as_strings_or_numbers_and_stay_exact(otlp: Any, form: Any) -> None:
    row = _call(
        otlp,
        {
            "timeUnixNano": form(1_796_040_000_123_456_789),
            "attributes": [
                {"key": "duration_ms", "value": {"intValue": form(1200)}},
                {"key": "content_length", "value": {"intValue": form(9_007_199_254_740_993)}},
            ],
        },
    )
    assert (row["duration_ms"], row["content_length"]) == (1200.0, 9_007_199_254_740_993)
    assert row["time_unix_nano"] == 1_796_040_000_123_456_789


def test_ids_are_hexadecimal(otlp: Any) -> None:
    row = _call(otlp, {"traceId": TRACE_ID, "spanId": "eee19b7ec3c1b174"})
    assert (row["trace_id"], row["span_id"]) == (TRACE_ID.lower(), "eee19b7ec3c1b174")


def test_an_empty_value_is_an_absent_attribute(otlp: Any) -> None:
    row = _call(otlp, {"attributes": [{"key": "call_id", "value": {}}, {"key": "source", "value": None}]})
    assert (row["call_id"], row["source"]) == ("call-1", None)


def test_null_and_unknown_fields_are_ignored(otlp: Any) -> None:
    row = _call(otlp, {"traceId": None, "somethingNew": {"x": [1]}, "severityNumber": 17, "flags": None})
    assert row["call_id"] == "call-1"


@pytest.mark.parametrize(
    ("record", "where"),
    [
        ({"traceId": "Z6z8LqVvEI+kU1/Ci6mXBQ=="}, "traceId must be 32 hexadecimal digits"),
        ({"spanId": "12"}, "spanId must be 16 hexadecimal digits"),
        ({"timeUnixNano": "soon"}, "timeUnixNano must be an integer"),
        ({"timeUnixNano": -1}, "timeUnixNano must be an integer"),
        ({"timeUnixNano": 1.5}, "timeUnixNano must be an integer"),
        ({"timeUnixNano": True}, "timeUnixNano must be an integer"),
        ({"timeUnixNano": "1_700_000_000_000_000_000"}, "timeUnixNano must be an integer"),
        ({"timeUnixNano": " 5 "}, "timeUnixNano must be an integer"),
        ({"timeUnixNano": "٥"}, "timeUnixNano must be an integer"),
        ({"timeUnixNano": "9" * 5000}, "timeUnixNano must be an integer"),
        ({"traceId": "ab " * 10 + "ab"}, "traceId must be 32 hexadecimal digits"),
        ({"attributes": [{"key": "a", "value": {"doubleValue": "1_0"}}]}, "doubleValue must be a number"),
        ({"attributes": {}}, "attributes must be a list"),
        ({"attributes": [7]}, r"attributes\[0\] must be an object"),
        ({"attributes": [{"key": 1}]}, r"attributes\[0\]\.key must be a string"),
        (
            {"attributes": [{"key": "a", "value": {"intValue": "x"}}]},
            r"attributes\[0\]\.value\.intValue must be",
        ),
        ({"attributes": [{"key": "a", "value": {"boolValue": "true"}}]}, "boolValue must be true or false"),
        ({"attributes": [{"key": "a", "value": {"stringValue": 5}}]}, "stringValue must be a string"),
        (
            {"attributes": [{"key": "a", "value": {"arrayValue": {"values": [{"doubleValue": []}]}}}]},
            r"arrayValue\.values\[0\]\.doubleValue must be a number",
        ),
        (
            {"attributes": [{"key": "a", "value": {"intValue": 1, "stringValue": "s"}}]},
            "must be one kind of value",
        ),
    ],
)
def test_a_wrong_field_is_named_and_its_content_is_not(record: Any, where: str) -> None:
    with pytest.raises(
        MalformedBody, match=rf"resourceLogs\[0\]\.scopeLogs\[0\]\.logRecords\[0\]\..*{where}"
    ):
        decode_json(Signal.LOGS, [_logs(record)])


@pytest.mark.parametrize(
    "body", [b" ", b"null", b"{", b"[]", b"7", b'{"resourceLogs": 3}', b'{"resourceLogs": [null]}', b"\xff"]
)
@pytest.mark.parametrize("signal", list(Signal))
def test_what_is_no_request_is_refused(signal: Signal, body: bytes) -> None:
    body = body.replace(
        b"resourceLogs", {"logs": b"resourceLogs", "traces": b"resourceSpans"}.get(signal, b"resourceMetrics")
    )
    with pytest.raises(MalformedBody):
        decode_json(signal, [body])


def test_deep_nesting_is_refused_and_not_recursed_into() -> None:
    value: Any = {"stringValue": "x"}
    for _ in range(200):
        value = {"arrayValue": {"values": [value]}}
    with pytest.raises(MalformedBody, match="nested at most 32 deep"):
        decode_json(Signal.LOGS, [_logs({"attributes": [{"key": "a", "value": value}]})])


def test_a_bomb_of_small_objects_is_refused_before_it_is_parsed() -> None:
    from ingest.exceptions import TooLarge

    for value in (b"{}", b"[]"):
        with pytest.raises(TooLarge, match="larger than 2000000 JSON objects"):
            decode_json(Signal.LOGS, [b'{"resourceLogs":[' + (value + b",") * 2_000_000 + value + b"]}"])
    with pytest.raises(TooLarge):
        decode_json(Signal.LOGS, [b'{"resourceLogs":[' + b"1," * 8_000_001 + b"1]}"])


@pytest.mark.parametrize("signal", list(Signal))
def test_an_empty_request_is_a_request(signal: Signal) -> None:
    assert json_to_wire(signal, b"{}") == json_to_wire(signal, b"") == b""
    assert decode_json(signal, [b"{}", b""]).equals(decode_fields(signal, [b"", b""]))


_values = st.recursive(
    st.one_of(
        st.text(max_size=5),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
        st.binary(max_size=4),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(attributes=st.dictionaries(st.text(max_size=6), _values, max_size=5))
def test_a_record_has_one_identity_in_both_encodings(otlp: Any, attributes: dict[str, Any]) -> None:
    sent = attributes | {"event.name": "qwen-code.tool_call"}
    body = otlp.logs(otlp.log(sent, trace_id=b"t" * 16))
    (expected,) = otlp.rows(body)
    tree = json_format.MessageToDict(ExportLogsServiceRequest.FromString(body), use_integers_for_enums=True)
    for by_resource in tree["resourceLogs"]:
        for by_scope in by_resource["scopeLogs"]:
            for record in by_scope["logRecords"]:
                record["traceId"] = (b"t" * 16).hex()
    as_json = json.dumps(tree).encode()
    assert otlp.rows(json_to_wire(Signal.LOGS, as_json)) == [expected]
    assert decode_json(Signal.LOGS, [as_json]).equals(decode_fields(Signal.LOGS, [body]))


def test_every_body_of_the_real_producer_reads_as_protobuf_reads_it(otlp: Any, fixtures: Path) -> None:
    checked = 0
    for path in sorted(fixtures.glob("*/*-logs.body.json")):
        body = path.read_bytes()
        message = ExportLogsServiceRequest()
        tree = json.loads(body, object_hook=_base64_ids)
        json_format.ParseDict(tree, message, ignore_unknown_fields=True)
        for dataset in ("tool_calls", "guard_decisions"):
            rows = otlp.rows(json_to_wire(Signal.LOGS, body), dataset=dataset)
            assert rows == otlp.rows(message.SerializeToString(), dataset=dataset)
            checked += len(rows)
    assert checked > 30


def _base64_ids(node: dict[str, Any]) -> dict[str, Any]:
    import base64

    for key in ("traceId", "spanId"):
        if key in node:
            node[key] = base64.b64encode(bytes.fromhex(node[key])).decode()
    return node
