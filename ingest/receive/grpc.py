"""OTLP/gRPC: bodies come as they are on the wire, and go on as they are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import grpc

from ingest.decode.wire import Signal
from ingest.exceptions import IngestError
from ingest.keep.writer import Encoding
from ingest.receive import responses
from ingest.receive.receiver import Receiver
from ingest.receive.statuses import answer_to, status_message

_SERVICES = {
    Signal.LOGS: "opentelemetry.proto.collector.logs.v1.LogsService",
    Signal.TRACES: "opentelemetry.proto.collector.trace.v1.TraceService",
    Signal.METRICS: "opentelemetry.proto.collector.metrics.v1.MetricsService",
}


def grpc_server(receiver: Receiver, max_request_bytes: int) -> grpc.aio.Server:
    """A server with the three services of OTLP; the caller adds a port and starts it.

    Args:
        max_request_bytes: largest message, after decompression.
    """
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", max_request_bytes),
            # Two services on one port would each get a share of the telemetry; starting must fail instead.
            ("grpc.so_reuseport", 0),
        ]
    )
    for signal, service in _SERVICES.items():
        # Neither a deserialiser nor a serialiser: the body stays bytes.
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(
            _export(signal, receiver)
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
    return server


def _export(
    signal: Signal, receiver: Receiver
) -> Callable[[bytes, grpc.aio.ServicerContext[bytes, bytes]], Awaitable[bytes]]:
    async def export(body: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        try:
            with receiver.admission.room() as room:
                await room.grow(len(body))
                outcome = await receiver.keep(signal, Encoding.PROTOBUF, body, "grpc", room)
        except IngestError as error:
            receiver.count_result(signal, "grpc", type(error).__name__)
            details = status_message(error).SerializeToString()
            await context.abort(answer_to(error).grpc, str(error), (("grpc-status-details-bin", details),))
        return responses.success(signal, outcome, Encoding.PROTOBUF)

    return export
