"""What ingest can be told, with the reason of each default."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr


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
        queue_bytes: how much may wait to be written. The memory of requests is bounded by this and one
            largest request, by the four that are read at a time over gRPC (each twice in memory for a
            moment), the two that are inflated at a time over HTTP, and the group that is written with what
            is decoded of it. By default that is about 1 GiB at the very worst, of requests of 64 MiB only.
        queue_wait_seconds: how long a request may wait for room before it is refused. Over gRPC a refused
            batch never comes again, so nearly all of the 10 s after which the producer's exporter gives up.
        publish_interval_seconds: how far the published segments may be behind.
        retention_days: whole UTC days before today that are kept; None keeps all.
        ingest_token: tokens of clients, with commas or blanks between them; without any, none is asked for,
            and only loopback is listened on.
        ingest_token_file: a file of such tokens, one on each line.
        tls_certificate, tls_key: PEM files; both transports speak TLS if they are set.
        tls_client_ca: PEM file of the authorities that clients need a certificate of.
        client_requests_per_second: of one address; 0: any number. Off by default, since many agents behind
            one address are an ordinary thing, and over gRPC a refused batch never comes again.
        client_request_burst: how many of them may come at once.
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
    ingest_token: SecretStr | None = None
    ingest_token_file: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    client_requests_per_second: float = 0.0
    client_request_burst: int = 100
