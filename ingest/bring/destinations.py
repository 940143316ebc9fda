"""Where brought requests go: into the store directly, or through a service that is running."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

import httpx
import orjson
from google.rpc.status_pb2 import Status

from ingest.bring.files import FileRequest
from ingest.bring.own_certificate import own_certificate
from ingest.configuration import IngestConfiguration
from ingest.exceptions import (
    DataDirectoryInUse,
    IngestError,
    NotThisService,
    RefusedByService,
    StoreUnavailable,
)
from ingest.keep.lock import IngestLock
from ingest.keep.owner_key import open_owner_key
from ingest.keep.publisher import Publisher
from ingest.keep.recovery import open_store
from ingest.keep.writer import Encoding, Outcome, Request, Writer
from ingest.receive.access import local_pass
from sli.data_directory import DataDirectory
from sli.vocabulary import Rejection

# Enough to fill a commit with small requests; the writer's answer makes room for the next.
_IN_FLIGHT = 64
_CONNECTIONS = 8


class Destination(Protocol):
    """Takes requests in order and tells what became of each, in the same order."""

    def keep(self, requests: Iterable[FileRequest]) -> Iterator[tuple[FileRequest, Outcome | IngestError]]:
        """Keep the requests."""

    def __enter__(self) -> Destination: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class StoreDestination:
    """The store itself, while no service runs; what is kept is published at the end."""

    def __init__(self, configuration: IngestConfiguration) -> None:
        """Take the data directory.

        Raises:
            DataDirectoryInUse: a service has it.
            CannotStart: it cannot be used.
        """
        directory = DataDirectory(configuration.data_dir)
        with ExitStack() as stack:
            stack.enter_context(IngestLock(directory, patience_seconds=0))
            owner_key = open_owner_key(directory)
            store = open_store(directory)
            stack.callback(store.close)
            publisher = Publisher(store, directory)
            stack.callback(publisher.publish)
            self._writer = Writer(store, configuration.owner_attribute, owner_key)
            stack.callback(self._writer.close)
            self._stack = stack.pop_all()

    def keep(self, requests: Iterable[FileRequest]) -> Iterator[tuple[FileRequest, Outcome | IngestError]]:
        """Keep the requests; many of them share a commit."""

        def submit(request: FileRequest) -> Future[Outcome | IngestError]:
            answered: Future[Outcome | IngestError] = Future()
            arrived = Request(request.signal, request.encoding, request.body, time.time_ns())
            self._writer.submit(arrived, answered.set_result)
            return answered

        yield from _pipelined(requests, submit)

    def __enter__(self) -> StoreDestination:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What a running service has written down about itself.

    Attributes:
        http: host and port of OTLP/HTTP.
        store: the id of its store.
        tls_certificate: the file of the certificate with which it speaks TLS; None: it does not.
    """

    http: str
    store: str
    tls_certificate: Path | None

    @classmethod
    def read(cls, directory: DataDirectory) -> Endpoints | None:
        """Read them; None where there are none."""
        try:
            tree = orjson.loads(directory.endpoints.read_bytes())
            certificate = tree.get("tls_certificate")
            return cls(str(tree["http"]), str(tree["store"]), Path(certificate) if certificate else None)
        except (OSError, orjson.JSONDecodeError, KeyError, AttributeError):
            return None


class ServiceDestination:
    """A running service, through its OTLP/HTTP port."""

    def __init__(self, endpoints: Endpoints, owner_key: bytes) -> None:
        """Find the service.

        Args:
            owner_key: of the data directory: who can read it is let in, whatever others must show.

        Raises:
            NotThisService: what listens there is another service than the one that wrote the addresses.
        """
        certificate = endpoints.tls_certificate
        scheme = "http" if certificate is None else "https"
        address = endpoints.http
        self._client = httpx.Client(
            base_url=f"{scheme}://{address}",
            timeout=60.0,
            verify=True if certificate is None else own_certificate(certificate),
            trust_env=False,
        )
        try:
            # The addresses of a service that was killed stay, and its port may be another's now.
            state = self._client.get("/readyz").json()
        except (httpx.HTTPError, ValueError) as error:
            self._client.close()
            raise NotThisService(address, type(error).__name__) from error
        if not isinstance(state, dict) or state.get("store") != endpoints.store:
            self._client.close()
            raise NotThisService(address, "it has another store")
        self._client.headers["authorization"] = f"Bearer {local_pass(owner_key)}"
        self._threads = ThreadPoolExecutor(_CONNECTIONS)

    def keep(self, requests: Iterable[FileRequest]) -> Iterator[tuple[FileRequest, Outcome | IngestError]]:
        """Post the requests over a few connections."""
        yield from _pipelined(requests, lambda request: self._threads.submit(self._post, request))

    def _post(self, request: FileRequest) -> Outcome | IngestError:
        kind = "protobuf" if request.encoding is Encoding.PROTOBUF else "json"
        content_type = "application/x-protobuf" if kind == "protobuf" else "application/json"
        try:
            # The answer is wanted as JSON's partial success only if JSON was sent; the headers tell the rest.
            response = self._client.post(
                f"/v1/{request.signal}", content=request.body, headers={"content-type": content_type}
            )
        except httpx.HTTPError as error:
            return StoreUnavailable(f"the running service does not answer ({type(error).__name__})")
        if response.status_code == 200:
            rejected = orjson.loads(response.headers.get("toolgauge-rejected", "{}"))
            return Outcome(
                stored=int(response.headers["toolgauge-stored"]),
                duplicates=int(response.headers["toolgauge-duplicates"]),
                rejected={Rejection(reason): number for reason, number in rejected.items()},
            )
        if response.status_code in (400, 413, 415, 500):
            # Final; the service's own words, which quote no telemetry.
            status = Status()
            if kind == "protobuf":
                status.ParseFromString(response.content)
                return RefusedByService(response.status_code, status.message)
            return RefusedByService(response.status_code, str(orjson.loads(response.content)["message"]))
        return StoreUnavailable(f"the running service answered {response.status_code}")

    def __enter__(self) -> ServiceDestination:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown()
        self._client.close()


def open_destination(configuration: IngestConfiguration) -> Destination:
    """The store if it is free, else the service that has it.

    Raises:
        DataDirectoryInUse: somebody has the store, and it is no service that can be reached.
        NotThisService: the address that was written down is another's.
        CannotStart: the data directory cannot be used.
    """
    try:
        return StoreDestination(configuration)
    except DataDirectoryInUse:
        directory = DataDirectory(configuration.data_dir)
        endpoints = Endpoints.read(directory)
        if endpoints is None:
            # The holder is another import, or a service that is only starting.
            raise
        return ServiceDestination(endpoints, open_owner_key(directory))


def _pipelined(
    requests: Iterable[FileRequest], submit: _Submit
) -> Iterator[tuple[FileRequest, Outcome | IngestError]]:
    """Submit ahead of the answers, and give the answers in the order of the requests."""
    waiting: list[tuple[FileRequest, Future[Outcome | IngestError]]] = []
    for request in requests:
        waiting.append((request, submit(request)))
        if len(waiting) >= _IN_FLIGHT:
            first, answered = waiting.pop(0)
            yield first, answered.result()
    for request, answered in waiting:
        yield request, answered.result()


class _Submit(Protocol):
    def __call__(self, request: FileRequest, /) -> Future[Outcome | IngestError]: ...
