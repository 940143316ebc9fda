"""The ingest process: receivers, writer and publisher, started together and stopped in order."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import structlog
import uvicorn
import uvloop
from prometheus_client import CollectorRegistry, Gauge

from ingest.configuration import IngestConfiguration
from ingest.exceptions import PortTaken
from ingest.keep.lock import IngestLock
from ingest.keep.owner_key import open_owner_key
from ingest.keep.publisher import Publisher, PublishingThread
from ingest.keep.recovery import open_store
from ingest.keep.store import Store
from ingest.keep.upkeep import Upkeep, UpkeepThread
from ingest.keep.writer import Writer
from ingest.receive.admission import Admission
from ingest.receive.grpc import grpc_server
from ingest.receive.http import http_application
from ingest.receive.receiver import Receiver
from sli.data_directory import DataDirectory

# How long answers to accepted requests may take at the end; less than a successor waits for the lock.
DRAIN_SECONDS = 8.0
# A signal to the whole process group comes twice, also through the supervisor; that is one wish to stop.
_SAME_SIGNAL_SECONDS = 0.5
# Sockets that wait to be accepted: agents start in crowds.
_BACKLOG = 1024


def run(configuration: IngestConfiguration, on_ready: Callable[[dict[str, str]], None]) -> None:
    """Receive and store until the process is told to stop (SIGINT, SIGTERM), then drain and return.

    A second signal ends the process at once; what was answered is stored all the same.

    Args:
        on_ready: called once with the addresses, by name (`grpc`, `http`), when everything listens.

    Raises:
        CannotStart: the data directory or a port cannot be used; the sentence says what to do.
    """
    directory = DataDirectory(configuration.data_dir)
    with ExitStack() as stack:
        stack.enter_context(IngestLock(directory))
        # Whoever held the lock before may have left its addresses.
        directory.endpoints.unlink(missing_ok=True)
        owner_key = open_owner_key(directory)
        http_socket = stack.enter_context(_listen(configuration.host, configuration.http_port))
        store = open_store(directory)
        stack.callback(store.close)
        publisher = Publisher(store, directory)
        publishing = PublishingThread(publisher, configuration.publish_interval_seconds)
        stack.callback(publishing.stop)
        upkeep = UpkeepThread(Upkeep(store, publisher, configuration.retention_days))
        stack.callback(upkeep.stop)
        writer = Writer(store, configuration.owner_attribute, owner_key)
        stack.callback(writer.close)
        service = _Service(configuration, directory, store, writer, publishing)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(service.serve(http_socket, on_ready))


class _Service:
    def __init__(
        self,
        configuration: IngestConfiguration,
        directory: DataDirectory,
        store: Store,
        writer: Writer,
        publishing: PublishingThread,
    ) -> None:
        self._configuration = configuration
        self._directory = directory
        self._store = store
        self._writer = writer
        self._publishing = publishing
        self._stopping = asyncio.Event()
        self._log = structlog.get_logger("ingest")

    async def serve(self, http_socket: socket.socket, on_ready: Callable[[dict[str, str]], None]) -> None:
        configuration = self._configuration
        registry = CollectorRegistry()
        committed = Gauge("toolgauge_committed", "Number of the latest commit", registry=registry)
        committed.set_function(lambda: self._store.last_commit)
        published = Gauge("toolgauge_published", "Number of the latest published commit", registry=registry)
        published.set_function(lambda: self._publishing.published_through)
        admission = Admission(configuration.queue_bytes, configuration.queue_wait_seconds)
        receiver = Receiver(self._writer, admission, registry)

        grpc = grpc_server(receiver, configuration.max_request_bytes)
        wanted = _address(configuration.host, configuration.grpc_port)
        try:
            grpc_port = grpc.add_insecure_port(wanted)
        except RuntimeError as error:
            raise PortTaken(wanted, "--grpc-port", "the port is in use or not permitted") from error
        application = http_application(receiver, registry, self._readiness, configuration.max_request_bytes)
        http = _HttpServer(
            uvicorn.Config(
                application,
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=int(DRAIN_SECONDS),
                # A connection that says nothing for this long is closed; exporters send every few seconds.
                timeout_keep_alive=75,
                lifespan="off",
            )
        )
        self._watch_signals()
        await grpc.start()
        http_done = asyncio.create_task(http.serve(sockets=[http_socket]))
        while not http.started and not http_done.done():
            await asyncio.sleep(0.005)
        addresses = {
            "grpc": _address(configuration.host, grpc_port),
            "http": _address(configuration.host, http_socket.getsockname()[1]),
        }
        on_ready(addresses)
        self._log.info("ready", **addresses, data_dir=str(configuration.data_dir))
        await self._stopping.wait()
        self._log.info("draining")
        http.should_exit = True
        await asyncio.gather(http_done, grpc.stop(DRAIN_SECONDS))
        self._log.info("stopped", committed=self._store.last_commit)

    def _readiness(self) -> dict[str, Any]:
        return {
            "ready": self._writer.healthy and not self._stopping.is_set(),
            "committed": self._store.last_commit,
            "published": self._publishing.published_through,
            "publishing": not self._publishing.failing,
        }

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()

        first = 0.0

        def stop() -> None:
            nonlocal first
            if not self._stopping.is_set():
                first = loop.time()
                self._stopping.set()
            elif loop.time() - first > _SAME_SIGNAL_SECONDS:
                os._exit(130)

        loop.add_signal_handler(signal.SIGTERM, stop)
        # Under a supervisor a terminal's Ctrl-C is ignored here: it is passed on as SIGTERM, once.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGINT, stop)


class _HttpServer(uvicorn.Server):
    """uvicorn, without signal handlers of its own: the service decides when it stops."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


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
