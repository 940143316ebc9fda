"""Ingest and query as two processes: a query that hangs or dies never slows or ends ingest.

A child tells on its standard output, in one line of JSON, that it is ready and where it listens. Its
standard input is a pipe that closes when this process ends, however it ends; then the child drains and
ends too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import structlog

from sli.data_directory import DataDirectory
from toolgauge.freshness import LISTENERS, is_locked

HALVES = ("ingest", "query")

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 10.0
# A child that ran for this long was healthy: the next failure starts with a short pause again.
_HEALTHY_SECONDS = 30.0


@dataclass
class _Child:
    half: str
    process: subprocess.Popen[bytes]
    started: float
    addresses: dict[str, str] = field(default_factory=dict)
    ready: bool = False


class Supervisor:
    """Starts both halves, restarts one that dies, and stops them in order."""

    def __init__(
        self,
        directory: DataDirectory,
        environment: dict[str, str],
        on_ready: Callable[[dict[str, str]], None],
        clock_file: Path | None = None,
    ) -> None:
        """Prepare.

        Args:
            environment: the settings in force, as `TOOLGAUGE_…` variables for the children.
            on_ready: called once, with all addresses, when both halves are ready the first time.
            clock_file: for ingest, which has a moved clock with it.
        """
        self._directory = directory
        self._environment = environment
        self._on_ready = on_ready
        self._clock_file = clock_file
        self._children: dict[str, _Child] = {}
        self._changed = threading.Condition()
        self._signals = 0
        self._log = structlog.get_logger("supervisor")

    def run(self) -> int:
        """Run until SIGINT or SIGTERM; a second one ends at once. Returns the exit status."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        # A script that waits for the addresses must not find those of the run before; those of a service
        # that runs are none of ours to remove.
        if not is_locked(self._directory.ingest_lock):
            self._directory.endpoints.unlink(missing_ok=True)
        for half in HALVES:
            self._start(half, {})
        told = written = False
        pauses = dict.fromkeys(HALVES, _FIRST_PAUSE_SECONDS)
        try:
            while not self._signals:
                for half in HALVES:
                    child = self._children[half]
                    status = child.process.poll()
                    if status is not None:
                        if not told:
                            # It said itself what is wrong; starting it again would say it again.
                            return status if status > 0 else 1
                        pauses[half] = self._restart(child, status, pauses[half])
                        written = False
                if not written and all(child.ready for child in self._children.values()):
                    addresses = self._addresses()
                    _write_endpoints(self._directory, addresses)
                    if not told:
                        self._on_ready(addresses)
                    told = written = True
                with self._changed:
                    self._changed.wait(0.1)
            return 0
        finally:
            self._stop()
            if told:
                self._directory.endpoints.unlink(missing_ok=True)

    def _on_signal(self, number: int, frame: object) -> None:
        self._signals += 1
        if self._signals > 1:
            for child in self._children.values():
                # Not SIGTERM again: a child has that from the first signal to the group, and is to stop in
                # order. What was answered is kept all the same.
                child.process.kill()
            self._directory.endpoints.unlink(missing_ok=True)
            os._exit(130)

    def _start(self, half: str, addresses: dict[str, str]) -> None:
        # On the ports that it had before, also where free ones had been picked: agents know these.
        ports = {
            f"TOOLGAUGE_{name.upper()}_PORT": at.rpartition(":")[2]
            for name, at in addresses.items()
            if name in LISTENERS
        }
        arguments = ["--only", half, "--supervised"]
        if half == "ingest" and self._clock_file is not None:
            arguments += ["--clock-file", str(self._clock_file)]
        # A terminal's Ctrl-C reaches the whole group. It is ours alone, from the child's first moment on.
        ours = signal.signal(signal.SIGINT, signal.SIG_IGN)
        process = subprocess.Popen(
            [sys.executable, "-m", "toolgauge", "serve", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # What gRPC says on standard error by itself is said again, in better words.
            env={"GRPC_VERBOSITY": "NONE"} | os.environ | self._environment | ports,
        )
        signal.signal(signal.SIGINT, ours)
        child = _Child(half, process, time.monotonic(), addresses)
        self._children[half] = child
        assert process.stdout is not None
        threading.Thread(target=self._listen, args=(child, process.stdout), daemon=True).start()

    def _listen(self, child: _Child, output: IO[bytes]) -> None:
        line = output.readline()
        if line:
            child.addresses = json.loads(line)
            child.ready = True
            with self._changed:
                self._changed.notify()

    def _restart(self, child: _Child, status: int, pause: float) -> float:
        if time.monotonic() - child.started > _HEALTHY_SECONDS:
            pause = _FIRST_PAUSE_SECONDS
        self._log.error("half_died", half=child.half, status=status, restart_in_seconds=pause)
        until = time.monotonic() + pause
        while time.monotonic() < until and not self._signals:
            time.sleep(0.05)
        if not self._signals:
            self._start(child.half, child.addresses)
        return min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _addresses(self) -> dict[str, str]:
        return {name: at for child in self._children.values() for name, at in child.addresses.items()}

    def _stop(self) -> None:
        """Stop ingest first, so that its last publication can still be computed by the other."""
        for half in HALVES:
            child = self._children.get(half)
            if child is not None and child.process.poll() is None:
                child.process.send_signal(signal.SIGTERM)
                child.process.wait()


def tell_ready(addresses: dict[str, str]) -> None:
    """Tell the supervisor, from a child, that this half is ready."""
    print(json.dumps(addresses), flush=True)


def end_with_supervisor() -> None:
    """Make this child drain and end when the supervisor is gone."""

    def watch() -> None:
        # Not through sys.stdin, whose lock the interpreter would want at its end.
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="supervisor-watch", daemon=True).start()


def _write_endpoints(directory: DataDirectory, addresses: dict[str, str]) -> None:
    temporary = directory.endpoints.with_suffix(".tmp")
    temporary.write_text(json.dumps(addresses) + "\n")
    temporary.replace(directory.endpoints)


def write_endpoints(directory: DataDirectory, addresses: dict[str, str]) -> None:
    """Write the addresses of a half that runs alone, keeping those of the other."""
    known: dict[str, str] = {}
    if directory.endpoints.exists():
        known = json.loads(directory.endpoints.read_text())
    _write_endpoints(directory, known | addresses)
