"""Files that are there whole or not at all, also after a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Force a file, or a folder's list of names, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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


def set_aside(path: Path, stamp: str) -> Path:
    """Rename a damaged file, so that it is kept and no longer in the way; returns its new name."""
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    path.replace(aside)
    return aside
