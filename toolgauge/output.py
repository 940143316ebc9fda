"""Rows on standard output: as a table for people, or as JSON, CSV or Markdown for what comes next.

JSON and CSV keep every value as it is. The others are looked at, and much of what they hold came from
telemetry: what a terminal, rich or a Markdown renderer would act on is written out instead.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import pyarrow as pa


class OutputFormat(StrEnum):
    """How rows are written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MD = "md"


# Rows are taken out of Arrow, and written, so many at a time.
_CHUNK_ROWS = 10_000
# rich lays out a table as a whole, slowly; nobody reads more than this on a terminal.
_MOST_RICH_ROWS = 1_000
# An underscore between letters stands for itself, as it does in most names. Addresses become links.
_MARKDOWN_SIGNS = re.compile(
    r"[\\`*\[\]|~@]|:(?=//)|(?<=www)\.|(?<![0-9A-Za-z_])_+|_+(?![0-9A-Za-z_])", re.IGNORECASE
)


def write_rows(rows: pa.Table, format: OutputFormat, out: TextIO | None = None) -> None:
    """Write rows.

    Args:
        rows: any columns; times with a zone are written as RFC 3339 in UTC.
        format: how. JSON is an array of objects, one a row, with null for null and for numbers that
            are not finite. CSV is that of RFC 4180, with a header; null is an empty field and the empty
            text is `""`.
        out: where to; standard output if not given.
    """
    out = out or sys.stdout
    if format is OutputFormat.JSON:
        _write_json(rows, out)
    elif format is OutputFormat.CSV:
        _write_csv(rows, out)
    elif format is OutputFormat.MD:
        _write_markdown(rows, out)
    elif not (out.isatty() and rows.num_rows <= _MOST_RICH_ROWS and _write_rich(rows, out)):
        _write_plain(rows, out)
    out.flush()


def _write_json(rows: pa.Table, out: TextIO) -> None:
    keys = [_json_text(name) for name in _unique(rows.column_names)]
    before = "[\n"
    for row in _tuples(rows):
        members = ", ".join(f"{key}: {_json(value)}" for key, value in zip(keys, row, strict=True))
        out.write(f"{before}{{{members}}}")
        before = ",\n"
    out.write("[]\n" if rows.num_rows == 0 else "\n]\n")


def _write_csv(rows: pa.Table, out: TextIO) -> None:
    def line(values: Iterable[str | None]) -> str:
        fields = ["" if value is None else _csv_field(value) for value in values]
        # A line without anything in it would not be a row.
        return (",".join(fields) if fields != [""] else '""') + "\r\n"

    out.write(line(rows.column_names))
    for row in _tuples(rows):
        out.write(line(None if value is None else _text(value) for value in row))


def _write_markdown(rows: pa.Table, out: TextIO) -> None:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |\n"

    out.write(line(_markdown(name) for name in rows.column_names))
    out.write(line("---:" if right else "---" for right in _right_aligned(rows)))
    for row in _tuples(rows):
        out.write(line(_markdown(_shown(value)) for value in row))


def _write_plain(rows: pa.Table, out: TextIO) -> None:
    """Columns as wide as their widest cell: nothing is cut or wrapped, whatever reads it."""
    from rich.cells import cell_len

    def width_of(text: str) -> int:
        return len(text) if text.isascii() else cell_len(text)

    names = [printable(name) for name in rows.column_names]
    widths = [width_of(name) for name in names]
    for row in _tuples(rows):
        for position, value in enumerate(row):
            widths[position] = max(widths[position], width_of(printable(_shown(value))))
    right = _right_aligned(rows)

    def line(cells: Sequence[str]) -> str:
        padded = []
        for cell, width, to_the_right in zip(cells, widths, right, strict=True):
            space = " " * (width - width_of(cell))
            padded.append(space + cell if to_the_right else cell + space)
        return "  ".join(padded).rstrip() + "\n"

    out.write(line(names))
    out.write("  ".join("-" * width for width in widths) + "\n")
    for row in _tuples(rows):
        out.write(line([printable(_shown(value)) for value in row]))


def _write_rich(rows: pa.Table, out: TextIO) -> bool:
    """Write nothing and return False if the terminal is too narrow: folded cells are no table."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=out)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, right in zip(rows.column_names, _right_aligned(rows), strict=True):
        table.add_column(Text(printable(name)), justify="right" if right else "left")
    for row in _tuples(rows):
        # As Text and not as str: there is no markup in it.
        table.add_row(*(Text(printable(_shown(value))) for value in row))
    wanted = console.measure(table, options=console.options.update(max_width=10 * _MOST_RICH_ROWS))
    if wanted.maximum > console.width:
        return False
    console.print(table)
    return True


def printable(text: str) -> str:
    """The text with everything that a terminal would not simply print written as an escape."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def _markdown(text: str) -> str:
    text = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN_SIGNS.sub(lambda signs: "".join(f"\\{sign}" for sign in signs[0]), text)


