"""The connections of the HTTP port: how many, and how long one may say nothing."""

from __future__ import annotations

import asyncio
import ssl
from asyncio.events import TimerHandle
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ingest.receive.tls import Tls

# Connections that are served; those beyond are told to come again.
MOST_CONNECTIONS = 2000
# Beyond this there is not even an answer, so that one remains for whoever asks for the health.
_MOST_OPEN = MOST_CONNECTIONS + 200
# From the first byte of a request, or from the connection on, to the end of its headers.
HEADER_SECONDS = 10.0
# From an answer that did not wait for the body to the end of that body.
REST_SECONDS = 10.0
# A connection that says nothing for this long is closed; exporters send every few seconds.
_IDLE_SECONDS = 75
# Headers of a request together: uvicorn itself would take any number.
_MOST_HEADER_BYTES = 64 * 1024

# What the protocol tells the application, in the state of a request's scope.
CROWDED = "crowded"
HAS_CERTIFICATE = "has_certificate"


class HttpServer(uvicorn.Server):
    """uvicorn, without signal handlers of its own: the service decides when it stops."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def http_server(application: ASGIApp, drain_seconds: float, tls: Tls | None) -> HttpServer:
    """A server for an application; the caller gives it a socket.

    Args:
        drain_seconds: how long requests may take that it has when it is told to stop.
    """
    return HttpServer(
        uvicorn.Config(
            application,
            http=BoundedProtocol,
            log_config=None,
            access_log=False,
            server_header=False,
            # Who a client is, is what the connection says, and not a header of its own.
            proxy_headers=False,
            timeout_graceful_shutdown=int(drain_seconds),
            timeout_keep_alive=_IDLE_SECONDS,
            lifespan="off",
            ws="none",
            ssl_context_factory=(lambda config, default: tls.http_context()) if tls else None,
        )
    )


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol for one connection, with a limit on connections, headers and their time."""

    _timer: TimerHandle | None = None
    _header_bytes = 0
    _in_headers = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > _MOST_OPEN:
            transport.abort()
            return
        tls = transport.get_extra_info("ssl_object")
        # Not that of a wrong certificate: with one there is no connection.
        self._has_certificate = isinstance(tls, (ssl.SSLObject, ssl.SSLSocket)) and bool(tls.getpeercert())
        self._close_after(HEADER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_headers:
            self._header_bytes += len(data)
            if self._timer is None:
                self._close_after(HEADER_SECONDS)
        super().data_received(data)
        if self._in_headers and self._header_bytes > _MOST_HEADER_BYTES and not self.transport.is_closing():
            self.send_400_response("The headers are too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"] |= {
            CROWDED: len(self.connections) > MOST_CONNECTIONS,
            HAS_CERTIFICATE: self._has_certificate,
        }

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_headers = True
        self._header_bytes = 0
        self._stop_timer()
        if self.cycle.response_complete:
            # What came behind the answer has stopped uvicorn's own timer.
            self._close_after(_IDLE_SECONDS)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._in_headers and not self.transport.is_closing():
            # Refused before its body was there: the rest is not read, and may not come for ever.
            self._close_after(REST_SECONDS)

    def _close_after(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
