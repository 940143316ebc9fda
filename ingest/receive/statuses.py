"""The only place where an error becomes a status, for both transports.

Sources: the OTLP specification 1.x, "Failures" of OTLP/gRPC and of OTLP/HTTP. What may be sent again
is UNAVAILABLE with RetryInfo, or 429, 502, 503 and 504 with Retry-After; everything else is final.
"""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from ingest import exceptions


@dataclass(frozen=True, slots=True)
class Answer:
    """How an error is answered.

    Attributes:
        http: status of OTLP/HTTP.
        grpc: status of OTLP/gRPC.
        section: where the OTLP specification says so.
    """

    http: int
    grpc: grpc.StatusCode
    section: str


_FAILURES_GRPC = "OTLP/gRPC Response, Failures"
_BAD_DATA = "OTLP/HTTP Response, Failures, Bad Data; " + _FAILURES_GRPC
_THROTTLING = "OTLP/HTTP Response, OTLP/HTTP Throttling; OTLP/gRPC Throttling"

ANSWERS: dict[type[exceptions.IngestError], Answer] = {
    exceptions.MalformedBody: Answer(400, grpc.StatusCode.INVALID_ARGUMENT, _BAD_DATA),
    exceptions.CorruptCompression: Answer(400, grpc.StatusCode.INVALID_ARGUMENT, _BAD_DATA),
    exceptions.TooSlow: Answer(408, grpc.StatusCode.DEADLINE_EXCEEDED, "RFC 9110, 15.5.9"),
    exceptions.UnknownSignal: Answer(404, grpc.StatusCode.UNIMPLEMENTED, "OTLP/HTTP Request"),
    # RESOURCE_EXHAUSTED without RetryInfo is final: the same batch would be as large the next time.
    exceptions.TooLarge: Answer(413, grpc.StatusCode.RESOURCE_EXHAUSTED, _FAILURES_GRPC),
    exceptions.UnsupportedMediaType: Answer(415, grpc.StatusCode.INVALID_ARGUMENT, "OTLP/HTTP Request"),
    exceptions.UnsupportedEncoding: Answer(415, grpc.StatusCode.INVALID_ARGUMENT, "OTLP/HTTP Request"),
    exceptions.Overloaded: Answer(503, grpc.StatusCode.UNAVAILABLE, _THROTTLING),
    exceptions.StoreUnavailable: Answer(503, grpc.StatusCode.UNAVAILABLE, _THROTTLING),
    exceptions.ShuttingDown: Answer(503, grpc.StatusCode.UNAVAILABLE, _THROTTLING),
}


def answer_to(error: exceptions.IngestError) -> Answer:
    """The statuses of an error that a request ended in."""
    return ANSWERS[type(error)]


def status_message(error: exceptions.IngestError) -> Status:
    """The `google.rpc.Status` that goes with an error on either transport, RetryInfo included."""
    code: int = answer_to(error).grpc.value[0]
    status = Status(code=code, message=str(error))
    if isinstance(error, exceptions.TryAgain):
        detail = AnyMessage()
        detail.Pack(RetryInfo(retry_delay=Duration(seconds=error.retry_after_seconds)))
        status.details.append(detail)
    return status
