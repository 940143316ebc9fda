"""The real ingest process, started for the demo: on free ports of loopback, with a clock that is moved.

On ports of its own, so that no agent that runs already gets made-up times.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from ingest.clock import move_clock
from sli.data_directory import DataDirectory
from toolgauge.exceptions import DemoNotLoaded

# Fewer and larger segments: nobody reads while it is being filled.
_PUBLISH_SECONDS = 15


class DemoReceiver:
    """Ingest in a process of its own, and its clock."""

    def __init__(self, directory: DataDirectory, retention_days: int | None) -> None:
        """Prepare; nothing runs yet.

        Args:
            retention_days: as the service is going to have it.
        """
        self._directory = directory
        self._clock_file = directory.root / "demo.clock"
        self._process: subprocess.Popen[bytes] | None = None
        self._environment = {
            name: value for name, value in os.environ.items() if not name.upper().startswith("TOOLGAUGE_")
        } | {
            "GRPC_VERBOSITY": "NONE",
            "TOOLGAUGE_LOG_LEVEL": "error",
            "TOOLGAUGE_PUBLISH_INTERVAL_SECONDS": str(_PUBLISH_SECONDS),
            "TOOLGAUGE_RETENTION_DAYS": str(retention_days or ""),
        }
        self.grpc = self.http = ""
        self._now = 0

    def start(self, unix_nano: int) -> None:
        """Start it at a moment, and wait until it listens at `grpc` and `http`.

        Raises:
            DemoNotLoaded: it did not start; it has said why.
        """
        self.move(unix_nano)
        command = [sys.executable, "-m", "toolgauge", "serve", "--only", "ingest", "--supervised"]
        # No settings file: tokens and certificates are for others than the demo.
        command += ["--config", os.devnull, "--data-dir", str(self._directory.root)]
        command += ["--host", "127.0.0.1", "--grpc-port", "0", "--http-port", "0"]
        command += ["--clock-file", str(self._clock_file)]
        # A terminal's Ctrl-C is for this process, which ends the other in order.
        ours = signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment
        )
        signal.signal(signal.SIGINT, ours)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise DemoNotLoaded("the receiver did not start")
        addresses = json.loads(line)
        self.grpc, self.http = addresses["grpc"], addresses["http"]

    def move(self, unix_nano: int, goes_on: bool = False) -> None:
        """Move the clock; where it goes on at once, nothing is written until it does no more."""
        self._now = unix_nano
        move_clock(self._clock_file, unix_nano, goes_on)

    def stand_still(self) -> None:
        """Let the clock go on no more: what has arrived is written now."""
        self.move(self._now)

    def stop(self) -> None:
        """Let it write and publish what it has, and end."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None

    def remove_clock(self) -> None:
        """At the end, when the time is the system's again."""
        self._clock_file.unlink(missing_ok=True)


def is_empty(directory: DataDirectory) -> bool:
    """Whether nothing was ever received there."""
    found: tuple[Path, ...] = (directory.store, directory.store_log, directory.manifest)
    return not any(path.exists() for path in found)
