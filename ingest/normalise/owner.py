"""The owner's keyed hash: owners can be told apart and assigned, and never be named."""

from __future__ import annotations

import hmac
from hashlib import sha256

import pyarrow as pa
import pyarrow.compute as pc

KEY_BYTES = 32
"""Length of the key; `ingest/keep/owner_key.py` keeps it."""


def hash_owners(owners: pa.StringArray, key: bytes) -> pa.StringArray:
    """HMAC-SHA-256 of each owner, trimmed and in lower case, in hex; null where there is none.

    Only distinct owners are visited; their number is that of the resources in a batch.
    """
    named = pc.utf8_lower(pc.utf8_trim_whitespace(owners))
    named = pc.if_else(pc.equal(named, ""), pa.scalar(None, pa.string()), named)
    encoded = named.dictionary_encode()
    hashes = [hmac.new(key, owner.encode(), sha256).hexdigest() for owner in encoded.dictionary.to_pylist()]
    return pa.array(hashes, pa.string()).take(encoded.indices)
