"""Rows are written so that what reads them gets what was there, and a terminal gets text only."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import pty
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolgauge.output import OutputFormat, printable, write_rows

HOSTILE = [
    "[red]",
    "<script>alert(1)</script>",
    "a|b",
    "\x1b[31mred",
    "two\nlines",
    "\u202egnp.exe",
    "x\x9b2Jy",
    "\0",
]


def written(rows: pa.Table, format: OutputFormat) -> str:
    out = io.StringIO()
    write_rows(rows, format, out)
    return out.getvalue()


def on_a_terminal(rows: pa.Table, columns: int = 200) -> str:
    """What `write_rows` writes to a terminal of so many columns."""
    master, slave = pty.openpty()
    out = io.TextIOWrapper(io.FileIO(slave, "w"), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("TERM", "xterm-256color")
        patch.delenv("NO_COLOR", raising=False)
        write_rows(rows, OutputFormat.TABLE, out)
    text = os.read(master, 1024 * 1024).decode()
    out.close()
    os.close(master)
    return text


def query(sql: str) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql(sql).to_arrow_table()


def test_every_type_has_a_form_in_json() -> None:
    rows = query(
        """
        SELECT
            TIMESTAMPTZ '2026-10-01 00:00:00+00' AS whole,
            TIMESTAMPTZ '2026-10-01 02:00:00.120000+02' AS fraction,
            TIMESTAMP '2026-10-01 00:00:00' AS without_zone,
            TIMESTAMP_NS '2026-10-01 00:00:00.123456789' AS nanoseconds,
            DATE '2026-10-01' AS day,
            DATE '20260-01-01' AS far,
            TIME '01:02:03.5' AS clock,
            INTERVAL '1 month 2 days 3.5 seconds' AS span,
            'e1a5d1c1-0000-4000-8000-000000000001'::UUID AS uuid,
            9007199254740993 AS beyond_double,
            170141183460469231731687303715884105727::HUGEINT / 1 AS huge,
            sum(7::BIGINT) AS total,
            1.50::DECIMAL(10, 2) AS exact,
            0.1::DOUBLE AS rate,
            'nan'::DOUBLE AS nan,
            '-inf'::DOUBLE AS infinite,
            NULL AS nothing,
            true AS yes,
            'a'::ENUM ('a', 'b') AS word,
            'ab'::BLOB AS bytes,
            [1, NULL] AS list,
            {'at': TIMESTAMPTZ '2026-10-01 00:00:00+00', 'x': 'y'} AS struct
        """
    )
    text = written(rows, OutputFormat.JSON)
    (row,) = json.loads(text, parse_float=Decimal, parse_constant=pytest.fail)
    assert row == {
        "whole": "2026-10-01T00:00:00Z",
        "fraction": "2026-10-01T00:00:00.12Z",
        "without_zone": "2026-10-01T00:00:00",
        "nanoseconds": "2026-10-01T00:00:00.123456789",
        "day": "2026-10-01",
        "far": "20260-01-01",
        "clock": "01:02:03.5",
        "span": "P1M2DT3.5S",
        "uuid": "e1a5d1c1-0000-4000-8000-000000000001",
        "beyond_double": 9007199254740993,
        "huge": Decimal(repr(170141183460469231731687303715884105727 / 1)),
        "total": 7,
        "exact": Decimal("1.50"),
        "rate": Decimal("0.1"),
        "nan": None,
        "infinite": None,
        "nothing": None,
        "yes": True,
        "word": "a",
        "bytes": "6162",
        "list": [1, None],
        "struct": {"at": "2026-10-01T00:00:00Z", "x": "y"},
    }


def test_no_rows() -> None:
    rows = pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())})
    assert json.loads(written(rows, OutputFormat.JSON)) == []
    assert written(rows, OutputFormat.CSV) == "a,b\r\n"
    assert written(rows, OutputFormat.MD) == "| a | b |\n| ---: | --- |\n"
    assert written(rows, OutputFormat.TABLE) == "a  b\n-  -\n"


def test_columns_of_one_name_are_all_written() -> None:
    rows = query("SELECT 1 AS a, 2 AS a, 3 AS a_2")
    assert json.loads(written(rows, OutputFormat.JSON)) == [{"a": 1, "a_3": 2, "a_2": 3}]
    assert written(rows, OutputFormat.CSV) == "a,a,a_2\r\n1,2,3\r\n"


_VALUES = {
    "text": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]))),
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "number": (pa.float64(), st.floats()),
    "flag": (pa.bool_(), st.booleans()),
    "moment": (
        pa.timestamp("us", "UTC"),
        st.datetimes(timezones=st.just(UTC)).map(lambda value: value.replace(fold=0)),
    ),
    "day": (pa.date32(), st.dates()),
    "clock": (pa.time64("us"), st.times().map(lambda value: value.replace(fold=0))),
}
_ROWS = st.lists(st.fixed_dictionaries({k: st.none() | v for k, (_, v) in _VALUES.items()}), max_size=5)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema([(name, kind) for name, (kind, _) in _VALUES.items()]))


@given(_ROWS)
@settings(deadline=None, max_examples=100)
def test_json_gives_everything_back(rows: list[dict[str, Any]]) -> None:
    read = json.loads(written(table(rows), OutputFormat.JSON), parse_constant=pytest.fail)
    parsers = {"moment": datetime.fromisoformat, "day": date.fromisoformat, "clock": time.fromisoformat}
    for row, expected in zip(read, rows, strict=True):
        for name, value in expected.items():
            found = row[name]
            if isinstance(value, float) and not math.isfinite(value):
                assert found is None
            else:
                assert (found if found is None else parsers.get(name, lambda same: same)(found)) == value


@given(_ROWS)
@settings(deadline=None, max_examples=100)
def test_csv_gives_everything_back(rows: list[dict[str, Any]]) -> None:
    text = written(table(rows), OutputFormat.CSV)
    header, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert header == list(_VALUES)
    parsers: dict[str, Any] = {
        "text": str,
        "whole": int,
        "number": float,
        "flag": lambda text: {"true": True, "false": False}[text],
        "moment": datetime.fromisoformat,
        "day": date.fromisoformat,
        "clock": time.fromisoformat,
    }
    for line, expected in zip(lines, rows, strict=True):
        for name, found in zip(header, line, strict=True):
            value = expected[name]
            if value is None:
                assert found == ""
            else:
                assert repr(parsers[name](found)) == repr(value)


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
@settings(deadline=None, max_examples=100)
def test_csv_of_one_column_keeps_its_rows(values: list[str | None]) -> None:
    text = written(pa.table({"x": pa.array(values, pa.string())}), OutputFormat.CSV)
    lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))[1:]
    assert [line[0] for line in lines] == [value or "" for value in values]


def test_csv_tells_null_from_the_empty_text() -> None:
    rows = pa.table({"a": ["", None], "b": ["x", "y"]})
    assert written(rows, OutputFormat.CSV) == 'a,b\r\n"",x\r\n,y\r\n'


@given(st.text(st.characters(exclude_categories=["Cs"])))
@settings(deadline=None)
def test_what_is_looked_at_is_one_printable_line(text: str) -> None:
    assert printable(text).isprintable()
    if text.isprintable():
        assert printable(text) == text
    rows = pa.table({"x": [text]})
    for format in (OutputFormat.TABLE, OutputFormat.MD):
        lines = written(rows, format).split("\n")
        assert len(lines) == 4
        assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_and_controls_are_shown_and_not_obeyed(text: str) -> None:
    rows = pa.table({"function_name": [text], text: [1]})
    plain = written(rows, OutputFormat.TABLE)
    assert plain.count(printable(text)) == 2
    shown = on_a_terminal(rows)
    assert printable(text) in shown
    assert "\x1b[31m" not in shown
    assert text.isprintable() or text not in shown
    markdown = written(rows, OutputFormat.MD)
    assert "<script>" not in markdown
    assert all(line.replace(r"\|", "").count("|") == 3 for line in markdown.splitlines())
    assert json.loads(written(rows, OutputFormat.JSON))[0]["function_name"] == text
    assert written(rows, OutputFormat.JSON).replace("\n", "").isprintable()


def test_names_are_left_as_they_are_in_markdown() -> None:
    rows = pa.table({"service_version": ["mcp__server__tool", "__init__", "*a* `b` [c](d) \\"]})
    assert written(rows, OutputFormat.MD).splitlines() == [
        "| service_version |",
        "| --- |",
        "| mcp__server__tool |",
        r"| \_\_init\_\_ |",
        r"| \*a\* \`b\` \[c\](d) \\ |",
    ]


def test_a_table_for_people_is_aligned() -> None:
    rows = pa.table({"name": ["漢字", "b", None], "rate": [0.123456789, None, 2.0], "n": [1, 20, 300]})
    assert written(rows, OutputFormat.TABLE).splitlines() == [
        "name      rate    n",
        "----  --------  ---",
        "漢字  0.123457    1",
        "b         null   20",
        "null         2  300",
    ]


def test_colour_is_for_terminals_only() -> None:
    rows = pa.table({"a": [1]})
    assert "\x1b[" in on_a_terminal(rows)
    assert "\x1b[" not in written(rows, OutputFormat.TABLE)


def test_nothing_is_cut_on_a_narrow_terminal() -> None:
    rows = pa.table({name: ["x" * 30] for name in ("first", "second", "third")})
    assert on_a_terminal(rows, columns=40).count("x" * 30) == 3


def test_many_rows_keep_their_order() -> None:
    rows = pa.table({"n": range(25_000)})
    assert [row["n"] for row in json.loads(written(rows, OutputFormat.JSON))] == list(range(25_000))
    assert written(rows, OutputFormat.CSV).splitlines()[1:] == [str(n) for n in range(25_000)]
    assert len(written(rows, OutputFormat.TABLE).splitlines()) == 25_002
