"""How much a body may hold, before it is decoded: many small things cost far more than their bytes.

A record of two bytes on the wire becomes a row of a hundred bytes. So bodies that may hold more things
(resources, scopes, records, attributes, points) than one for eight of their bytes are counted, and refused
if they do. Real telemetry has one for some thirty bytes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ptars
import pyarrow as pa
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from ingest.decode.wire import Signal
from ingest.exceptions import MalformedBody, TooLarge

BYTES_PER_THING = 8
MOST_THINGS = 2_000_000
# So many are bearable, however dense they are; and bodies of half a megabyte need not be counted.
_FEW_THINGS = 250_000


def check_things(signal: Signal, body: bytes) -> None:
    """See that a protobuf body does not hold more things than its size allows.

    They are counted from the outside inwards, so that what is taken apart at each step is as many things
    as were allowed in the step before. The attributes of records, which cost a few bytes each before they
    are looked at, are left to `check_number`.

    Raises:
        TooLarge: it does.
        MalformedBody: it is no request of this signal.
    """
    allowed = _allowed(len(body))
    if len(body) // 2 <= allowed:
        return
    for depth in _DEPTHS[signal]:
        if _number_of_things(signal, depth, body) > allowed:
            raise TooLarge(allowed, "records and attributes")


def check_number(things: int, size: int) -> None:
    """See that some bodies of `size` bytes together do not hold more things than that allows.

    Raises:
        TooLarge: they do.
    """
    if things > _allowed(size):
        raise TooLarge(_allowed(size), "records and attributes")


def _allowed(size: int) -> int:
    return min(max(size // BYTES_PER_THING, _FEW_THINGS), MOST_THINGS)


def _number_of_things(signal: Signal, depth: int, body: bytes) -> int:
    try:
        batch = _skeleton(signal, depth).list_to_record_batch([body])
    except ValueError as error:
        raise MalformedBody(signal, str(error)) from error
    number = 0
    lists = [batch.column(name) for name in batch.schema.names]
    while lists:
        things = lists.pop().values
        number += len(things)
        if pa.types.is_struct(things.type):
            for field in things.type:
                column = things.field(field.name)
                if pa.types.is_struct(column.type):
                    lists.extend(column.field(inner.name) for inner in column.type)
                else:
                    lists.append(column)
    return number


# Resources; their attributes and scopes; the attributes of these and records; in metrics, points and labels.
_DEPTHS = {Signal.LOGS: (1, 2, 3), Signal.TRACES: (1, 2, 3), Signal.METRICS: (1, 2, 3, 4)}


@cache
def _skeleton(signal: Signal, depth: int) -> Any:
    """A decoder of the outer lists down to a depth: what is in them stays bytes."""
    package = f"toolgauge.skeleton.{signal}_{depth}"
    name = f"toolgauge/skeleton/{signal}_{depth}.proto"
    file = FileDescriptorProto(name=name, package=package, syntax="proto3")

    def add(name: str, **fields: tuple[int, str | None, bool]) -> None:
        message = file.message_type.add(name=name)
        for field_name, (number, kind, repeated) in fields.items():
            label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=number, label=label)
            if kind is None:
                field.type = Field.TYPE_BYTES
            else:
                field.type, field.type_name = Field.TYPE_MESSAGE, f".{package}.{kind}"

    def if_deeper(than: int, kind: str) -> str | None:
        return kind if depth > than else None

    if depth > 3:
        add("Point", attributes=(7, None, True))
        add("Points", data_points=(1, "Point", True))
        add("Counted", data_points=(1, None, True))
        kinds = {"gauge": 5, "histogram": 9, "exponential": 10, "summary": 11}
        add("Record", sum=(7, "Points", False), **{name: (n, "Counted", False) for name, n in kinds.items()})
    if depth > 2:
        add("Scope", attributes=(3, None, True))
        add("ScopeRecords", scope=(1, "Scope", False), records=(2, if_deeper(3, "Record"), True))
    if depth > 1:
        add("Resource", attributes=(1, None, True))
        scopes = (2, if_deeper(2, "ScopeRecords"), True)
        add("ResourceRecords", resource=(1, "Resource", False), scopes=scopes)
    add("Request", resources=(1, if_deeper(1, "ResourceRecords"), True))
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    descriptor = pool.FindMessageTypeByName(f"{package}.Request")
    return ptars.HandlerPool([descriptor.file]).get_for_message(descriptor)
