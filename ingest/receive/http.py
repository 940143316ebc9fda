"""OTLP/HTTP, and the pages for whoever watches the service."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from ingest.decode.wire import Signal
from ingest.exceptions import (
    IngestError,
    MethodNotAllowed,
    TooLarge,
    TooManyConnections,
    TooSlow,
    TryAgain,
    Unauthenticated,
    UnknownSignal,
    UnsupportedMediaType,
)
from ingest.keep.writer import Encoding, Outcome
from ingest.receive import responses
from ingest.receive.access import Caller
from ingest.receive.admission import Room
from ingest.receive.compression import inflate
from ingest.receive.connections import CROWDED, HAS_CERTIFICATE, MOST_CONNECTIONS
from ingest.receive.reading import Pace
from ingest.receive.receiver import Receiver
from ingest.receive.statuses import answer_to

_MEDIA_TYPES = {Encoding.PROTOBUF: "application/x-protobuf", Encoding.JSON: "application/json"}
_ENCODINGS = {name: encoding for encoding, name in _MEDIA_TYPES.items()}
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]
_EXPORT_PATHS = tuple(f"/v1/{signal}" for signal in Signal)
_INFLATING_AT_ONCE = 2


def http_application(
    receiver: Receiver,
    registry: CollectorRegistry,
    readiness: Callable[[], dict[str, Any]],
    max_request_bytes: int,
) -> ASGIApp:
    """The application behind the HTTP port.

    Args:
        readiness: what `/readyz` answers; its `ready` decides about the status.
        max_request_bytes: largest request, before and after decompression.
    """
    pages = _pages(receiver, registry, readiness)
    exports = _Exports(receiver, max_request_bytes)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        # What comes a thousand times a second goes past the layers of the framework, which cost the most.
        of_exports = scope["type"] == "http" and _is_export(scope["path"])
        await (exports if of_exports else pages)(scope, receive, send)

    return application


def _pages(
    receiver: Receiver, registry: CollectorRegistry, readiness: Callable[[], dict[str, Any]]
) -> FastAPI:
    """What is no export: the pages for whoever watches the service, and refusals of everything else."""
    application = FastAPI(title="Toolgauge OTLP receiver", docs_url=None, redoc_url=None, openapi_url=None)

    @application.get("/healthz")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @application.get("/readyz")
    async def ready() -> Response:
        state = readiness()
        return JSONResponse(state, status_code=200 if state["ready"] else 503)

    @application.get("/metrics")
    async def metrics(request: Request) -> Response:
        try:
            receiver.access.check_reader(request.headers.get("authorization", ""))
        except Unauthenticated as error:
            return _failure(error, Encoding.PROTOBUF)
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @application.exception_handler(HTTPException)
    async def other_method(request: Request, error: Exception) -> Response:
        # Of a method that no page has.
        return _failure(UnknownSignal(), _answer_encoding(request))

    @application.api_route("/{path:path}", methods=_METHODS)
    async def other_page(request: Request) -> Response:
        crowded = request.scope["state"][CROWDED]
        refusal = TooManyConnections(MOST_CONNECTIONS) if crowded else UnknownSignal()
        receiver.count_result("none", "http", type(refusal).__name__)
        return _failure(refusal, _answer_encoding(request))

    return application


class _Exports:
    """The paths of OTLP, as an ASGI application."""

    def __init__(self, receiver: Receiver, max_request_bytes: int) -> None:
        self._receiver = receiver
        self._limit = max_request_bytes
        self._inflating = asyncio.Semaphore(_INFLATING_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        response = await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        receiver = self._receiver
        encoding = _answer_encoding(request)
        signal = _signal(request.scope["path"])
        try:
            if request.scope["state"][CROWDED]:
                raise TooManyConnections(MOST_CONNECTIONS)
            if request.method != "POST":
                raise MethodNotAllowed("POST")
            receiver.access.check(_caller(request))
            _check_media_type(request)
            outcome = await _keep(request, signal, encoding, receiver, self._limit, self._inflating)
        except ClientDisconnect:
            receiver.count_result(signal, "http", "ClientDisconnect")
            return Response(status_code=400)
        except Exception as error:
            refusal = receiver.refusal(error)
            receiver.count_result(signal, "http", type(refusal).__name__)
            return _failure(refusal, encoding)
        return Response(
            responses.success(signal, outcome, encoding),
            media_type=_MEDIA_TYPES[encoding],
            # For `import` and for people with curl; OTLP has no place for them.
            headers={
                "Toolgauge-Stored": str(outcome.stored),
                "Toolgauge-Duplicates": str(outcome.duplicates),
                "Toolgauge-Rejected": json.dumps(outcome.rejected),
            },
        )


def _signal(path: str) -> Signal:
    """The signal of a path, whatever stands before `/v1/`."""
    return Signal(path.rstrip("/").rpartition("/")[2])


def _is_export(path: str) -> bool:
    return path.rstrip("/").endswith(_EXPORT_PATHS)


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _answer_encoding(request: Request) -> Encoding:
    """The request's own encoding; protobuf where that is none of OTLP's."""
    return _ENCODINGS.get(_media_type(request), Encoding.PROTOBUF)


def _check_media_type(request: Request) -> None:
    if _media_type(request) not in _ENCODINGS:
        raise UnsupportedMediaType


def _caller(request: Request) -> Caller:
    return Caller(
        request.client.host if request.client else "",
        request.headers.get("authorization", ""),
        request.scope["state"][HAS_CERTIFICATE],
    )


async def _keep(
    request: Request,
    signal: Signal,
    encoding: Encoding,
    receiver: Receiver,
    limit: int,
    inflating: asyncio.Semaphore,
) -> Outcome:
    with receiver.admission.room() as room:
        announced = _announced_length(request)
        if announced > limit:
            raise TooLarge(limit)
        if announced:
            # Room for all of it at once, so that what is read half can always be read whole.
            await room.grow(announced)
        body = await _read(request, room, limit)
        content_encoding = request.headers.get("content-encoding", "")
        if not content_encoding:
            content = body
        else:
            # How large it becomes is known afterwards: few at a time, so that little is held without room.
            async with inflating:
                content = await asyncio.to_thread(inflate, body, content_encoding, limit)
                if len(content) > room.size:
                    await room.grow(len(content) - room.size)
        return await receiver.keep(signal, encoding, content, "http", room)


def _announced_length(request: Request) -> int:
    """The Content-Length; 0 where the body comes in chunks."""
    text = request.headers.get("content-length", "0")
    return int(text) if text.isdecimal() else 0


async def _read(request: Request, room: Room, limit: int) -> bytes:
    """The whole body; what was not announced takes its room as it comes."""
    chunks: list[bytes] = []
    size = 0
    pace = Pace()
    stream = request.stream()
    while True:
        started = time.monotonic()
        try:
            async with asyncio.timeout(pace.patience()):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise pace.missed() from None
        if chunk is None:
            return b"".join(chunks)
        pace.came(len(chunk), time.monotonic() - started)
        size += len(chunk)
        if size > limit:
            raise TooLarge(limit)
        if size > room.size:
            await room.grow(size - room.size)
        chunks.append(chunk)


def _failure(error: IngestError, encoding: Encoding) -> Response:
    headers = {}
    if isinstance(error, TryAgain):
        headers["Retry-After"] = str(error.retry_after_seconds)
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = error.allowed
    if isinstance(error, (TooSlow, TooManyConnections)):
        # What still comes of it would only keep the connection busy.
        headers["Connection"] = "close"
    return Response(
        responses.failure(error, encoding),
        status_code=answer_to(error).http,
        media_type=_MEDIA_TYPES[encoding],
        headers=headers,
    )
