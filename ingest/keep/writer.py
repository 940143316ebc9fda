"""The writer: one thread that turns waiting requests into one commit, and answers them after it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
import numpy.typing as npt
import structlog

from ingest.clock import Clock, MovedClock, system_clock
from ingest.decode.json_columns import decode_json
from ingest.decode.points import Points
from ingest.decode.protobuf import decode_fields
from ingest.decode.records import Records
from ingest.decode.wire import Signal
from ingest.exceptions import (
    BadRequest,
    IngestError,
    InternalError,
    ShuttingDown,
    StoreUnavailable,
    whereabouts,
)
from ingest.keep.retention import start_of
from ingest.keep.store import Store
from ingest.keep.tally import Tally
from ingest.normalise.counters import normalise_points
from ingest.normalise.events import normalise
from ingest.normalise.rows import EventRows, Events
from sli.schemas import REJECTED
from sli.vocabulary import Rejection

# What one commit takes at most. Larger groups cost no less a record, but hold memory and make the first
# request of the group wait for the last.
GROUP_BYTES = 16 * 1024 * 1024

# A group is closed when no request came for the shorter time, or after the longer one.
_PAUSE_SECONDS = 0.003
_GATHER_SECONDS = 0.05
# How often it is written down what arrived; and, when nothing did, that the receiver was up.
_COUNTS_SECONDS = 5.0
_IDLE_SECONDS = 60.0
_NANOS_PER_SECOND = 1_000_000_000


class Encoding(Enum):
    """The two encodings of OTLP."""

    PROTOBUF = auto()
    JSON = auto()


@dataclass(frozen=True, slots=True)
class Request:
    """An export request as it arrived, inflated.

    Attributes:
        received_unix_nano: when its last byte arrived.
    """

    signal: Signal
    encoding: Encoding
    body: bytes
    received_unix_nano: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an accepted request.

    Attributes:
        stored: events that are kept now.
        duplicates: events that had been kept before, or stand twice in what was written together.
        rejected: records that can never be kept, by reason.
    """

    stored: int = 0
    duplicates: int = 0
    rejected: dict[Rejection, int] = field(default_factory=dict)


Answer = Callable[[Outcome | IngestError], None]


