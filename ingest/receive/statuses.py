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
_FAILURES = "OTLP/HTTP Response, Failures; " + _FAILURES_GRPC
_THROTTLING = "OTLP/HTTP Response, OTLP/HTTP Throttling; OTLP/gRPC Throttling"
_REQUEST = "OTLP/HTTP Request"

_Code = grpc.StatusCode
ANSWERS: dict[type[exceptions.IngestError], Answer] = {
    exceptions.MalformedBody: Answer(400, _Code.INVALID_ARGUMENT, _BAD_DATA),
    exceptions.CorruptCompression: Answer(400, _Code.INVALID_ARGUMENT, _BAD_DATA),
    exceptions.EmptyCall: Answer(400, _Code.INVALID_ARGUMENT, _BAD_DATA),
    exceptions.Unauthenticated: Answer(401, _Code.UNAUTHENTICATED, _FAILURES + "; RFC 6750, 3"),
    exceptions.UnknownSignal: Answer(404, _Code.UNIMPLEMENTED, _REQUEST),
    exceptions.MethodNotAllowed: Answer(405, _Code.UNIMPLEMENTED, _REQUEST + "; RFC 9110, 15.5.6"),
    # RESOURCE_EXHAUSTED without RetryInfo is final: the same batch would be as large the next time.
    exceptions.TooLarge: Answer(413, _Code.RESOURCE_EXHAUSTED, _FAILURES),
    exceptions.UnsupportedMediaType: Answer(415, _Code.INVALID_ARGUMENT, _REQUEST),
    exceptions.UnsupportedEncoding: Answer(415, _Code.INVALID_ARGUMENT, _REQUEST),
    # Neither 500 nor INTERNAL is in the lists of what may be sent again.
    exceptions.InternalError: Answer(500, _Code.INTERNAL, _FAILURES),
    exceptions.TooManyRequests: Answer(429, _Code.UNAVAILABLE, _THROTTLING),
    exceptions.TooManyConnections: Answer(503, _Code.UNAVAILABLE, _THROTTLING),
    exceptions.TooSlow: Answer(503, _Code.UNAVAILABLE, _THROTTLING),
    exceptions.Overloaded: Answer(503, _Code.UNAVAILABLE, _THROTTLING),
    exceptions.StoreUnavailable: Answer(503, _Code.UNAVAILABLE, _THROTTLING),
    exceptions.ShuttingDown: Answer(503, _Code.UNAVAILABLE, _THROTTLING),
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
