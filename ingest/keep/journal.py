"""The journal: the rows of each commit a second time, until they are published.

One flipped byte makes DuckDB's log unreadable, or ends it early without a word, and with it would go
everything since the last checkpoint. So the rows of a commit are written and synced here before the
commit; once they are published as well as stored, their journal file goes. It holds seconds, not days.

A file is a run of frames, one for each part of a commit:

    magic (8 bytes) | commit number (u64) | payload length (u64) | CRC-32 of all but itself (u32) | payload

in little-endian; the payload is an Arrow IPC stream.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc
import structlog

from ingest.keep.files import make_folder, set_aside, sync

_MAGIC = b"\x93TGJ\x0d\x0a\x1a\x01"
_HEADER = struct.Struct("<8sQQI")
_CHECKED = struct.Struct("<8sQQ")
_SUFFIX = ".journal"
# A larger file is followed by the next, so that under load what is published can go.
_FILE_BYTES = 32 * 1024 * 1024
# Not compressed: the file lives for seconds, and lz4 takes longer than the disk (0.9 µs a record).
_IPC_OPTIONS = ipc.IpcWriteOptions(compression=None)


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one event table that are looked for in the same range of stored rows.

    Attributes:
        table: the columns of the event table but `commit_number`; `event_id` as text.
        bounded: whether copies of these rows can only lie in the range below.
        earliest, latest: the range, in nanoseconds.
    """

    dataset: str
    table: pa.Table
    bounded: bool
    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class Frame:
    """New rows of one commit. It may have failed after they were written down here."""

    commit: int
    part: Part


@dataclass(slots=True)
class _File:
    path: Path
    # The store's commit through which everything in the file is stored.
    through: int = 0
    damage: str | None = None


@dataclass(slots=True)
class _Damage:
    """What was wrong in a file that was read; filled in while its frames are handed out."""

    reasons: list[str] = field(default_factory=list)


class Journal:
    """The journal of one store. `append` is for the writer; `forget` may come from another thread."""

    def __init__(self, folder: Path) -> None:
        """Find the files that are left from before.

        Raises:
            OSError: the folder cannot be made or listed.
        """
        make_folder(folder)
        self.folder = folder
        self._log = structlog.get_logger("ingest.journal")
        self._guard = threading.Lock()
        self._older = [_File(path) for path in sorted(folder.glob(f"*{_SUFFIX}"))]
        self._number = max(
            (int(file.path.stem) for file in self._older if file.path.stem.isdigit()), default=0
        )
        self._descriptor: int | None = None
        self._current: _File | None = None
        self._size = 0
        self._failure: OSError | None = None
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="journal")

    @property
    def files(self) -> list[Path]:
        """The files that hold something, oldest first."""
        with self._guard:
            return [file.path for file in self._all()]

    def append(self, commit: int, part: Part) -> None:
        """Write down new rows of a commit, in a thread of the journal's own; `sync` tells how it went."""
        self._writer.submit(self._append, commit, part)

    def sync(self) -> Future[None]:
        """Force to disk what was appended.

        Returns:
            Done once it is there. It raises OSError if something of it is not; whoever appended must
            take it for not written down.
        """
        return self._writer.submit(self._sync)

    def frames(self) -> Iterator[Frame]:
        """Everything that can be read, oldest first; what cannot is named in the log.

        Raises:
            OSError: a file cannot be read at all.
        """
        # What was appended last may still be on its way.
        self._writer.submit(lambda: None).result()
        with self._guard:
            files = self._all()
        for file in files:
            damage = _Damage()
            yield from _frames_of(file.path, damage)
            if damage.reasons and file.damage is None:
                file.damage = damage.reasons[0]
                self._log.error(
                    "journal_damaged",
                    file=str(file.path),
                    reason=file.damage,
                    places=len(damage.reasons),
                    next="its readable rows are compared with the store; then it is set aside",
                )

    def all_is_stored(self, through: int) -> None:
        """Everything of now is in the store, in commits up to `through`."""
        with self._guard:
            for file in self._all():
                file.through = through
            self._close_current()

    def forget(self, published_through: int) -> None:
        """Remove the files whose rows are published, too. A damaged one is set aside instead.

        Raises:
            OSError: a file cannot be removed; nothing is lost by that.
        """
        with self._guard:
            if self._current is not None and self._current.through <= published_through:
                self._close_current()
            done = [file for file in self._older if file.through <= published_through]
            for file in done:
                if file.damage is None:
                    file.path.unlink(missing_ok=True)
                elif file.path.exists():
                    aside = set_aside(file.path)
                    self._log.warning("journal_set_aside", reason=file.damage, kept_as=str(aside))
                self._older.remove(file)

    def close(self) -> None:
        """End the thread and close the file; what it holds is read again at the next start."""
        self._writer.shutdown()
        with self._guard:
            self._close_current()

    def _all(self) -> list[_File]:
        return [*self._older, *([self._current] if self._current else [])]

    def _append(self, commit: int, part: Part) -> None:
        if self._failure is not None:
            return
        head, payload = _encode(commit, part)
        with self._guard:
            try:
                if self._size >= _FILE_BYTES:
                    self._sync_current()
                    self._close_current()
                descriptor, current = self._open_current()
                _write_all(descriptor, head)
                _write_all(descriptor, payload)
            except OSError as error:
                # Half a frame must not stand before the next.
                self._failure = error
                self._cut_back()
                self._close_current()
            else:
                self._size += len(head) + len(payload)
                current.through = max(current.through, commit)

    def _sync(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        with self._guard:
            try:
                self._sync_current()
            except OSError:
                # After a failed sync nobody knows what the file holds; nothing more is added to it.
                self._close_current()
                raise

    def _sync_current(self) -> None:
        if self._descriptor is not None:
            os.fdatasync(self._descriptor)

    def _open_current(self) -> tuple[int, _File]:
        if self._descriptor is None or self._current is None:
            path = self.folder / f"{self._number + 1:012d}{_SUFFIX}"
            descriptor = os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
            self._number += 1
            self._descriptor, self._current, self._size = descriptor, _File(path), 0
            try:
                sync(self.folder)
            except OSError:
                self._close_current()
                raise
        return self._descriptor, self._current

    def _cut_back(self) -> None:
        if self._descriptor is None:
            return
        try:
            os.ftruncate(self._descriptor, self._size)
        except OSError as error:
            self._log.warning("journal_not_cut_back", reason=error.strerror, next="a new file is begun")

    def _close_current(self) -> None:
        if self._descriptor is not None and self._current is not None:
            os.close(self._descriptor)
            self._older.append(self._current)
        self._descriptor, self._current, self._size = None, None, 0


def damage_of(path: Path) -> str | None:
    """What is wrong with a journal file, in words; None if nothing is."""
    damage = _Damage()
    for _ in _frames_of(path, damage):
        pass
    return damage.reasons[0] if damage.reasons else None


def _encode(commit: int, part: Part) -> tuple[bytes, memoryview]:
    """The head of a frame, and its payload."""
    facts = {
        "dataset": part.dataset,
        "bounded": str(int(part.bounded)),
        "earliest": str(part.earliest),
        "latest": str(part.latest),
    }
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, part.table.schema.with_metadata(facts), options=_IPC_OPTIONS) as stream:
        stream.write_table(part.table)
    payload = memoryview(sink.getvalue())
    checked = _CHECKED.pack(_MAGIC, commit, len(payload))
    head = _HEADER.pack(_MAGIC, commit, len(payload), zlib.crc32(payload, zlib.crc32(checked)))
    return head, payload


