"""The ingest process: receivers, writer and publisher, started together and stopped in order."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import structlog
import uvloop
from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector

from ingest.clock import Clock, open_clock
from ingest.configuration import IngestConfiguration
from ingest.exceptions import PortTaken, TokenMissing
from ingest.keep.lock import IngestLock
from ingest.keep.owner_key import open_owner_key
from ingest.keep.publisher import Publisher, PublishingThread
from ingest.keep.recovery import open_store
from ingest.keep.store import Store
from ingest.keep.upkeep import Upkeep, UpkeepThread
from ingest.keep.writer import Writer
from ingest.receive.access import Access, is_loopback, local_pass, read_tokens
from ingest.receive.admission import Admission
from ingest.receive.connections import http_server
from ingest.receive.grpc import SERVICES, grpc_server
from ingest.receive.health import Health
from ingest.receive.http import http_application
from ingest.receive.receiver import Receiver
from ingest.receive.tls import Tls, load_tls
from sli.data_directory import DataDirectory

# How long answers to accepted requests may take at the end; less than a successor waits for the lock.
DRAIN_SECONDS = 8.0
# Sockets that wait to be accepted: agents start in crowds.
_BACKLOG = 1024
# Enough for the connections of both ports and what the store has open.
_OPEN_FILES = 8192
# From malloc.h.
_M_ARENA_MAX = -8


def run(
    configuration: IngestConfiguration,
    on_ready: Callable[[dict[str, str]], None],
    supervised: bool = False,
    clock_file: Path | None = None,
) -> None:
    """Receive and store until the process is told to stop (SIGINT, SIGTERM), then drain and return.

    A second signal ends the process at once; what was answered is stored all the same.

    Args:
        on_ready: called once when everything listens, with the addresses by name (`grpc`, `http`), the id
            of the store (`store`), and with TLS the file of the certificate (`tls_certificate`).
        supervised: another process passes signals on. One to the whole process group then comes twice, and
            that is one wish to stop; whether it is wished again, the other knows, and kills.
        clock_file: holds the time of a moved clock, for made-up telemetry alone; None: the system's time.

    Raises:
        CannotStart: the data directory, a port, a token, a certificate or the clock cannot be used; the
            sentence says what to do.
    """
    _raise_limit_of_open_files()
    _keep_little_memory()
    directory = DataDirectory(configuration.data_dir)
    given = configuration.ingest_token.get_secret_value() if configuration.ingest_token else ""
    tokens = read_tokens(given, configuration.ingest_token_file)
    if not tokens and not is_loopback(configuration.host):
        raise TokenMissing(configuration.host)
    tls = load_tls(configuration.tls_certificate, configuration.tls_key, configuration.tls_client_ca)
    with ExitStack() as stack:
        stack.enter_context(IngestLock(directory))
        # Whoever held the lock before may have left its addresses.
        directory.endpoints.unlink(missing_ok=True)
        clock = open_clock(clock_file, directory, is_loopback(configuration.host))
        owner_key = open_owner_key(directory)
        http_socket = stack.enter_context(_listen(configuration.host, configuration.http_port))
        store = open_store(directory)
        stack.callback(store.close)
        publisher = Publisher(store, directory)
        publishing = PublishingThread(publisher, configuration.publish_interval_seconds)
        stack.callback(publishing.stop)
        upkeep = UpkeepThread(Upkeep(store, publisher, configuration.retention_days, clock))
        stack.callback(upkeep.stop)
        writer = Writer(store, configuration.owner_attribute, owner_key, clock)
        stack.callback(writer.close)
        access = Access(
            tokens,
            local_pass(owner_key),
            certificate_needed=configuration.tls_client_ca is not None,
            requests_per_second=configuration.client_requests_per_second,
            burst=configuration.client_request_burst,
        )
        service = _Service(configuration, store, writer, publishing, access, tls, supervised, clock)
        if clock_file is not None:
            structlog.get_logger("ingest").warning("clock_is_moved", file=str(clock_file))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(service.serve(http_socket, on_ready))


class _Service:
    def __init__(
        self,
        configuration: IngestConfiguration,
        store: Store,
        writer: Writer,
        publishing: PublishingThread,
        access: Access,
        tls: Tls | None,
        supervised: bool,
        clock: Clock,
    ) -> None:
        self._configuration = configuration
        self._store = store
        self._writer = writer
        self._publishing = publishing
        self._access = access
        self._tls = tls
        self._supervised = supervised
        self._clock = clock
        self._arrived: Callable[[], int] = lambda: 0
        self._stopping = asyncio.Event()
        self._log = structlog.get_logger("ingest")

    async def serve(self, http_socket: socket.socket, on_ready: Callable[[dict[str, str]], None]) -> None:
        configuration = self._configuration
        registry = self._registry()
        admission = Admission(configuration.queue_bytes, configuration.queue_wait_seconds)
        receiver = Receiver(self._writer, admission, registry, self._access, self._clock)
        self._arrived = lambda: receiver.arrived
        limit = configuration.max_request_bytes

        grpc = grpc_server(receiver, limit, configuration.queue_wait_seconds)
        health = Health(grpc, SERVICES.values(), lambda: self._readiness()["ready"])
        wanted = _address(configuration.host, configuration.grpc_port)
        try:
            if self._tls is None:
                grpc_port = grpc.add_insecure_port(wanted)
            else:
                grpc_port = grpc.add_secure_port(wanted, self._tls.grpc_credentials())
        except RuntimeError as error:
            raise PortTaken(wanted, "--grpc-port", "the port is in use or not permitted") from error
        application = http_application(receiver, registry, self._readiness, limit)
        http = http_server(application, DRAIN_SECONDS, self._tls)
        self._watch_signals()
        await grpc.start()
        watching = asyncio.create_task(health.watch())
        http_done = asyncio.create_task(http.serve(sockets=[http_socket]))
        while not http.started and not http_done.done():
            await asyncio.sleep(0.005)
        addresses = {
            "grpc": _address(configuration.host, grpc_port),
            "http": _address(configuration.host, http_socket.getsockname()[1]),
        }
        certificate = {"tls_certificate": str(self._tls.certificate.absolute())} if self._tls else {}
        on_ready(addresses | certificate | {"store": self._store.id})
        self._log.info("ready", **addresses, data_dir=str(configuration.data_dir))
        self._say_who_can_reach_it()
        await self._stopping.wait()
        self._log.info("draining")
        watching.cancel()
        await asyncio.wait([watching])
        http.should_exit = True
        await asyncio.gather(http_done, grpc.stop(DRAIN_SECONDS))
        self._log.info("stopped", committed=self._store.last_commit)

    def _registry(self) -> CollectorRegistry:
        """The figures of the process, the store and the writer; the receiver adds its own."""
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        committed = Gauge("toolgauge_committed", "Number of the latest commit", registry=registry)
        committed.set_function(lambda: self._store.last_commit)
        published = Gauge("toolgauge_published", "Number of the latest published commit", registry=registry)
        published.set_function(lambda: self._publishing.published_through)
        groups = Histogram(
            "toolgauge_group_requests",
            "Requests that were written together",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
            registry=registry,
        )
        self._writer.on_group = groups.observe
        return registry

    def _say_who_can_reach_it(self) -> None:
        host = self._configuration.host
        if is_loopback(host):
            return
        if self._tls is None:
            self._log.warning(
                "listening_beyond_loopback",
                host=host,
                tls=False,
                next="tokens and telemetry cross the network readable; set tls_certificate and tls_key",
            )
        else:
            self._log.info("listening_beyond_loopback", host=host, tls=True)

    def _readiness(self) -> dict[str, Any]:
        return {
            "store": self._store.id,
            "ready": self._writer.healthy and not self._stopping.is_set(),
            "arrived": self._arrived(),
            "committed": self._store.last_commit,
            "published": self._publishing.published_through,
            "publishing": not self._publishing.failing,
        }

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()

        def stop() -> None:
            if not self._stopping.is_set():
                self._stopping.set()
            elif not self._supervised:
                os._exit(130)

        loop.add_signal_handler(signal.SIGTERM, stop)
        # Under a supervisor a terminal's Ctrl-C is ignored here: it is passed on as SIGTERM, once.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGINT, stop)


def _raise_limit_of_open_files() -> None:
    """Every connection is an open file, and the usual soft limit of 1024 is less than what is served."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard > _OPEN_FILES:
        hard = _OPEN_FILES
    if soft != resource.RLIM_INFINITY and soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def _keep_little_memory() -> None:
    """Have freed memory given back: buffers of many sizes are needed for a moment, and then others.

    Arrow's own pool, and an arena for each thread, keep what they once had; measured under full load,
    both together make the process a tenth larger and nothing faster.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(OSError, AttributeError):
        # Elsewhere than in the GNU C library there is no such function, and nothing to set.
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def _listen(host: str, port: int) -> socket.socket:
    """The listening socket of the HTTP port, bound before anything else is started."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise PortTaken(
            _address(host, port), "--http-port", error.strerror or type(error).__name__
        ) from error
    return listener


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
