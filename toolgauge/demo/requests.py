"""Export requests: the batches of many agents, as a collector in front of them sends them on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolgauge.demo.agent import Batch
from toolgauge.demo.wire import message, text

# opentelemetry/proto/collector: a request is its field 1, again and again; in it the resource, and in
# field 2 the scope with, in its own field 2, the records.
_SCOPE = message(1, text(1, "qwen-code"))
_SCOPE_OF_SPANS = message(1, text(1, "qwen-code") + text(2, "1.0.0"))


@dataclass(frozen=True, slots=True)
class Request:
    """One export request.

    Attributes:
        signal: logs, traces or metrics.
        body: its bytes, protobuf.
        over_http: else over gRPC.
    """

    signal: str
    body: bytes
    over_http: bool


def requests_of(logged: Sequence[Batch], sent: Sequence[Batch], over_http: bool) -> list[Request]:
    """A request a signal.

    Args:
        logged: whose log records arrive.
        sent: whose spans and counters arrive.
    """
    bodies = {
        "logs": _body(_SCOPE, ((batch.resource, batch.logs) for batch in logged)),
        "traces": _body(_SCOPE_OF_SPANS, ((batch.resource, batch.spans) for batch in sent)),
        "metrics": _body(_SCOPE, ((batch.resource, batch.metrics) for batch in sent)),
    }
    return [Request(signal, body, over_http) for signal, body in bodies.items() if body]


def _body(scope: bytes, resources: Iterable[tuple[bytes, list[bytes]]]) -> bytes:
    parts = []
    for resource, records in resources:
        if records:
            of_scope = scope + b"".join([message(2, record) for record in records])
            parts.append(message(1, resource + message(2, of_scope)))
    return b"".join(parts)
