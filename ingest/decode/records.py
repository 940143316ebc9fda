"""What a batch of request bodies holds, as columns: one row a log record or span."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import ptars
import pyarrow as pa

from ingest.decode.attributes import Attributes, Index
from ingest.decode.wire import Signal, request_descriptor
from ingest.exceptions import MalformedBody


@dataclass(frozen=True, slots=True)
class Records:
    """The records of some requests of one signal.

    Attributes:
        signal: logs or traces.
        requests: number of requests they came in.
        request, resource, scope: for each record, its request, and its row in the tables of
            resources and scopes; ascending.
        time: nanoseconds since 1970; of a span, its start. 0 if not sent.
        other_time: the observed time of a log record, the end of a span. 0 if not sent.
        name: the event_name of a log record (empty if not sent), the name of a span.
        trace_id, span_id: as sent; empty if not sent.
        attributes: those of the records.
        resources: those of the resources.
        scope_name, scope_version, scopes: what the scopes say.
    """

    signal: Signal
    requests: int
    request: Index
    resource: Index
    scope: Index
    time: npt.NDArray[np.uint64]
    other_time: npt.NDArray[np.uint64]
    name: pa.StringArray
    trace_id: pa.BinaryArray
    span_id: pa.BinaryArray
    attributes: Attributes
    resources: Attributes
    scope_name: pa.StringArray
    scope_version: pa.StringArray
    scopes: Attributes

    def __len__(self) -> int:
        return len(self.time)


@cache
def _decoder(signal: Signal) -> Any:
    descriptor = request_descriptor(signal)
    return ptars.HandlerPool([descriptor.file]).get_for_message(descriptor)


def decode_records(signal: Signal, bodies: list[bytes]) -> Records:
    """Decode export requests of logs or traces, all at once.

    Args:
        signal: logs or traces.
        bodies: serialised requests (protobuf), one or more.

    Raises:
        MalformedBody: one of the bodies is no such request. Which one is not said: decode them one
            by one to know.
    """
    try:
        batch = _decoder(signal).list_to_record_batch(bodies)
    except ValueError as error:
        raise MalformedBody(signal, str(error)) from error
    by_resource = batch.column("resources")
    resource_rows = by_resource.values
    by_scope = resource_rows.field("scopes")
    scope_rows = by_scope.values
    by_record = scope_rows.field("records")
    rows = by_record.values

    scope = _parents(by_record)
    resource = _parents(by_scope)[scope]
    request = _parents(by_resource)[resource]
    # A resource or scope that is not sent is a null struct; flattening makes its fields null too.
    resource_attributes = resource_rows.field("resource").field("attributes")
    scopes = scope_rows.field("scope")
    other_time = "observed_time" if signal is Signal.LOGS else "end_time"
    return Records(
        signal=signal,
        requests=len(bodies),
        request=request,
        resource=resource,
        scope=scope,
        time=rows.field("time").to_numpy(),
        other_time=rows.field(other_time).to_numpy(),
        name=rows.field("name"),
        trace_id=rows.field("trace_id"),
        span_id=rows.field("span_id"),
        attributes=Attributes.of_lists(rows.field("attributes")),
        resources=Attributes.of_lists(resource_attributes),
        scope_name=scopes.field("name"),
        scope_version=scopes.field("version"),
        scopes=Attributes.of_lists(scopes.field("attributes")),
    )


def _parents(lists: pa.ListArray) -> Index:
    """For each element of a column of lists, the row of the list that it stands in."""
    return np.repeat(np.arange(len(lists), dtype=np.int32), np.diff(lists.offsets.to_numpy()))
