"""The writer: one thread that turns waiting requests into one commit, and answers them after it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
import structlog

from ingest.decode.metrics import check_metrics
from ingest.decode.otlp_json import json_to_wire
from ingest.decode.records import Records, decode_records
from ingest.decode.wire import Signal
from ingest.exceptions import (
    BadRequest,
    IngestError,
    InternalError,
    MalformedBody,
    ShuttingDown,
    StoreUnavailable,
    whereabouts,
)
from ingest.keep.store import Store
from ingest.normalise.events import EventRows, Events, normalise
from sli.vocabulary import Rejection

# What one commit takes at most. Larger groups cost no less a record, but hold memory and make the first
# request of the group wait for the last.
GROUP_BYTES = 24 * 1024 * 1024


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

    def __init__(self, store: Store, owner_attribute: str, owner_key: bytes) -> None:
        self._store = store
        self._owner_attribute = owner_attribute
        self._owner_key = owner_key
        self._waiting: deque[tuple[Request, Answer]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._log = structlog.get_logger("ingest.writer")
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

    def _run(self) -> None:
        while group := self._next_group():
            self.on_group(len(group))
            self._write(group)

    def _next_group(self) -> list[tuple[Request, Answer]]:
        """Everything that waits, up to a limit; empty when there is nothing more to come."""
        group: list[tuple[Request, Answer]] = []
        size = 0
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            while self._waiting and (not group or size + len(self._waiting[0][0].body) <= GROUP_BYTES):
                group.append(self._waiting.popleft())
                size += len(group[-1][0].body)
        return group

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

    def _failure(self, error: Exception) -> IngestError:
        if isinstance(error, IngestError):
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
        wire: dict[Signal, list[tuple[int, bytes]]] = {signal: [] for signal in Signal}
        for number, request in enumerate(requests):
            try:
                body = request.body
                if request.encoding is Encoding.JSON:
                    body = json_to_wire(request.signal, body)
                if request.signal is Signal.METRICS:
                    check_metrics(body)
                wire[request.signal].append((number, body))
            except BadRequest as error:
                results[number] = error

        events: list[tuple[list[int], Events]] = []
        for signal in (Signal.LOGS, Signal.TRACES):
            records, numbers = _decode(signal, wire[signal], results)
            if records is not None:
                arrival = np.array(
                    [requests[number].received_unix_nano for number in numbers], dtype=np.int64
                )
                events.append((numbers, normalise(records, arrival, self._owner_attribute, self._owner_key)))

        self._store_events(events, results)
        return [Outcome() if result is None else result for result in results]

    def _store_events(
        self, events: list[tuple[list[int], Events]], results: list[Outcome | IngestError | None]
    ) -> None:
        """Store what the signals gave, in one transaction, and fill in the outcomes."""
        batches: list[EventRows] = []
        arrived = np.zeros(len(results), dtype=np.int64)
        rejected = {reason: np.zeros(len(results), dtype=np.int64) for reason in Rejection}
        for numbers, found in events:
            places = np.array(numbers, dtype=np.int32)
            for rows in found.rows:
                batch = rows.of_requests(places)
                batches.append(batch)
                arrived += np.bincount(batch.table["request"].to_numpy(), minlength=len(results))
            for reason, counts in found.rejected.items():
                rejected[reason][places] += counts
        stored = np.zeros(len(results), dtype=np.int64)
        if batches:
            stored = self._store.insert(batches, len(results))
            self.healthy = True
        for number, result in enumerate(results):
            if result is None:
                results[number] = Outcome(
                    stored=int(stored[number]),
                    duplicates=int(arrived[number] - stored[number]),
                    rejected={reason: int(n[number]) for reason, n in rejected.items() if n[number]},
                )


def _decode(
    signal: Signal, bodies: list[tuple[int, bytes]], results: list[Outcome | IngestError | None]
) -> tuple[Records | None, list[int]]:
    """Decode all bodies at once; where one is malformed, find it, answer it alone and go on."""
    if not bodies:
        return None, []
    try:
        return decode_records(signal, [body for _, body in bodies]), [number for number, _ in bodies]
    except MalformedBody:
        good = []
        for number, body in bodies:
            try:
                decode_records(signal, [body])
                good.append((number, body))
            except MalformedBody as error:
                results[number] = error
        return _decode(signal, good, results)
