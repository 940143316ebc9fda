"""Rows of the event tables, on their way to the store."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.envelope import Envelope
from ingest.decode.vectors import arrow, booleans, words
from ingest.normalise.arrivals import Arrivals
from ingest.normalise.columns import ResourceColumns, Rows, microseconds
from ingest.normalise.times import NANOS_PER_DAY, EventTimes
from sli.vocabulary import Rejection, TimeSource

# How far the stored time of an event may lie from the time of a copy of it: a log record and the span that
# bridges it are stamped 1 to 4 ms apart, more when the agent is busy.
TWIN_NANOS = 1_000_000_000

_STAMPED = (TimeSource.RECORD, TimeSource.EVENT_TIMESTAMP)


@dataclass(frozen=True, slots=True)
class EventRows:
    """Rows of one event table.

    Attributes:
        table: the table's columns without event_id and commit_number; with `identity`, which makes
            the event id, and `arrival`, the position of the group of arrivals that each came in.
        stamped: for each row, whether its time is the producer's own. Only then does the range
            below hold a copy of it that is stored already.
        earliest, latest: nanoseconds; the range of times in which copies of stamped rows may lie.
    """

    dataset: str
    table: pa.Table
    stamped: npt.NDArray[np.bool_]
    earliest: int
    latest: int

    @staticmethod
    def of(dataset: str, columns: dict[str, pa.Array], times: EventTimes) -> EventRows:
        """Rows with these columns, at these times."""
        stamped = booleans(pc.is_in(times.source, value_set=words(_STAMPED)))
        return EventRows(
            dataset=dataset,
            table=pa.table(columns),
            stamped=stamped,
            earliest=int(times.earliest[stamped].min(initial=np.iinfo(np.int64).max)) - TWIN_NANOS,
            latest=int(times.latest[stamped].max(initial=0)) + TWIN_NANOS,
        )

    def counted_from(self, first: int) -> EventRows:
        """The same rows, where the groups of arrivals are numbered from `first`."""
        return self._with_arrivals(self.table["arrival"].to_numpy() + np.int32(first))

    def counted_in(self, group: int) -> EventRows:
        """The same rows, all in one group."""
        return self._with_arrivals(np.full(len(self.table), group, dtype=np.int32))

    def _with_arrivals(self, groups: npt.NDArray[np.int32]) -> EventRows:
        place = self.table.schema.get_field_index("arrival")
        return replace(self, table=self.table.set_column(place, "arrival", arrow(groups)))


@dataclass(frozen=True, slots=True)
class Events:
    """What a batch of requests of one signal comes to.

    Attributes:
        rows: rows for the event tables; tables without any are left out.
        arrivals: all that arrived, counted.
        rejected: for each reason, how many records of each request cannot be kept.
    """

    rows: tuple[EventRows, ...]
    arrivals: Arrivals
    rejected: dict[Rejection, npt.NDArray[np.int64]]


def shared_columns(
    envelope: Envelope,
    rows: Rows,
    resources: ResourceColumns,
    times: EventTimes,
    received: npt.NDArray[np.int64],
    arrivals: npt.NDArray[np.int32],
) -> dict[str, pa.Array]:
    """The columns that every event has, for the records `rows`.

    Args:
        times: of these rows.
        received: when each request arrived, nanoseconds since 1970.
        arrivals: the group of arrivals of each of these rows.
    """
    resource = arrow(envelope.resource[rows])
    return {
        "arrival": arrow(arrivals),
        "time": microseconds(times.unix_nano),
        "time_unix_nano": arrow(times.unix_nano),
        "time_source": times.source,
        "day": arrow((times.unix_nano // NANOS_PER_DAY).astype(np.int32)).view(pa.date32()),
        "received_at": microseconds(received[envelope.request[rows]]),
        "environment": resources.environment.take(resource),
        "service_name": resources.service_name.take(resource),
        "service_version": resources.service_version.take(resource),
        "owner": resources.owner.take(resource),
    }
