"""What can go wrong on the way in.

A short tree. Every error carries its facts as fields and makes its sentence from them; none quotes
telemetry. Which status an error becomes on which transport stands in `receive/statuses.py` alone.
"""

from __future__ import annotations

import traceback
from pathlib import Path


class IngestError(Exception):
    """Anything that keeps a request, or the service, from being what was asked for."""


def whereabouts(error: BaseException) -> str:
    """Where an unexpected error arose: files, lines and functions, innermost last.

    Not its message and no values: either may quote telemetry.
    """
    frames = traceback.extract_tb(error.__traceback__)
    steps = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
    return f"{type(error).__name__} in {' > '.join(steps)}"


class BadRequest(IngestError):
    """The request can never be accepted; the client must not send it again."""


class MalformedBody(BadRequest):
    """The body is not what its content type says.

    Attributes:
        signal: what it should be an export request of.
        reason: the decoder's words, without values.
    """

    def __init__(self, signal: str, reason: str) -> None:
        super().__init__(f"the body is not an OTLP export request of {signal}: {reason}")
        self.signal = signal
        self.reason = reason


class UnsupportedMediaType(BadRequest):
    """The content type is neither of the two that OTLP/HTTP knows."""

    def __init__(self) -> None:
        super().__init__("Content-Type must be application/x-protobuf or application/json")


class UnsupportedEncoding(BadRequest):
    """The content encoding is none that is understood."""

    def __init__(self) -> None:
        super().__init__("Content-Encoding must be gzip, deflate, zstd or identity")


class CorruptCompression(BadRequest):
    """The body cannot be inflated.

    Attributes:
        encoding: the content encoding that it claims.
    """

    def __init__(self, encoding: str) -> None:
        super().__init__(f"the body is not valid {encoding} data, or ends too early")
        self.encoding = encoding


class TooLarge(BadRequest):
    """The body is larger than the limit, after inflating.

    Attributes:
        limit: the most that is taken.
        unit: of what.
    """

    def __init__(self, limit: int, unit: str = "bytes") -> None:
        setting = ", or raise max_request_bytes" if unit == "bytes" else ""
        super().__init__(
            f"the request is larger than {limit} {unit} after decompression; send smaller batches{setting}"
        )
        self.limit = limit
        self.unit = unit


class NoMessage(BadRequest):
    """A gRPC call of which no message came: there was none, or the library has refused it as too large.

    An empty export request is a message of no bytes, and fine.
    """

    def __init__(self) -> None:
        super().__init__("the call ended without a message")


class UnknownSignal(BadRequest):
    """The path ends in no signal of OTLP."""

    def __init__(self) -> None:
        super().__init__("OTLP/HTTP paths end in /v1/logs, /v1/metrics or /v1/traces")


class MethodNotAllowed(BadRequest):
    """The path is right, the HTTP method is not.

    Attributes:
        allowed: the methods that are.
    """

    def __init__(self, allowed: str) -> None:
        super().__init__(f"this path takes {allowed} only")
        self.allowed = allowed


class Unauthenticated(BadRequest):
    """The client has shown no token, none of the right ones, or no client certificate."""

    def __init__(self, wanted: str) -> None:
        super().__init__(f"{wanted} is needed to send telemetry here")
        self.wanted = wanted


class InternalError(IngestError):
    """A fault of ours, and not the store's.

    The same request would meet it again: were it answered as worth another try, an exporter would send
    it for ever and nothing behind it.

    Attributes:
        kind: the name of the exception; where it arose stands in the log.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(f"internal error ({kind}), see the service's log; nothing of this request is kept")
        self.kind = kind


class TryAgain(IngestError):
    """The request is good, but cannot be kept now; the client should send it again.

    Attributes:
        retry_after_seconds: when.
    """

    retry_after_seconds: int = 5


class Overloaded(TryAgain):
    """More is waiting to be written than memory is set aside for.

    Attributes:
        limit: in bytes.
    """

    retry_after_seconds = 2

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} bytes of requests are waiting to be written; send again later")
        self.limit = limit


class TooSlow(TryAgain):
    """The body did not come in time.

    The network may have been slow, and nothing is wrong with the batch; HTTP's 408 would be final to an
    OTLP exporter, so this is answered as worth another try.

    Attributes:
        seconds: how long was waited.
        reason: for what.
    """

    def __init__(self, seconds: float, reason: str) -> None:
        super().__init__(f"{reason} {seconds:g} seconds; nothing of it is kept")
        self.seconds = seconds
        self.reason = reason


class TooManyRequests(TryAgain):
    """The client sends more requests a second than one client may.

    Attributes:
        per_second: the rate that is allowed.
    """

    def __init__(self, per_second: float, retry_after_seconds: int) -> None:
        super().__init__(f"more than {per_second:g} requests a second from one address; send again later")
        self.per_second = per_second
        self.retry_after_seconds = retry_after_seconds


class TooManyConnections(TryAgain):
    """More connections are open than are served at once.

    Attributes:
        limit: how many are.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} connections are open; send again later")
        self.limit = limit


