"""Bodies of very many very small things are refused before they become columns."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.decode.points import Points
from ingest.decode.protobuf import decode_fields
from ingest.decode.records import Records
from ingest.decode.wire import Signal
from ingest.exceptions import TooLarge

SIZE = 4 * 1024 * 1024


def _field(number: int, content: bytes) -> bytes:
    length, size = b"", len(content)
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def _many(thing: bytes) -> bytes:
    return thing * (SIZE // len(thing))


RECORDS = {
    "resources": _many(b"\x0a\x00"),
    "scopes": _field(1, _many(b"\x12\x00")),
    "attributes of a resource": _field(1, _field(1, _many(b"\x0a\x00"))),
    "attributes of a scope": _field(1, _field(2, _field(1, _many(b"\x1a\x00")))),
    "records": _field(1, _field(2, _many(b"\x12\x00"))),
    "records under a longer tag": _field(1, _field(2, _many(b"\x92\x00\x00"))),
    "records with a byte in them": _field(1, _field(2, _many(b"\x12\x02\x08\x01"))),
}


@pytest.mark.parametrize("signal", [Signal.LOGS, Signal.TRACES])
@pytest.mark.parametrize("body", RECORDS.values(), ids=RECORDS)
def test_more_things_than_a_body_of_its_size_holds(signal: Signal, body: bytes) -> None:
    with pytest.raises(TooLarge, match="records and attributes"):
        Records.of_protobuf(signal, [body])


@pytest.mark.parametrize(("signal", "tag"), [(Signal.LOGS, b"\x32"), (Signal.TRACES, b"\x4a")])
def test_more_attributes_of_one_record_than_a_body_of_its_size_holds(signal: Signal, tag: bytes) -> None:
    with pytest.raises(TooLarge):
        Records.of_protobuf(signal, [_field(1, _field(2, _field(2, _many(tag + b"\x00"))))])


@pytest.mark.parametrize("kind", [5, 7, 9, 10, 11])
def test_more_points_than_a_body_of_its_size_holds(kind: int) -> None:
    body = _field(1, _field(2, _field(2, _field(kind, _many(b"\x0a\x00")))))
    with pytest.raises(TooLarge):
        Points.of(decode_fields(Signal.METRICS, [body]))


def test_a_small_body_may_be_as_dense_as_it_likes() -> None:
    body = _field(1, _field(2, b"\x12\x00" * 1000))
    assert len(Records.of_protobuf(Signal.LOGS, [body])) == 1000


def test_many_ordinary_records_pass(otlp: Any) -> None:
    record = otlp.log(otlp.tool_call | {"function_args": "x" * 100})
    body = otlp.logs(*[record] * 8000)
    assert len(body) > SIZE / 2
    assert len(Records.of_protobuf(Signal.LOGS, [body])) == 8000
