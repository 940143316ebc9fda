"""The part of OTLP that is read: message descriptors with the standard field numbers, and no more.

A field that is not declared here is skipped on the wire without being copied, which is how bodies,
events, links and status messages never become values of this process. Nested values (arrays, maps)
are declared as bytes: they are compared and never looked into.

The three signals have the same outer shape in OTLP, with the same numbers (`Resource…` 1 and 2,
`Scope…` 1 and 2), so one description serves all; only the record differs: a log record, a span, a metric.

Source: opentelemetry/proto/{common,resource,logs,trace,metrics}/v1 of opentelemetry-proto 1.x.
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
        ("parent_span_id", 4, _BYTES),
        ("name", 5, _STRING),
    ),
}
_RECORD_ATTRIBUTES = {Signal.LOGS: 6, Signal.TRACES: 9}

# The kinds of metric data whose points are only counted.
COUNTED_KINDS: tuple[tuple[str, int], ...] = (
    ("gauge", 5),
    ("histogram", 9),
    ("exponential_histogram", 10),
    ("summary", 11),
)

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
def request_descriptor(signal: Signal, raw: bool = False) -> Descriptor:
    """The descriptor of an export request, reduced to what is read.

    Args:
        raw: whether the attributes of log records and spans are left as the bytes of their messages.
    """
    form = f"{signal}_raw" if raw else f"{signal}"
    package = f"toolgauge.wire.{form}"
    file = FileDescriptorProto(name=f"toolgauge/wire/{form}.proto", package=package, syntax="proto3")

    def add(name: str, *fields: tuple[str, int, int | str], repeated: frozenset[str] = frozenset()) -> None:
        message = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            label = Field.LABEL_REPEATED if field_name in repeated else Field.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=number, label=label)
            if isinstance(kind, str):
                field.type, field.type_name = Field.TYPE_MESSAGE, f".{package}.{kind}"
            else:
                field.type = Field.Type.ValueType(kind)

    def one_of(name: str, *members: str) -> None:
        message = next(each for each in file.message_type if each.name == name)
        message.oneof_decl.add(name="value")
        for field in message.field:
            if field.name in members:
                field.oneof_index = 0

    add("Value", *zip(VALUE_KINDS, range(1, 8), _VALUE_TYPES, strict=True))
    one_of("Value", *VALUE_KINDS)
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
    if signal is Signal.METRICS:
        points = frozenset({"data_points"})
        add(
            "Point",
            ("attributes", 7, "KeyValue"),
            ("start_time", 2, _FIXED64),
            ("time", 3, _FIXED64),
            ("as_double", 4, Field.TYPE_DOUBLE),
            ("as_int", 6, Field.TYPE_SFIXED64),
            ("flags", 8, Field.TYPE_UINT32),
            repeated=attributes,
        )
        one_of("Point", "as_double", "as_int")
        # An enum is an int32 on the wire.
        temporality = ("aggregation_temporality", 2, Field.TYPE_INT32)
        monotonic = ("is_monotonic", 3, Field.TYPE_BOOL)
        add("Sum", ("data_points", 1, "Point"), temporality, monotonic, repeated=points)
        add("Counted", ("data_points", 1, _BYTES), repeated=points)
        kinds = [(name, number, "Counted") for name, number in COUNTED_KINDS]
        add("Record", ("name", 1, _STRING), ("sum", 7, "Sum"), *kinds)
    else:
        attribute_list = ("attributes", _RECORD_ATTRIBUTES[signal], _BYTES if raw else "KeyValue")
        add("Record", *_RECORD_FIELDS[signal], attribute_list, repeated=attributes)
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
