"""Protobuf bodies as nested Arrow columns, many bodies at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import ptars
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import message_factory
from google.protobuf.message import DecodeError

from ingest.decode.limits import check_number, check_things
from ingest.decode.wire import VALUE_KINDS, Signal, request_descriptor
from ingest.exceptions import MalformedBody


def decode_raw(signal: Signal, bodies: list[bytes]) -> pa.RecordBatch:
    """Decode export requests of logs or traces, all at once, their attributes left as they are on the wire.

    Args:
        bodies: serialised requests (protobuf), one or more.

    Returns:
        One row a request, with the fields that `wire` declares, nested as they are there.

    Raises:
        MalformedBody: one of the bodies is no such request. Which one is not said: decode them one
            by one to know.
        TooLarge: one of them holds more records and attributes than its size allows.
    """
    batch = _decode(_decoder(signal, raw=True), signal, bodies)
    records = batch.column("resources").values.field("scopes").values.field("records").values
    check_number(len(records.field("attributes").values), sum(map(len, bodies)))
    return batch


def decode_fields(signal: Signal, bodies: list[bytes]) -> pa.RecordBatch:
    """Decode export requests of any signal, all at once, every attribute taken apart.

    Raises:
        MalformedBody: one of the bodies is no such request.
    """
    batch = _decode(_decoder(signal), signal, bodies)
    if holds_doubled_values(signal, batch):
        batch = _decode(_decoder(signal), signal, [write_anew(signal, body) for body in bodies])
    return batch


def decode_attributes(messages: pa.BinaryArray) -> tuple[pa.StringArray, dict[str, pa.Array]]:
    """Take attributes apart: their keys, and for each kind of value a column."""
    batch = _key_value_decoder().array_to_record_batch(messages)
    value = batch.column("value")
    return batch.column("key"), dict(zip(VALUE_KINDS, value.flatten(), strict=True))


@cache
def _decoder(signal: Signal, raw: bool = False) -> Any:
    descriptor = request_descriptor(signal, raw)
    return ptars.HandlerPool([descriptor.file]).get_for_message(descriptor)


@cache
def _key_value_decoder() -> Any:
    file = request_descriptor(Signal.LOGS).file
    return ptars.HandlerPool([file]).get_for_message(file.message_types_by_name["KeyValue"])


def write_anew(signal: Signal, body: bytes) -> bytes:
    """The same request as protobuf's own writer writes it, without fields that are not read.

    Raises:
        MalformedBody: it is no such request.
    """
    try:
        message = message_factory.GetMessageClass(request_descriptor(signal)).FromString(body)
    except DecodeError as error:
        raise MalformedBody(signal, "it is not valid protobuf") from error
    message.DiscardUnknownFields()
    plain: bytes = message.SerializeToString()
    return plain


def holds_doubled_values(signal: Signal, batch: pa.RecordBatch) -> bool:
    """Whether a value of a decoded batch was sent as two kinds, one after the other.

    The later one counts (Protocol Buffers, "Oneof"), but the columns hold both: such requests have to be
    written anew.
    """
    return any(_is_doubled(members) for members in _one_ofs(signal, batch))


def _decode(decoder: Any, signal: Signal, bodies: list[bytes]) -> pa.RecordBatch:
    for body in bodies:
        check_things(signal, body)
    try:
        return decoder.list_to_record_batch(bodies)
    except ValueError as error:
        raise MalformedBody(signal, str(error)) from error


def _one_ofs(signal: Signal, batch: pa.RecordBatch) -> Iterator[list[pa.Array]]:
    """The members of everything that is of one kind of several, in a decoded batch."""
    resources = batch.column("resources").values
    scopes = resources.field("scopes").values
    records = scopes.field("records").values
    holders = [resources.field("resource"), scopes.field("scope")]
    if signal is Signal.METRICS:
        points = records.field("sum").field("data_points").values
        yield [points.field("as_double"), points.field("as_int")]
        holders.append(points)
    else:
        holders.append(records)
    for holder in holders:
        attributes = holder.field("attributes").values
        if pa.types.is_struct(attributes.type):
            value = attributes.field("value")
            yield [value.field(place) for place in range(value.type.num_fields)]


def _is_doubled(members: list[pa.Array]) -> bool:
    rows = len(members[0])
    set_members = sum(rows - member.null_count for member in members)
    sent = [member for member in members if member.null_count < rows]
    if len(sent) < 2:
        return False
    unset = sent[0].is_null()
    for member in sent[1:]:
        unset = pc.and_(unset, member.is_null())
    return bool(set_members > rows - unset.true_count)
