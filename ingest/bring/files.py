"""Captured OTLP in files: request bodies, OTLP/JSON, and the collector's file exporter."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import IO, cast

import orjson
import zstandard

from ingest.decode.wire import Signal
from ingest.exceptions import NotTelemetry, OtherJson
from ingest.keep.writer import Encoding

_TOP_LEVEL = {"resourceLogs": Signal.LOGS, "resourceSpans": Signal.TRACES, "resourceMetrics": Signal.METRICS}
_NAME_TOKENS = {
    "logs": Signal.LOGS,
    "traces": Signal.TRACES,
    "spans": Signal.TRACES,
    "metrics": Signal.METRICS,
}
_COMPRESSED = {".gz", ".zst"}
# A damaged start is told from another kind of file by a good line soon after it.
_LOOKED_AT_LINES = 100
_KNOWN = {".pb", ".json", ".jsonl", ".ndjson"}


@dataclass(frozen=True, slots=True)
class FileRequest:
    """An export request that was found in a file.

    Attributes:
        path: the file.
        line: its line, in a file of JSON lines; else None.
    """

    path: Path
    line: int | None
    signal: Signal
    encoding: Encoding
    body: bytes


def find_files(paths: list[Path]) -> list[Path]:
    """The files to read: those that are named, and in folders whatever looks like OTLP, sorted.

    Raises:
        NotTelemetry: a path does not exist.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found.extend(
                file for file in sorted(path.rglob("*")) if file.is_file() and _plain_suffix(file) in _KNOWN
            )
        elif path.exists():
            found.append(path)
        else:
            raise NotTelemetry(path, "no such file or folder")
    return found


def read_file(path: Path, signal: Signal | None) -> Iterator[FileRequest | NotTelemetry]:
    """The export requests in a file; what cannot be read stands in its place as an error.

    Args:
        path: `.pb`: one serialised request; else one JSON document, or one a line. `.gz` and `.zst`
            are unpacked.
        signal: what a `.pb` file holds; without it, its name must say so.
    """
    try:
        with _open(path) as file:
            if _plain_suffix(path) == ".pb":
                yield _serialised(path, file.read(), signal)
            else:
                yield from _documents(path, file)
    except (OSError, EOFError, zstandard.ZstdError) as error:
        yield NotTelemetry(path, f"cannot be read: {getattr(error, 'strerror', None) or error}")


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if path.suffix == ".zst":
        return BufferedReader(zstandard.open(path, "rb"))
    return path.open("rb")


def _plain_suffix(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix in _COMPRESSED else path.suffix


def _serialised(path: Path, body: bytes, signal: Signal | None) -> FileRequest | NotTelemetry:
    named = [kind for token, kind in _NAME_TOKENS.items() if token in path.name.lower()]
    if signal is None and len(named) != 1:
        return NotTelemetry(path, "the name does not tell its signal; say --signal logs, traces or metrics")
    return FileRequest(path, None, signal or named[0], Encoding.PROTOBUF, body)


def _documents(path: Path, file: IO[bytes]) -> Iterator[FileRequest | NotTelemetry]:
    first = file.readline()
    if not _is_json(first):
        rest = file.read()
        lines = rest.splitlines()
        if _is_json(first + rest) or not any(map(_is_json, lines[:_LOOKED_AT_LINES])):
            # A document over several lines, or nothing that we know.
            yield _document(path, None, first + rest)
            return
        # Lines of documents, of which the first is damaged.
        file = BytesIO(rest)
        yield _document(path, 1, first)
        first = file.readline()
        number, line = 2, first
    else:
        number, line = 1, first
    several = number > 1
    while line:
        following = file.readline()
        several = several or bool(following.strip())
        if line.strip():
            yield _document(path, number if several else None, line)
        line, number = following, number + 1


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _document(path: Path, line: int | None, body: bytes) -> FileRequest | NotTelemetry:
    where = f"line {line}: " if line else ""
    try:
        tree = orjson.loads(body)
    except orjson.JSONDecodeError:
        return NotTelemetry(
            path, f"{where}neither JSON nor named .pb; a serialised request needs a name like 001-logs.pb"
        )
    signals = [kind for key, kind in _TOP_LEVEL.items() if isinstance(tree, dict) and key in tree]
    if len(signals) != 1:
        return OtherJson(
            path, f"{where}no OTLP: it should have one of resourceLogs, resourceSpans and resourceMetrics"
        )
    return FileRequest(path, line, signals[0], Encoding.JSON, body)
