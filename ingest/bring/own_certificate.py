"""TLS to the service of this machine's own data directory."""

from __future__ import annotations

import ssl
from pathlib import Path


def own_certificate(certificate: Path) -> ssl.SSLContext:
    """For a connection to whoever has exactly this certificate, whoever signed it, whatever name it has.

    The service is addressed as it listens, and its certificate may be for another of its names.

    Raises:
        OSError: the file cannot be read, or is no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(certificate)
    return context
