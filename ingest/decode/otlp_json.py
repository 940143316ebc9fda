"""OTLP/JSON bodies as the protobuf bodies that say the same, one field after the other: the reference.

It is the way of what `json_columns` does not read, and the one that says where a body is wrong.

OTLP/JSON is protobuf's JSON mapping with its own rules: ids in hex, enums as numbers, unknown fields
ignored (OTLP 1.x, "JSON Protobuf Encoding"). Integers may come as numbers, as this producer sends
them, or as strings. Only what `wire` reads is translated.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import orjson
from google.protobuf import message_factory
from opentelemetry.proto.common.v1 import common_pb2

from ingest.decode.wire import Signal, request_descriptor
from ingest.exceptions import MalformedBody, TooLarge

_INT64 = range(-(2**63), 2**63)
_FIXED64 = range(2**64)
# Deeper nesting than any agent's telemetry has; it bounds the recursion.
_DEEPEST_VALUE = 32
# Small objects cost a hundred times their text in memory. 40 000 full tool calls are 1.4 million objects.
_MOST_OBJECTS = 2_000_000
_MOST_VALUES = 8_000_000
_INTEGER = re.compile(r"-?[0-9]+", re.ASCII)
_HEXADECIMAL = re.compile(r"[0-9A-Fa-f]*", re.ASCII)

OUTER_NAMES = {
    Signal.LOGS: ("resourceLogs", "scopeLogs", "logRecords"),
    Signal.TRACES: ("resourceSpans", "scopeSpans", "spans"),
    Signal.METRICS: ("resourceMetrics", "scopeMetrics", "metrics"),
}


def check_size(body: bytes) -> None:
    """See that a body is not of more objects, lists or values than can be held.

    Raises:
        TooLarge: it is.
    """
    if body.count(b"{") + body.count(b"[") > _MOST_OBJECTS or body.count(b",") > _MOST_VALUES:
        raise TooLarge(_MOST_OBJECTS, "JSON objects")


def json_to_wire(signal: Signal, body: bytes) -> bytes:
    """Translate an OTLP/JSON export request.

    Args:
        signal: what it is an export request of.
        body: UTF-8 JSON.

    Raises:
        MalformedBody: it is not JSON, or a field is not of its type; the reason names the field.
    """
    if not body:
        # An empty body is an empty request in protobuf, and clients mean the same by it here.
        return b""
    check_size(body)
    try:
        tree = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedBody(signal, f"not valid JSON at line {error.lineno} column {error.colno}") from error
    try:
        return _request(signal, tree)
    except WrongField as error:
        raise MalformedBody(signal, str(error)) from error


def nested_to_wire(name: str, text: str) -> bytes:
    """The value of an array, a map or bytes (by its name in JSON) as it is on the wire.

    Raises:
        WrongField: it is none.
    """
    (wire,) = _value({name: orjson.loads(text)}, 0).values()
    return bytes(wire)


class WrongField(Exception):
    """A field is not what OTLP says; the path is built up while the error travels outwards."""

    def __init__(self, expected: str) -> None:
        super().__init__()
        self.expected = expected
        self.path: list[str] = []

    def __str__(self) -> str:
        path = "".join(reversed(self.path)).lstrip(".")
        return f"{path or 'the body'} must be {self.expected}"


def _inside(part: str, read: Callable[[Any], Any], node: Any) -> Any:
    try:
        return read(node)
    except WrongField as error:
        error.path.append(part)
        raise


def _fields(node: Any) -> dict[str, Any]:
    if not isinstance(node, dict):
        raise WrongField("an object")
    return node


def _field(node: dict[str, Any], name: str, read: Callable[[Any], Any], missing: Any) -> Any:
    """A field of an object; null means absent, as everywhere in protobuf's JSON."""
    value = node.get(name)
    return missing if value is None else _inside(f".{name}", read, value)


def _each(node: dict[str, Any], name: str, read: Callable[[Any], Any]) -> list[Any]:
    items = node.get(name)
    if items is None:
        return []
    if not isinstance(items, list):
        raise _named(WrongField("a list"), f".{name}")
    return [_inside(f".{name}[{number}]", read, item) for number, item in enumerate(items)]


def _named(error: WrongField, part: str) -> WrongField:
    error.path.append(part)
    return error


def _text(node: Any) -> str:
    if not isinstance(node, str):
        raise WrongField("a string")
    return node


