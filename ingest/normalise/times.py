"""When an event happened: the first clock that says anything, if what it says is possible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from ingest.decode.vectors import arrow, words
from sli.vocabulary import TimeSource

Nanos = npt.NDArray[np.int64]

NANOS_PER_DAY = 86_400 * 1_000_000_000
# No agent that sends OTLP is older; a time before it is a clock that was never set.
EARLIEST_UNIX_NANO = 1_577_836_800 * 1_000_000_000  # 2020-01-01T00:00:00Z
# Clocks run ahead, and time zones get confused, by at most a day.
FURTHEST_AHEAD_NANOS = NANOS_PER_DAY
_BEYOND_THE_COLUMN = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class EventTimes:
    """The times of some events.

    Attributes:
        unix_nano: nanoseconds since 1970; without meaning where impossible.
        source: which clock it was, one of TimeSource.
        impossible: no possible time was sent; the record cannot be kept.
        earliest, latest: the least and the greatest time under which the same event may be stored
            already, whichever of the producer's clocks was chosen then.
    """

    unix_nano: Nanos
    source: pa.StringArray
    impossible: npt.NDArray[np.bool_]
    earliest: Nanos
    latest: Nanos

    def at(self, events: slice | npt.NDArray[np.bool_]) -> EventTimes:
        """The times of a selection of the events."""
        source = self.source[events] if isinstance(events, slice) else self.source.filter(arrow(events))
        return EventTimes(
            self.unix_nano[events],
            source,
            self.impossible[events],
            self.earliest[events],
            self.latest[events],
        )


def parse_timestamps(text: pa.StringArray) -> Nanos:
    """ISO 8601 times with a zone, as nanoseconds since 1970; 0 where there is none or it is no time."""
    sent = pl.Series(values=text, dtype=pl.String)
    stamps = sent.str.replace("Z$", "+00:00").str.to_datetime(
        "%Y-%m-%dT%H:%M:%S%.f%:z", time_unit="ns", time_zone="UTC", strict=False
    )
    # Nanoseconds of years that the column cannot hold wrap round into possible ones: 1 is impossible too.
    within = sent.str.slice(0, 4).is_between(pl.lit("1970"), pl.lit("2261")) & ~sent.str.starts_with("+")
    nanos = (
        stamps.to_physical()
        .to_frame("nanos")
        .select(pl.when(pl.col("nanos").is_null() | within).then(pl.col("nanos")).otherwise(1))
    )
    return nanos.to_series().fill_null(0).to_numpy()


def settle_times(
    record: npt.NDArray[np.uint64],
    event_timestamp: Nanos,
    observed: npt.NDArray[np.uint64],
    arrival: Nanos,
) -> EventTimes:
    """Choose each event's time.

    The first of record time, event.timestamp, observed time and arrival that is sent (not zero) is
    taken. If it is impossible (before 2020, more than a day after arrival, beyond the column), then
    event.timestamp if that is possible; else the record cannot be kept.

    Args:
        record, event_timestamp, observed: nanoseconds since 1970 as sent; 0 where not sent.
        arrival: nanoseconds since 1970.
    """
    clocks = np.stack(
        [
            np.minimum(record, np.uint64(_BEYOND_THE_COLUMN)).astype(np.int64),
            event_timestamp,
            np.minimum(observed, np.uint64(_BEYOND_THE_COLUMN)).astype(np.int64),
            arrival,
        ]
    )
    possible = (clocks >= EARLIEST_UNIX_NANO) & (clocks <= arrival + FURTHEST_AHEAD_NANOS)
    choice = np.argmax(clocks != 0, axis=0)
    events = np.arange(len(arrival))
    is_possible = possible[choice, events]
    choice = np.where(~is_possible & possible[1], 1, choice)
    unix_nano = clocks[choice, events]

    # Whether a time is too far ahead depends on the receiver's clock, which was another at another delivery:
    # the same event may be stored under either of the producer's clocks.
    stamped = (clocks[:2] >= EARLIEST_UNIX_NANO) & (clocks[:2] < _BEYOND_THE_COLUMN)
    return EventTimes(
        unix_nano=unix_nano,
        source=pa.DictionaryArray.from_arrays(arrow(choice.astype(np.int8)), words(tuple(TimeSource))).cast(
            pa.string()
        ),
        impossible=~possible[choice, events],
        earliest=np.minimum(unix_nano, np.where(stamped, clocks[:2], _BEYOND_THE_COLUMN).min(axis=0)),
        latest=np.maximum(unix_nano, np.where(stamped, clocks[:2], 0).max(axis=0)),
    )


def arrival_times(arrival: Nanos) -> EventTimes:
    """Times of what is dated by its arrival."""
    nothing = np.zeros(len(arrival), dtype=np.uint64)
    return settle_times(nothing, np.zeros(len(arrival), dtype=np.int64), nothing, arrival)
