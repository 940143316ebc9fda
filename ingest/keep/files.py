"""Files that are there whole or not at all, also after a power cut."""

from __future__ import annotations

import os
import zlib
from datetime import UTC, datetime
from pathlib import Path

_PIECE_BYTES = 1024 * 1024


def sync(path: Path) -> None:
    """Force a file, or a folder's list of names, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, each with its name on disk before this returns."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync(path.parent)


def put_in_place(temporary: Path, final: Path) -> None:
    """Give a finished file its name: its bytes first, then the name, then the folder."""
    sync(temporary)
    temporary.replace(final)
    sync(final.parent)


def write_whole(path: Path, text: str) -> None:
    """Replace a small text file as a whole."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text)
    put_in_place(temporary, path)


def checksum(path: Path) -> int:
    """CRC-32 of a file's bytes."""
    value = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            value = zlib.crc32(piece, value)
    return value


def set_aside(path: Path) -> Path:
    """Rename a damaged file or folder, so that it is kept and no longer in the way; returns its new name."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    aside, number = path.with_name(f"{path.name}.damaged-{stamp}"), 2
    while aside.exists():
        # One that was set aside within the same second must not be replaced.
        aside, number = path.with_name(f"{path.name}.damaged-{stamp}-{number}"), number + 1
    path.replace(aside)
    sync(path.parent)
    return aside
