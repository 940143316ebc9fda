"""Inflating bodies: what comes out, what is refused, and how soon."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ingest.exceptions import CorruptCompression, TooLarge, UnsupportedEncoding
from ingest.receive.compression import inflate

MIB = 1024 * 1024


def _raw_deflate(body: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(body) + stream.flush()


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@given(body=st.binary(max_size=5000), encoding=st.sampled_from(sorted(COMPRESS)), twice=st.booleans())
def test_what_was_compressed_comes_back(body: bytes, encoding: str, twice: bool) -> None:
    compressed = COMPRESS[encoding](body)
    if twice and encoding != "deflate":
        assert inflate(compressed * 2, encoding, 20_000) == body * 2
    assert inflate(compressed, encoding.upper() + " ", 20_000) == body


def test_raw_deflate_and_identity() -> None:
    assert inflate(_raw_deflate(b"abc" * 100), "deflate", 1000) == b"abc" * 100
    assert inflate(b"abc", "", 3) == inflate(b"abc", "Identity", 3) == b"abc"


def test_zstd_of_unknown_size() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    body = stream.compress(b"x" * MIB) + stream.flush()
    assert inflate(body, "zstd", MIB) == b"x" * MIB


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate", "zstd"])
def test_the_limit_is_exact(encoding: str) -> None:
    compress = COMPRESS.get(encoding, bytes)
    assert len(inflate(compress(b"x" * 70_000), encoding, 70_000)) == 70_000
    with pytest.raises(TooLarge) as caught:
        inflate(compress(b"x" * 70_001), encoding, 70_000)
    assert caught.value.limit == 70_000


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "other"])
def test_damaged_bodies_are_refused(encoding: str, damage: str) -> None:
    body = COMPRESS[encoding](bytes(range(256)) * 20)
    broken = {"cut": body[:-6], "flipped": body[:3] + b"\xff\xff\xff" + body[6:], "other": b"{}"}[damage]
    with pytest.raises(CorruptCompression):
        inflate(broken, encoding, MIB)


@given(body=st.binary(max_size=300), zeros=st.integers(0, 70_000))
def test_gzip_may_be_padded_with_zeros(body: bytes, zeros: int) -> None:
    """As on tapes; gzip(1) takes it without a word."""
    assert inflate(gzip.compress(body) * 2 + bytes(zeros), "gzip", 1000) == body * 2


def test_zeros_are_padding_only_at_the_end() -> None:
    with pytest.raises(CorruptCompression):
        inflate(gzip.compress(b"a") + bytes(9) + gzip.compress(b"b"), "gzip", 1000)


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", "zstd"])
def test_nothing_inflates_to_nothing(encoding: str) -> None:
    assert inflate(b"", encoding, 10) == b""


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_many_parts_cost_no_more_than_their_bytes(encoding: str) -> None:
    """Were the rest copied at the end of each part, these would copy gigabytes."""
    parts = COMPRESS[encoding](b"x" * 9)
    assert inflate(parts * 9_000, encoding, MIB) == b"x" * 81_000
    with pytest.raises(CorruptCompression):
        inflate(parts * 11_000, encoding, MIB)


def test_a_body_that_does_not_compress_comes_back() -> None:
    body = random.Random(1).randbytes(3 * MIB)
    for encoding, compress in COMPRESS.items():
        assert inflate(compress(body), encoding, 3 * MIB) == body


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "x-gzip2"])
def test_other_encodings_are_unsupported(encoding: str) -> None:
    with pytest.raises(UnsupportedEncoding):
        inflate(b"", encoding, 10)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_a_bomb_costs_no_more_than_the_limit(encoding: str) -> None:
    bomb = COMPRESS[encoding](bytes(256 * MIB))
    tracemalloc.start()
    with pytest.raises(TooLarge):
        inflate(bomb, encoding, 8 * MIB)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * MIB
