"""The program as people and scripts run it."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sli.schemas import SLI_DAILY
from tests.analytics.segments import EventFolder
from tests.toolgauge.conftest import ROOT, Run
from toolgauge.cli import COMMANDS
from toolgauge.exceptions import BadTime
from toolgauge.filters import parse_time

HOSTILE = "\x1b[31m[red]<script>"


@pytest.fixture
def published(folder: EventFolder) -> EventFolder:
    calls = [
        folder.call("2026-11-29T10:00"),
        folder.call("2026-11-30T10:00", service_version="0.9.0"),
        folder.call("2026-11-30T10:00", "error", service_version="0.10.0-nightly.1", function_name=HOSTILE),
        folder.call("2026-11-30T11:00", "not_started", service_version="0.10.0", tool_type="mcp"),
        folder.call("2026-11-30T12:00", environment="staging"),
    ]
    folder.publish(*calls)
    return folder


def rows(run: Run, *arguments: str) -> Any:
    done = run(*arguments, "--format", "json")
    assert done.returncode == 0
    assert all(line.startswith("note: ") for line in done.stderr.splitlines())
    return json.loads(done.stdout)


def test_sli_by_day_is_in_the_order_of_time_environment_and_version(
    toolgauge: Run, published: EventFolder
) -> None:
    found = rows(toolgauge, "sli", "--data-dir", "data")
    assert [(row["time"][:10], row["environment"], row["service_version"]) for row in found] == [
        ("2026-11-29", "internal", "0.24.4"),
        ("2026-11-30", "internal", "0.9.0"),
        ("2026-11-30", "internal", "0.10.0-nightly.1"),
        ("2026-11-30", "internal", "0.10.0"),
        ("2026-11-30", "staging", "0.24.4"),
    ]
    assert list(found[0]) == [*(name for name in SLI_DAILY.names if name != "version_order"), "note"]
    assert found[0]["time"] == "2026-11-29T00:00:00Z"
    assert (found[2]["error"], found[2]["failure_rate"]) == (1, 1.0)
    assert found[3]["failure_rate"] is None
    assert [row["note"] for row in found] == ["no failure seen"] * 2 + [
        None,
        "no executed calls",
        "no failure seen",
    ]


@pytest.mark.parametrize(
    ("by", "column", "expected"),
    [
        ("hour", "time", ["2026-11-30T10:00:00Z", "2026-11-30T11:00:00Z"]),
        ("tool_type", "tool_type", ["native", "mcp"]),
        ("function", "function_name", [HOSTILE, "read_file"]),
    ],
)
def test_sli_by_something_else_and_filtered(
    toolgauge: Run, published: EventFolder, by: str, column: str, expected: list[str]
) -> None:
    found = rows(
        toolgauge,
        *("sli", "--by", by, "--environment", "internal", "--since", "2026-11-30"),
        *("--version", "0.10.0-nightly.1", "--version", "0.10.0"),
    )
    assert [row[column] for row in found] == expected


def test_until_is_exclusive(toolgauge: Run, published: EventFolder) -> None:
    found = rows(toolgauge, "sli", "--until", "2026-11-30T00:00:00Z")
    assert [row["time"] for row in found] == ["2026-11-29T00:00:00Z"]
    found = rows(toolgauge, "sli", "--since", "2026-11-30T01:00:00+02:00", "--until", "2026-12-01")
    assert {row["time"] for row in found} == {"2026-11-30T00:00:00Z"}


def test_results_are_brought_up_to_date_unless_told_not_to(toolgauge: Run, published: EventFolder) -> None:
    total = ("sql", "SELECT coalesce(sum(total), 0)::INT AS n FROM sli_daily")
    assert rows(toolgauge, *total, "--no-wait") == [{"n": 0}]
    assert rows(toolgauge, *total) == [{"n": 5}]


def test_sql_in_every_format(toolgauge: Run, published: EventFolder) -> None:
    query = "SELECT function_name, count(*) AS n FROM tool_calls GROUP BY ALL ORDER BY n"
    assert rows(toolgauge, "sql", query) == [
        {"function_name": HOSTILE, "n": 1},
        {"function_name": "read_file", "n": 4},
    ]
    text = toolgauge("sql", query, "--format", "csv").stdout
    assert list(csv.reader(io.StringIO(text)))[1] == [HOSTILE, "1"]
    table = toolgauge("sql", query).stdout
    assert "\x1b" not in table
    assert r"\x1b[31m[red]<script>" in table
    assert "&lt;script&gt;" in toolgauge("sql", query, "--format", "md").stdout


def test_sql_from_standard_input(toolgauge: Run, published: EventFolder) -> None:
    done = toolgauge(
        "sql", "-", "--format", "csv", stdin="-- how many\nSELECT count(*) AS n FROM tool_calls;\n"
    )
    assert done.stdout.splitlines() == ["n", "5"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("COPY tool_calls TO 'x.csv'", "refused: only SELECT and EXPLAIN"),
        ("SELECT * FROM read_text('data/owner.key')", "refused: read_text"),
        ("SELECT nothing FROM nowhere", "nowhere"),
        ("SELECT", "Error"),
        ("", "no statement"),
    ],
)
def test_sql_that_is_not_answered(toolgauge: Run, published: EventFolder, query: str, words: str) -> None:
    done = toolgauge("sql", query)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_sql_has_limits(toolgauge: Run, published: EventFolder) -> None:
    done = toolgauge("sql", "FROM range(11)", TOOLGAUGE_QUERY_MAX_ROWS="10")
    assert done.returncode == 1
    assert "more than 10 rows" in done.stderr
    done = toolgauge("sql", "SELECT sleep_ms(60000)", TOOLGAUGE_QUERY_TIMEOUT_SECONDS="0.2")
    assert done.returncode == 1
    assert "longer than 0.2 s" in done.stderr


@pytest.mark.parametrize("command", [("sli",), ("sql", "SELECT 1"), ("refresh",), ("rebuild",), ("doctor",)])
def test_no_data_directory(toolgauge: Run, command: tuple[str, ...]) -> None:
    done = toolgauge(*command, "--data-dir", "elsewhere")
    assert done.returncode == 1
    assert "elsewhere" in done.stdout + done.stderr
    assert "--data-dir" in done.stdout + done.stderr


def test_an_empty_data_directory_has_no_rows(toolgauge: Run, folder: EventFolder) -> None:
    folder.directory.root.mkdir()
    empty = toolgauge("sli", "--format", "json")
    assert (empty.returncode, json.loads(empty.stdout)) == (0, [])
    assert "there are no data yet" in empty.stderr
    assert rows(toolgauge, "sql", "FROM tool_calls") == []
    (done,) = rows(toolgauge, "refresh")
    assert done["up_to_date"] is True
    assert list(folder.directory.root.iterdir()) == []


def test_refresh_and_rebuild_say_what_they_did(toolgauge: Run, published: EventFolder) -> None:
    (first,) = rows(toolgauge, "refresh")
    assert (first["computed_through"], first["days"], first["up_to_date"]) == (1, 2, False)
    (second,) = rows(toolgauge, "refresh")
    assert second["up_to_date"] is True
    (again,) = rows(toolgauge, "rebuild")
    assert (again["days"], again["up_to_date"]) == (2, False)


def test_doctor_exits_with_1_if_there_is_a_problem(toolgauge: Run, published: EventFolder) -> None:
    free = {"TOOLGAUGE_GRPC_PORT": "0", "TOOLGAUGE_HTTP_PORT": "0"}
    done = toolgauge("doctor", "--format", "json", **free)
    assert done.returncode == 0
    assert {row["state"] for row in json.loads(done.stdout)} == {"ok", "warning"}
    published.path(published.segments[0]).unlink()
    done = toolgauge("doctor", "--format", "json", **free)
    assert done.returncode == 1
    assert "problem" in {row["state"] for row in json.loads(done.stdout)}


def test_config_says_where_each_setting_came_from(toolgauge: Run) -> None:
    done = toolgauge("config", "--data-dir", "x", "--format", "json", TOOLGAUGE_GRPC_PORT="5")
    found = {row["setting"]: (row["value"], row["origin"]) for row in json.loads(done.stdout)}
    assert found["data_dir"] == ("x", "--data-dir")
    assert found["grpc_port"] == ("5", "TOOLGAUGE_GRPC_PORT")
    assert found["queue_bytes"] == ("128MiB", "default")


def test_common_options_may_stand_before_the_command(toolgauge: Run, published: EventFolder) -> None:
    published.directory.root.rename(published.directory.root.with_name("there"))
    assert len(rows(toolgauge, "--data-dir", "there", "sli")) == 5
    found = rows(toolgauge, "--data-dir", "nowhere", "config", "--data-dir", "there")
    assert found[0]["value"] == "there"


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("sli", "--by", "week"),
        ("sli", "--format", "xml"),
        ("sli", "--since", "yesterday"),
        ("sli", "--since", "2026-01-02", "--until", "2026-01-01"),
        ("sli", "--nonsense"),
        ("sql",),
        ("sql", "SELECT 1", "SELECT 2"),
        ("config", "--config", "nowhere.toml"),
    ],
)
def test_wrong_usage(toolgauge: Run, arguments: tuple[str, ...]) -> None:
    done = toolgauge(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr
    assert "Traceback" not in done.stderr


def test_help_names_every_command(program: Run) -> None:
    done = program("--help")
    assert done.returncode == 0
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)


def test_help_imports_nothing_heavy() -> None:
    code = "import sys, toolgauge.cli; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    heavy = {"duckdb", "pyarrow", "polars", "numpy", "pydantic", "rich", "grpc", "fastapi", "structlog"}
    assert heavy.isdisjoint(done.stdout.split())


def test_the_program_as_a_process(program: Run, published: EventFolder) -> None:
    done = program("sli", "--data-dir", "data", "--format", "json", LANG="C", LC_ALL="C")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(json.loads(done.stdout)) == 5
    done = program("sql", "DROP VIEW tool_calls")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: refused: only SELECT and EXPLAIN are answered, this is DROP\n"


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_examples(toolgauge: Run, command: str) -> None:
    text = toolgauge(command, "--help").stdout
    assert f"\n    toolgauge {command}" in text


def test_a_reader_that_has_enough_is_no_fault(published: EventFolder) -> None:
    command = (
        f"PYTHONPATH={ROOT} {sys.executable} -m toolgauge sql 'FROM range(200000)' --format csv | head -1"
    )
    done = subprocess.run(
        ["sh", "-c", command], cwd=published.directory.root.parent, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "range"
    assert "Traceback" not in done.stderr


NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("2026-10-01", datetime(2026, 10, 1, tzinfo=UTC)),
        ("2026-10-01T06:00:00Z", datetime(2026, 10, 1, 6, tzinfo=UTC)),
        ("2026-10-01T06:00:00.5+02:00", datetime(2026, 10, 1, 4, 0, 0, 500_000, tzinfo=UTC)),
        ("7d", NOW - timedelta(days=7)),
        ("24h", NOW - timedelta(hours=24)),
    ],
)
def test_times_are_understood(text: str | None, expected: datetime | None) -> None:
    assert parse_time("--since", text, NOW) == expected


@pytest.mark.parametrize(
    "text", ["", "now", "2026-13-01", "2026-10-01T06:00:00", "7", "7w", "-7d", "99999999d", "1"]
)
def test_other_times_are_not(text: str) -> None:
    with pytest.raises(BadTime):
        parse_time("--since", text, NOW)


def test_export_says_what_it_wrote(toolgauge: Run, published: EventFolder) -> None:
    done = toolgauge("export", "out", "--dataset", "tool_calls", "--data-dir", "data", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    (row,) = json.loads(done.stdout)
    rows = sum(segment.rows for segment in published.segments)
    assert (row["dataset"], row["rows"]) == ("tool_calls", rows)
    done = toolgauge("export", "out", "--data-dir", "data")
    assert (done.returncode, done.stdout) == (1, "")
    assert "give --overwrite to replace it" in done.stderr
    assert toolgauge("export", "out", "--overwrite", "--data-dir", "data").returncode == 0
    done = toolgauge("export", "out", "--dataset", "calls")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there are tool_calls, " in done.stderr


def test_check_finds_what_is_there_twice(toolgauge: Run, published: EventFolder) -> None:
    done = toolgauge("check", "--data-dir", "data", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert [row["duplicated"] for row in json.loads(done.stdout)] == [0]
    twice = published.call("2026-11-30T10:00")
    published.publish(twice)
    published.publish(twice)
    done = toolgauge("check", "--data-dir", "data", "--format", "json")
    assert done.returncode == 1
    assert [row["duplicated"] for row in json.loads(done.stdout)] == [1]
    assert "1 of tool_calls" in done.stderr
