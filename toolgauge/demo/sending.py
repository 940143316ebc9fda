"""Sending export requests over both transports: many at a time, and each at its time.

Before the clock moves on, what was sent must have been stamped; that it is kept too need not be waited for.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

import grpc
import httpx

from toolgauge.demo.requests import Request
from toolgauge.exceptions import DemoNotLoaded

_METHODS = {
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}
# All of a day is kept together; a busy machine may take its time.
_SECONDS = 300.0
# Each request over HTTP has a connection of its own while it waits for its answer: no more than a day has.
_CONNECTIONS = 256
# Asking keeps the receiver from its work.
_POLL_SECONDS = 0.015


_NOTHING = Request("logs", b"", over_http=True)


class Sender:
    """A client of one receiver."""

    def __init__(self, grpc_address: str, http_address: str) -> None:
        """Connect when something is sent."""
        self._channel = grpc.insecure_channel(grpc_address, [("grpc.max_send_message_length", -1)])
        self._methods: dict[str, grpc.UnaryUnaryMultiCallable[bytes, bytes]] = {
            signal: self._channel.unary_unary(method) for signal, method in _METHODS.items()
        }
        # The environment's proxies are not for loopback.
        self._http = httpx.Client(
            base_url=f"http://{http_address}",
            timeout=_SECONDS,
            limits=httpx.Limits(max_connections=_CONNECTIONS),
            trust_env=False,
        )
        self._threads = ThreadPoolExecutor(_CONNECTIONS)
        self._asking = http.client.HTTPConnection(http_address, timeout=_SECONDS)
        self._sent = 0
        self._waiting: list[Future[bytes]] = []
        self._calls: list[Any] = []

    def send(self, requests: Iterable[Request]) -> None:
        """Send requests; when this returns they have arrived, and need not be kept yet.

        Raises:
            DemoNotLoaded: something was refused.
        """
        for request in requests:
            self._sent += 1
            if request.over_http:
                self._waiting.append(self._threads.submit(self._post, request))
            else:
                self._calls.append(self._methods[request.signal].future(request.body, timeout=_SECONDS))
        self._wait_for("arrived", self._sent)

    def show_life(self) -> None:
        """Let the receiver write down that it is up, which it does after any request, some time later."""
        self.wait()
        committed = self._readiness()["committed"]
        self.send([_NOTHING])
        self.wait()
        self._wait_for("committed", committed + 1, seconds=2.0)

    def wait(self) -> None:
        """Wait until all that was sent is answered, which is when it is kept.

        Raises:
            DemoNotLoaded: something was refused.
        """
        try:
            answers = [each.result() for each in (*self._waiting, *self._calls)]
        except (grpc.RpcError, httpx.HTTPError) as error:
            raise DemoNotLoaded(f"a request failed ({type(error).__name__})") from error
        finally:
            self._waiting, self._calls = [], []
        if any(answers):
            # A success says nothing; what is said is how many records were refused.
            raise DemoNotLoaded("the receiver did not keep every record, which is a fault of this program")

    def _wait_for(self, figure: str, least: int, seconds: float = _SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            if self._readiness()[figure] >= least:
                return
            if any(call.done() and call.exception() for call in (*self._waiting, *self._calls)):
                # It never arrives.
                self.wait()

    def _readiness(self) -> dict[str, int]:
        try:
            self._asking.request("GET", "/readyz")
            found: dict[str, int] = json.loads(self._asking.getresponse().read())
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise DemoNotLoaded(f"the receiver does not answer ({type(error).__name__})") from error
        return found

    def _post(self, request: Request) -> bytes:
        headers = {"content-type": "application/x-protobuf"}
        answer = self._http.post(f"/v1/{request.signal}", content=request.body, headers=headers)
        return answer.raise_for_status().content

    def __enter__(self) -> Sender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._http.close()
        self._asking.close()
        self._channel.close()
