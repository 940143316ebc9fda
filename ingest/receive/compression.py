"""Inflating request bodies, never beyond the limit: a bomb is found while it is inflated."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from io import BytesIO

import zstandard

from ingest.exceptions import CorruptCompression, TooLarge, UnsupportedEncoding

# What is inflated at a time; the overshoot over the limit is at most this.
_STEP_BYTES = 256 * 1024
# zstd frames may ask for a window of any size; this is the largest that the format's own tools give without
# a special option, and bounds the memory.
_ZSTD_WINDOW_BYTES = 8 * 1024 * 1024
# Its decompressor gives all that a piece of input expands to, and a block of 4 bytes may stand for 128 KiB
# (RFC 8878, 3.1.1.2): this piece for 8 MiB.
_ZSTD_PIECE_BYTES = 256


def inflate(body: bytes, encoding: str, limit: int) -> bytes:
    """The content of a body.

    Args:
        body: as it came.
        encoding: the Content-Encoding header: gzip, deflate, zstd, identity or empty; any case.
        limit: largest content, in bytes.

    Raises:
        TooLarge: the content is larger.
        CorruptCompression: the body is not of this encoding, or cut off.
        UnsupportedEncoding: the encoding is another, or several.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        if len(body) > limit:
            raise TooLarge(limit)
        return body
    if name not in _INFLATERS:
        raise UnsupportedEncoding
    try:
        return _INFLATERS[name](body, limit)
    except (zlib.error, zstandard.ZstdError, EOFError) as error:
        raise CorruptCompression(name) from error


def _gzip(body: bytes, limit: int) -> bytes:
    return _zlib(body, limit, wbits=31)


def _deflate(body: bytes, limit: int) -> bytes:
    # HTTP's deflate is a zlib stream (RFC 9110, 8.4.1.2), but some clients send it without the wrapper.
    has_header = len(body) >= 2 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0
    return _zlib(body, limit, wbits=15 if has_header else -15)


def _zlib(body: bytes, limit: int, wbits: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        stream = zlib.decompressobj(wbits)
        rest = body
        while not stream.eof:
            part = stream.decompress(rest, _STEP_BYTES)
            rest = stream.unconsumed_tail
            size += len(part)
            if size > limit:
                raise TooLarge(limit)
            if not part and not rest and not stream.eof:
                raise EOFError
            parts.append(part)
        # A gzip body may have several members, one after the other (RFC 1952, 2.2).
        body = stream.unused_data
        if not body:
            return b"".join(parts)


def _zstd(body: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    while body:
        stream = decompressor.decompressobj(write_size=_STEP_BYTES)
        source = BytesIO(body)
        while not stream.eof:
            piece = source.read(_ZSTD_PIECE_BYTES)
            if not piece:
                raise EOFError
            part = stream.decompress(piece)
            size += len(part)
            if size > limit:
                raise TooLarge(limit)
            parts.append(part)
        body = stream.unused_data + source.read()
    return b"".join(parts)


_INFLATERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,  # the same (RFC 9110, 8.4.1.3)
    "deflate": _deflate,
    "zstd": _zstd,
}