class Writer:
    """Takes requests from any thread, and answers each once its events are durable."""

    def __init__(
        self, store: Store, owner_attribute: str, owner_key: bytes, clock: Clock = system_clock
    ) -> None:
        self._store = store
        self._clock = clock
        self._more_comes = clock.goes_on if isinstance(clock, MovedClock) else lambda: False
        self._owner_attribute = owner_attribute
        self._owner_key = owner_key
        self._waiting: deque[tuple[Request, Answer]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._log = structlog.get_logger("ingest.writer")
        self._tally = Tally(clock())
        self.healthy = True
        # Told how many requests each group holds, from the writer's thread.
        self.on_group: Callable[[float], None] = lambda requests: None
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def submit(self, request: Request, answer: Answer) -> None:
        """Queue a request. `answer` is called from the writer's thread, exactly once.

        Raises:
            ShuttingDown: the writer takes no more.
        """
        with self._changed:
            if self._closing:
                raise ShuttingDown
            self._waiting.append((request, answer))
            self._changed.notify()

    def close(self) -> None:
        """Write and answer everything that was queued, then stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def refuse(self) -> None:
        """Note that a request was refused before it came here."""
        self._tally.refuse()

    def _run(self) -> None:
        written, by_clock = time.monotonic(), self._clock()
        while True:
            pause = _IDLE_SECONDS if self._tally.is_empty else _COUNTS_SECONDS
            group = self._next_group(written + pause - time.monotonic())
            if group:
                self.on_group(len(group))
                self._write(group)
            closing = self._closing and not self._waiting
            # A moved clock runs ahead: what arrived on one day must not be counted on a later one.
            ahead = self._clock() - by_clock >= _IDLE_SECONDS * _NANOS_PER_SECOND
            if closing or ahead or time.monotonic() - written >= pause:
                self._write_down()
                written, by_clock = time.monotonic(), self._clock()
            if closing:
                return

    def _next_group(self, seconds: float) -> list[tuple[Request, Answer]]:
        """Everything that waits, up to a limit; empty if nothing comes within `seconds`, or ever."""
        group: list[tuple[Request, Answer]] = []
        size = 0
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing, timeout=max(seconds, 0))
            self._gather()
            while self._waiting and (not group or size + len(self._waiting[0][0].body) <= GROUP_BYTES):
                group.append(self._waiting.popleft())
                size += len(group[-1][0].body)
        return group

    def _gather(self) -> None:
        """Let a crowd come in whole: a commit costs as much for one request as for a hundred."""
        end = time.monotonic() + _GATHER_SECONDS
        came = 0
        while not self._closing and came < len(self._waiting) and time.monotonic() < end:
            came = len(self._waiting)
            self._changed.wait_for(lambda: self._closing, timeout=_PAUSE_SECONDS)
        while self._waiting and not self._closing and self._more_comes():
            self._changed.wait_for(lambda: self._closing, timeout=_PAUSE_SECONDS)

    def _write(self, group: list[tuple[Request, Answer]]) -> None:
        try:
            results = self._outcomes([request for request, _ in group])
        except Exception as error:
            if len(group) > 1:
                # One request must not take the others with it: each is tried alone.
                for one in group:
                    self._write([one])
                return
            results = [self._failure(error)]
        for (_, answer), result in zip(group, results, strict=True):
            try:
                answer(result)
            except Exception as error:
                # Who waited is gone; what is stored stays stored, and the others wait for their answers.
                self._log.error("answer_not_taken", error=whereabouts(error))

    def _write_down(self) -> None:
        """Store the counts of what arrived, and that the receiver was up; later, if the store cannot now."""
        now = self._clock()
        try:
            self._store.insert(self._tally.rows(now), 1)
        except StoreUnavailable as error:
            self._log.warning("counts_not_written", reason=error.reason, next="tried again")
        except Exception as error:
            # The writer must live: requests wait for it.
            self._log.error("counts_not_written", error=whereabouts(error), next="tried again")
        else:
            self._tally.clear(now)

    def _failure(self, error: Exception) -> IngestError:
        if isinstance(error, IngestError):
            if isinstance(error, StoreUnavailable):
                self._tally.refuse()
            if isinstance(error, StoreUnavailable) and self.healthy:
                self.healthy = False
                self._log.error("store_unavailable", reason=error.reason)
            return error
        self._log.error("request_failed", error=whereabouts(error))
        if isinstance(error, (MemoryError, OSError)):
            # Of this moment, and not of this request.
            return StoreUnavailable(f"the system is short of something ({type(error).__name__})")
        return InternalError(type(error).__name__)

    def _outcomes(self, requests: list[Request]) -> list[Outcome | IngestError]:
        results: list[Outcome | IngestError | None] = [None] * len(requests)
        events = list(self._events(requests, results))
        self._store_events(events, results)
        return [Outcome() if result is None else result for result in results]

    def _events(
        self, requests: list[Request], results: list[Outcome | IngestError | None]
    ) -> Iterator[tuple[list[int], Events]]:
        """What the requests hold, by signal and encoding, with the numbers of the requests."""
        alike: dict[tuple[Signal, Encoding], list[int]] = {}
        for number, request in enumerate(requests):
            alike.setdefault((request.signal, request.encoding), []).append(number)
        for (signal, encoding), numbers in alike.items():
            yield from self._normalised(signal, encoding, numbers, requests, results)

    def _normalised(
        self,
        signal: Signal,
        encoding: Encoding,
        numbers: list[int],
        requests: list[Request],
        results: list[Outcome | IngestError | None],
    ) -> Iterator[tuple[list[int], Events]]:
        """All of some requests at once; where one is malformed, the halves apart, down to that one."""
        received = np.array([requests[number].received_unix_nano for number in numbers], dtype=np.int64)
        how = received, self._owner_attribute, self._owner_key, start_of(self._store.kept_since)
        try:
            yield numbers, _read(signal, encoding, [requests[number].body for number in numbers], how)
        except BadRequest as error:
            if len(numbers) == 1:
                results[numbers[0]] = error
                return
            middle = len(numbers) // 2
            for half in (numbers[:middle], numbers[middle:]):
                yield from self._normalised(signal, encoding, half, requests, results)

    def _store_events(
        self, events: list[tuple[list[int], Events]], results: list[Outcome | IngestError | None]
    ) -> None:
        """Store what the signals gave, in one transaction, and fill in the outcomes."""
        groups = sum(len(found.arrivals) for _, found in events)
        batches: list[EventRows] = []
        first = 0
        for _, found in events:
            # Rows of `rejected` are no events: they are counted past the last group.
            batches += [
                rows.counted_from(first) if rows.dataset != REJECTED.name else rows.counted_in(groups)
                for rows in found.rows
            ]
            first += len(found.arrivals)
        stored = np.zeros(groups + 1, dtype=np.int64)
        if batches:
            stored = self._store.insert(batches, groups + 1)
            self.healthy = True
        first = 0
        for numbers, found in events:
            arrivals = found.arrivals
            here = stored[first : first + len(arrivals)]
            first += len(arrivals)
            self._tally.add(arrivals, here)
            kept = np.bincount(arrivals.request, weights=arrivals.kept, minlength=len(numbers))
            fresh = np.bincount(arrivals.request, weights=here, minlength=len(numbers))
            for place, number in enumerate(numbers):
                if results[number] is None:
                    rejected = {why: int(n[place]) for why, n in found.rejected.items() if n[place]}
                    results[number] = Outcome(int(fresh[place]), int(kept[place] - fresh[place]), rejected)


def _read(
    signal: Signal,
    encoding: Encoding,
    bodies: list[bytes],
    how: tuple[npt.NDArray[np.int64], str, bytes, int],
) -> Events:
    """Decode and normalise some bodies of one signal and one encoding."""
    if signal is Signal.METRICS:
        decode = decode_fields if encoding is Encoding.PROTOBUF else decode_json
        return normalise_points(Points.of(decode(signal, bodies)), *how)
    read = Records.of_protobuf if encoding is Encoding.PROTOBUF else Records.of_json
    return normalise(read(signal, bodies), *how)
