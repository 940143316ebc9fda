"""Stories from the field that are about results, each generalised to its kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from analytics.refresh import refresh
from sli.schemas import GUARD_DECISIONS, METRIC_INCREASES, PROMPT_EVENTS, RECEIVER_UPTIME, SESSIONS

if TYPE_CHECKING:
    from tests.analytics.segments import EventFolder

Row = dict[str, Any]


def rows_of(folder: EventFolder, table: str, *names: str, **where: Any) -> list[tuple[Any, ...]]:
    found = folder.prompts() if table == "prompts" else folder.table(table)
    rows = [row for row in found if all(row[key] == value for key, value in where.items())]
    return [tuple(row[name] for name in names) for row in rows]


def published(folder: EventFolder, *rows: Row) -> None:
    folder.publish(*rows)
    refresh(folder.directory)


def up(folder: EventFolder, days: Sequence[int]) -> Iterator[Row]:
    """The receiver is up all day but for its last second; one row tells of half a day, at its end."""
    for day in days:
        midnight = datetime(2026, 11, day, tzinfo=UTC)
        noon, end = midnight + timedelta(hours=12), midnight + timedelta(hours=24, seconds=-1)
        for since, until in ((midnight, noon), (noon, end)):
            yield folder.row(RECEIVER_UPTIME, f"{until:%Y-%m-%dT%H:%M:%S}", since=since, until=until)


def test_an_outcome_that_is_missing_or_contradicted_is_never_inferred(folder: EventFolder) -> None:
    pairs = (("success", "unknown"), ("error", "unknown"), ("success", "error"), ("cancelled", "success"))
    published(
        folder,
        *[
            folder.call(
                "2026-11-03T10:00",
                execution,
                status=status,
                contract_violation=(status, execution) == ("success", "error"),
                function_name="ls",
            )
            for status, execution in pairs
        ],
    )
    counts = ("total", "success", "error", "unknown", "executed", "failure_rate", "unknown_ratio")
    # The violating pair counts by its execution; the cancelled one had a success.
    assert rows_of(folder, "sli_daily", *counts, "contract_violations") == [(4, 1, 1, 2, 2, 0.5, 0.5, 1)]
    classes = [("cancelled", 1), ("unclassified", 1)]
    assert rows_of(folder, "failure_classes_daily", "class", "calls") == classes
    # What the rate counts can be looked at by function, though no terminal status names a type.
    errors = rows_of(folder, "function_errors_daily", "function_name", "error_type", "calls")
    assert errors == [("ls", "unknown", 1)]
    assert rows_of(folder, "quality_daily", "contract_bearing") == [(False,)]


def test_every_pair_of_outcomes_counts_by_its_execution_alone(folder: EventFolder) -> None:
    statuses = ("success", "error", "cancelled", "unknown")
    executions = ("success", "error", "cancelled", "not_started", "unknown")
    published(
        folder,
        *[
            folder.call("2026-11-03T10:00", execution, status=status, function_name=f"{status} {execution}")
            for status in statuses
            for execution in executions
        ],
    )
    rates = {"success": 0.0, "error": 1.0}
    assert sorted(
        rows_of(folder, "sli_by_function_daily", "function_name", "total", "failure_rate")
    ) == sorted(
        (f"{status} {execution}", 1, rates.get(execution)) for status in statuses for execution in executions
    )
    shown = ("total", "executed", "failure_rate", "unknown_ratio")
    assert rows_of(folder, "sli_daily", *shown) == [(20, 8, 0.5, 0.2)]


def test_two_warnings_of_one_prompt_are_two_transitions_and_one_prompt(folder: EventFolder) -> None:
    prompt: Row = {"prompt_id": "s########1", "session_id": "s", "owner": "o", "route": "acp_foreground"}
    watched = prompt | {"mode": "shadow"}
    decisions = (("tracked", 1), ("would_warn", 1), ("tracked", 2), ("would_warn", 2))
    published(
        folder,
        # No prompt event, no call: the guard alone tells of it, owner and session through the prompt.
        *[
            folder.row(
                GUARD_DECISIONS, f"2026-11-03T10:0{n}", **watched, decision=name, candidate_ordinal=ordinal
            )
            for n, (name, ordinal) in enumerate(decisions)
        ],
    )
    volumes = ("prompts", "tool_prompts", "guarded_prompts", "prompts_would_warn", "would_warn", "tracked")
    assert rows_of(folder, "shadow_daily", *volumes) == [(1, 0, 1, 1, 2, 2)]
    ratios = ("would_warn_per_1000", "warned_candidates", "went_on_ratio")
    assert rows_of(folder, "shadow_daily", *ratios) == [(1000.0, 2, 0.0)]
    shown = ("prompt_id", "session_id", "owner", "route", "mode")
    assert rows_of(folder, "prompts", *shown) == [("s########1", "s", "o", "acp_foreground", "shadow")]


@pytest.mark.parametrize("kinds", [["start", "start", "end"], ["end"], ["end", "start", "start"]])
def test_session_records_that_do_not_pair_make_no_prompts(folder: EventFolder, kinds: list[str]) -> None:
    ended: Row = {"kind": "interaction", "message_type": "acp_prompt", "turn_status": "ok"}
    ended |= {"prompt_id": "s########1", "session_id": "s"}
    published(
        folder,
        *[folder.row(SESSIONS, "2026-11-03T10:00", kind=kind, session_id="s") for kind in kinds],
        folder.row(SESSIONS, "2026-11-03T10:00", kind="end", session_id="orphan"),
        folder.row(PROMPT_EVENTS, "2026-11-03T10:00", **ended),
    )
    assert rows_of(folder, "prompts", "prompt_id", "turn_status") == [("s########1", "ok")]
    assert rows_of(folder, "shadow_daily", "prompts", "mode") == [(1, "unknown")]


@pytest.mark.parametrize("order", list(permutations(range(3)))[::2])
def test_one_call_with_several_transport_ids_counts_once(folder: EventFolder, order: tuple[int, ...]) -> None:
    call: Row = {"call_id": "c", "prompt_id": "s########1", "session_id": "s"}
    rows = [
        folder.call("2026-11-03T23:59:59", **call, trace_id="t1", span_id="a"),
        folder.call("2026-11-03T23:59:59", **call, trace_id="t2", span_id="b"),
        folder.call("2026-11-04T00:00", **call, trace_id="t3", received_at=datetime(2026, 11, 9, tzinfo=UTC)),
    ]
    for place in order:
        published(folder, rows[place])
    assert rows_of(folder, "sli_daily", "time", "total") == [("2026-11-03T00:00", 1)]
    assert sum(count for (count,) in rows_of(folder, "quality_daily", "provider_duplicates")) == 2
    assert rows_of(folder, "prompts", "calls") == [(1,)]


def test_a_field_that_most_events_of_one_version_lack_shows_for_that_version_only(
    folder: EventFolder,
) -> None:
    old: Row = {"service_version": "0.23.4", "decision": "accept"}
    calls = [folder.call("2026-11-03T10:00", **old) for _ in range(10)]
    calls += [folder.call("2026-11-03T10:00", decision=None if n < 7 else "accept") for n in range(10)]
    published(folder, *calls)
    where: Row = {"event": "tool_calls", "field": "decision"}
    assert rows_of(folder, "field_coverage_daily", "service_version", "events", "present", **where) == [
        ("0.23.4", 10, 10),
        ("0.24.4", 10, 3),
    ]


def test_a_version_that_falls_silent_has_no_rows_and_no_rate_of_zero(folder: EventFolder) -> None:
    calls = [folder.call(f"2026-11-0{day}T10:00") for day in range(1, 8)]
    calls += [folder.call(f"2026-11-0{day}T10:00", service_version="0.25.0") for day in range(1, 4)]
    published(folder, *calls)
    for table in ("sli_daily", "sli_hourly", "quality_daily", "sli_by_route_daily"):
        days = [time[8:10] for (time,) in rows_of(folder, table, "time", service_version="0.25.0")]
        assert days == ["01", "02", "03"]
        assert len(rows_of(folder, table, "time", service_version="0.24.4")) == 7


def test_an_environment_whose_calls_are_suppressed_is_unknown_and_not_good(folder: EventFolder) -> None:
    suppressed: Row = {"environment": "suppressed"}
    watched: Row = {"prompt_id": "s########1", "session_id": "s", "route": "acp_foreground"}
    counted: Row = {"counter": "tool_executions", "execution_status": "error", "increase": 8.0}
    published(
        folder,
        folder.row(GUARD_DECISIONS, "2026-11-03T10:00", **suppressed, **watched, decision="would_stop"),
        folder.row(METRIC_INCREASES, "2026-11-03T10:00", **suppressed, **counted),
        folder.call("2026-11-03T10:00"),
    )
    assert rows_of(folder, "sli_daily", "total", **suppressed) == []
    assert rows_of(folder, "shadow_daily", "tool_prompts", "would_stop", **suppressed) == [(0, 1)]
    # What the producer counted tells that calls were made.
    shown = ("counter", "status", "counted", "stored", "completeness")
    assert rows_of(folder, "completeness_daily", *shown, **suppressed) == [
        ("guard_decisions", "would_stop", None, 1, None),
        ("tool_executions", "error", 8.0, 0, 0.0),
    ]


def test_no_failure_among_many_calls_is_a_rate_with_an_upper_bound(folder: EventFolder) -> None:
    calls = [folder.call("2026-11-03T10:00", owner=f"o{n % 4}", session_id=f"{n}") for n in range(40)]
    published(folder, *calls)
    shown = ("executed", "failure_rate", "failure_rate_low", "clustered_low", "owners", "unknown_ratio")
    assert rows_of(folder, "sli_daily", *shown) == [(40, 0.0, 0.0, 0.0, 4, 0.0)]
    # 3.841459 / 43.841459 over calls; of four owners 1 - 0.025 ** (1 / 4).
    assert rows_of(folder, "sli_daily", "failure_rate_high", "clustered_high") == [
        (pytest.approx(0.0876216, abs=5e-7), pytest.approx(0.6023646, abs=5e-7))
    ]


@pytest.mark.parametrize("statuses", [["cancelled"], ["unknown"], ["cancelled", "unknown", "not_started"]])
def test_without_executed_calls_every_rate_is_null_and_none_is_zero(
    folder: EventFolder, statuses: list[str]
) -> None:
    published(folder, *[folder.call("2026-11-03T10:00", status, owner="o") for status in statuses])
    rates = ("failure_rate", "failure_rate_low", "failure_rate_high", "clustered_low", "clustered_high")
    split = ("by_tool_type_daily", "by_route_daily", "by_function_daily", "hourly", "daily")
    for table in split:
        assert rows_of(folder, f"sli_{table}", "total", "executed", "owners", *rates) == [
            (len(statuses), 0, 0, *[None] * 5)
        ]


def test_a_baseline_without_executed_calls_has_no_rate_and_no_comparison(folder: EventFolder) -> None:
    asked: Row = {"prompt_id": "s########1", "kind": "interaction", "message_type": "acp_prompt"}
    rows = list(up(folder, range(1, 9)))
    for day in range(1, 8):
        for version in ("0.23.4", "0.24.4"):
            at, of_version = f"2026-11-0{day}T10:00", {"service_version": version}
            rows.append(folder.call(at, "cancelled", service_version=version))
            rows.append(folder.row(PROMPT_EVENTS, at, **asked | of_version))
    published(folder, *rows)
    shown = ("status", "total", "executed", "failure_rate", "failure_rate_high", "clustered_high", "daily_sd")
    found = rows_of(folder, "baselines", *shown, window_end=date(2026, 11, 7))
    assert found == [("ok", 7, 0, None, None, None, None)] * 2
    sides = ("function_name", "a", "b", "difference", "low", "high")
    assert rows_of(folder, "comparisons", *sides) == [(None, *[None] * 5), ("read_file", *[None] * 5)]


def test_versions_sort_as_versions_in_every_table(folder: EventFolder) -> None:
    in_order = ["0.9.0", "0.10.0-nightly.20261001", "0.10.0", "0.99.0", "0.100.0", "dev", "unknown"]
    shared: Row = {"prompt_id": "s########1", "session_id": "s"}
    reset: Row = {"decision": "reset", "route": "acp_foreground", "reset_reason": "success"}
    rows = []
    for version in sorted(in_order):
        of_version = shared | {"service_version": version}
        rows.append(folder.call("2026-11-03T10:00", "error", **of_version))
        rows.append(folder.row(GUARD_DECISIONS, "2026-11-03T10:00", **of_version, **reset))
    published(folder, *rows)
    whole = 0
    for name, found in folder.tables().items():
        if found and "version_order" in found[0]:
            versions = list(dict.fromkeys(row["service_version"] for row in found))
            # Some tables are of releases with the contract only.
            assert versions == [each for each in in_order if each in versions], name
            whole += len(versions) == len(in_order)
    assert whole >= 10
    # What is no version is apart, and no release with the contract.
    bearing = dict(rows_of(folder, "quality_daily", "service_version", "contract_bearing"))
    assert [version for version in in_order if bearing[version]] == ["0.99.0", "0.100.0"]


@pytest.mark.parametrize("late_by", [4, 6, 10, 150])
def test_a_day_is_revised_however_late_its_events_are(folder: EventFolder, late_by: int) -> None:
    day = date(2026, 11, 3)
    published(folder, folder.call(f"{day}T10:00"))
    arrival = datetime(2026, 11, 3, 12, tzinfo=UTC) + timedelta(days=late_by)
    published(
        folder,
        folder.call(f"{day}T10:30", "error", received_at=arrival),
        folder.call(f"{day + timedelta(days=late_by)}T12:00", received_at=arrival),
    )
    shown = ("time", "total", "late_after_close", "revision")
    assert rows_of(folder, "quality_daily", *shown)[0] == ("2026-11-03T00:00", 2, 1, 1)
    assert rows_of(folder, "sli_daily", "failure_rate")[0] == (0.5,)
    assert rows_of(folder, "quality_daily", "lateness_max_s")[0] == (late_by * 86_400 + 5400.0,)


def test_a_day_that_the_receiver_slept_through_is_a_gap_and_a_quiet_one_is_not(folder: EventFolder) -> None:
    calls = [folder.call(f"2026-11-0{day}T10:00") for day in (1, 3, 5, 6, 7)]
    published(folder, *up(folder, (1, 2, 3, 5, 6, 7, 8)), *calls)
    assert rows_of(folder, "coverage", "day", "complete", "seconds_not_accepting", "events")[:7] == [
        (date(2026, 11, 1), True, 1.0, 1),
        (date(2026, 11, 2), True, 1.0, 0),
        (date(2026, 11, 3), True, 1.0, 1),
        (date(2026, 11, 4), False, None, 0),
        (date(2026, 11, 5), True, 1.0, 1),
        (date(2026, 11, 6), True, 1.0, 1),
        (date(2026, 11, 7), True, 1.0, 1),
    ]
    assert [time[8:10] for (time,) in rows_of(folder, "sli_daily", "time")] == ["01", "03", "05", "06", "07"]
