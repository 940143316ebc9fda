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
    usual = _usual_timestamps(text)
    return _any_timestamps(text) if usual is None else usual


def _usual_timestamps(text: pa.StringArray) -> Nanos | None:
    """The same for times that are all written as JavaScript writes them; None if one is not."""
    size = len(_USUAL)
    _, offsets, content = text.buffers()
    if not len(text) or text.null_count or content is None:
        return None
    bounds = np.frombuffer(offsets, dtype=np.int32)[text.offset : text.offset + len(text) + 1]
    if (np.diff(bounds) != size).any():
        return None
    written = np.frombuffer(content, dtype=np.uint8)[bounds[0] : bounds[-1]].reshape(-1, size)
    digits = written[:, _DIGITS] - np.uint8(ord("0"))
    if (digits > 9).any() or (written[:, ~_DIGITS] != _SEPARATORS).any():
        return None
    year, month, day, hour, minute, second, milli = _numbers(digits)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    possible = (year >= 1970) & (year <= 2261) & (month >= 1) & (month <= 12) & (day >= 1)
    possible &= (hour <= 23) & (minute <= 59) & (second <= 59)
    month = np.clip(month, 1, 12)
    possible &= day <= _DAYS_OF_MONTH[month] + ((month == 2) & leap)
    if not possible.all():
        return None
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64) + day - 1
    millis = ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + milli
    nanos: Nanos = millis * 1_000_000
    return nanos


_USUAL = "0000-00-00T00:00:00.000Z"
_DIGITS = np.array([letter == "0" for letter in _USUAL])
_SEPARATORS = np.array([ord(letter) for letter in _USUAL if letter != "0"], dtype=np.uint8)
_DAYS_OF_MONTH = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


def _numbers(digits: npt.NDArray[np.uint8]) -> list[Nanos]:
    """Year, month, day, hour, minute, second and millisecond, from their digits."""
    columns = np.ascontiguousarray(digits.T).astype(np.int64)
    numbers = []
    start = 0
    for size in (4, 2, 2, 2, 2, 2, 3):
        number = columns[start]
        for column in columns[start + 1 : start + size]:
            number = number * 10 + column
        numbers.append(number)
        start += size
    return numbers


def _any_timestamps(text: pa.StringArray) -> Nanos:
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
