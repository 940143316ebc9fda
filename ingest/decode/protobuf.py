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

from ingest.decode.wire import Signal, request_descriptor
from ingest.exceptions import MalformedBody


def decode_protobuf(signal: Signal, bodies: list[bytes]) -> pa.RecordBatch:
    """Decode export requests of one signal, all at once.

    Args:
        bodies: serialised requests (protobuf), one or more.

    Returns:
        One row a request, with the fields that `wire` declares, nested as they are there.

    Raises:
        MalformedBody: one of the bodies is no such request. Which one is not said: decode them one
            by one to know.
    """
    try:
        batch: pa.RecordBatch = _decoder(signal).list_to_record_batch(bodies)
        if any(_is_doubled(members) for members in _one_ofs(signal, batch)):
            message = message_factory.GetMessageClass(request_descriptor(signal))
            plain = [message.FromString(body).SerializeToString() for body in bodies]
            batch = _decoder(signal).list_to_record_batch(plain)
    except (ValueError, DecodeError) as error:
        raise MalformedBody(signal, str(error)) from error
    return batch


@cache
def _decoder(signal: Signal) -> Any:
    descriptor = request_descriptor(signal)
    return ptars.HandlerPool([descriptor.file]).get_for_message(descriptor)


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
        value = holder.field("attributes").values.field("value")
        yield [value.field(place) for place in range(value.type.num_fields)]


def _is_doubled(members: list[pa.Array]) -> bool:
    """Whether a value was sent as two kinds, one after the other.

    The later one counts (Protocol Buffers, "Oneof"), but the columns hold both: such bodies are written
    anew by protobuf's own reader.
    """
    rows = len(members[0])
    set_members = sum(rows - member.null_count for member in members)
    sent = [member for member in members if member.null_count < rows]
    if len(sent) < 2:
        return False
    unset = sent[0].is_null()
    for member in sent[1:]:
        unset = pc.and_(unset, member.is_null())
    return bool(set_members > rows - unset.true_count)
