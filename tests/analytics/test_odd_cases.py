"""One small data set with every odd case in it, and what each table says of it: all values by hand.

11-01  two owners with half of the calls each; routes settled by an interaction and by the guard; every
       odd version and environment, with one call each
11-02  repeats, conflicts, contract violations, fields that are missing; nobody's owner
11-03  no data
11-04  routes settled by a finished conversation, and by evidence of the next day that arrives later
       still; an event that arrives days later
11-05  the rest of a prompt that began the day before
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest

from analytics.refresh import refresh
from sli.schemas import (
    GUARD_DECISIONS,
    INGEST_COUNTS,
    METRIC_INCREASES,
    MODEL_CALLS,
    PROMPT_EVENTS,
    RECEIVER_UPTIME,
    REJECTED,
)

if TYPE_CHECKING:
    from tests.analytics.segments import EventFolder

Row = dict[str, Any]

FIRST, SECOND, FOURTH, FIFTH = (f"2026-11-0{day}T00:00" for day in (1, 2, 4, 5))
MAIN = ("internal", "0.24.4")
# With one call each on the first day, in the order in which versions sort.
OTHERS = ("0.9.0", "0.10.0-nightly.20261001", "0.10.0", "0.99.0", "0.100.0", "dev", "unknown")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def first_day(folder: EventFolder) -> list[Row]:
    one: Row = {"prompt_id": "s########1", "session_id": "s", "owner": "o1"}
    two: Row = {"prompt_id": "t########1", "session_id": "t", "owner": "o2"}
    failed: Row = {"function_name": "run_shell", "error_type": "timeout"}
    denied: Row = {"status": "error", "error_type": "permission"}
    other: Row = {"prompt_id": None, "session_id": None, "route": "unknown"}
    watched: Row = {"route": "acp_foreground", "mode": "shadow", "prompt_id": "t########1", "session_id": "t"}
    watched |= {"owner": "o2"}
    seventh: Row = watched | {"prompt_id": "s########7", "session_id": "s", "owner": "o1"}
    day = "2026-11-01T"
    return [
        folder.call(f"{day}10:00", **one),
        folder.call(f"{day}10:05", "error", **one, **failed),
        folder.call(f"{day}10:06", "error", **one, **failed),
        folder.call(f"{day}10:07", **one, tool_type="mcp"),
        *[folder.call(f"{day}11:0{minute}", **two) for minute in range(4)],
        folder.call(f"{day}11:04", "not_started", **two, **denied),
        folder.call(f"{day}11:05", "cancelled", **one),
        folder.call(f"{day}11:06", "unknown", **two, status="error", error_type="unknown"),
        *[
            folder.call(f"{day}12:00", service_version=version, **other)
            for version in OTHERS
            if version != "0.10.0"
        ],
        folder.call(f"{day}12:00", "cancelled", service_version="0.10.0", **other),
        folder.call(f"{day}12:00", "error", environment="unset", error_type="unknown", **other),
        folder.row(
            PROMPT_EVENTS,
            f"{day}09:59:50",
            **one,
            kind="interaction",
            message_type="acp_prompt",
            turn_status="ok",
            duration_ms=600_000.0,
        ),
        *[
            folder.row(MODEL_CALLS, f"{day}10:0{n}", **one, outcome="response", total_tokens=50)
            for n in (0, 5)
        ],
        *[
            folder.row(
                GUARD_DECISIONS, f"{day}11:03", **watched, decision=decision, candidate_ordinal=ordinal
            )
            for decision, ordinal in (("tracked", 1), ("would_warn", 1), ("would_stop", 1), ("tracked", 2))
        ],
        folder.row(
            GUARD_DECISIONS,
            f"{day}11:04",
            **watched,
            decision="reset",
            candidate_ordinal=2,
            reset_reason="success",
        ),
        folder.row(GUARD_DECISIONS, f"{day}13:00", **seventh, decision="tracked", candidate_ordinal=1),
        folder.row(
            GUARD_DECISIONS,
            f"{day}13:01",
            **seventh,
            decision="reset",
            candidate_ordinal=1,
            reset_reason="external_input",
        ),
        *[
            folder.row(
                METRIC_INCREASES,
                f"{day}12:00",
                counter="tool_executions",
                execution_status=status,
                increase=increase,
            )
            for status, increase in (("success", 5.0), ("success", 3.0), ("error", 2.0))
        ],
        folder.row(
            METRIC_INCREASES, f"{day}12:00", counter="guard_decisions", decision="tracked", increase=3.0
        ),
        folder.row(METRIC_INCREASES, f"{day}12:00", counter="tokens", type="input", increase=100.0),
        folder.row(RECEIVER_UPTIME, f"{day}23:00", since=utc("2026-11-01"), until=utc(f"{day}23:00")),
    ]


def second_day(folder: EventFolder) -> list[Row]:
    day = "2026-11-02T"
    shared: Row = {"prompt_id": "u########1", "session_id": "u", "owner": None}
    twice, conflict = shared | {"call_id": "twice"}, shared | {"call_id": "conflict"}
    edit: Row = {"function_name": "edit", "error_type": "invalid"}
    return [
        folder.call(f"{day}10:00", **twice),
        folder.call(f"{day}10:01", **twice),
        # The first executed outcome counts, not the first row.
        folder.call(f"{day}10:01", "not_started", **conflict, status="error", error_type="validation"),
        folder.call(f"{day}10:02", "error", **conflict, **edit),
        folder.call(f"{day}10:03", **conflict),
        folder.call(f"{day}10:04", "error", **shared, status="success", contract_violation=True),
        folder.call(
            f"{day}10:05",
            "cancelled",
            **shared | {"call_id": None},
            status="success",
            contract_violation=True,
        ),
        folder.call(
            f"{day}10:06",
            **shared,
            status="error",
            error_type="hook",
            response_id="r",
            time_source="observed",
        ),
        folder.call(f"{day}10:07", **shared | {"prompt_id": None}, status="cancelled", route="unknown"),
        folder.row(METRIC_INCREASES, f"{day}12:00", counter="tool_executions", increase=12.0),
        *[
            folder.row(
                INGEST_COUNTS,
                f"{day}{time}",
                service_version=version,
                signal="logs",
                name="qwen-code.tool_call",
                records=9,
                stored=2,
                duplicates=duplicates,
                rejected=1,
            )
            for time, version, duplicates in (
                ("10:00", "0.24.4", 4),
                ("11:00", "0.24.4", 2),
                ("10:00", "dev", 9),
            )
        ],
        *[
            folder.row(REJECTED, f"{day}{time}", signal=signal, reason=reason, records=records)
            for time, signal, reason, records in (
                ("10:00", "logs", "too_long", 1),
                ("11:00", "logs", "too_long", 1),
                ("11:00", "logs", "impossible_time", 1),
                ("11:00", "metrics", "wrong_shape", 40),
            )
        ],
        folder.row(
            RECEIVER_UPTIME, f"{day}23:59:59", since=utc("2026-11-01T23:00:30"), until=utc(f"{day}23:59:59")
        ),
    ]


CROSSING: Row = {"prompt_id": "w########1", "session_id": "w", "owner": "o1"}


def fourth_day(folder: EventFolder) -> list[Row]:
    day = "2026-11-04T"
    told: Row = {"prompt_id": "v########1", "session_id": "v", "owner": "o3"}
    return [
        folder.call(f"{day}10:00", **told, trace_id="trace"),
        folder.row(PROMPT_EVENTS, f"{day}10:00", **told, trace_id="trace", kind="user_prompt"),
        folder.row(PROMPT_EVENTS, f"{day}10:01", trace_id="trace", kind="conversation_finished"),
        *[
            folder.call(f"{day}10:02", status, prompt_id=prompt_id, session_id="v", owner=None, route=route)
            for prompt_id, route, status in (
                ("v#explore-call1#0", "subagent", "success"),
                ("v#explore-call1#0", "subagent", "error"),
                ("v########1/automatic/1", "automatic", "success"),
                ("ab12", "unknown", "success"),
                ("x########1", "screen_or_cli", "error"),
            )
        ],
        folder.row(
            PROMPT_EVENTS,
            f"{day}10:02",
            prompt_id="x########1",
            session_id="x",
            kind="interaction",
            message_type="userQuery",
            turn_status="cancelled",
            duration_ms=1.0,
        ),
        folder.call(f"{day}23:58", "error", **CROSSING, error_type="timeout"),
        folder.row(
            RECEIVER_UPTIME, f"{day}12:00", since=utc("2026-11-04T00:00:01"), until=utc(f"{day}12:00")
        ),
        folder.row(
            RECEIVER_UPTIME,
            "2026-11-05T00:04",
            since=utc(f"{day}12:00:59.5"),
            until=utc("2026-11-05T00:04"),
        ),
    ]


def what_comes_later(folder: EventFolder) -> list[Row]:
    watched = CROSSING | {"route": "acp_foreground", "mode": "warn"}
    arrived: Row = {"received_at": utc("2026-11-05T00:10")}
    day = "2026-11-05T"
    return [
        folder.call(f"{day}00:06", **CROSSING, **arrived),
        *[
            folder.row(
                GUARD_DECISIONS,
                f"{day}00:05",
                **watched,
                **arrived,
                decision=decision,
                candidate_ordinal=1,
                reset_reason=reason,
            )
            for decision, reason in (("tracked", None), ("warned", None), ("reset", "unreliable_input"))
        ],
        # An hour and a second after the end of its day.
        folder.call(
            "2026-11-04T10:02",
            prompt_id="ab12",
            route="unknown",
            session_id="v",
            owner=None,
            received_at=utc("2026-11-05T01:00:01"),
        ),
    ]


Table = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def results(new_folder: Callable[[], EventFolder]) -> dict[str, list[Row]]:
    folder = new_folder()
    folder.publish(*first_day(folder), *second_day(folder), *fourth_day(folder))
    refresh(folder.directory)
    folder.publish(*what_comes_later(folder))
    refresh(folder.directory)
    names = ("quality_daily", "prompts")
    tables = folder.tables()
    # With the facts of arrival.
    return tables | {names[0]: folder.table(names[0]), names[1]: folder.prompts()}


@pytest.fixture
def table(results: dict[str, list[Row]]) -> Table:
    """The rows of a table, in order, as far as they hold the given values: the columns asked for."""

    def shown(name: str, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
        rows = [row for row in results[name] if all(row[key] == value for key, value in where.items())]
        return [tuple(row[column] for column in columns) for row in rows]

    return shown


KEY = ("environment", "service_version")
COUNTS = ("total", "success", "error", "cancelled", "not_started", "unknown", "executed")
RATE = ("failure_rate", "failure_rate_low", "failure_rate_high")
OWNERS = ("clustered_low", "clustered_high", "owners")


def near(*values: float | None) -> tuple[Any, ...]:
    return tuple(None if value is None else pytest.approx(value, abs=5e-7) for value in values)


def test_sli_hourly(table: Table) -> None:
    where = {"environment": "internal", "service_version": "0.24.4"}
    assert table("sli_hourly", "time", *COUNTS, *RATE, *OWNERS, **where) == [
        ("2026-11-01T10:00", 4, 2, 2, 0, 0, 0, 4, *near(0.5, 0.150039, 0.849961), None, None, 1),
        ("2026-11-01T11:00", 7, 4, 0, 1, 1, 1, 4, *near(0.0, 0.0, 0.489891), None, None, 1),
        ("2026-11-02T10:00", 6, 3, 2, 1, 0, 0, 5, *near(0.4, 0.117621, 0.769276), None, None, 0),
        ("2026-11-04T10:00", 7, 5, 2, 0, 0, 0, 7, *near(0.285714, 0.082219, 0.641066), None, None, 1),
        ("2026-11-04T23:00", 1, 0, 1, 0, 0, 0, 1, *near(1.0, 0.206549, 1.0), None, None, 1),
        ("2026-11-05T00:00", 1, 1, 0, 0, 0, 0, 1, *near(0.0, 0.0, 0.793451), None, None, 1),
    ]


def test_sli_daily(table: Table) -> None:
    # The first day, by owner: 2 of 4 and 0 of 4. The residuals are 1 and -1, so the variance is 2 / 64 over
    # 1 - 2 * 128 / (8 * 32) + 32 / 64 = 1/16; Kish's number is 64 / 32 = 2, t of one degree 12.7062047;
    # q = 12.7062047**2 * (1/16) / (3/16) = 53.8158795; the ends are
    # (0.25 + q/2 -+ root(q * 3/16 + q**2/4)) / (1 + q).
    both = near(0.0011520, 0.9897265)
    # The fourth, by owner: 0 of 1 (o3) and 1 of 1 (o1): the rate is 1/2, the residuals -1/2 and 1/2; the
    # variance 1/2 / 4 over 1 - 2 * 2 / (2 * 2) + 2 / 4 = 1/4, as large as that of a coin: q = t**2.
    fourth = near(0.0015413, 0.9984587)
    assert table("sli_daily", "time", *KEY, *COUNTS, *RATE, *OWNERS) == [
        (FIRST, "internal", "0.9.0", 1, 1, 0, 0, 0, 0, 1, *near(0.0, 0.0, 0.793451), None, None, 0),
        (FIRST, "internal", OTHERS[1], 1, 1, 0, 0, 0, 0, 1, *near(0.0, 0.0, 0.793451), None, None, 0),
        # Only cancelled: no rate at all.
        (FIRST, "internal", "0.10.0", 1, 0, 0, 1, 0, 0, 0, None, None, None, None, None, 0),
        (FIRST, *MAIN, 11, 6, 2, 1, 1, 1, 8, *near(0.25, 0.071479, 0.590725), *both, 2),
        (FIRST, "internal", "0.99.0", 1, 1, 0, 0, 0, 0, 1, *near(0.0, 0.0, 0.793451), None, None, 0),
        (FIRST, "internal", "0.100.0", 1, 1, 0, 0, 0, 0, 1, *near(0.0, 0.0, 0.793451), None, None, 0),
        (FIRST, "internal", "dev", 1, 1, 0, 0, 0, 0, 1, *near(0.0, 0.0, 0.793451), None, None, 0),
        (FIRST, "internal", "unknown", 1, 1, 0, 0, 0, 0, 1, *near(0.0, 0.0, 0.793451), None, None, 0),
        (FIRST, "unset", "0.24.4", 1, 0, 1, 0, 0, 0, 1, *near(1.0, 0.206549, 1.0), None, None, 0),
        (SECOND, *MAIN, 6, 3, 2, 1, 0, 0, 5, *near(0.4, 0.117621, 0.769276), None, None, 0),
        (FOURTH, *MAIN, 8, 5, 3, 0, 0, 0, 8, *near(0.375, 0.136844, 0.694258), *fourth, 2),
        (FIFTH, *MAIN, 1, 1, 0, 0, 0, 0, 1, *near(0.0, 0.0, 0.793451), None, None, 1),
    ]
    assert table("sli_daily", "unknown_ratio", "contract_violations", service_version="0.24.4") == [
        (*near(1 / 11), 0),
        (0.0, 0),
        (0.0, 2),
        (0.0, 0),
        (0.0, 0),
    ]


def test_sli_by_route_daily(table: Table) -> None:
    shown = ("time", "route", "total", "error", "executed")
    assert table("sli_by_route_daily", *shown, environment="internal", service_version="0.24.4") == [
        (FIRST, "acp_foreground", 11, 2, 8),
        (SECOND, "screen_or_cli", 5, 2, 4),
        (SECOND, "unknown", 1, 0, 1),
        (FOURTH, "acp_foreground", 2, 1, 2),
        (FOURTH, "automatic", 1, 0, 1),
        (FOURTH, "screen_or_cli", 1, 1, 1),
        (FOURTH, "subagent", 2, 1, 2),
        (FOURTH, "unknown", 2, 0, 2),
        (FIFTH, "acp_foreground", 1, 0, 1),
    ]


def test_sli_by_tool_type_and_function(table: Table) -> None:
    where = {"time": FIRST, "environment": "internal", "service_version": "0.24.4"}
    assert table("sli_by_tool_type_daily", "tool_type", "total", "failure_rate", **where) == [
        ("mcp", 1, 0.0),
        ("native", 10, *near(2 / 7)),
    ]
    assert table("sli_by_function_daily", "function_name", "total", "failure_rate", **where) == [
        ("read_file", 9, 0.0),
        ("run_shell", 2, 1.0),
    ]


def test_failure_classes_daily(table: Table) -> None:
    assert table("failure_classes_daily", "time", *KEY, "class", "error_type", "calls") == [
        (FIRST, "internal", "0.10.0", "cancelled", None, 1),
        (FIRST, *MAIN, "cancelled", None, 1),
        (FIRST, *MAIN, "denied_before_execution", "permission", 1),
        (FIRST, *MAIN, "execution_failure", "timeout", 2),
        (FIRST, *MAIN, "unclassified", "unknown", 1),
        (FIRST, "unset", "0.24.4", "execution_failure", "unknown", 1),
        (SECOND, *MAIN, "cancelled", None, 1),
        (SECOND, *MAIN, "execution_failure", "invalid", 1),
        (SECOND, *MAIN, "failure_after_execution", "hook", 1),
        (FOURTH, *MAIN, "execution_failure", None, 2),
        (FOURTH, *MAIN, "execution_failure", "timeout", 1),
    ]


def test_function_errors_daily(table: Table) -> None:
    shown = ("time", *KEY, "function_name", "error_type", "calls")
    assert [row for row in table("function_errors_daily", *shown) if row[-1]] == [
        (FIRST, *MAIN, "run_shell", "timeout", 2),
        (FIRST, "unset", "0.24.4", "read_file", "unknown", 1),
        (SECOND, *MAIN, "edit", "invalid", 1),
        # Its terminal status was a success, so that no type is named; the rate counts it all the same.
        (SECOND, *MAIN, "read_file", "unknown", 1),
        (FOURTH, *MAIN, "read_file", "timeout", 1),
        (FOURTH, *MAIN, "read_file", "unknown", 2),
    ]


def test_quality_daily(table: Table) -> None:
    shown = ("total", "stored", "call_conflicts", "provider_duplicates", "duplicates", "rejected")
    where = {"service_version": "0.24.4", "environment": "internal"}
    assert table("quality_daily", "time", *shown, **where) == [
        (FIRST, 11, 11, 0, 0, 0, 0),
        (SECOND, 6, 9, 1, 3, 6, 2),
        (FOURTH, 8, 8, 0, 0, 0, 0),
        (FIFTH, 1, 1, 0, 0, 0, 0),
    ]
    missing = ("missing_call_id", "missing_prompt_id", "missing_response_id", "missing_timestamp")
    assert table("quality_daily", *missing, "contract_violations", **where) == [
        (0, 0, 11, 0, 0),
        (1, 1, 8, 1, 2),
        (0, 0, 8, 0, 0),
        (0, 0, 1, 0, 0),
    ]
    late = ("lateness_max_s", "late_after_close", "revision", "completeness")
    assert table("quality_daily", *late, **where) == [
        (0.0, 0, 0, *near(11 / 10)),
        (0.0, 0, 0, 0.75),
        # 10:02 to 01:00:01 of the next day.
        (53_881.0, 1, 1, None),
        (240.0, 0, 0, None),
    ]
    assert table("quality_daily", "lateness_p50_s", **where)[2] == (0.0,)
    # Of eight, the 95th percentile is the seventh: seven came at once.
    assert table("quality_daily", "lateness_p95_s", **where)[2:] == [
        (0.0,),
        (pytest.approx(240.0, rel=0.01),),
    ]


def test_quality_of_every_version(table: Table) -> None:
    shown = ("time", *KEY, "total", "unknown_ratio", "contract_bearing")
    rows = [row for row in table("quality_daily", *shown) if row[1:3] != MAIN]
    assert rows == [
        (FIRST, "internal", "0.9.0", 1, 0.0, False),
        (FIRST, "internal", "0.10.0-nightly.20261001", 1, 0.0, False),
        (FIRST, "internal", "0.10.0", 1, 0.0, False),
        (FIRST, "internal", "0.99.0", 1, 0.0, True),
        (FIRST, "internal", "0.100.0", 1, 0.0, True),
        (FIRST, "internal", "dev", 1, 0.0, False),
        (FIRST, "internal", "unknown", 1, 0.0, False),
        (FIRST, "unset", "0.24.4", 1, 0.0, True),
        # Records arrived, and no call is stored of them.
        (SECOND, "internal", "dev", 0, None, False),
    ]
    assert table("quality_daily", "duplicates", "rejected", time=SECOND, service_version="dev") == [(9, 1)]
    # One call of eleven does not say.
    assert table("quality_daily", "contract_bearing", environment="internal", service_version="0.24.4") == [
        (False,),
        (True,),
        (True,),
        (True,),
    ]


def test_completeness_daily(table: Table) -> None:
    shown = ("counter", "status", "counted", "stored", "completeness")
    where = {"environment": "internal", "service_version": "0.24.4"}
    assert table("completeness_daily", *shown, time=FIRST, **where) == [
        ("guard_decisions", "reset", None, 2, None),
        ("guard_decisions", "tracked", 3.0, 3, 1.0),
        ("guard_decisions", "would_stop", None, 1, None),
        ("guard_decisions", "would_warn", None, 1, None),
        ("tool_calls", "cancelled", None, 1, None),
        ("tool_calls", "error", None, 4, None),
        ("tool_calls", "success", None, 6, None),
        ("tool_executions", "cancelled", None, 1, None),
        ("tool_executions", "error", 2.0, 2, 1.0),
        ("tool_executions", "not_started", None, 1, None),
        ("tool_executions", "success", 8.0, 6, 0.75),
        ("tool_executions", "unknown", None, 1, None),
    ]
    # The counter has no label: rows of repeats are counted by it as well.
    assert table("completeness_daily", *shown, time=SECOND, counter="tool_executions", **where) == [
        ("tool_executions", "all", 12.0, 9, 0.75),
    ]
    assert {row[2:] for row in table("completeness_daily", *shown, time=FIRST, service_version="dev")} == {
        (None, 1, None)
    }
    # Tokens are counted, and are no events.
    assert not table("completeness_daily", "time", counter="tokens")


def test_field_coverage_daily(table: Table) -> None:
    where = {"environment": "internal", "service_version": "0.24.4"}

    def present(event: str, field: str) -> list[tuple[Any, ...]]:
        shown = ("time", "events", "present")
        return table("field_coverage_daily", *shown, event=event, field=field, **where)

    assert present("tool_calls", "owner") == [(FIRST, 11, 11), (SECOND, 9, 0), (FOURTH, 8, 2), (FIFTH, 1, 1)]
    assert present("tool_calls", "call_id")[1] == (SECOND, 9, 8)
    assert present("tool_calls", "response_id")[1] == (SECOND, 9, 1)
    assert present("tool_calls", "trace_id")[2] == (FOURTH, 8, 1)
    assert present("guard_decisions", "reset_reason") == [(FIRST, 7, 2), (FIFTH, 3, 1)]
    assert present("model_calls", "total_tokens") == [(FIRST, 2, 2)]
    assert present("prompt_events", "prompt_id") == [(FIRST, 1, 1), (FOURTH, 3, 2)]
    # What every row has is no optional field.
    assert present("tool_calls", "event_id") == present("prompt_events", "kind") == []


def test_rejections_daily(table: Table) -> None:
    assert table("rejections_daily", "time", "day", "signal", "reason", "records") == [
        (SECOND, date(2026, 11, 2), "logs", "impossible_time", 1),
        (SECOND, date(2026, 11, 2), "logs", "too_long", 2),
        (SECOND, date(2026, 11, 2), "metrics", "wrong_shape", 40),
    ]


def test_shadow_daily(table: Table) -> None:
    group = ("time", *KEY, "mode", "supported_host")
    assert table("shadow_daily", *group, "prompts", "tool_prompts", "guarded_prompts") == [
        (FIRST, *MAIN, "shadow", True, 3, 2, 2),
        (FOURTH, *MAIN, "unknown", True, 1, 1, 0),
        # It began on the fourth; its guard records are of the fifth.
        (FOURTH, *MAIN, "warn", False, 1, 1, 1),
    ]
    prompts = ("prompts_would_warn", "prompts_warned", "prompts_would_stop", "prompts_stopped")
    assert table("shadow_daily", *prompts) == [(1, 0, 1, 0), (0, 0, 0, 0), (0, 1, 0, 0)]
    transitions = ("tracked", "would_warn", "warned", "would_stop", "stopped")
    assert table("shadow_daily", *transitions) == [(3, 1, 0, 1, 0), (0, 0, 0, 0, 0), (1, 0, 1, 0, 0)]
    ratios = ("would_warn_per_1000", "would_stop_per_1000", "warned_candidates", "went_on", "went_on_ratio")
    assert table("shadow_daily", *ratios) == [
        (*near(1000 / 3, 1000 / 3), 1, 1, 1.0),
        (0.0, 0.0, 0, 0, None),
        (0.0, 0.0, 1, 0, 0.0),
    ]


def test_shadow_resets_daily(table: Table) -> None:
    assert table("shadow_resets_daily", "time", "mode", "supported_host", "reset_reason", "resets") == [
        (FIRST, "shadow", True, "external_input", 1),
        (FIRST, "shadow", True, "success", 1),
        (FOURTH, "warn", False, "unreliable_input", 1),
    ]


def test_prompts(table: Table) -> None:
    shown = ("prompt_id", "day", "route", "owner", "mode", "supported_host", "turn_status")
    first, second, fourth = (date(2026, 11, day) for day in (1, 2, 4))
    foreground = "acp_foreground"
    assert table("prompts", *shown) == [
        ("s########1", first, foreground, "o1", "shadow", True, "ok"),
        ("s########7", first, foreground, "o1", "shadow", True, "unfinished"),
        ("t########1", first, foreground, "o2", "shadow", True, "unfinished"),
        ("u########1", second, "screen_or_cli", None, None, None, "unfinished"),
        ("ab12", fourth, "unknown", None, None, None, None),
        ("v########1", fourth, foreground, "o3", "unknown", True, "unfinished"),
        ("v########1/automatic/1", fourth, "automatic", None, None, None, None),
        ("v#explore-call1#0", fourth, "subagent", None, None, None, None),
        ("w########1", fourth, foreground, "o1", "warn", False, "unfinished"),
        ("x########1", fourth, "screen_or_cli", None, None, None, "cancelled"),
    ]
    measured = ("started", "ended", "duration_ms", "rounds", "tokens", "calls", "revision")
    assert table("prompts", *measured, prompt_id="s########1") == [
        (utc("2026-11-01T09:59:50"), utc("2026-11-01T11:05"), 600_000.0, 2, 100, 5, 0)
    ]
    assert table("prompts", *measured, prompt_id="w########1") == [
        (utc("2026-11-04T23:58"), utc("2026-11-05T00:06"), None, 0, 0, 2, 0)
    ]
    # Two of its rows were one call, three another; a sixth carries no prompt.
    assert table("prompts", "calls", prompt_id="u########1") == [(5,)]
    assert table("prompts", "calls", "revision", prompt_id="ab12") == [(2, 1)]


def test_coverage(table: Table) -> None:
    days = [date(2026, 11, day) for day in range(1, 6)]
    shown = ("day", "complete", "seconds_not_accepting", "gaps", "events")
    assert table("coverage", *shown, environment="internal") == [
        # 23:00 to 23:00:30.
        (days[0], True, 30.0, 1, 11 + 7),
        (days[1], True, 1.0, 1, 9),
        # Nothing is known of it, and it is there.
        (days[2], False, None, None, 0),
        # One second at the beginning, 59.5 at noon.
        (days[3], False, 60.5, 2, 8),
        # Not over.
        (days[4], False, pytest.approx(3361.0), 1, 1),
    ]
    assert table("coverage", "day", "complete", "events", environment="unset") == [
        (days[0], True, 1),
        (days[1], True, 0),
        (days[2], False, 0),
        (days[3], False, 0),
        (days[4], False, 0),
    ]
