"""The commands that show results: which rows, in which words, and what goes where."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sli.schemas import (
    BASELINES,
    COMPARISONS,
    COVERAGE,
    FAILURE_CLASSES_DAILY,
    GUARD_DECISIONS,
    INGEST_COUNTS,
    METRIC_INCREASES,
    PROMPT_EVENTS,
    QUALITY_DAILY,
    RECEIVER_UPTIME,
    REJECTED,
    REJECTIONS_DAILY,
    REPLAY_DAILY,
    SHADOW_DAILY,
    SHADOW_RESETS_DAILY,
    SLI_BY_FUNCTION_DAILY,
    Dataset,
)
from tests.analytics.segments import EventFolder
from tests.toolgauge.conftest import Run

# What a terminal, Markdown, a browser or a spreadsheet would act on, and what nobody sees.
HOSTILE = "\x1b]0;x\x07|*[a](http://e)\u202e\u061c\u200b<b>\x9b1m\n"
FAILING: dict[str, Any] = {
    "function_name": "read_file",
    "error_type": "file_not_found",
    "prompt_id": "s-1########1",
}
WATCHED: dict[str, Any] = {"mode": "shadow", "route": "acp_foreground", "candidate_ordinal": 1}
EVERY = [
    *(("quality", "--show", show) for show in ("signals", "classes", "completeness", "fields")),
    *(("quality", "--show", show) for show in ("rejections", "coverage")),
    ("shadow",),
    ("shadow", "--resets"),
    ("replay",),
    ("replay", "--sweep"),
    ("replay", "--functions"),
    ("replay", "--agreement"),
    ("baseline",),
    ("sli", "--by", "route"),
    ("sli", "--by", "function"),
]


def shown(dataset: Dataset, *more: str) -> list[str]:
    return [*(name for name in dataset.names if name != "version_order"), *more]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.fixture(scope="module")
def writer() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory, writer: duckdb.DuckDBPyConnection) -> Path:
    """One day. Prompt 1: eight failures in two batches, one more, and one too many. Prompt 2 goes well."""
    folder = EventFolder(tmp_path_factory.mktemp("agents") / "data", writer)
    day = "2026-11-30"
    failing = [
        folder.call(f"{day}T10:{minute:02}", "error", session_id="s-1", response_id=f"r{batch}", **FAILING)
        for minute, batch in enumerate([1] * 4 + [2] * 4 + [3] + [4])
    ]
    decisions = [
        folder.row(
            GUARD_DECISIONS, f"{day}T{at}", session_id="s-1", prompt_id="s-1########1", **WATCHED, **what
        )
        for at, what in (
            ("10:03:30", {"decision": "tracked"}),
            ("10:07:30", {"decision": "would_warn"}),
            ("10:08:30", {"decision": "would_stop"}),
        )
    ]
    calm = [
        folder.call(f"{day}T11:00", prompt_id="s-2########1", session_id="s-2", function_name="glob"),
        folder.row(
            GUARD_DECISIONS,
            f"{day}T11:01",
            session_id="s-2",
            prompt_id="s-2########1",
            decision="reset",
            reset_reason="success",
            **WATCHED,
        ),
    ]
    hostile = folder.call(
        f"{day}T12:00",
        "error",
        environment="staging",
        service_version="9",
        function_name=HOSTILE,
        error_type=HOSTILE,
        call_id=None,
        prompt_id=None,
    )
    facts = [
        folder.row(
            METRIC_INCREASES,
            f"{day}T13:00",
            counter="tool_executions",
            execution_status="error",
            increase=20.0,
            value=20.0,
        ),
        folder.row(
            INGEST_COUNTS,
            f"{day}T13:00",
            signal="logs",
            name="x",
            records=12,
            stored=2,
            duplicates=3,
            rejected=7,
        ),
        folder.row(
            REJECTED, f"{day}T13:00", environment="internal", signal="logs", reason="wrong_type", records=7
        ),
    ]
    folder.publish(*failing, *decisions, *calm, hostile, *facts)
    return folder.directory.root


@pytest.fixture(scope="module")
def weeks(tmp_path_factory: pytest.TempPathFactory, writer: duckdb.DuckDBPyConnection) -> Path:
    """Version 0.24.3 for a week, then 0.24.4, in which exit codes other than 0 became failures."""
    folder = EventFolder(tmp_path_factory.mktemp("weeks") / "data", writer)
    rows = []
    for number in range(1, 16):
        day = f"2026-11-{number:02}"
        until = moment(f"{day}T00:00") + timedelta(days=1)
        rows.append(folder.row(RECEIVER_UPTIME, f"{day}T00:00", since=moment(f"{day}T00:00"), until=until))
        if number == 15:
            break
        version = "0.24.3" if number <= 7 else "0.24.4"
        prompt: dict[str, Any] = {
            "prompt_id": f"s########{number}",
            "session_id": "s",
            "service_version": version,
        }
        rows.append(
            folder.row(
                PROMPT_EVENTS,
                f"{day}T10:00",
                kind="interaction",
                message_type="acp_prompt",
                turn_status="ok",
                **prompt,
            )
        )
        for call in range(21):
            failed = version == "0.24.4" and call < 7
            rows.append(
                folder.call(
                    f"{day}T10:{call:02}",
                    "error" if failed else "success",
                    function_name="shell",
                    error_type="exit_code" if failed else None,
                    owner=f"owner-{number % 2} of {version}",
                    **prompt,
                )
            )
    folder.publish(*rows)
    return folder.directory.root


def rows(run: Run, data: Path, *arguments: str) -> Any:
    done = run(*arguments, "--data-dir", str(data), "--format", "json")
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("note: ") for line in done.stderr.splitlines())
    return json.loads(done.stdout)


def values(found: Any, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in found]


def test_quality_shows_signals(toolgauge: Run, agents: Path) -> None:
    found = rows(toolgauge, agents, "quality", "--environment", "internal")
    assert list(found[0]) == shown(QUALITY_DAILY)
    names = ("time", "service_version", "total", "duplicates", "rejected", "completeness", "missing_call_id")
    assert values(found, *names) == [("2026-11-30T00:00:00Z", "0.24.4", 11, 3, 7, 11 / 20, 0)]
    (staging,) = rows(toolgauge, agents, "quality", "--environment", "staging")
    assert (staging["missing_call_id"], staging["completeness"]) == (1, None)
    # "9" is no release.
    assert (found[0]["contract_bearing"], staging["contract_bearing"]) == (True, False)


def test_quality_shows_each_of_its_parts(toolgauge: Run, agents: Path) -> None:
    internal = ("--environment", "internal")
    classes = rows(toolgauge, agents, "quality", "--show", "classes", *internal)
    assert list(classes[0]) == shown(FAILURE_CLASSES_DAILY)
    assert values(classes, "class", "error_type", "calls") == [("execution_failure", "file_not_found", 10)]
    counted = rows(toolgauge, agents, "quality", "--show", "completeness", *internal)
    assert ("tool_executions", "error", 20.0, 10, 0.5) in values(
        counted, "counter", "status", "counted", "stored", "completeness"
    )
    fields = rows(toolgauge, agents, "quality", "--show", "fields", *internal)
    assert ("tool_calls", "response_id", 11, 10) in values(fields, "event", "field", "events", "present")
    rejected = rows(toolgauge, agents, "quality", "--show", "rejections")
    assert rejected == [
        dict(
            zip(
                shown(REJECTIONS_DAILY),
                ("2026-11-30T00:00:00Z", "2026-11-30", "logs", "wrong_type", 7),
                strict=True,
            )
        )
    ]
    coverage = rows(toolgauge, agents, "quality", "--show", "coverage", *internal)
    assert list(coverage[0]) == shown(COVERAGE)
    assert values(coverage, "day", "complete", "events") == [("2026-11-30", False, 11)]


def test_shadow_shows_volumes_and_resets(toolgauge: Run, agents: Path) -> None:
    (row,) = rows(toolgauge, agents, "shadow")
    assert list(row) == shown(SHADOW_DAILY, "note")
    names = ("mode", "supported_host", "prompts", "prompts_would_warn", "prompts_would_stop", "tracked")
    assert values([row], *names) == [("shadow", True, 2, 1, 1, 1)]
    assert (row["would_warn_per_1000"], row["went_on_ratio"], row["calls_saved"]) == (500.0, 1.0, 1)
    assert row["note"] == "volume only"
    (reset,) = rows(toolgauge, agents, "shadow", "--resets")
    assert list(reset) == shown(SHADOW_RESETS_DAILY)
    assert values([reset], "reset_reason", "resets") == [("success", 1)]
    assert (
        "volume only: no model has seen a reminder" in toolgauge("shadow", "--data-dir", str(agents)).stderr
    )


def test_replay_shows_the_guards_thresholds_or_others(toolgauge: Run, agents: Path) -> None:
    names = ("route", "failures", "batches", "prompts_would_warn", "prompts_would_stop", "calls_saved")
    foreground = [("acp_foreground", 8, 2, 1, 1, 1)]
    found = rows(toolgauge, agents, "replay", "--environment", "internal")
    assert list(found[0]) == shown(REPLAY_DAILY)
    assert values(found, *names) == foreground
    # Nine: it is reminded one answer later, and the stop comes too late to save the tenth.
    found = rows(toolgauge, agents, "replay", "--failures", "9", "--environment", "internal")
    assert values(found, *names) == [("acp_foreground", 9, 2, 1, 1, 0)]
    found = rows(toolgauge, agents, "replay", "--failures", "11", "--environment", "internal")
    assert values(found, *names) == [("acp_foreground", 11, 2, 0, 0, 0)]


def test_replay_shows_the_other_tables(toolgauge: Run, agents: Path) -> None:
    sweep = rows(toolgauge, agents, "replay", "--sweep", "--environment", "internal")
    assert len(sweep) == 56
    cells = {(row["failures"], row["batches"]): row["calls_saved"] for row in sweep}
    assert (cells[8, 2], cells[9, 2], cells[11, 2]) == (1, 0, 0)
    functions = rows(toolgauge, agents, "replay", "--functions")
    assert values(functions, "function_name", "error_type", "calls", "would_warn", "would_stop") == [
        ("read_file", "file_not_found", 10, 1, 1)
    ]
    agreement = rows(toolgauge, agents, "replay", "--agreement", "--environment", "internal")
    by_reason = {row["reason"]: (row["agree"], row["replay_only"], row["producer_only"]) for row in agreement}
    assert by_reason["would_warn"] == by_reason["would_stop"] == (1, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--sweep", "--functions"), "choose one"),
        (("--functions", "--agreement"), "choose one"),
        (("--sweep", "--failures", "5"), "--failures and --batches choose"),
        (("--agreement", "--batches", "2"), "at 8 and 2"),
        (("--failures", "17"), "--failures"),
    ],
)
def test_replay_refuses_what_contradicts_itself(
    toolgauge: Run, agents: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = toolgauge("replay", *arguments, "--data-dir", str(agents))
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_baseline_shows_the_latest_of_each_version(toolgauge: Run, weeks: Path) -> None:
    found = rows(toolgauge, weeks, "baseline")
    assert list(found[0]) == shown(BASELINES)
    names = ("service_version", "window_start", "window_end", "status", "complete_days", "executed")
    assert values(found, *names)[-1] == ("0.24.4", "2026-11-08", "2026-11-14", "ok", 7, 147)
    assert found[-1]["failure_rate"] == pytest.approx(49 / 147)
    assert [row["service_version"] for row in found] == ["0.24.3", "0.24.4"]

    every = rows(toolgauge, weeks, "baseline", "--all", "--version", "0.24.4")
    assert [row["window_end"] for row in every] == [f"2026-11-{day:02}" for day in range(8, 15)]
    reasons = [row["reason"] for row in every if row["status"] == "refused"]
    assert len(reasons) == 4
    assert reasons[0] == "1 of 7 complete days have events, at least 5 must"
    (good,) = rows(toolgauge, weeks, "baseline", "--version", "0.24.3", "--until", "2026-11-08")
    assert (good["window_end"], good["status"]) == ("2026-11-07", "ok")


def test_compare_lays_two_baselines_side_by_side(toolgauge: Run, weeks: Path) -> None:
    arguments = ("compare", "0.24.3", "0.24.4", "--environment", "internal", "--data-dir", str(weeks))
    done = toolgauge(*arguments, "--format", "json")
    assert done.returncode == 0
    overall, shell = json.loads(done.stdout)
    assert sorted(overall) == sorted(shown(COMPARISONS, "environment_b"))
    assert (overall["function_name"], overall["a"], overall["b"]) == (None, 0.0, pytest.approx(1 / 3))
    assert overall["difference"] == pytest.approx(1 / 3)
    assert overall["low"] < 1 / 3 < overall["high"]
    assert (shell["function_name"], shell["definition_changed"]) == ("shell", True)
    assert shell["error_types"] == ["exit_code"]
    assert "what counts as a failure has probably changed" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("7", "9", "--environment", "internal"), 2, "A '7' was never reported; there are 0.24.4, 9"),
        (("0.24.4", "0.24.4", "--environment", "nowhere"), 2, "--environment 'nowhere' was never reported"),
        (("0.24.4", "9", "--environment", "internal"), 1, "no baseline of 0.24.4 in internal: "),
    ],
)
def test_compare_says_what_is_missing(
    toolgauge: Run, agents: Path, arguments: tuple[str, ...], status: int, words: str
) -> None:
    done = toolgauge("compare", *arguments, "--data-dir", str(agents))
    assert (done.returncode, done.stdout) == (status, "")
    assert words in done.stderr


def test_compare_says_why_a_baseline_was_refused(toolgauge: Run, weeks: Path, tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        folder = EventFolder(tmp_path / "refused", connection)
        folder.publish(folder.call("2026-11-01T10:00"), folder.call("2026-11-03T10:00"))
    arguments = ("compare", "0.24.4", "0.24.4", "--environment", "internal", "--environment-b", "internal")
    done = toolgauge(*arguments, "--data-dir", str(folder.directory.root))
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no baseline of 0.24.4 in internal: 0 of 7 complete days from 2026-10-" in done.stderr
    assert "the receiver left no record" in done.stderr


def test_sli_by_route_and_by_function_with_top_errors(toolgauge: Run, agents: Path) -> None:
    by_route = rows(toolgauge, agents, "sli", "--by", "route")
    assert values(by_route, "environment", "route", "total", "error") == [
        ("internal", "acp_foreground", 11, 10),
        ("staging", "screen_or_cli", 1, 1),
    ]
    by_function = rows(toolgauge, agents, "sli", "--by", "function")
    assert list(by_function[0]) == shown(SLI_BY_FUNCTION_DAILY, "note", "top_errors")
    assert values(by_function, "function_name", "error", "note", "top_errors") == [
        ("glob", 0, "no failure seen", None),
        ("read_file", 10, None, "file_not_found 10"),
        (HOSTILE, 1, None, f"{HOSTILE} 1"),
    ]


def test_top_errors_are_three_the_most_frequent_first(toolgauge: Run, folder: EventFolder) -> None:
    for error, calls in (("d", 1), ("b", 2), ("c", 2), ("a", 3)):
        for call in range(calls):
            folder.publish(folder.call(f"2026-11-30T10:{call:02}", "error", error_type=error))
    (row,) = rows(toolgauge, folder.directory.root, "sli", "--by", "function")
    assert row["top_errors"] == "a 3, b 2, c 2"


@pytest.mark.parametrize("command", EVERY, ids=" ".join)
def test_every_format(toolgauge: Run, agents: Path, command: tuple[str, ...]) -> None:
    data = ("--data-dir", str(agents))
    done = {kind: toolgauge(*command, *data, "--format", kind) for kind in ("json", "csv", "md", "table")}
    assert {each.returncode for each in done.values()} == {0}
    found = json.loads(done["json"].stdout)
    head, *body = csv.reader(io.StringIO(done["csv"].stdout, newline=""))
    assert len(body) == len(found)
    if found:
        assert head == list(found[0])
    markdown = done["md"].stdout.splitlines()
    assert len(markdown) == len(found) + 2
    assert len({_columns(line) for line in markdown}) == 1
    table = done["table"].stdout.splitlines()
    assert len(table) == len(found) + 2
    # A screen is narrower: some columns are left to JSON and CSV.
    assert _columns(markdown[0]) <= len(head) + 1
    for kind in ("json", "md", "table"):
        assert all(sign == "\n" or sign.isprintable() for sign in done[kind].stdout)
    for each in done.values():
        assert all(line.startswith("note: ") for line in each.stderr.splitlines())
    assert "<b>" not in done["md"].stdout
    assert not re.search(r"(?<!\\)\](?=\()", done["md"].stdout)
    assert "http://" not in done["md"].stdout


def _columns(line: str) -> int:
    return line.replace("\\\\", "").replace("\\|", "").count("|")


@pytest.mark.parametrize("command", [each for each in EVERY if "rejections" not in each], ids=" ".join)
def test_an_unknown_name_is_refused_and_the_known_ones_are_named(
    toolgauge: Run, agents: Path, command: tuple[str, ...]
) -> None:
    for named in (("nowhere",), ("internal", "nowhere")):
        options = [option for name in named for option in ("--environment", name)]
        done = toolgauge(*command, *options, "--data-dir", str(agents))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "error: --environment 'nowhere' was never reported; there are internal, staging\n"
        )
    if "coverage" not in command:
        done = toolgauge(*command, "--version", "9.9\u202e", "--data-dir", str(agents))
        assert (done.returncode, done.stdout) == (2, "")
        assert "--version '9.9\\u202e' was never reported; there are 0.24.4, 9" in done.stderr


def test_what_cannot_be_filtered_is_not_filtered_in_silence(toolgauge: Run, agents: Path) -> None:
    for show, option in (
        ("rejections", "--environment"),
        ("rejections", "--version"),
        ("coverage", "--version"),
    ):
        done = toolgauge("quality", "--show", show, option, "internal", "--data-dir", str(agents))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: {option} cannot be used here")


@pytest.mark.parametrize("command", EVERY, ids=" ".join)
def test_a_window_without_data_is_an_empty_array_and_a_note(
    toolgauge: Run, agents: Path, command: tuple[str, ...]
) -> None:
    window = ("--since", "2026-01-01", "--until", "2026-02-01")
    done = toolgauge(*command, *window, "--data-dir", str(agents), "--format", "json")
    assert (done.returncode, json.loads(done.stdout)) == (0, [])
    assert "no data match" in done.stderr


def test_windows_hold_what_starts_in_them(toolgauge: Run, weeks: Path) -> None:
    window = ("--since", "2026-11-08", "--until", "2026-11-09")
    for command, column in ((("quality",), "time"), (("quality", "--show", "coverage"), "day")):
        found = rows(toolgauge, weeks, *command, *window)
        assert {row[column][:10] for row in found} == {"2026-11-08"}
    found = rows(toolgauge, weeks, "baseline", "--all", "--version", "0.24.4", *window)
    assert [date.fromisoformat(row["window_end"]).day for row in found] == [8]


@pytest.mark.parametrize(
    "command", [*EVERY, ("sli",), ("sql", "SELECT 1 AS n"), ("refresh",), ("report",)], ids=" ".join
)
def test_a_damaged_segment_is_named_and_the_rest_is_shown(
    toolgauge: Run, folder: EventFolder, command: tuple[str, ...]
) -> None:
    folder.publish(folder.call("2026-11-03T10:00"))
    folder.publish(folder.call("2026-11-10T10:00"), folder.call("2026-11-12T10:00"))
    path = folder.path(folder.segments[0])
    path.write_bytes(b"PAR1")
    waits = [()] if command == ("refresh",) else [(), ("--no-wait",)]
    for options in waits:
        done = toolgauge(*command, *options, "--data-dir", "data")
        assert done.returncode == 0
        assert done.stderr.count("the results are incomplete: published events cannot be read") == 1
        assert str(path.relative_to(folder.directory.root)) in done.stderr
    done = toolgauge("sli", "--data-dir", "data", "--format", "json")
    assert [row["time"][:10] for row in json.loads(done.stdout)] == ["2026-11-10", "2026-11-12"]


def test_a_repaired_segment_is_in_what_is_shown_next(program: Run, folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:00"))
    folder.publish(folder.call("2026-11-10T10:00"))
    path = folder.path(folder.segments[0])
    content = path.read_bytes()
    path.unlink()
    shown = ("sli", "--data-dir", "data", "--format", "json")
    done = program(*shown)
    assert (done.returncode, len(json.loads(done.stdout))) == (0, 1)
    assert "restart it: it writes them again from its store" in done.stderr
    path.write_bytes(content)
    done = program(*shown)
    assert (done.returncode, done.stderr, len(json.loads(done.stdout))) == (0, "", 2)