def _integer(allowed: range) -> Callable[[Any], int]:
    def read(node: Any) -> int:
        number = node
        if isinstance(node, str):
            # At most 20 digits: longer ones are no 64-bit integers, and take long to convert.
            number = int(node) if len(node) <= 20 and _INTEGER.fullmatch(node) else None
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if isinstance(number, bool) or not isinstance(number, int) or number not in allowed:
            raise WrongField("an integer of 64 bits, as a number or a string")
        return number

    return read


_int64 = _integer(_INT64)
_fixed64 = _integer(_FIXED64)
_int32 = _integer(range(-(2**31), 2**31))
_uint32 = _integer(range(2**32))


def _double(node: Any) -> float:
    try:
        number = float(node) if isinstance(node, str | int | float) and not isinstance(node, bool) else None
    except (ValueError, OverflowError):
        number = None
    odd = isinstance(node, str) and ("_" in node or not node.isascii() or node != node.strip())
    if number is None or odd or (isinstance(node, str) and math.isinf(number) and "Infinity" not in node):
        raise WrongField("a number")
    return number


def _bool(node: Any) -> bool:
    if not isinstance(node, bool):
        raise WrongField("true or false")
    return node


def _base64(node: Any) -> bytes:
    try:
        return base64.b64decode(_text(node), validate=True)
    except binascii.Error as error:
        raise WrongField("base64") from error


def _hex_id(digits: int) -> Callable[[Any], bytes]:
    def read(node: Any) -> bytes:
        text = _text(node)
        if not text:
            return b""
        if len(text) != digits or not _HEXADECIMAL.fullmatch(text):
            raise WrongField(f"{digits} hexadecimal digits")
        return bytes.fromhex(text)

    return read


_trace_id = _hex_id(32)
_span_id = _hex_id(16)


@cache
def _message(signal: Signal, name: str) -> Any:
    file = request_descriptor(signal).file
    return message_factory.GetMessageClass(file.message_types_by_name[name])


def _request(signal: Signal, tree: Any) -> bytes:
    resources, scopes, records = OUTER_NAMES[signal]
    read_record = {Signal.LOGS: _log_record, Signal.TRACES: _span, Signal.METRICS: _metric}[signal]

    def scope_records(node: Any) -> Any:
        fields = _fields(node)
        return _message(signal, "ScopeRecords")(
            scope=_field(fields, "scope", scope, None),
            records=_each(fields, records, lambda record: read_record(signal, _fields(record))),
        )

    def scope(node: Any) -> Any:
        fields = _fields(node)
        return _message(signal, "Scope")(
            name=_field(fields, "name", _text, ""),
            version=_field(fields, "version", _text, ""),
            attributes=_attributes(signal, fields),
        )

    def resource_records(node: Any) -> Any:
        fields = _fields(node)
        return _message(signal, "ResourceRecords")(
            resource=_field(fields, "resource", resource, None),
            scopes=_each(fields, scopes, scope_records),
        )

    def resource(node: Any) -> Any:
        return _message(signal, "Resource")(attributes=_attributes(signal, _fields(node)))

    request = _message(signal, "Request")(resources=_each(_fields(tree), resources, resource_records))
    wire: bytes = request.SerializeToString()
    return wire


def _log_record(signal: Signal, fields: dict[str, Any]) -> Any:
    return _message(signal, "Record")(
        time=_field(fields, "timeUnixNano", _fixed64, 0),
        observed_time=_field(fields, "observedTimeUnixNano", _fixed64, 0),
        trace_id=_field(fields, "traceId", _trace_id, b""),
        span_id=_field(fields, "spanId", _span_id, b""),
        name=_field(fields, "eventName", _text, ""),
        attributes=_attributes(signal, fields),
    )


def _span(signal: Signal, fields: dict[str, Any]) -> Any:
    return _message(signal, "Record")(
        time=_field(fields, "startTimeUnixNano", _fixed64, 0),
        end_time=_field(fields, "endTimeUnixNano", _fixed64, 0),
        trace_id=_field(fields, "traceId", _trace_id, b""),
        span_id=_field(fields, "spanId", _span_id, b""),
        parent_span_id=_field(fields, "parentSpanId", _span_id, b""),
        name=_field(fields, "name", _text, ""),
        attributes=_attributes(signal, fields),
    )


def _metric(signal: Signal, fields: dict[str, Any]) -> Any:
    counted = {
        name: _field(fields, key, lambda node: _counted(signal, _fields(node)), None)
        for key, name in COUNTED_NAMES.items()
    }
    return _message(signal, "Record")(
        name=_field(fields, "name", _text, ""),
        sum=_field(fields, "sum", lambda node: _sum(signal, _fields(node)), None),
        **counted,
    )


