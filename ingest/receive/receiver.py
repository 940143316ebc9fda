"""What both transports do with a body once they have it: hand it to the writer and wait for the commit."""

from __future__ import annotations

import asyncio
import time

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ingest.clock import Clock, system_clock
from ingest.decode.wire import Signal
from ingest.exceptions import IngestError, InternalError, Overloaded, ShuttingDown, whereabouts
from ingest.keep.writer import Encoding, Outcome, Request, Writer
from ingest.receive.access import Access
from ingest.receive.admission import Admission, Room
from sli.vocabulary import REJECTION_MEANING, Rejection


class Receiver:
    """The one way from a transport to the store; counts what passes."""

    def __init__(
        self,
        writer: Writer,
        admission: Admission,
        registry: CollectorRegistry,
        access: Access,
        clock: Clock = system_clock,
    ) -> None:
        self._writer = writer
        self._clock = clock
        # Requests that were stamped with their arrival so far, whatever became of them.
        self.arrived = 0
        self.admission = admission
        self.access = access
        self._log = structlog.get_logger("ingest.receiver")
        labels = ("signal", "transport")
        self._requests = Counter(
            "toolgauge_requests", "Export requests by how they ended", (*labels, "result"), registry=registry
        )
        self._stored = Counter("toolgauge_events_stored", "Events stored", labels, registry=registry)
        self._duplicates = Counter(
            "toolgauge_events_duplicate", "Events that were stored already", labels, registry=registry
        )
        self._rejected = Counter(
            "toolgauge_records_rejected",
            "Records that cannot be kept",
            ("signal", "reason"),
            registry=registry,
        )
        self._seconds = Histogram(
            "toolgauge_request_seconds",
            "From the last byte of a request to its answer",
            labels,
            registry=registry,
        )
        waiting = Gauge("toolgauge_waiting_bytes", "Requests in memory, in bytes", registry=registry)
        waiting.set_function(lambda: admission.taken)
        limit = Gauge("toolgauge_waiting_bytes_limit", "Beyond it requests wait", registry=registry)
        limit.set(admission.limit)

    async def keep(
        self, signal: Signal, encoding: Encoding, body: bytes, transport: str, room: Room
    ) -> Outcome:
        """Have a request stored; `room` holds room for its body, and is given back when it is answered.

        Raises:
            IngestError: it was refused; nothing of it is stored.
        """
        started = time.perf_counter()
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Outcome | IngestError] = loop.create_future()

        # The writer goes on with the request when its client is gone, and holds its body so long.
        room.keep_until_given_back()

        def settle(result: Outcome | IngestError) -> None:
            room.give_back()
            if not answered.done():
                answered.set_result(result)

        def answer(result: Outcome | IngestError) -> None:
            loop.call_soon_threadsafe(settle, result)

        try:
            self._writer.submit(Request(signal, encoding, body, self._clock()), answer)
        except ShuttingDown:
            room.give_back()
            raise
        self.arrived += 1
        result = await answered
        self._seconds.labels(signal, transport).observe(time.perf_counter() - started)
        if isinstance(result, IngestError):
            raise result
        self.count_result(signal, transport, "ok")
        self._stored.labels(signal, transport).inc(result.stored)
        self._duplicates.labels(signal, transport).inc(result.duplicates)
        for reason, number in result.rejected.items():
            self._rejected.labels(signal, reason.value).inc(number)
        return result

    def refusal(self, error: Exception) -> IngestError:
        """What a request is answered that an error ended: the error, if it is meant for clients.

        Any other is a fault of ours; the log says where it arose.
        """
        if isinstance(error, Overloaded):
            self._writer.refuse()
        if isinstance(error, IngestError):
            return error
        self._log.error("request_failed", error=whereabouts(error))
        return InternalError(type(error).__name__)

    def count_result(self, signal: str, transport: str, result: str) -> None:
        """Count one request: `ok`, or the name of its error."""
        self._requests.labels(signal, transport, result).inc()


def rejection_message(rejected: dict[Rejection, int]) -> str:
    """What a partial success says: how many records, and why."""
    return "; ".join(f"{number} rejected: {REJECTION_MEANING[reason]}" for reason, number in rejected.items())
