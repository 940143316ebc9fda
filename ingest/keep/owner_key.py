"""The key of the owners' hashes: made once, held twice, never made again while events are stored.

With another key the same owners would have other hashes: whom the rollout assigned where, and how many
owners there are, would change without a word. So a damaged key is put back from its copy, and where
both are gone a person decides.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import structlog

from ingest.exceptions import DataDirectoryUnusable, OwnerKeyLost
from ingest.keep.files import make_folder, put_in_place, set_aside
from ingest.normalise.owner import KEY_BYTES
from sli.data_directory import DataDirectory


def open_owner_key(directory: DataDirectory) -> bytes:
    """The key of this installation; for whoever holds the lock of the directory.

    `owner.key` holds the 32 bytes; `owner.key.copy` holds them and their SHA-256, so that it is known
    which of the two is right. Both have mode 0600.

    Raises:
        OwnerKeyLost: events are stored, and neither file holds their key.
        DataDirectoryUnusable: a file can neither be read nor written.
    """
    try:
        return _open(directory)
    except OSError as error:
        raise DataDirectoryUnusable(directory.owner_key, error.strerror or type(error).__name__) from error


def _open(directory: DataDirectory) -> bytes:
    make_folder(directory.root)
    path, copy_path = directory.owner_key, directory.owner_key_copy
    key, copy = _read(path), _read(copy_path)
    copied = copy[:KEY_BYTES] if copy is not None and copy == _with_digest(copy[:KEY_BYTES]) else None
    log = structlog.get_logger("ingest")
    if copied is not None and key != copied:
        aside = set_aside(path) if key is not None else None
        _write(path, copied)
        log.error("owner_key_put_back", kept_as=str(aside) if aside else None, source=str(copy_path))
        return copied
    if copied is None and key is not None and len(key) == KEY_BYTES:
        # Of an older version without a copy, or the copy is damaged.
        if copy is not None:
            log.error("owner_key_copy_damaged", kept_as=str(set_aside(copy_path)), next="written again")
        _write(copy_path, _with_digest(key))
        return key
    if copied is not None:
        return copied
    if directory.store.exists() or directory.manifest.exists():
        raise OwnerKeyLost(path)
    for damaged, content in ((path, key), (copy_path, copy)):
        if content is not None:
            log.error("owner_key_damaged", kept_as=str(set_aside(damaged)), next="a new key is made")
    key = os.urandom(KEY_BYTES)
    _write(path, key)
    _write(copy_path, _with_digest(key))
    return key


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _with_digest(key: bytes) -> bytes:
    return key + sha256(key).digest()


def _write(path: Path, content: bytes) -> None:
    fresh = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    put_in_place(fresh, path)
