"""Who owns a data directory: one process at a time."""

from __future__ import annotations

import fcntl
import os
import time
from types import TracebackType
from typing import IO

import structlog

from ingest.exceptions import DataDirectoryInUse, DataDirectoryUnusable
from sli.data_directory import DataDirectory

# A predecessor that was just killed, or told to stop, needs a moment to let go.
PATIENCE_SECONDS = 10.0


class IngestLock:
    """The lock of the event store, held from the first use of the directory to the last."""

    def __init__(self, directory: DataDirectory, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Make the directory if needed, and lock it.

        Raises:
            DataDirectoryUnusable: it cannot be made or written.
            DataDirectoryInUse: another process holds it, for longer than the patience.
        """
        try:
            directory.root.mkdir(parents=True, exist_ok=True)
            self._file = directory.ingest_lock.open("a+")
        except OSError as error:
            raise DataDirectoryUnusable(directory.root, error.strerror or type(error).__name__) from error
        deadline = time.monotonic() + patience_seconds
        waiting = False
        while not _try_lock(self._file):
            if time.monotonic() >= deadline:
                raise DataDirectoryInUse(directory.root, _holder(self._file))
            if not waiting:
                waiting = True
                structlog.get_logger("ingest").info(
                    "waiting_for_data_directory", holder=_holder(self._file), seconds=patience_seconds
                )
            time.sleep(0.05)
        try:
            self._file.truncate(0)
            self._file.write(str(os.getpid()))
            self._file.flush()
        except OSError as error:
            raise DataDirectoryUnusable(directory.root, error.strerror or type(error).__name__) from error

    def release(self) -> None:
        """Let the next process have it."""
        self._file.close()

    def __enter__(self) -> IngestLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: IO[str]) -> int | None:
    file.seek(0)
    text = file.read().strip()
    return int(text) if text.isdigit() else None
