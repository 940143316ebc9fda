"""Protobuf bodies as nested Arrow columns, many bodies at once."""

from __future__ import annotations

from functools import cache
from typing import Any

import ptars
import pyarrow as pa

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
        return _decoder(signal).list_to_record_batch(bodies)
    except ValueError as error:
        raise MalformedBody(signal, str(error)) from error


@cache
def _decoder(signal: Signal) -> Any:
    descriptor = request_descriptor(signal)
    return ptars.HandlerPool([descriptor.file]).get_for_message(descriptor)
