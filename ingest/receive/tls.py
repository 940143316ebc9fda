"""TLS, the same for both transports."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from ingest.exceptions import CertificateUnusable


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificates that were found good.

    Attributes:
        certificate: the file of the server's certificate chain, in PEM.
        key: the file of its key, in PEM and unencrypted.
        client_ca: the file of the authorities that client certificates must come from; None: none are asked
            for.
    """

    certificate: Path
    key: Path
    client_ca: Path | None

    def http_context(self) -> ssl.SSLContext:
        """For HTTP. Client certificates are verified here, and missed only where telemetry is sent: whoever
        asks for the health of the service, as container platforms do, has none."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # A key with a password would be asked for on the terminal.
        context.load_cert_chain(self.certificate, self.key, password="")
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """For gRPC, where a missing client certificate ends the handshake."""
        authorities = self.client_ca.read_bytes() if self.client_ca is not None else None
        return grpc.ssl_server_credentials(
            [(self.key.read_bytes(), self.certificate.read_bytes())],
            root_certificates=authorities,
            require_client_auth=authorities is not None,
        )


def load_tls(certificate: Path | None, key: Path | None, client_ca: Path | None) -> Tls | None:
    """Check what the settings name; None if they name nothing.

    Raises:
        CertificateUnusable: something is missing, cannot be read, or does not belong together.
    """
    if certificate is None and key is None and client_ca is None:
        return None
    if certificate is None or key is None:
        raise CertificateUnusable(
            "tls_certificate, tls_key", "one is set without the other, or tls_client_ca without them"
        )
    tls = Tls(certificate, key, client_ca)
    try:
        tls.http_context()
    except ssl.SSLError as error:
        raise CertificateUnusable(
            "tls_certificate, tls_key, tls_client_ca", f"they cannot be used ({error.reason or 'not PEM'})"
        ) from error
    except OSError as error:
        raise CertificateUnusable(
            "tls_certificate, tls_key, tls_client_ca",
            f"a file cannot be read ({error.strerror or type(error).__name__})",
        ) from error
    return tls
