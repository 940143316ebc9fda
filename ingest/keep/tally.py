"""What arrived since it was last written down, by name, and since when the receiver has been accepting.

Counts are of arrivals: a record that is sent twice is counted twice here, and stored once. They are
written every few seconds; a kill may lose the last of them, never an event.
"""

from __future__ import annotations

import threading
import uuid

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.decode.vectors import arrow
from ingest.normalise.arrivals import Arrivals
from ingest.normalise.columns import microseconds
from ingest.normalise.names import OTHER
from ingest.normalise.rows import EventRows
from ingest.normalise.times import NANOS_PER_DAY
from sli.schemas import INGEST_COUNTS, RECEIVER_UPTIME
from sli.vocabulary import TimeSource

# More combinations of name, environment and version than any fleet has; further names are counted together.
_MOST_ENTRIES = 4096

_Key = tuple[str, str, str, str, str]


class Tally:
    """Counts of the writer's thread, and the uptime; `refuse` is for any thread."""

    def __init__(self, now_unix_nano: int) -> None:
        """Begin at a moment from which on the receiver accepts."""
        self._since = now_unix_nano
        self._counts: dict[_Key, npt.NDArray[np.int64]] = {}
        self._refused = 0
        self._lock = threading.Lock()

    @property
    def is_empty(self) -> bool:
        """Whether nothing arrived."""
        return not self._counts and not self._refused

    def add(self, arrivals: Arrivals, stored: npt.NDArray[np.int64]) -> None:
        """Count what arrived, of which `stored` rows of each group are new."""
        columns = zip(
            arrivals.name.to_pylist(),
            arrivals.environment.to_pylist(),
            arrivals.service_name.to_pylist(),
            arrivals.service_version.to_pylist(),
            np.stack([arrivals.records, stored, arrivals.kept - stored, arrivals.rejected], axis=1),
            strict=True,
        )
        for name, environment, service, version, counts in columns:
            key = (arrivals.signal.value, name, environment, service, version)
            if key not in self._counts and len(self._counts) >= _MOST_ENTRIES:
                key = (arrivals.signal.value, OTHER, OTHER, OTHER, OTHER)
            entry = self._counts.get(key)
            self._counts[key] = counts if entry is None else entry + counts

    def refuse(self) -> None:
        """Count a request that was refused for want of room or of the store."""
        with self._lock:
            self._refused += 1

    def rows(self, now_unix_nano: int) -> list[EventRows]:
        """All of it as rows, dated now."""
        return [self._uptime(now_unix_nano), *self._arrived(now_unix_nano)]

    def clear(self, now_unix_nano: int) -> None:
        """Forget what has been written, and go on from now."""
        self._counts = {}
        self._since = now_unix_nano
        with self._lock:
            self._refused = 0

    def _arrived(self, now: int) -> list[EventRows]:
        if not self._counts:
            return []
        signal, name, environment, service, version = zip(*self._counts, strict=True)
        counts = np.stack(list(self._counts.values()))
        columns = {
            "environment": pa.array(environment, pa.string()),
            "service_name": pa.array(service, pa.string()),
            "service_version": pa.array(version, pa.string()),
            "signal": pa.array(signal, pa.string()),
            "name": pa.array(name, pa.string()),
            **{
                column: arrow(np.ascontiguousarray(counts[:, place]))
                for place, column in enumerate(("records", "stored", "duplicates", "rejected"))
            },
        }
        return [_dated(INGEST_COUNTS.name, columns, now)]

    def _uptime(self, now: int) -> EventRows:
        # A clock that was set back leaves no interval, rather than one that ends before it begins.
        since = np.array([min(self._since, now)], dtype=np.int64)
        columns = {
            "since": microseconds(since),
            "until": microseconds(np.array([now], dtype=np.int64)),
            "refused": arrow(np.array([self._refused], dtype=np.int64)),
        }
        return _dated(RECEIVER_UPTIME.name, columns, now)


def _dated(dataset: str, columns: dict[str, pa.Array], now: int) -> EventRows:
    rows = len(next(iter(columns.values())))
    times = np.full(rows, now, dtype=np.int64)
    shared = {
        "arrival": arrow(np.zeros(rows, dtype=np.int32)),
        "identity": pa.array([uuid.uuid4().bytes for _ in range(rows)], pa.binary()),
        "time": microseconds(times),
        "time_unix_nano": arrow(times),
        # The receiver itself is the producer of these.
        "time_source": pa.array([TimeSource.RECORD.value] * rows, pa.string()),
        "day": arrow((times // NANOS_PER_DAY).astype(np.int32)).view(pa.date32()),
        "received_at": microseconds(times),
    }
    return EventRows(dataset, pa.table(shared | columns), np.ones(rows, dtype=np.bool_), now, now)
