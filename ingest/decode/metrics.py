"""Metrics are accepted and, so far, only checked to be what they claim."""

from __future__ import annotations

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from ingest.decode.wire import Signal
from ingest.exceptions import MalformedBody


def check_metrics(body: bytes) -> None:
    """See that a body is an export request of metrics.

    Raises:
        MalformedBody: it is not.
    """
    try:
        ExportMetricsServiceRequest.FromString(body)
    except DecodeError as error:
        raise MalformedBody(Signal.METRICS, "it is not valid protobuf") from error
