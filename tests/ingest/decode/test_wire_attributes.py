"""Attributes that are found on the wire are those that protobuf's own reader reads."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import message_factory
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from ingest.decode.records import Records
from ingest.decode.wire import Signal, request_descriptor
from ingest.decode.wire_attributes import WireAttributes
from ingest.exceptions import MalformedBody
from ingest.normalise.identity import canonical_attributes

# Of every length around the words that keys are compared by.
KEYS = (
    "a",
    "status",
    "eight888",
    "nine99999",
    "sixteen-sixteen1",
    "seventeen-seventeen",
    "a.b" * 20,
    "call_id",
)
LONGEST = 40


def _reference(record: Any, key: str) -> tuple[str, Any] | None:
    """The last value of a key that has one; None without."""
    found = None
    for attribute in record.attributes:
        kind = attribute.value.WhichOneof("value")
        if attribute.key == key and kind:
            found = kind, getattr(attribute.value, kind)
    return found


def _check(body: bytes, signal: Signal = Signal.LOGS) -> int:
    """Compare all columns of a body with what the message says; returns the number of values."""
    expected: list[Any] = []
    if signal is Signal.LOGS:
        for by_resource in ExportLogsServiceRequest.FromString(body).resource_logs:
            expected += [record for scope in by_resource.scope_logs for record in scope.log_records]
    else:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            expected += [span for scope in resource.scope_spans for span in scope.spans]
    records = Records.of_protobuf(signal, [body])
    assert isinstance(records.attributes, WireAttributes)
    assert len(records) == len(expected)
    keys = tuple(dict.fromkeys((*KEYS, *(a.key for record in expected for a in record.attributes if a.key))))[
        :200
    ]
    found = records.attributes.locate(keys, LONGEST)
    values = 0
    for key in keys:
        column = found[key]
        text, integer, flag, number = (
            getattr(column, kind).to_pylist() for kind in ("text", "integer", "flag", "number")
        )
        for row, record in enumerate(expected):
            sent = _reference(record, key)
            values += sent is not None
            kind, value = sent or ("", 0)
            long = kind == "string_value" and len(str(value).encode()) > LONGEST
            assert column.present[row] == (sent is not None)
            assert found.is_shortened(key)[row] == long
            assert text[row] == (value if kind == "string_value" and not long else None)
            assert column.is_text[row] == (text[row] is not None)
            assert integer[row] == (value if kind == "int_value" else None)
            assert flag[row] == (value if kind == "bool_value" else None)
            is_number = kind in ("int_value", "double_value") and math.isfinite(value)
            assert number[row] == (float(value) if is_number else None)
    return values


_any_value: Any = st.recursive(
    st.one_of(
        st.builds(AnyValue),
        st.builds(AnyValue, string_value=st.text(max_size=60)),
        st.builds(AnyValue, string_value=st.sampled_from(["", "x" * 126, "x" * 127, "x" * 128, "é" * 9000])),
        st.builds(AnyValue, bool_value=st.booleans()),
        st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
        st.builds(AnyValue, double_value=st.floats()),
        st.builds(AnyValue, bytes_value=st.binary(max_size=5)),
    ),
    lambda inner: st.one_of(
        st.builds(
            lambda values: AnyValue(array_value=ArrayValue(values=values)), st.lists(inner, max_size=3)
        ),
        st.builds(
            lambda value: AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="k", value=value)])),
            inner,
        ),
    ),
    max_leaves=4,
)
_attribute: Any = st.builds(
    KeyValue, key=st.one_of(st.sampled_from(KEYS), st.just(""), st.text(max_size=140)), value=_any_value
)


def _request(records: list[list[KeyValue]]) -> bytes:
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for attributes in records:
        scope.log_records.add(attributes=attributes, time_unix_nano=1)
    return request.SerializeToString()


@settings(max_examples=60)
@given(records=st.lists(st.lists(_attribute, max_size=6), max_size=5))
def test_columns_are_what_protobuf_reads(records: list[list[KeyValue]]) -> None:
    _check(_request(records))


@given(records=st.lists(st.lists(_attribute, max_size=5), min_size=1, max_size=4))
def test_whole_attributes_have_one_canonical_form(records: list[list[KeyValue]]) -> None:
    forward = Records.of_protobuf(Signal.LOGS, [_request(records)])
    alone = [Records.of_protobuf(Signal.LOGS, [_request([record])]) for record in records]
    every = list(range(len(records)))
    assert canonical_attributes(forward.attributes.of_holders(_rows(every))).to_pylist() == [
        canonical_attributes(one.attributes.of_holders(_rows([0])))[0].as_py() for one in alone
    ]


def _rows(rows: list[int]) -> Any:
    return np.array(rows, dtype=np.int32)


def test_every_body_of_the_real_producer(fixtures: Path) -> None:
    values = 0
    for signal in (Signal.LOGS, Signal.TRACES):
        for path in sorted(fixtures.glob(f"*/*-{signal}.pb")):
            values += _check(path.read_bytes(), signal)
    assert values > 10_000


def _field(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


KEY, VALUE = _field(1, b"status"), _field(2, _field(1, b"error"))
ODD = {
    "the value before the key": VALUE + KEY,
    "the key twice": _field(1, b"other") + KEY + VALUE,
    "the value twice": KEY + _field(2, _field(1, b"first")) + VALUE,
    "two kinds of value": KEY + _field(2, b"\x18\x07" + _field(1, b"error")),
    "two kinds, the other way round": KEY + _field(2, _field(1, b"error") + b"\x18\x07"),
    "an unknown field behind": KEY + VALUE + _field(15, b"new"),
    "an unknown field before": _field(15, b"new") + KEY + VALUE,
    "an unknown field in the value": KEY + _field(2, _field(15, b"new") + _field(1, b"error")),
    "a needlessly long length": b"\x0a\x86\x00status" + VALUE,
    "a needlessly long number": KEY + _field(2, b"\x18\x87\x80\x00"),
    "a needlessly long tag": KEY + b"\x92\x00" + VALUE[1:],
    "no value": KEY,
    "no key": VALUE,
    "nothing": b"",
    "an empty value": KEY + _field(2, b""),
}


@pytest.mark.parametrize("attribute", ODD.values(), ids=ODD)
def test_other_forms_of_the_same_are_read_too(attribute: bytes) -> None:
    usual = KeyValue(key="call_id", value=AnyValue(string_value="c")).SerializeToString()
    record = b"".join(bytes([6 << 3 | 2, len(each)]) + each for each in (usual, attribute, usual))
    body = bytes([10, len(record) + 4, 18, len(record) + 2, 18, len(record)]) + record
    assert ExportLogsServiceRequest.FromString(body).resource_logs
    _check(body)


@pytest.mark.parametrize(
    "attribute",
    [
        KEY + b"\x12\x09\x0a\x05err",
        KEY + b"\x12\x03\x0a\x05er",
        b"\x0a\x20status",
        KEY + _field(2, b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        KEY + _field(2, b"\x21\x00\x00"),
        KEY + b"\x13",
    ],
)
def test_what_is_no_message_is_malformed(attribute: bytes) -> None:
    record = bytes([6 << 3 | 2, len(attribute)]) + attribute
    body = bytes([10, len(record) + 4, 18, len(record) + 2, 18, len(record)]) + record
    with pytest.raises(DecodeError):
        message_factory.GetMessageClass(request_descriptor(Signal.LOGS)).FromString(body)
    with pytest.raises(MalformedBody):
        Records.of_protobuf(Signal.LOGS, [body])


def test_only_texts_that_are_asked_for_must_be_text() -> None:
    body = _request([[KeyValue(key="status", value=AnyValue(string_value="ab"))]]).replace(b"ab", b"\xff\xfe")
    found = Records.of_protobuf(Signal.LOGS, [body]).attributes.locate(("status", "call_id"))
    assert found["call_id"].text.to_pylist() == [None]
    with pytest.raises(MalformedBody, match="not UTF-8"):
        _ = found["status"].text