class StoreUnavailable(TryAgain):
    """The store cannot take writes (disk full, read-only, damaged).

    Attributes:
        reason: the store's own words.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"events cannot be written now, nothing of this request is kept: {reason}")
        self.reason = reason


class ShuttingDown(TryAgain):
    """The service is stopping."""

    def __init__(self) -> None:
        super().__init__("the service is shutting down; send again to its successor")


class CannotStart(IngestError):
    """The service, or an import, cannot begin; the sentence says what to do.

    Attributes:
        exit_status: of the process: 2 if the settings ask for something that cannot be, else 1.
    """

    exit_status = 1


class DataDirectoryUnusable(CannotStart):
    """The data directory cannot be written.

    Attributes:
        path: the directory or file.
        reason: the system's words.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"cannot write {path}: {reason}; make it writable for this user, or choose another --data-dir"
        )
        self.path = path
        self.reason = reason


class OwnerKeyLost(CannotStart):
    """Events are stored, and the key of their owners' hashes is gone.

    Attributes:
        path: where the key should be.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is damaged or missing, and so is its copy, while events are stored: put it back from a "
            f"backup. To go on with another key, under which every owner counts as a new one: "
            f"head -c 32 /dev/urandom > {path}"
        )
        self.path = path


class DataDirectoryInUse(CannotStart):
    """Another process owns the store.

    Attributes:
        path: the data directory.
        holder: the process id of the owner, if known.
    """

    def __init__(self, path: Path, holder: int | None) -> None:
        who = f"process {holder}" if holder is not None else "another process"
        super().__init__(f"{path} is in use by {who}; stop it, or choose another --data-dir")
        self.path = path
        self.holder = holder


class NotThisService(CannotStart):
    """The service that holds the data directory cannot be reached where its addresses say.

    Attributes:
        address: host and port.
        reason: what was met there.
    """

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            f"what listens at {address} is not the service of this data directory ({reason}); "
            "wait until the service is ready, or stop it and import without it"
        )
        self.address = address
        self.reason = reason


class PortTaken(CannotStart):
    """A port cannot be listened on.

    Attributes:
        address: host and port.
        setting: the setting that names the port.
        reason: the system's words.
    """

    def __init__(self, address: str, setting: str, reason: str) -> None:
        super().__init__(
            f"cannot listen on {address}: {reason}; "
            f"stop what listens there, or choose another {setting} (0: any)"
        )
        self.address = address
        self.setting = setting
        self.reason = reason


class ClockNotMoved(CannotStart):
    """A moved clock was asked for where there must be none."""

    exit_status = 2


class TokenMissing(CannotStart):
    """Listening where others can reach it, and nothing keeps them out.

    Attributes:
        host: the address to listen on.
    """

    exit_status = 2

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host} is no loopback address, so others can reach it: set TOOLGAUGE_INGEST_TOKEN or "
            "ingest_token_file (a token: `openssl rand -hex 32`), or listen on 127.0.0.1"
        )
        self.host = host


class TokenUnusable(CannotStart):
    """The tokens cannot be used.

    Attributes:
        where: the setting that they come from.
        reason: what is wrong, without the token.
    """

    exit_status = 2

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason


class CertificateUnusable(CannotStart):
    """TLS cannot be offered with what the settings name.

    Attributes:
        settings: the settings in question.
        reason: what is wrong.
    """

    exit_status = 2

    def __init__(self, settings: str, reason: str) -> None:
        super().__init__(f"{settings}: {reason}; give a certificate and its unencrypted key, both in PEM")
        self.settings = settings
        self.reason = reason


class NewerFile(CannotStart):
    """A file of the data directory was written by a newer version.

    Attributes:
        path: the file.
        found: its format.
        known: the newest format that this version knows.
    """

    def __init__(self, path: Path, found: int, known: int) -> None:
        super().__init__(
            f"{path} has format {found}, this version knows formats up to {known}; "
            "install the version that wrote it, or choose another --data-dir"
        )
        self.path = path
        self.found = found
        self.known = known


class NewerStore(NewerFile):
    """The event store."""


class NewerManifest(NewerFile):
    """The manifest of the published events."""


class NothingToBackUp(CannotStart):
    """Nothing was ever published in a data directory.

    Attributes:
        path: the data directory.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} holds no published events and no owner.key, so there is nothing to back up")
        self.path = path


class BackupFailed(CannotStart):
    """A backup cannot be made; one that was there before is as it was.

    Attributes:
        path: the folder or file in question.
        reason: why.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"no backup was made: {path}: {reason}")
        self.path = path
        self.reason = reason


class BackupUnusable(CannotStart):
    """What should be a backup is none, or is damaged.

    Attributes:
        path: its folder.
        reason: what is wrong with it.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"the backup {path} cannot be used: {reason}; nothing was restored, use another one")
        self.path = path
        self.reason = reason


class RestoreFailed(CannotStart):
    """A backup cannot be restored to where it should go.

    Attributes:
        path: the data directory.
        reason: why.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"nothing was restored to {path}: {reason}")
        self.path = path
        self.reason = reason


class DamagedStore(CannotStart):
    """The store cannot be opened.

    Attributes:
        path: the file.
        reason: the store's own words.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} cannot be opened: {reason}; run `toolgauge doctor` to see what is damaged")
        self.path = path
        self.reason = reason


class RefusedByService(IngestError):
    """The running service refused a request that was to be imported, for good.

    Attributes:
        status: of its answer.
        reason: in its words.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"the running service refused it: {reason}")
        self.status = status
        self.reason = reason


class NotTelemetry(CannotStart):
    """A file given to `import` holds no OTLP that can be read.

    Attributes:
        path: the file.
        reason: why.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class OtherJson(NotTelemetry):
    """A JSON document that is no export request."""
