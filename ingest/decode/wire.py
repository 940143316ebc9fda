"""The part of OTLP that is read: message descriptors with the standard field numbers, and no more.

A field that is not declared here is skipped on the wire without being copied, which is how bodies,
events, links and status messages never become values of this process. Nested values (arrays, maps)
are declared as bytes: they are compared and never looked into.

Logs and traces have the same outer shape in OTLP, with the same numbers (`Resource…` 1 and 2,
`Scope…` 1 and 2), so one description serves both; only the record differs.

Source: opentelemetry/proto/{common,resource,logs,trace}/v1 of opentelemetry-proto 1.x.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool


class Signal(StrEnum):
    """The three signals of OTLP; the value is the word in URLs and file names."""

    LOGS = "logs"
    TRACES = "traces"
    METRICS = "metrics"


_FIXED64, _STRING, _BYTES = Field.TYPE_FIXED64, Field.TYPE_STRING, Field.TYPE_BYTES

_RECORD_FIELDS: dict[Signal, tuple[tuple[str, int, int], ...]] = {
    Signal.LOGS: (
        ("time", 1, _FIXED64),
        ("observed_time", 11, _FIXED64),
        ("trace_id", 9, _BYTES),
        ("span_id", 10, _BYTES),
        ("name", 12, _STRING),
    ),
    Signal.TRACES: (
        ("time", 7, _FIXED64),
        ("end_time", 8, _FIXED64),
        ("trace_id", 1, _BYTES),
        ("span_id", 2, _BYTES),
        ("name", 5, _STRING),
    ),
}
_RECORD_ATTRIBUTES = {Signal.LOGS: 6, Signal.TRACES: 9}

VALUE_KINDS: tuple[str, ...] = (
    "string_value",
    "bool_value",
    "int_value",
    "double_value",
    "array_value",
    "kvlist_value",
    "bytes_value",
)
"""The members of AnyValue's oneof, in the order of their field numbers 1 to 7."""

_VALUE_TYPES = (_STRING, Field.TYPE_BOOL, Field.TYPE_INT64, Field.TYPE_DOUBLE, _BYTES, _BYTES, _BYTES)


@cache
def request_descriptor(signal: Signal) -> Descriptor:
    """The descriptor of an export request of logs or traces, reduced to what is read.

    Raises:
        KeyError: for metrics, which are not read through this description.
    """
    package = f"toolgauge.wire.{signal}"
    file = FileDescriptorProto(name=f"toolgauge/wire/{signal}.proto", package=package, syntax="proto3")

    def add(name: str, *fields: tuple[str, int, int | str], repeated: frozenset[str] = frozenset()) -> None:
        message = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            label = Field.LABEL_REPEATED if field_name in repeated else Field.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=number, label=label)
            if isinstance(kind, str):
                field.type, field.type_name = Field.TYPE_MESSAGE, f".{package}.{kind}"
            else:
                field.type = Field.Type.ValueType(kind)

    add("Value", *zip(VALUE_KINDS, range(1, 8), _VALUE_TYPES, strict=True))
    value = file.message_type[0]
    value.oneof_decl.add(name="value")
    for field in value.field:
        field.oneof_index = 0
    add("KeyValue", ("key", 1, _STRING), ("value", 2, "Value"))
    attributes = frozenset({"attributes"})
    add("Resource", ("attributes", 1, "KeyValue"), repeated=attributes)
    add(
        "Scope",
        ("name", 1, _STRING),
        ("version", 2, _STRING),
        ("attributes", 3, "KeyValue"),
        repeated=attributes,
    )
    add(
        "Record",
        *_RECORD_FIELDS[signal],
        ("attributes", _RECORD_ATTRIBUTES[signal], "KeyValue"),
        repeated=attributes,
    )
    add("ScopeRecords", ("scope", 1, "Scope"), ("records", 2, "Record"), repeated=frozenset({"records"}))
    add(
        "ResourceRecords",
        ("resource", 1, "Resource"),
        ("scopes", 2, "ScopeRecords"),
        repeated=frozenset({"scopes"}),
    )
    add("Request", ("resources", 1, "ResourceRecords"), repeated=frozenset({"resources"}))

    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindMessageTypeByName(f"{package}.Request")
