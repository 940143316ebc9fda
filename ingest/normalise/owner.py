"""The owner's keyed hash: owners can be told apart and assigned, and never be named."""

from __future__ import annotations

import hmac
import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ingest.exceptions import DataDirectoryUnusable

KEY_BYTES = 32


def load_or_make_key(path: Path) -> bytes:
    """The key of this installation, made at first use with mode 0600.

    It is part of a backup: with another key the same owners have other hashes.

    Raises:
        DataDirectoryUnusable: it can neither be read nor made, or is not a key.
    """
    try:
        if not path.exists():
            # Written aside and linked into place: a reader sees no half a key, and of two writers one wins.
            fresh = path.with_name(f"{path.name}.{os.getpid()}")
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(os.urandom(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(fresh, path)
            fresh.unlink()
        key = path.read_bytes()
    except OSError as error:
        raise DataDirectoryUnusable(path, error.strerror or type(error).__name__) from error
    if len(key) != KEY_BYTES:
        raise DataDirectoryUnusable(path, f"it should hold {KEY_BYTES} bytes and holds {len(key)}")
    return key


def hash_owners(owners: pa.StringArray, key: bytes) -> pa.StringArray:
    """HMAC-SHA-256 of each owner, trimmed and in lower case, in hex; null where there is none.

    Only distinct owners are visited; their number is that of the resources in a batch.
    """
    named = pc.utf8_lower(pc.utf8_trim_whitespace(owners))
    named = pc.if_else(pc.equal(named, ""), pa.scalar(None, pa.string()), named)
    encoded = named.dictionary_encode()
    hashes = [hmac.new(key, owner.encode(), sha256).hexdigest() for owner in encoded.dictionary.to_pylist()]
    return pa.array(hashes, pa.string()).take(encoded.indices)
