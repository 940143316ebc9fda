"""What a batch of requests of logs or traces holds, as columns: one row a log record or span."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.decode.attributes import Attributes
from ingest.decode.envelope import Envelope
from ingest.decode.wire import Signal


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
    attributes: Attributes

    def __len__(self) -> int:
        return len(self.time)

    @staticmethod
    def of(signal: Signal, batch: pa.RecordBatch) -> Records:
        """The records of a decoded batch.

        Args:
            signal: logs or traces.
            batch: what `decode_protobuf` or `decode_json` gave.
        """
        envelope, rows = Envelope.open(batch)
        other_time = "observed_time" if signal is Signal.LOGS else "end_time"
        return Records(
            signal=signal,
            envelope=envelope,
            time=rows.field("time").to_numpy(),
            other_time=rows.field(other_time).to_numpy(),
            name=rows.field("name"),
            trace_id=rows.field("trace_id"),
            span_id=rows.field("span_id"),
            parent_span_id=rows.field("parent_span_id") if signal is Signal.TRACES else None,
            attributes=Attributes.of_lists(rows.field("attributes")),
        )
