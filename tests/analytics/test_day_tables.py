"""The tables of a day on a small data set that holds every odd case, with rows written by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from analytics.refresh import refresh
from sli.schemas import (
    GUARD_DECISIONS,
    INGEST_COUNTS,
    METRIC_INCREASES,
    MODEL_CALLS,
    PROMPT_EVENTS,
    REJECTED,
)

if TYPE_CHECKING:
    from tests.analytics.segments import EventFolder

DAY = "2026-11-03"


def of(folder: EventFolder, table: str, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
    """The columns of the rows that match, in the order in which they lie."""
    rows = folder.table(table)
    return [
        tuple(row[name] for name in columns)
        for row in rows
        if all(row[name] == value for name, value in where.items())
    ]


def prompt(number: int, session: str = "s") -> dict[str, Any]:
    return {"session_id": session, "prompt_id": f"{session}########{number}"}


def guard(folder: EventFolder, time: str, number: int, decision: str, **columns: Any) -> dict[str, Any]:
    facts = {"route": "acp_foreground", "mode": "shadow", "candidate_ordinal": 1}
    return folder.row(GUARD_DECISIONS, f"{DAY}T{time}", decision=decision, **prompt(number) | facts | columns)


def interaction(folder: EventFolder, time: str, number: int, **columns: Any) -> dict[str, Any]:
    facts = {"kind": "interaction", "message_type": "acp_prompt", "turn_status": "ok", "duration_ms": 1000.0}
    return folder.row(PROMPT_EVENTS, f"{DAY}T{time}", **prompt(number) | facts | columns)


def test_owners_with_half_of_all_calls_widen_the_interval(folder: EventFolder) -> None:
    calls = []
    for owner in range(20):
        for number in range(19 if owner == 0 else 1):
            failed = owner == 0 and number < 8
            calls.append(folder.call(f"{DAY}T10:00", "error" if failed else "success", owner=f"o{owner}"))
    folder.publish(*calls, folder.call(f"{DAY}T10:00"))
    refresh(folder.directory)
    ((total, error, owners, low, high, clustered_low, clustered_high),) = of(
        folder,
        "sli_daily",
        *("total", "error", "owners", "failure_rate_low", "failure_rate_high"),
        *("clustered_low", "clustered_high"),
    )
    assert (total, error, owners) == (39, 8, 20)
    # The interval over calls takes eight failures of one owner for eight pieces of news.
    assert clustered_high - clustered_low > 1.5 * (high - low)
    assert 0 <= clustered_low < 8 / 38 < clustered_high <= 1


def test_no_failure_has_the_exact_bound_of_as_many_trials_as_owners(folder: EventFolder) -> None:
    folder.publish(*[folder.call(f"{DAY}T10:00", owner=f"o{n % 10}") for n in range(1000)])
    refresh(folder.directory)
    ((rate, low, high),) = of(folder, "sli_daily", "failure_rate", "clustered_low", "clustered_high")
    assert (rate, low) == (0.0, 0.0)
    assert high == pytest.approx(1 - 0.025 ** (1 / 10), abs=1e-12)


def test_only_cancelled_and_unknown_calls_have_no_rate(folder: EventFolder) -> None:
    folder.publish(
        folder.call(f"{DAY}T10:00", "cancelled", owner="a"), folder.call(f"{DAY}T10:00", "unknown")
    )
    refresh(folder.directory)
    for table in ("sli_hourly", "sli_daily", "sli_by_route_daily", "sli_by_function_daily"):
        ((total, executed, rate, high, clustered, owners),) = of(
            folder,
            table,
            "total",
            "executed",
            "failure_rate",
            "failure_rate_high",
            "clustered_high",
            "owners",
        )
        assert (total, executed, rate, high, clustered, owners) == (2, 0, None, None, None, 0)


def test_routes_are_settled_by_whatever_evidence_there_is(folder: EventFolder) -> None:
    calls = [folder.call(f"{DAY}T10:00", **prompt(number)) for number in range(6)]
    folder.publish(
        *calls,
        folder.call(f"{DAY}T10:00", route="subagent", prompt_id="s#explore-c#0"),
        interaction(folder, "10:01", 0),
        interaction(folder, "10:01", 1, message_type="userQuery"),
        guard(folder, "10:01", 2, "tracked"),
        folder.row(PROMPT_EVENTS, f"{DAY}T10:01", kind="user_prompt", trace_id="t3", **prompt(3)),
        folder.row(PROMPT_EVENTS, f"{DAY}T10:01", kind="conversation_finished", trace_id="t3"),
        # Of another version, and so of another prompt.
        interaction(folder, "10:01", 4, service_version="0.9.0"),
    )
    refresh(folder.directory)
    assert of(folder, "sli_by_route_daily", "route", "total", service_version="0.24.4") == [
        ("acp_foreground", 3),
        ("screen_or_cli", 3),
        ("subagent", 1),
    ]
    # The evidence for the fifth comes a day later.
    folder.publish(folder.row(PROMPT_EVENTS, "2026-11-04T00:01", **prompt(5) | _ACP))
    refresh(folder.directory)
    assert of(folder, "sli_by_route_daily", "route", "total", service_version="0.24.4")[:2] == [
        ("acp_foreground", 4),
        ("screen_or_cli", 2),
    ]


_ACP = {"kind": "interaction", "message_type": "acp_prompt", "turn_status": "ok", "duration_ms": 1.0}


def test_failure_classes_and_function_errors(folder: EventFolder) -> None:
    folder.publish(
        folder.call(f"{DAY}T10:00", "error", error_type="timeout", function_name="shell"),
        folder.call(f"{DAY}T10:00", "error", error_type="timeout", function_name="shell"),
        folder.call(f"{DAY}T10:00", "not_started", status="error", error_type="plan_mode"),
        folder.call(f"{DAY}T10:00", "success", status="error", error_type="hook"),
        folder.call(f"{DAY}T10:00", "cancelled"),
        # A violation of the contract is a failed execution for the rate, and no terminal failure.
        folder.call(f"{DAY}T10:00", "error", status="success", contract_violation=True),
        folder.call(f"{DAY}T10:00"),
    )
    refresh(folder.directory)
    assert of(folder, "failure_classes_daily", "class", "error_type", "calls") == [
        ("cancelled", None, 1),
        ("denied_before_execution", "plan_mode", 1),
        ("execution_failure", "timeout", 2),
        ("failure_after_execution", "hook", 1),
    ]
    # The types add up to the errors of the rate.
    assert of(folder, "function_errors_daily", "function_name", "error_type", "calls") == [
        ("read_file", "unknown", 1),
        ("shell", "timeout", 2),
    ]
    assert of(folder, "sli_daily", "error", "executed", "contract_violations") == [(3, 5, 1)]


def test_quality(folder: EventFolder) -> None:
    same = {"call_id": "same", **prompt(1)}
    late = datetime(2026, 11, 4, 1, 0, 1, tzinfo=UTC)
    folder.publish(
        folder.call(f"{DAY}T10:00", "error", **same),
        folder.call(f"{DAY}T10:01", "success", **same),
        folder.call(f"{DAY}T10:02", call_id=None, prompt_id=None, time_source="observed"),
        folder.call(f"{DAY}T10:03", response_id="r", received_at=late),
        folder.call(f"{DAY}T10:04", received_at=late - timedelta(seconds=1)),
        folder.call(f"{DAY}T10:05", received_at=late + timedelta(days=1)),
        folder.row(INGEST_COUNTS, f"{DAY}T12:00", duplicates=3, rejected=1, records=9, stored=5),
        folder.row(INGEST_COUNTS, f"{DAY}T13:00", duplicates=2, rejected=0, records=2, stored=0),
        folder.row(REJECTED, f"{DAY}T12:00", signal="logs", reason="too_long", records=1),
    )
    refresh(folder.directory)
    assert of(
        folder,
        "quality_daily",
        *("total", "stored", "call_conflicts", "provider_duplicates", "duplicates", "rejected"),
        *("missing_call_id", "missing_prompt_id", "missing_response_id", "missing_timestamp"),
        *("late_after_close", "revision", "contract_bearing", "completeness"),
    ) == [(5, 6, 1, 1, 5, 1, 1, 1, 5, 1, 2, 2, True, None)]
    assert of(folder, "rejections_daily", "signal", "reason", "records") == [("logs", "too_long", 1)]


@pytest.mark.parametrize(
    ("version", "statuses", "bearing"),
    [
        ("0.24.4", ["success"] * 3, True),
        ("0.24.4", ["success", "unknown"], False),
        ("0.15.10", ["success"] * 3, False),
        ("dev", ["success"] * 3, False),
        ("unknown", ["success"] * 3, False),
    ],
)
def test_versions_that_bear_the_contract(
    folder: EventFolder, version: str, statuses: list[str], bearing: bool
) -> None:
    calls = [folder.call(f"{DAY}T10:00", status, service_version=version) for status in statuses]
    # Beside them another version: each is judged by itself.
    folder.publish(*calls, folder.call(f"{DAY}T10:00", service_version="0.23.4"))
    refresh(folder.directory)
    assert of(folder, "quality_daily", "contract_bearing", service_version=version) == [(bearing,)]
    assert of(folder, "quality_daily", "contract_bearing", service_version="0.23.4") == [(True,)]


def test_completeness_by_counter_and_for_the_version(folder: EventFolder) -> None:
    counter = {"counter": "tool_executions", "execution_status": "success"}
    folder.publish(
        *[folder.call(f"{DAY}T10:00") for _ in range(9)],
        folder.row(METRIC_INCREASES, f"{DAY}T10:00", increase=6.0, **counter),
        folder.row(METRIC_INCREASES, f"{DAY}T11:00", increase=4.0, **counter),
        folder.row(METRIC_INCREASES, f"{DAY}T11:00", increase=500.0, counter="tokens", type="input"),
    )
    refresh(folder.directory)
    assert of(folder, "completeness_daily", "counter", "status", "counted", "stored", "completeness") == [
        ("tool_calls", "success", None, 9, None),
        ("tool_executions", "success", 10.0, 9, 0.9),
    ]
    assert of(folder, "quality_daily", "completeness") == [(0.9,)]


def test_a_field_that_vanishes_with_a_version_shows_for_it_alone(folder: EventFolder) -> None:
    folder.publish(
        *[folder.call(f"{DAY}T10:00", decision="accept", service_version="0.23.4") for _ in range(4)],
        *[folder.call(f"{DAY}T10:00", decision="accept" if n == 0 else None) for n in range(4)],
    )
    refresh(folder.directory)
    assert of(folder, "field_coverage_daily", "service_version", "events", "present", field="decision") == [
        ("0.23.4", 4, 4),
        ("0.24.4", 4, 1),
    ]


def test_shadow_volumes_count_prompts_and_transitions_apart(folder: EventFolder) -> None:
    folder.publish(
        *[interaction(folder, "10:00", number) for number in range(1, 5)],
        *[folder.call(f"{DAY}T10:00", **prompt(number)) for number in (1, 2, 4)],
        # Two candidates of one prompt, each with a reminder; the first goes on to a stop.
        guard(folder, "10:01", 1, "tracked"),
        guard(folder, "10:02", 1, "would_warn"),
        guard(folder, "10:03", 1, "would_stop"),
        guard(folder, "10:04", 1, "would_warn", candidate_ordinal=2),
        guard(folder, "10:05", 2, "reset", reset_reason="mixed"),
        guard(folder, "10:06", 4, "reset", reset_reason="unreliable_input", mode="enforce"),
        # Of another session, without any guard record: nothing tells its mode.
        folder.row(PROMPT_EVENTS, f"{DAY}T10:00", **prompt(1, "z") | _ACP),
    )
    refresh(folder.directory)
    columns = ("prompts", "tool_prompts", "guarded_prompts", "prompts_would_warn", "prompts_would_stop")
    transitions = ("tracked", "would_warn", "would_stop", "warned_candidates", "went_on", "went_on_ratio")
    assert of(folder, "shadow_daily", "mode", "supported_host", *columns, *transitions) == [
        ("enforce", False, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, None),
        # The third has no record of its own, and the mode of its session.
        ("shadow", True, 3, 2, 2, 1, 1, 1, 2, 1, 2, 1, 0.5),
        ("unknown", True, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, None),
    ]
    assert of(folder, "shadow_daily", "would_warn_per_1000", mode="shadow") == [(pytest.approx(1000 / 3),)]
    assert of(folder, "shadow_resets_daily", "mode", "supported_host", "reset_reason", "resets") == [
        ("enforce", False, "unreliable_input", 1),
        ("shadow", True, "mixed", 1),
    ]


def test_prompts_from_their_records(folder: EventFolder) -> None:
    answer = {"outcome": "response", "by_subagent": False, "total_tokens": 100}
    folder.publish(
        folder.row(PROMPT_EVENTS, f"{DAY}T10:00", kind="user_prompt", owner="o", **prompt(1)),
        folder.row(MODEL_CALLS, f"{DAY}T10:01", **answer | prompt(1)),
        folder.row(MODEL_CALLS, f"{DAY}T10:02", **answer | prompt(1) | {"total_tokens": None}),
        folder.row(MODEL_CALLS, f"{DAY}T10:02", **answer | prompt(1) | {"by_subagent": True}),
        folder.row(MODEL_CALLS, f"{DAY}T10:02", **prompt(1) | {"outcome": "error", "total_tokens": 7}),
        folder.call(f"{DAY}T10:03", **prompt(1)),
        interaction(folder, "10:00", 1, duration_ms=600_000.0),
        # A person's prompt whose agent was killed, one that may still go on, and one of a subagent.
        folder.call(f"{DAY}T11:49", **prompt(2)),
        folder.call(f"{DAY}T11:51", **prompt(3)),
        folder.call(f"{DAY}T11:00", prompt_id="s#explore-c#0", route="subagent"),
        # The screen's cancellation carries the id of the prompt that comes next.
        folder.row(MODEL_CALLS, f"{DAY}T11:59", outcome="cancel", **prompt(9)),
        folder.row(INGEST_COUNTS, f"{DAY}T12:00"),
    )
    refresh(folder.directory)
    names = ("prompt_id", "route", "owner", "turn_status", "duration_ms", "rounds", "tokens", "calls")
    assert [tuple(row[name] for name in names) for row in folder.prompts()] == [
        ("s########1", "acp_foreground", "o", "ok", 600_000.0, 2, 200, 1),
        ("s########2", "screen_or_cli", None, "unfinished", None, 0, 0, 1),
        ("s########3", "screen_or_cli", None, "open", None, 0, 0, 1),
        ("s#explore-c#0", "subagent", None, None, None, 0, 0, 1),
    ]
    first = folder.prompts()[0]
    assert (first["started"].hour, first["started"].minute) == (10, 0)
    assert (first["ended"].hour, first["ended"].minute) == (10, 10)


def test_a_prompt_over_midnight_belongs_to_the_day_of_its_first_record(folder: EventFolder) -> None:
    folder.publish(
        folder.call(f"{DAY}T23:59", **prompt(1)),
        folder.call("2026-11-04T00:01", **prompt(1)),
        folder.row(PROMPT_EVENTS, "2026-11-04T00:02", **prompt(1) | _ACP),
    )
    refresh(folder.directory)
    (row,) = folder.prompts()
    assert (str(row["day"]), row["calls"], row["turn_status"]) == (DAY, 2, "ok")
    assert of(folder, "shadow_daily", "time", "prompts") == [(f"{DAY}T00:00", 1)]
    # The calls are counted on their own days.
    assert of(folder, "sli_daily", "time", "total") == [(f"{DAY}T00:00", 1), ("2026-11-04T00:00", 1)]


@pytest.mark.parametrize(
    ("kind", "time", "expected"),
    [
        ("user_retry", "10:10", True),
        ("user_retry", "10:11", False),
        ("interaction", "10:05", True),
        ("user_prompt", "10:05", False),
    ],
)
def test_a_retry_within_ten_minutes(folder: EventFolder, kind: str, time: str, expected: bool) -> None:
    retry = {"kind": kind, "message_type": "retry"} if kind == "interaction" else {"kind": kind}
    folder.publish(
        interaction(folder, "09:59", 1, duration_ms=60_000.0),
        folder.row(PROMPT_EVENTS, f"{DAY}T{time}", **prompt(2) | retry),
    )
    refresh(folder.directory)
    assert folder.prompts()[0]["disconnect_or_retry"] is expected


def test_a_session_whose_guard_speaks_and_whose_calls_are_lost_has_no_rate(folder: EventFolder) -> None:
    folder.publish(guard(folder, "10:00", 1, "tracked"))
    refresh(folder.directory)
    assert folder.table("sli_daily") == []
    assert of(folder, "shadow_daily", "prompts", "tool_prompts", "guarded_prompts") == [(1, 0, 1)]


def test_the_replay_beside_the_agents_own_decisions(folder: EventFolder) -> None:
    answers, calls = [], []
    for batch in range(4):
        minute = 10 + 2 * batch
        answer = {"outcome": "response", "by_subagent": False}
        answers.append(folder.row(MODEL_CALLS, f"{DAY}T10:{minute}", **answer | prompt(1)))
        failure = {"error_type": "timeout", "function_name": "shell", "duration_ms": 1.0}
        calls += [folder.call(f"{DAY}T10:{minute + 1}", "error", **failure | prompt(1)) for _ in range(4)]
    folder.publish(*answers, *calls, interaction(folder, "10:09", 1))
    refresh(folder.directory)
    # Four failures tracked, the second batch makes eight: a reminder; the third stops; the fourth is saved.
    assert of(
        folder,
        "replay_daily",
        "prompts_would_warn",
        "prompts_would_stop",
        "calls_saved",
        failures=8,
        batches=2,
    ) == [(1, 1, 4)]
    assert of(folder, "replay_daily", "prompts_would_warn", failures=9, batches=2) == [(1,)]
    assert of(folder, "replay_daily", "prompts_would_stop", failures=13, batches=2) == [(0,)]
    assert of(folder, "function_errors_daily", "calls", "would_warn", "would_stop") == [(16, 1, 1)]
    assert of(folder, "shadow_daily", "mode", "calls_saved") == [("unknown", 4)]
