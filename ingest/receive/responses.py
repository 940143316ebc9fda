"""Export responses, in both encodings of OTLP."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ingest.decode.wire import Signal
from ingest.exceptions import IngestError
from ingest.keep.writer import Encoding, Outcome
from ingest.receive.receiver import rejection_message
from ingest.receive.statuses import status_message

# The class, and what OTLP calls the number of rejected records in it.
_RESPONSES: dict[Signal, tuple[Any, str]] = {
    Signal.LOGS: (ExportLogsServiceResponse, "rejected_log_records"),
    Signal.TRACES: (ExportTraceServiceResponse, "rejected_spans"),
    Signal.METRICS: (ExportMetricsServiceResponse, "rejected_data_points"),
}


def success(signal: Signal, outcome: Outcome, encoding: Encoding) -> bytes:
    """The answer to an accepted request; a partial success names what can never be kept."""
    message_class, rejected_field = _RESPONSES[signal]
    message = message_class()
    if outcome.rejected:
        setattr(message.partial_success, rejected_field, sum(outcome.rejected.values()))
        message.partial_success.error_message = rejection_message(outcome.rejected)
    return _serialise(message, encoding)


def failure(error: IngestError, encoding: Encoding) -> bytes:
    """The `Status` that tells why a request was refused."""
    return _serialise(status_message(error), encoding)


def _serialise(message: Message, encoding: Encoding) -> bytes:
    if encoding is Encoding.PROTOBUF:
        return message.SerializeToString()
    return json.dumps(json_format.MessageToDict(message)).encode()