def _counted(signal: Signal, fields: dict[str, Any]) -> Any:
    points = _each(fields, "dataPoints", _fields)
    return _message(signal, "Counted")(data_points=[b""] * len(points))


def _sum(signal: Signal, fields: dict[str, Any]) -> Any:
    return _message(signal, "Sum")(
        data_points=_each(fields, "dataPoints", lambda node: _point(signal, _fields(node))),
        aggregation_temporality=_field(fields, "aggregationTemporality", _temporality, 0),
        is_monotonic=_field(fields, "isMonotonic", _bool, False),
    )


def _point(signal: Signal, fields: dict[str, Any]) -> Any:
    values = {
        "as_double": _field(fields, "asDouble", _double, None),
        "as_int": _field(fields, "asInt", _int64, None),
    }
    if None not in values.values():
        raise WrongField("a point with one value")
    return _message(signal, "Point")(
        attributes=_attributes(signal, fields),
        start_time=_field(fields, "startTimeUnixNano", _fixed64, 0),
        time=_field(fields, "timeUnixNano", _fixed64, 0),
        flags=_field(fields, "flags", _uint32, 0),
        **values,
    )


COUNTED_NAMES = {
    "gauge": "gauge",
    "histogram": "histogram",
    "exponentialHistogram": "exponential_histogram",
    "summary": "summary",
}


def _temporality(node: Any) -> int:
    """AggregationTemporality: OTLP/JSON has enums as numbers; their names are accepted too."""
    names = (
        "AGGREGATION_TEMPORALITY_UNSPECIFIED",
        "AGGREGATION_TEMPORALITY_DELTA",
        "AGGREGATION_TEMPORALITY_CUMULATIVE",
    )
    if node in names:
        return names.index(node)
    return _int32(node)


def _attributes(signal: Signal, fields: dict[str, Any]) -> list[Any]:
    key_value, value = _message(signal, "KeyValue"), _message(signal, "Value")

    def read(node: Any) -> Any:
        entry = _fields(node)
        return key_value(
            key=_field(entry, "key", _text, ""),
            value=_field(entry, "value", lambda inner: value(**_value(inner, 0)), None),
        )

    return _each(fields, "attributes", read)


def _value(node: Any, depth: int) -> dict[str, Any]:
    """The one member of an AnyValue that is set, by its name in `wire`; none if it is empty."""
    if depth > _DEEPEST_VALUE:
        raise WrongField(f"nested at most {_DEEPEST_VALUE} deep")
    fields = _fields(node)
    members = [name for name in _MEMBERS if fields.get(name) is not None]
    if not members:
        return {}
    if len(members) > 1:
        raise WrongField("one kind of value")
    name = members[0]
    if name in _SIMPLE:
        member, read = _SIMPLE[name]
        return {member: _field(fields, name, read, None)}
    nested = _field(fields, name, lambda inner: _nested(name, inner, depth), None)
    return {_NESTED[name]: nested.SerializeToString(deterministic=True)}


_SIMPLE: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "stringValue": ("string_value", _text),
    "boolValue": ("bool_value", _bool),
    "intValue": ("int_value", _int64),
    "doubleValue": ("double_value", _double),
    "bytesValue": ("bytes_value", _base64),
}
_NESTED = {"arrayValue": "array_value", "kvlistValue": "kvlist_value"}
_MEMBERS = (*_SIMPLE, *_NESTED)
NESTED_VALUES = ("arrayValue", "kvlistValue", "bytesValue")


def _nested(name: str, node: Any, depth: int) -> Any:
    fields = _fields(node)
    if name == "arrayValue":
        values = _each(fields, "values", lambda inner: _any_value(inner, depth + 1))
        return common_pb2.ArrayValue(values=values)

    def entry(inner: Any) -> Any:
        pair = _fields(inner)
        return common_pb2.KeyValue(
            key=_field(pair, "key", _text, ""),
            value=_field(pair, "value", lambda value: _any_value(value, depth + 1), None),
        )

    return common_pb2.KeyValueList(values=_each(fields, "values", entry))


def _any_value(node: Any, depth: int) -> Any:
    members = _value(node, depth)
    for name, wire in members.items():
        if name == "array_value":
            return common_pb2.AnyValue(array_value=common_pb2.ArrayValue.FromString(wire))
        if name == "kvlist_value":
            return common_pb2.AnyValue(kvlist_value=common_pb2.KeyValueList.FromString(wire))
    return common_pb2.AnyValue(**members)
