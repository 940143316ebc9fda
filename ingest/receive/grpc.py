"""OTLP/gRPC: bodies come as they are on the wire, and go on as they are."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import NoReturn
from urllib.parse import unquote

import grpc

from ingest.decode.wire import Signal
from ingest.exceptions import EmptyCall, IngestError, TooSlow
from ingest.keep.writer import Encoding, Outcome
from ingest.receive import responses
from ingest.receive.access import Caller
from ingest.receive.reading import Turns
from ingest.receive.receiver import Receiver
from ingest.receive.statuses import answer_to, status_message

SERVICES = {
    Signal.LOGS: "opentelemetry.proto.collector.logs.v1.LogsService",
    Signal.TRACES: "opentelemetry.proto.collector.trace.v1.TraceService",
    Signal.METRICS: "opentelemetry.proto.collector.metrics.v1.MetricsService",
}

# Messages that are received at the same time. Their size is known only when they are there, so each may
# become as large as the limit, and stands in memory twice for a moment.
READING_AT_ONCE = 4
# A message that is on its way for longer gives its turn up. The producer's exporter waits no longer either.
_READING_SECONDS = 10.0
# What a call may send before it is its turn; the library's own default, which it would raise by itself on
# fast networks.
_LOOKAHEAD_BYTES = 64 * 1024
# The last resort: a call beyond is refused at once, and this producer would never send it again.
_MOST_CALLS = 2000
_MOST_CALLS_OF_A_CONNECTION = 200
# A client that has fallen silent is closed without harm: its library connects again when it has something.
_IDLE_MILLISECONDS = 15 * 60 * 1000
_HANDSHAKE_MILLISECONDS = 10_000

Context = grpc.aio.ServicerContext[bytes, bytes]


def grpc_server(receiver: Receiver, max_request_bytes: int, queue_wait_seconds: float) -> grpc.aio.Server:
    """A server with the three services of OTLP; the caller adds a port and starts it.

    Nothing of a message is received before its sender is let in and its turn has come: HTTP/2 holds the
    rest of it back at the client, which waits, and is not refused.

    Args:
        max_request_bytes: largest message, after decompression.
        queue_wait_seconds: how long a call may wait for its turn.
    """
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", max_request_bytes),
            # Two services on one port would each get a share of the telemetry; starting must fail instead.
            ("grpc.so_reuseport", 0),
            ("grpc.http2.lookahead_bytes", _LOOKAHEAD_BYTES),
            ("grpc.http2.bdp_probe", 0),
            ("grpc.max_concurrent_streams", _MOST_CALLS_OF_A_CONNECTION),
            ("grpc.max_connection_idle_ms", _IDLE_MILLISECONDS),
            ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MILLISECONDS),
        ],
        maximum_concurrent_rpcs=_MOST_CALLS,
    )
    turns = Turns(READING_AT_ONCE, queue_wait_seconds, receiver.admission.limit)
    for signal, service in SERVICES.items():
        # As a stream of one message, which is the same on the wire, because a unary call is handed over only
        # when its message is in memory. Neither a deserialiser nor a serialiser: the body stays bytes.
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_unary_rpc_method_handler(
            _export(signal, receiver, turns)
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
    return server


def _export(
    signal: Signal, receiver: Receiver, turns: Turns
) -> Callable[[object, Context], Awaitable[bytes]]:
    async def export(_: object, context: Context) -> bytes:
        try:
            receiver.access.check(_caller(context))
            outcome = await _keep(signal, receiver, turns, context)
        except Exception as error:
            await _refuse(signal, receiver, context, receiver.refusal(error))
        return responses.success(signal, outcome, Encoding.PROTOBUF)

    return export


async def _keep(signal: Signal, receiver: Receiver, turns: Turns, context: Context) -> Outcome:
    with receiver.admission.room() as room:
        async with turns.turn():
            try:
                async with asyncio.timeout(_READING_SECONDS):
                    body = await context.read()
            except TimeoutError:
                raise TooSlow(_READING_SECONDS, "the message did not come within") from None
            if not isinstance(body, bytes):
                # Also where the library has refused a message that is too large, and answered it.
                raise EmptyCall
            # Before the next is read, so that what waits for room is never more than these few.
            await room.grow(len(body))
        return await receiver.keep(signal, Encoding.PROTOBUF, body, "grpc", room)


async def _refuse(signal: Signal, receiver: Receiver, context: Context, error: IngestError) -> NoReturn:
    receiver.count_result(signal, "grpc", type(error).__name__)
    details = status_message(error).SerializeToString()
    await context.abort(answer_to(error).grpc, str(error), (("grpc-status-details-bin", details),))
    raise AssertionError("abort does not return")


def _caller(context: Context) -> Caller:
    metadata = dict(context.invocation_metadata() or ())
    authorization = metadata.get("authorization", "")
    return Caller(
        _address(context.peer()),
        authorization if isinstance(authorization, str) else "",
        # Where client certificates are wanted, there is no connection without one.
        has_certificate=True,
    )


def _address(peer: str) -> str:
    """The IP address of a peer such as `ipv4:127.0.0.1:4000` or `ipv6:%5B::1%5D:4000`."""
    found = re.fullmatch(r"ipv[46]:\[?([^\]]*)\]?:\d+", unquote(peer))
    return found[1] if found else ""
