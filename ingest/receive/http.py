"""OTLP/HTTP, and the pages for whoever watches the service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.requests import ClientDisconnect

from ingest.decode.wire import Signal
from ingest.exceptions import (
    IngestError,
    TooLarge,
    TooSlow,
    TryAgain,
    UnknownSignal,
    UnsupportedMediaType,
)
from ingest.keep.writer import Encoding, Outcome
from ingest.receive import responses
from ingest.receive.admission import Room
from ingest.receive.compression import inflate
from ingest.receive.receiver import Receiver
from ingest.receive.statuses import answer_to

_MEDIA_TYPES = {Encoding.PROTOBUF: "application/x-protobuf", Encoding.JSON: "application/json"}
_ENCODINGS = {name: encoding for encoding, name in _MEDIA_TYPES.items()}
# A client that says nothing for so long in the middle of a body holds room that others wait for.
_SILENCE_SECONDS = 5.0
_INFLATING_AT_ONCE = 2


def http_application(
    receiver: Receiver,
    registry: CollectorRegistry,
    readiness: Callable[[], dict[str, Any]],
    max_request_bytes: int,
) -> FastAPI:
    """The application behind the HTTP port.

    Args:
        readiness: what `/readyz` answers; its `ready` decides about the status.
        max_request_bytes: largest request, before and after decompression.
    """
    inflating = asyncio.Semaphore(_INFLATING_AT_ONCE)
    application = FastAPI(title="Toolgauge OTLP receiver", docs_url=None, redoc_url=None, openapi_url=None)

    @application.get("/healthz")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @application.get("/readyz")
    async def ready() -> Response:
        state = readiness()
        return JSONResponse(state, status_code=200 if state["ready"] else 503)

    @application.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @application.post("/{path:path}")
    async def export(path: str, request: Request) -> Response:
        encoding = Encoding.PROTOBUF
        signal: Signal | None = None
        try:
            signal = _signal(path)
            encoding = _encoding(request)
            outcome = await _keep(request, signal, encoding, receiver, max_request_bytes, inflating)
        except IngestError as error:
            receiver.count_result(signal or "none", "http", type(error).__name__)
            return _failure(error, encoding)
        except ClientDisconnect:
            receiver.count_result(signal or "none", "http", "ClientDisconnect")
            return Response(status_code=400)
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

    return application


def _signal(path: str) -> Signal:
    """The signal of a path, whatever stands before `/v1/`."""
    for signal in Signal:
        if f"/{path}".rstrip("/").endswith(f"/v1/{signal}"):
            return signal
    raise UnknownSignal


def _encoding(request: Request) -> Encoding:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        return _ENCODINGS[media_type]
    except KeyError:
        raise UnsupportedMediaType from None


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
    stream = request.stream()
    while True:
        try:
            async with asyncio.timeout(_SILENCE_SECONDS):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise TooSlow(_SILENCE_SECONDS) from None
        if chunk is None:
            return b"".join(chunks)
        size += len(chunk)
        if size > limit:
            raise TooLarge(limit)
        if size > room.size:
            await room.grow(size - room.size)
        chunks.append(chunk)


def _failure(error: IngestError, encoding: Encoding) -> Response:
    headers = {"Retry-After": str(error.retry_after_seconds)} if isinstance(error, TryAgain) else None
    return Response(
        responses.failure(error, encoding),
        status_code=answer_to(error).http,
        media_type=_MEDIA_TYPES[encoding],
        headers=headers,
    )
