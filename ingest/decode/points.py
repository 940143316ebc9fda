"""What a batch of requests of metrics holds, as columns: one row a metric, and one row a point of a sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.attributes import Attributes, Index
from ingest.decode.envelope import Envelope, parents
from ingest.decode.vectors import booleans
from ingest.decode.wire import COUNTED_KINDS

# opentelemetry/proto/metrics/v1, DataPointFlags: the series says that it has no value at this time.
_NO_RECORDED_VALUE = 1


@dataclass(frozen=True, slots=True)
class Points:
    """The points of some requests.

    Attributes:
        envelope: the requests, resources and scopes of the metrics.
        name: of each metric.
        count: how many points each metric has, of whatever kind.
        is_sum, temporality, is_monotonic: of each metric; 0 and False where it is no sum.
        metric: for each point of a sum, its metric; ascending.
        start_time, time: nanoseconds since 1970; 0 if not sent.
        value: an int or a double as a double; null where there is neither.
        recorded: whether the series had a value at this time at all.
        attributes: the labels of the points.
    """

    envelope: Envelope
    name: pa.StringArray
    count: npt.NDArray[np.int64]
    is_sum: npt.NDArray[np.bool_]
    temporality: npt.NDArray[np.int32]
    is_monotonic: npt.NDArray[np.bool_]
    metric: Index
    start_time: npt.NDArray[np.uint64]
    time: npt.NDArray[np.uint64]
    value: pa.DoubleArray
    recorded: npt.NDArray[np.bool_]
    attributes: Attributes

    def __len__(self) -> int:
        return len(self.metric)

    @staticmethod
    def of(batch: pa.RecordBatch) -> Points:
        """The points of a decoded batch: what `decode_fields` or `decode_json` gave."""
        envelope, metrics = Envelope.open(batch)
        sums = metrics.field("sum")
        by_metric = sums.field("data_points")
        rows = by_metric.values
        is_sum = ~booleans(sums.is_null())
        count = np.diff(by_metric.offsets.to_numpy()).astype(np.int64)
        for kind, _ in COUNTED_KINDS:
            count += np.diff(metrics.field(kind).field("data_points").offsets.to_numpy())
        value = pc.coalesce(rows.field("as_double"), rows.field("as_int").cast(pa.float64(), safe=False))
        return Points(
            envelope=envelope,
            name=metrics.field("name"),
            count=count,
            is_sum=is_sum,
            temporality=np.where(is_sum, sums.field("aggregation_temporality").to_numpy(), 0),
            is_monotonic=is_sum & booleans(sums.field("is_monotonic")),
            metric=parents(by_metric),
            start_time=rows.field("start_time").to_numpy(),
            time=rows.field("time").to_numpy(),
            value=value,
            recorded=rows.field("flags").to_numpy() & _NO_RECORDED_VALUE == 0,
            attributes=Attributes.of_lists(rows.field("attributes")),
        )
