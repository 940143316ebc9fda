"""The record of acts on disk: one line of JSON each, only ever added to."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from ingest.keep.files import make_folder, sync
from sli.data_directory import DataDirectory
from sli.rollout.act import Act, RecordDamagedError, read_acts
from toolgauge.exceptions import RecordDamaged, RecordUnreadable

_PRIVATE = 0o600


def recorded_acts(directory: DataDirectory) -> tuple[Act, ...]:
    """All acts on record, each checked against the one before; none where nothing was ever recorded.

    An act is on record once its line has ended: what a power cut left of one was never answered.

    Raises:
        RecordDamaged: the record is not what was written.
        RecordUnreadable: it cannot be read.
    """
    try:
        content = directory.acts.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise RecordUnreadable(directory.acts, error.strerror or type(error).__name__) from error
    try:
        return read_acts(content[: _whole(content)].decode("utf-8").splitlines())
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RecordDamaged(directory.acts, f"act {line} of the record is no text") from error
    except RecordDamagedError as error:
        raise RecordDamaged(directory.acts, str(error)) from error


def acts_for_results(directory: DataDirectory, say: Callable[[str], None]) -> tuple[Act, ...] | None:
    """The acts that the results are to show; None, and why, where they cannot be told: the old ones stay."""
    try:
        return recorded_acts(directory)
    except (RecordDamaged, RecordUnreadable) as error:
        say(str(error))
        return None


def record_act(
    directory: DataDirectory,
    decide: Callable[[Sequence[Act], datetime], Act],
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Act:
    """Put one act on record; when this returns it outlives a power cut.

    Args:
        decide: given all acts on record and the time, makes the next one, or raises: then nothing is
            recorded. Nobody else can record anything meanwhile, so keep it short.
        now: the time.

    Raises:
        RecordDamaged: the record is not what was written; nothing is added to it.
        RecordUnreadable: it cannot be read or written.
    """
    try:
        with _locked(directory):
            acts = recorded_acts(directory)
            act = decide(acts, now())
            _append(directory, act)
    except OSError as error:
        raise RecordUnreadable(directory.acts, error.strerror or type(error).__name__) from error
    return act


def _append(directory: DataDirectory, act: Act) -> None:
    new = not directory.acts.exists()
    descriptor = os.open(directory.acts, os.O_RDWR | os.O_CREAT, _PRIVATE)
    with os.fdopen(descriptor, "r+b") as file:
        content = file.read()
        start = _whole(content)
        file.truncate(start)
        file.seek(start)
        file.write(act.line().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    if new:
        sync(directory.acts.parent)


@contextmanager
def _locked(directory: DataDirectory) -> Iterator[None]:
    make_folder(directory.acts.parent)
    descriptor = os.open(directory.acts.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, _PRIVATE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _whole(content: bytes) -> int:
    """The length of the lines that have ended."""
    return content.rfind(b"\n") + 1
