"""What ingest can be told, with the reason of each default."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class IngestConfiguration:
    """Settings of the ingest process.

    Attributes:
        data_dir: where everything is kept.
        host: address to listen on.
        grpc_port, http_port: ports; 0 picks a free one.
        owner_attribute: resource attribute that names the owner.
        max_request_bytes: largest request after decompression. 64 MiB, as the OpenTelemetry collector's
            HTTP receiver would take; gRPC's own default of 4 MiB makes whole batches vanish.
        queue_bytes: how much may wait to be written; this, one largest request, and the group that is
            being written bound the memory.
        queue_wait_seconds: how long a request may wait for room before it is refused. Over gRPC a refused
            batch never comes again, so nearly all of the 10 s after which the producer's exporter gives up.
        publish_interval_seconds: how far the published segments may be behind.
        retention_days: whole UTC days before today that are kept; None keeps all.
    """

    data_dir: Path
    host: str = "127.0.0.1"
    grpc_port: int = 4317
    http_port: int = 4318
    owner_attribute: str = "owner.id"
    max_request_bytes: int = 64 * 1024 * 1024
    queue_bytes: int = 128 * 1024 * 1024
    queue_wait_seconds: float = 8.0
    publish_interval_seconds: float = 1.0
    retention_days: int | None = None
