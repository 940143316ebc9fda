"""What time it is, for everything that ingest stamps: arrival, uptime, counts, and which days are over.

There is one clock in production, the system's. The other stands still until whoever moves it says
otherwise: weeks of telemetry can then arrive in a minute, each request at its time, over the real ports.
Since made-up times must never come among real ones, it takes more than a setting to have it: see
`open_clock`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from ingest.exceptions import ClockNotMoved
from sli.data_directory import DataDirectory

Clock = Callable[[], int]
"""Nanoseconds since 1970."""

_FORM = re.compile(r"moved clock ([0-9]{1,19})( goes on)?\n")


def system_clock() -> int:
    """The system's time."""
    return time.time_ns()


def move_clock(path: Path, unix_nano: int, goes_on: bool = False) -> None:
    """Set a moved clock; who reads it sees the time before or this one, never half of it.

    Args:
        goes_on: it is moved again at once. Until then what arrives waits, and is written together: a commit
            of its own for every moment would take most of the time.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(f"moved clock {unix_nano}{' goes on' if goes_on else ''}\n")
    temporary.replace(path)


class MovedClock:
    """The time that stands in a file; where the file is gone, the time that stood there last."""

    def __init__(self, path: Path) -> None:
        """Read it once.

        Raises:
            ClockNotMoved: the file holds no time.
        """
        self._path = path
        found = self._read()
        if found is None:
            raise ClockNotMoved(f"{path} holds no time; write one with move_clock")
        self._last = int(found[1])

    def __call__(self) -> int:
        """The time, nanoseconds since 1970."""
        if found := self._read():
            self._last = int(found[1])
        return self._last

    def goes_on(self) -> bool:
        """Whether it is moved again at once."""
        found = self._read()
        return found is not None and found[2] is not None

    def _read(self) -> re.Match[str] | None:
        try:
            return _FORM.fullmatch(self._path.read_text())
        except (OSError, UnicodeDecodeError):
            return None


def open_clock(path: Path | None, directory: DataDirectory, on_loopback: bool) -> Clock:
    """The clock of an ingest process: the system's, unless a file is named.

    A moved clock is for directories that had one from their first event on, which are marked. For whoever
    holds the lock of the directory.

    Raises:
        ClockNotMoved: the clock of this directory cannot be moved.
    """
    if path is None:
        return system_clock
    if not on_loopback:
        raise ClockNotMoved("a moved clock is for loopback only; leave --host as it is")
    clock = MovedClock(path)
    if not directory.moved_clock.exists():
        if directory.store.exists() or directory.manifest.exists():
            raise ClockNotMoved(
                f"the clock cannot be moved at {directory.root}: events of the real time are there; "
                "name an empty directory with --data-dir"
            )
        directory.moved_clock.touch()
    return clock