def _decode(commit: int, payload: memoryview) -> Frame:
    table = ipc.open_stream(pa.py_buffer(payload)).read_all()
    facts = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    part = Part(
        facts["dataset"],
        table.replace_schema_metadata(None),
        facts["bounded"] == "1",
        int(facts["earliest"]),
        int(facts["latest"]),
    )
    return Frame(commit, part)


def _frames_of(path: Path, damage: _Damage) -> Iterator[Frame]:
    """The frames whose checksum is right; behind a damaged place, from the next magic on.

    A frame that runs into the end of the file is one whose writer was cut off: its rows were not
    answered, and it is no damage.
    """
    content = path.read_bytes()
    at = 0
    while at < len(content):
        frame = _frame_at(content, at)
        if frame is not None:
            commit, end = frame
            yield _decode(commit, memoryview(content)[at + _HEADER.size : end])
            at = end
            continue
        following = content.find(_MAGIC, at + 1)
        while following != -1 and _frame_at(content, following) is None:
            following = content.find(_MAGIC, following + 1)
        if following == -1:
            if not _is_cut_off(content, at):
                damage.reasons.append(f"the frame at byte {at} is not what was written")
            return
        damage.reasons.append(f"{following - at} bytes at {at} are not what was written")
        at = following


def _frame_at(content: bytes, at: int) -> tuple[int, int] | None:
    """Commit number and end of the frame at a place; None if there is no whole and right one."""
    if at + _HEADER.size > len(content):
        return None
    magic, commit, length, expected = _HEADER.unpack_from(content, at)
    start, end = at + _HEADER.size, at + _HEADER.size + length
    if magic != _MAGIC or end > len(content):
        return None
    checked = zlib.crc32(memoryview(content)[at : at + _CHECKED.size])
    return (commit, end) if zlib.crc32(memoryview(content)[start:end], checked) == expected else None


def _is_cut_off(content: bytes, at: int) -> bool:
    head = content[at : at + _HEADER.size]
    if len(head) < _HEADER.size:
        return head[: len(_MAGIC)] == _MAGIC[: len(head)]
    magic, _, length, _ = _HEADER.unpack(head)
    return bool(magic == _MAGIC and at + _HEADER.size + length > len(content))


def _write_all(descriptor: int, content: bytes | memoryview) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]