def _csv_field(text: str) -> str:
    if text and not any(sign in text for sign in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _unique(names: Sequence[str]) -> list[str]:
    """The names, with a number where one comes again: of equal keys in an object, readers keep one."""
    seen: set[str] = set()
    unique = []
    for name in names:
        candidate, number = name, 1
        while candidate in seen or (number > 1 and candidate in names):
            number += 1
            candidate = f"{name}_{number}"
        seen.add(candidate)
        unique.append(candidate)
    return unique


def _tuples(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    """The rows as plain values: None, bool, int, float, Decimal, str, list and dict."""
    if rows.num_columns == 0:
        return
    for batch in rows.to_batches(max_chunksize=_CHUNK_ROWS):
        yield from zip(*(_values(column) for column in batch.columns), strict=True)


def _values(column: pa.Array) -> list[Any]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _moments(column, "Z" if getattr(kind, "tz", None) else "")
    if pa.types.is_nested(kind) or pa.types.is_time(kind) or pa.types.is_dictionary(kind):
        return [_plain(value) for value in column.to_pylist()]
    if pa.types.is_binary(kind) or pa.types.is_interval(kind):
        return [_plain(value) for value in column.to_pylist()]
    return column.to_pylist()  # type: ignore[no-any-return]


def _moments(column: pa.Array, zone: str) -> list[str | None]:
    """Times and dates, of any year and in any precision; Python's own know neither."""
    import numpy as np
    import pyarrow as pa

    unit = "D" if pa.types.is_date(column.type) else column.type.unit
    whole = column.cast(pa.timestamp("s")).cast(pa.int64()) if unit == "D" else column.cast(pa.int64())
    numbers = whole.fill_null(0).to_numpy()
    if unit == "D":
        numbers = numbers // 86400
    texts = np.datetime_as_string(numbers.view(f"datetime64[{unit}]")).tolist()
    return [
        None if null else (text.rstrip("0").rstrip(".") if "." in text else text) + zone
        for text, null in zip(texts, column.is_null().to_pylist(), strict=True)
    ]


def _plain(value: Any) -> Any:
    """A value out of Arrow as one of those that `_tuples` promises."""
    match value:
        case None | bool() | int() | float() | Decimal() | str():
            return value
        case datetime():
            text = value.replace(tzinfo=None).isoformat()
            return (text.rstrip("0") if "." in text else text) + ("Z" if value.tzinfo else "")
        case date():
            return value.isoformat()
        case time():
            text = value.isoformat()
            return text.rstrip("0") if "." in text else text
        case bytes():
            return value.hex()
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case (int() as months, int() as days, int() as nanoseconds):
            return f"P{months}M{days}DT{Decimal(nanoseconds).scaleb(-9).normalize():f}S"
        case tuple():
            return [_plain(each) for each in value]
    return str(value)


def _right_aligned(rows: pa.Table) -> list[bool]:
    import pyarrow as pa

    kinds = pa.types
    return [
        kinds.is_integer(field.type) or kinds.is_floating(field.type) or kinds.is_decimal(field.type)
        for field in rows.schema
    ]


def _shown(value: Any) -> str:
    """A value for people: six digits of a number with a fraction are enough."""
    if value is None:
        return "null"
    if isinstance(value, float) and (value == 0 or 1e-4 <= abs(value) < 1e6):
        return f"{value:.6g}"
    return _text(value)


def _text(value: Any) -> str:
    """A value as text, with all its digits."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return _json(value) if isinstance(value, (list, dict)) else str(value)


def _json(value: Any) -> str:
    if isinstance(value, str):
        return _json_text(value)
    if value is None:
        return "null"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "null"
    if isinstance(value, list):
        return f"[{', '.join(map(_json, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_json_text(key)}: {_json(each)}" for key, each in value.items()) + "}"
    return _text(value)


def _json_text(text: str) -> str:
    quoted = encode_basestring(text)
    if text.isprintable():
        return quoted
    # Valid in JSON as they are; but a terminal may act on them, or show nothing.
    return "".join(sign if sign.isprintable() else encode_basestring_ascii(sign)[1:-1] for sign in quoted)
