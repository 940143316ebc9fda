"""Inflating request bodies, never beyond the limit: a bomb is found while it is inflated."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from io import SEEK_CUR, BytesIO

import zstandard

from ingest.exceptions import CorruptCompression, TooLarge, UnsupportedEncoding

# What is inflated at a time; the overshoot over the limit is at most this.
_STEP_BYTES = 256 * 1024
# What is handed over of the input at a time: the rest of it is copied whenever a step or a member ends.
_PIECE_BYTES = 64 * 1024
# Tools that compress in blocks make a member of each 64 KiB; empty ones cost time and give nothing.
_MOST_MEMBERS = 10_000
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
        CorruptCompression: the body is not of this encoding, cut off, or of more parts than any tool makes.
        UnsupportedEncoding: the encoding is another, or several.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        if len(body) > limit:
            raise TooLarge(limit)
        return body
    if name not in _INFLATERS:
        raise UnsupportedEncoding
    if not body:
        # Some clients name the encoding and compress nothing where there is nothing.
        return b""
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
    size = position = 0
    for _ in range(_MOST_MEMBERS):
        stream = zlib.decompressobj(wbits)
        while not stream.eof:
            piece = stream.unconsumed_tail
            if not piece:
                piece = body[position : position + _PIECE_BYTES]
                position += len(piece)
            part = stream.decompress(piece, _STEP_BYTES)
            if not part and not piece:
                raise EOFError
            size += len(part)
            if size > limit:
                raise TooLarge(limit)
            parts.append(part)
        # A gzip body may have several members, one after the other (RFC 1952, 2.2), and be padded with
        # zeros behind the last, as gzip itself takes it.
        position -= len(stream.unused_data)
        if position == len(body) or (body[position] == 0 and not body[position:].strip(b"\0")):
            return b"".join(parts)
    raise EOFError


def _zstd(body: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    source = BytesIO(body)
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    for _ in range(_MOST_MEMBERS):
        stream = decompressor.decompressobj(write_size=_STEP_BYTES)
        while not stream.eof:
            piece = source.read(_ZSTD_PIECE_BYTES)
            if not piece:
                raise EOFError
            part = stream.decompress(piece)
            size += len(part)
            if size > limit:
                raise TooLarge(limit)
            parts.append(part)
        source.seek(-len(stream.unused_data), SEEK_CUR)
        if source.tell() == len(body):
            return b"".join(parts)
    raise EOFError


_INFLATERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,  # the same (RFC 9110, 8.4.1.3)
    "deflate": _deflate,
    "zstd": _zstd,
}
