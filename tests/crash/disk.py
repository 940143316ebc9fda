"""What a disk may hold after a power cut, from the recorded system calls of a process.

The model is stricter than common file systems: of a file, only what was there at its last sync is sure;
of what was written later each page may have arrived or not, in any order. Of a folder, only the names
are sure that it had at its own last sync; of later changes each name may have got any part of its own.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_HEAD = struct.Struct("<cQQQ")
_PAGE = 4096


@dataclass(frozen=True)
class Call:
    """One recorded call; `end` is where its record ends in the recording."""

    kind: str
    inode: int
    number: int
    content: bytes
    end: int


def calls(recording: Path) -> Iterator[Call]:
    data = recording.read_bytes()
    at = 0
    while at < len(data):
        kind, inode, number, length = _HEAD.unpack_from(data, at)
        start = at + _HEAD.size
        at = start + length
        yield Call(kind.decode(), inode, number, data[start:at], at)


@dataclass
class File:
    synced: bytearray = field(default_factory=bytearray)
    now: bytearray = field(default_factory=bytearray)
    # Since the last sync: a size, or a place and bytes.
    later: list[int | tuple[int, bytes]] = field(default_factory=list)

    def write(self, at: int, content: bytes) -> None:
        _put(self.now, at, content)
        self.later.append((at, content))

    def cut(self, size: int) -> None:
        _cut(self.now, size)
        self.later.append(size)

    def sync(self) -> None:
        self.synced = bytearray(self.now)
        self.later.clear()

    def after_a_cut(self, rng: random.Random) -> bytes:
        content = bytearray(self.synced)
        share = rng.choice((0.0, 0.5, 0.9, 1.0))
        for change in self.later:
            if isinstance(change, int):
                if rng.random() < share:
                    _cut(content, change)
                continue
            at, written = change
            start = 0
            while start < len(written):
                size = _PAGE - (at + start) % _PAGE
                if rng.random() < share:
                    _put(content, at + start, written[start : start + size])
                start += size
        return bytes(content)


def _put(content: bytearray, at: int, written: bytes) -> None:
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    content[at : at + len(written)] = written


def _cut(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


Entry = File | None
"""What a name stands for; None for nothing."""


class Disk:
    """Files and folders as the process sees them, and as they may be after a cut."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._now: dict[str, Entry] = {}
        self._synced: dict[str, Entry] = {}
        # Since the last sync of its folder: what the name stood for, in order.
        self._later: dict[str, list[Entry]] = {}
        self._folders: set[str] = set()
        self._inodes: dict[int, File] = {}

    def apply(self, call: Call) -> None:
        text = call.content.decode() if call.kind in "CDRLUX" else ""
        match call.kind:
            case "C" if call.number == 1:
                self._folders.add(text)
                self._change(text, File())
            case "C":
                self._inodes[call.inode] = File()
                self._change(text, self._inodes[call.inode])
            case "W":
                self._inodes[call.inode].write(call.number, call.content)
            case "T":
                self._inodes[call.inode].cut(call.number)
            case "F":
                self._inodes[call.inode].sync()
            case "D":
                self._sync_folder(text)
            case "R":
                old, new = text.split("\0")
                moved = self._now[old]
                self._change(new, moved)
                self._change(old, None)
            case "L":
                old, new = text.split("\0")
                self._change(new, self._now[old])
            case "U" | "X":
                self._change(text, None)

    def _change(self, name: str, entry: Entry) -> None:
        self._now[name] = entry
        self._later.setdefault(name, []).append(entry)

    def _sync_folder(self, folder: str) -> None:
        for name in [name for name in self._later if str(Path(name).parent) == folder]:
            self._synced[name] = self._later.pop(name)[-1]

    def contents(self) -> dict[str, bytes]:
        """The files as the process sees them."""
        return {
            name: bytes(entry.now)
            for name, entry in self._now.items()
            if entry is not None and name not in self._folders
        }

    def write_after_a_cut(self, root: Path, rng: random.Random) -> None:
        """Write one of the states that a power cut may leave."""
        share = rng.choice((0.0, 0.5, 1.0))
        entries = dict(self._synced)
        for name, changes in self._later.items():
            if rng.random() < share:
                entries[name] = rng.choice(changes)
        entries.setdefault(self._folder, File())
        there = {name for name, entry in entries.items() if entry is not None}
        for name in sorted(there):
            if all(
                str(above) in there for above in Path(name).parents if str(above).startswith(self._folder)
            ):
                path = root / Path(name).relative_to(self._folder)
                entry = entries[name]
                assert entry is not None
                if name in self._folders or name == self._folder:
                    path.mkdir(parents=True, exist_ok=True)
                else:
                    path.write_bytes(entry.after_a_cut(rng))
