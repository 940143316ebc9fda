"""How many records of each name arrived: everything is counted, also what is not kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.decode.envelope import Envelope
from ingest.decode.vectors import arrow
from ingest.decode.wire import Signal
from ingest.normalise.columns import ResourceColumns

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The records of some requests in groups of one request, one resource and one name.

    Attributes:
        of_record: for each record (of metrics: each metric), its group.
        request: for each group, its request.
        name: for each group, the name that its records are counted under.
        environment, service_name, service_version: what the resource says.
        records: how many records there are.
        kept: how many of them become rows.
        rejected: how many of them cannot be kept.
    """

    signal: Signal
    of_record: npt.NDArray[np.int32]
    request: npt.NDArray[np.int32]
    name: pa.StringArray
    environment: pa.StringArray
    service_name: pa.StringArray
    service_version: pa.StringArray
    records: Counts
    kept: Counts
    rejected: Counts

    def __len__(self) -> int:
        return len(self.request)

    @staticmethod
    def count(
        signal: Signal,
        envelope: Envelope,
        code: npt.NDArray[np.int32],
        names: pa.StringArray,
        resources: ResourceColumns,
        weight: Counts | None = None,
    ) -> Arrivals:
        """Count records; none of them is kept or rejected yet.

        Args:
            code: for each record, the position of its name in `names`.
            weight: how many records each stands for; one if not given.
        """
        key = envelope.resource * np.int64(max(len(names), 1)) + code
        first, of_record = np.unique(key, return_index=True, return_inverse=True)[1:]
        resource = arrow(envelope.resource[first])
        groups = len(first)
        records = np.bincount(of_record, weights=weight, minlength=groups).astype(np.int64)
        return Arrivals(
            signal=signal,
            of_record=of_record.astype(np.int32),
            request=envelope.request[first],
            name=names.take(arrow(code[first])),
            environment=resources.environment.take(resource),
            service_name=resources.service_name.take(resource),
            service_version=resources.service_version.take(resource),
            records=records,
            kept=np.zeros(groups, dtype=np.int64),
            rejected=np.zeros(groups, dtype=np.int64),
        )
