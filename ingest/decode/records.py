"""What a batch of requests of logs or traces holds, as columns: one row a log record or span."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.decode.attributes import Attributes
from ingest.decode.envelope import Envelope
from ingest.decode.json_columns import decode_json
from ingest.decode.protobuf import decode_raw, holds_doubled_values, write_anew
from ingest.decode.wire import Signal
from ingest.decode.wire_attributes import WireAttributes


@dataclass(frozen=True, slots=True)
class Records:
    """The records of some requests of one signal.

    Attributes:
        signal: logs or traces.
        envelope: their requests, resources and scopes.
        time: nanoseconds since 1970; of a span, its start. 0 if not sent.
        other_time: the observed time of a log record, the end of a span. 0 if not sent.
        name: the event_name of a log record (empty if not sent), the name of a span.
        trace_id, span_id: as sent; empty if not sent.
        parent_span_id: of a span, as sent; empty if not sent. None for log records.
        attributes: those of the records.
    """

    signal: Signal
    envelope: Envelope
    time: npt.NDArray[np.uint64]
    other_time: npt.NDArray[np.uint64]
    name: pa.StringArray
    trace_id: pa.BinaryArray
    span_id: pa.BinaryArray
    parent_span_id: pa.BinaryArray | None
    attributes: Attributes | WireAttributes

    def __len__(self) -> int:
        return len(self.time)

    @staticmethod
    def of_protobuf(signal: Signal, bodies: list[bytes]) -> Records:
        """Decode export requests of logs or traces, all at once.

        Args:
            bodies: serialised requests, one or more.

        Raises:
            MalformedBody: one of the bodies is no such request. Which one is not said: decode them one
                by one to know.
        """
        batch = decode_raw(signal, bodies)
        records = Records._of(signal, batch)
        odd = records.odd_requests(batch)
        if not odd:
            return records
        plain = [write_anew(signal, body) if number in odd else body for number, body in enumerate(bodies)]
        return Records._of(signal, decode_raw(signal, plain))

    @staticmethod
    def of_json(signal: Signal, bodies: list[bytes]) -> Records:
        """Decode OTLP/JSON export requests of logs or traces, all at once.

        Raises:
            MalformedBody, TooLarge: one of the bodies is no such request, or of too many objects.
        """
        return Records._of(signal, decode_json(signal, bodies))

    def odd_requests(self, batch: pa.RecordBatch) -> set[int]:
        """The requests with an attribute whose form on the wire is unusual, or a value of two kinds."""
        if holds_doubled_values(self.signal, batch):
            return set(range(self.envelope.requests))
        attributes = self.attributes
        if isinstance(attributes, Attributes) or not attributes.is_odd.any():
            return set()
        return set(self.envelope.request[attributes.holder[attributes.is_odd]].tolist())

    @staticmethod
    def _of(signal: Signal, batch: pa.RecordBatch) -> Records:
        envelope, rows = Envelope.open(batch)
        other_time = "observed_time" if signal is Signal.LOGS else "end_time"
        lists = rows.field("attributes")
        is_raw = pa.types.is_binary(lists.type.value_type)
        return Records(
            signal=signal,
            envelope=envelope,
            time=rows.field("time").to_numpy(),
            other_time=rows.field(other_time).to_numpy(),
            name=rows.field("name"),
            trace_id=rows.field("trace_id"),
            span_id=rows.field("span_id"),
            parent_span_id=rows.field("parent_span_id") if signal is Signal.TRACES else None,
            attributes=WireAttributes.of_lists(signal, lists) if is_raw else Attributes.of_lists(lists),
        )
