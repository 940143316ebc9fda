"""Baselines and comparisons over published folders: given, refused with reasons, revised, and not revised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from analytics.published import polars_schema
from analytics.refresh import refresh
from analytics.windows import latest_good
from sli.schemas import (
    BASELINES,
    GUARD_DECISIONS,
    INGEST_COUNTS,
    METRIC_INCREASES,
    MODEL_CALLS,
    PROMPT_EVENTS,
    RECEIVER_UPTIME,
)

if TYPE_CHECKING:
    from tests.analytics.segments import EventFolder

Row = dict[str, Any]


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def november(day: int) -> date:
    return date(2026, 11, day)


def up(
    folder: EventFolder,
    *days: int,
    outages: dict[int, int] | None = None,
    stopped: timedelta = timedelta(),
) -> Iterator[Row]:
    """The receiver is up on these days, but for so many seconds at noon; one row tells of half a day."""
    for day in days:
        midnight, noon = utc(f"2026-11-{day:02}"), utc(f"2026-11-{day:02}T12:00")
        back = noon + timedelta(seconds=(outages or {}).get(day, 0))
        # Such a row is written at its end.
        yield folder.row(RECEIVER_UPTIME, f"{noon:%Y-%m-%dT%H:%M}", since=midnight, until=noon)
        end = midnight + timedelta(days=1) - stopped
        yield folder.row(RECEIVER_UPTIME, f"{end:%Y-%m-%dT%H:%M:%S}", since=back, until=end)


def last_seen(folder: EventFolder, text: str) -> Row:
    return folder.row(RECEIVER_UPTIME, text, since=utc(text) - timedelta(minutes=1), until=utc(text))


def prompt(
    folder: EventFolder, day: int, owner: str | None, calls: int, errors: int = 0, **columns: Any
) -> Iterator[Row]:
    """A foreground prompt at ten, of one answer with 100 tokens, that took a second, and its calls."""
    of_call: Row = {name: columns.pop(name) for name in ("function_name", "error_type") if name in columns}
    shared: Row = {"session_id": f"{owner}-{day}", "prompt_id": f"{owner}-{day}########1", "owner": owner}
    shared |= columns
    time = f"2026-11-{day:02}T10:00"
    for number in range(calls):
        failed = number < errors
        named: Row = of_call if failed else {k: v for k, v in of_call.items() if k == "function_name"}
        yield folder.call(time, "error" if failed else "success", **shared | named)
    yield folder.row(MODEL_CALLS, time, **shared, outcome="response", total_tokens=100)
    yield folder.row(
        PROMPT_EVENTS,
        time,
        **shared,
        kind="interaction",
        message_type="acp_prompt",
        turn_status="ok",
        duration_ms=1000.0,
    )


def week(folder: EventFolder, days: range, **columns: Any) -> list[Row]:
    """Each day, two owners with a prompt of five calls each, one of ten fails."""
    rows: list[Row] = []
    for day in days:
        rows += prompt(folder, day, "o1", 5, 1, error_type="timeout", **columns)
        rows += prompt(folder, day, "o2", 5, **columns)
    return rows


def baselines(folder: EventFolder, *names: str, **where: Any) -> list[tuple[Any, ...]]:
    rows = [r for r in folder.table("baselines") if all(r[key] == value for key, value in where.items())]
    return [tuple(row[name] for name in names) for row in rows]


@pytest.fixture(scope="module")
def environments(new_folder: Callable[[], EventFolder]) -> EventFolder:
    """Days 11 to 20 in environments that differ in what speaks against a baseline.

    The receiver is out for 61 seconds on the 12th and for 59 on the 18th; the 20th is closed, the 21st not.
    """
    folder = new_folder()
    days = range(11, 21)
    rows = list(up(folder, *days, outages={12: 61, 18: 59}))
    rows.append(last_seen(folder, "2026-11-21T02:00"))
    for day in days:
        # Not the same each day: none on the 14th, two of ten on the 15th.
        errors = {14: 0, 15: 2}.get(day, 1)
        rows += prompt(folder, day, "o1", 5, errors, error_type="timeout")
        rows += prompt(folder, day, "o2", 5)
        watched: Row = {"session_id": f"o1-{day}", "prompt_id": f"o1-{day}########1", "mode": "shadow"}
        watched |= {"route": "acp_foreground", "candidate_ordinal": 1, "owner": "o1"}
        decisions = ("tracked", "would_warn") if day == 16 else ("tracked",)
        for decision in decisions:
            rows.append(folder.row(GUARD_DECISIONS, f"2026-11-{day}T10:00", **watched, decision=decision))
        rows.append(
            folder.row(METRIC_INCREASES, f"2026-11-{day}T10:00", counter="tool_executions", increase=10.0)
        )
    # Two prompts of the window that did not end well.
    for row in rows:
        if (row["dataset"], row.get("prompt_id")) == ("prompt_events", "o2-16########1"):
            row["turn_status"] = "cancelled"
    retry: Row = {"session_id": "o1-17", "prompt_id": "o1-17########2", "kind": "user_retry"}
    rows.append(folder.row(PROMPT_EVENTS, "2026-11-17T10:05", **retry))

    rows += week(folder, range(15, 21), environment="young")
    for day in (14, 15, 17, 19):
        rows += prompt(folder, day, "o1", 5, environment="quiet")
    rows += week(folder, days, environment="unset")
    rows += week(folder, days, environment="nameless", service_version="unknown")
    rows += week(folder, days, environment="old", service_version="0.21.2")
    rows += week(folder, days, environment="lossy")
    for day in (13, 14, 15, 16):
        counter: Row = {"counter": "tool_executions", "increase": 11.0, "environment": "lossy"}
        rows.append(folder.row(METRIC_INCREASES, f"2026-11-{day}T10:00", **counter))
    rows += week(folder, days, environment="silent")
    rows.append(folder.call("2026-11-15T11:00", "unknown", environment="silent", prompt_id="o1-15########1"))
    rows += week(folder, days, environment="mixed")
    rows += prompt(folder, 16, "o2", 1, environment="mixed", service_version="0.23.4", session_id="z")
    # One prompt of a hundred is not more than one percent.
    rows += week(folder, days, environment="barely")
    for number in range(85):
        shared: Row = {"environment": "barely", "owner": "o1", "session_id": f"more-{number}"}
        event: Row = {"kind": "interaction", "message_type": "acp_prompt", "turn_status": "ok"}
        rows.append(
            folder.row(
                PROMPT_EVENTS, "2026-11-16T10:00", **shared, **event, prompt_id=f"more-{number}########1"
            )
        )
    rows += prompt(folder, 16, "o2", 1, environment="barely", service_version="0.23.4", session_id="z")
    folder.publish(*rows)
    refresh(folder.directory)
    return folder


LATEST: Row = {"window_end": november(20), "service_version": "0.24.4"}


def test_a_baseline(environments: EventFolder) -> None:
    shown = ("status", "reason", "window_start", "complete_days", "quiet_days", "revision", "revised_at")
    where = LATEST | {"environment": "internal"}
    assert baselines(environments, *shown, **where) == [("ok", None, november(14), 7, 0, 0, None)]
    rate = ("total", "executed", "failure_rate", "failure_rate_low", "failure_rate_high")
    assert baselines(environments, *rate, **where) == [
        (70, 70, 0.1, *(pytest.approx(end, abs=5e-7) for end in (0.049289, 0.192329)))
    ]
    # o1 has 7 of 35, o2 0 of 35: the residuals are 3.5 and -3.5; the variance 24.5 / 4900 over
    # 1 - 2 * 85750 / (70 * 2450) + 2450 / 4900 = 0.01; Kish's number is 2, t of one degree 12.7062047, and
    # q = t**2 * 0.01 / 0.09.
    assert baselines(environments, "clustered_low", "clustered_high", "owners", **where) == [
        (pytest.approx(0.000552, abs=5e-7), pytest.approx(0.957207, abs=5e-7), 2)
    ]
    # Daily rates 0, 0.2 and five times 0.1: the root of 0.02 / 6.
    spread = pytest.approx(0.057735, abs=5e-7)
    assert baselines(environments, "daily_sd", "unknown_ratio", **where) == [(spread, 0.0)]
    # The retry has a prompt id of its own, on the screen as far as anybody knows.
    prompts = ("prompts", "completion_rate", "cancellation_rate", "disconnect_or_retry_rate")
    assert baselines(environments, *prompts, **where) == [(14, 13 / 14, 1 / 14, 1 / 14)]
    cost = ("latency_p50_ms", "latency_p95_ms", "tokens_mean", "rounds_mean")
    second = pytest.approx(1000.0, rel=0.01)
    assert baselines(environments, *cost, **where) == [(second, second, 100.0, 1.0)]
    # Of seven prompts in shadow mode: the other owner's mode is not known.
    volumes = ("would_warn_per_1000", "would_stop_per_1000")
    assert baselines(environments, *volumes, **where) == [(pytest.approx(1000 / 7), 0.0)]
    telemetry = ("completeness", "late_events", "lost_events")
    assert baselines(environments, *telemetry, **where) == [(1.0, 0, 0)]


def test_an_outage_of_61_seconds_costs_a_day_and_one_of_59_does_not(environments: EventFolder) -> None:
    shown = ("window_end", "status", "window_start", "complete_days")
    found = baselines(environments, *shown, environment="internal", service_version="0.24.4")
    assert found[-4:] == [
        (november(17), "refused", november(11), 6),
        # The 12th is left out.
        (november(18), "ok", november(11), 7),
        (november(19), "ok", november(13), 7),
        (november(20), "ok", november(14), 7),
    ]
    # The 21st is not closed.
    assert [row[0] for row in found] == [november(day) for day in range(11, 21)]
    assert baselines(environments, "reason", environment="internal", window_end=november(17)) == [
        (
            "6 of 7 complete days from 2026-11-08 to 2026-11-17: the receiver did not accept all the time on "
            "11-12; the events do not reach back further",
        )
    ]
    outages = [
        (row["day"].day, row["complete"], row["seconds_not_accepting"])
        for row in environments.table("coverage")
        if row["environment"] == "internal" and row["seconds_not_accepting"]
    ]
    assert outages == [(12, False, 61.0), (18, True, 59.0), (21, False, pytest.approx(7140.0))]


@pytest.mark.parametrize(
    ("environment", "version", "reason"),
    [
        ("quiet", "0.24.4", "4 of 7 complete days have events, at least 5 must"),
        (
            "unset",
            "0.24.4",
            "the environment is not set: set deployment.environment.name where the agents run",
        ),
        ("nameless", "unknown", "the version is not known: service.version is missing"),
        (
            "old",
            "0.21.2",
            "the version makes no promise about execution statuses: it is no release from 0.21.10 on",
        ),
        (
            "lossy",
            "0.24.4",
            "5 of 7 complete days from 2026-11-11 to 2026-11-20: the receiver did not accept all the time on "
            "11-12; telemetry was lost on the way on 11-13, 11-14, 11-15, 11-16",
        ),
        (
            "silent",
            "0.24.4",
            "1 of 71 calls do not say what became of their execution, at most 0.1% may",
        ),
        # One of its owners' 15 prompts of the window.
        ("mixed", "0.24.4", "6.7% of its owners' prompts ran another version, at most 1% may"),
    ],
)
def test_a_refusal_says_why(environments: EventFolder, environment: str, version: str, reason: str) -> None:
    where: Row = {"environment": environment, "service_version": version, "window_end": november(20)}
    assert baselines(environments, "status", "reason", **where) == [("refused", reason)]


def test_one_prompt_of_a_hundred_on_another_version_is_not_mixed(environments: EventFolder) -> None:
    assert baselines(environments, "status", "reason", **LATEST, environment="barely") == [("ok", None)]


def test_days_before_a_version_are_quiet_days(environments: EventFolder) -> None:
    shown = ("status", "window_start", "quiet_days", "total")
    assert baselines(environments, *shown, **LATEST, environment="young") == [("ok", november(14), 1, 60)]
    # A version that a few prompts ran is judged by itself.
    other: Row = {"environment": "mixed", "service_version": "0.23.4", "window_end": november(20)}
    assert baselines(environments, "status", "total", **other) == [("refused", 1)]


def test_baselines_lie_in_order(environments: EventFolder) -> None:
    keys = baselines(environments, "window_end", "environment", "version_order", "revision")
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


def test_a_late_event_revises_the_baselines_of_its_day_and_old_values_stay(folder: EventFolder) -> None:
    days = range(8, 21)
    folder.publish(*up(folder, *days), last_seen(folder, "2026-11-21T02:00"), *week(folder, days))
    refresh(folder.directory)
    shown = ("window_end", "revision", "total", "failure_rate", "late_events")
    before = baselines(folder, *shown)
    assert before[-1] == (november(20), 0, 70, 0.1, 0)
    late: Row = {"prompt_id": "o2-16########1", "session_id": "o2-16", "owner": "o2"}
    late |= {"received_at": utc("2026-11-22T09:00")}
    folder.publish(folder.call("2026-11-16T10:00", "error", **late), last_seen(folder, "2026-11-22T00:30"))
    refresh(folder.directory)
    after = baselines(folder, *shown)
    # What was there stays.
    assert [row for row in after if row[1] == 0 and row[0] <= november(20)] == before
    assert [row for row in after if row[1]] == [
        (november(day), 1, 71, pytest.approx(8 / 71), 1) for day in range(16, 21)
    ]
    marks = baselines(folder, "revision", "revised_at")
    assert all((revised_at is None) is (revision == 0) for revision, revised_at in marks)
    # The day that has closed meanwhile is no revision; the receiver was down on it.
    assert after[-1] == (november(21), 0, 71, pytest.approx(8 / 71), 1)
    for rebuild in (True, False):
        refresh(folder.directory, rebuild=rebuild)
        assert baselines(folder, *shown) == after
    # New rows of its days that change none of its values revise nothing.
    folder.publish(folder.row(INGEST_COUNTS, "2026-11-16T10:00", signal="logs", name="x", records=1))
    refresh(folder.directory)
    assert baselines(folder, *shown) == after
    # Another one is a second revision.
    folder.publish(folder.call("2026-11-16T10:01", **late))
    refresh(folder.directory)
    revisions = [row[1:3] for row in baselines(folder, *shown, window_end=november(16))]
    assert revisions == [(0, 70), (1, 71), (2, 72)]


def test_a_receiver_that_was_down_for_a_day_leaves_a_gap_and_no_zero(folder: EventFolder) -> None:
    up_days = (14, 15, 16, 18, 19, 20)
    rows = [row for day in up_days for row in week(folder, range(day, day + 1))]
    uptime = up(folder, *up_days, stopped=timedelta(seconds=1))
    folder.publish(*uptime, last_seen(folder, "2026-11-21T01:00"), *rows)
    refresh(folder.directory)
    coverage = [row for row in folder.table("coverage") if row["day"] <= november(20)]
    assert [row["complete"] for row in coverage].count(True) == 6
    assert len(coverage) == 7
    assert coverage[3] == {
        "environment": "internal",
        "day": november(17),
        "complete": False,
        "seconds_not_accepting": None,
        "gaps": None,
        "events": 0,
    }
    assert "2026-11-17T00:00" not in [row["time"] for row in folder.table("sli_daily")]
    assert baselines(folder, "status", "reason", window_end=november(20)) == [
        (
            "refused",
            "6 of 7 complete days from 2026-11-11 to 2026-11-20: the receiver left no record on 11-17; "
            "the events do not reach back further",
        )
    ]


def test_a_step_in_the_definition_of_a_failure_is_flagged_by_tool(folder: EventFolder) -> None:
    rows = list(up(folder, *range(1, 18)))
    for day in range(1, 8):
        rows += prompt(folder, day, "o1", 20, function_name="run_shell", service_version="0.23.4")
        rows += prompt(folder, day, "o2", 1, service_version="0.23.4")
    for day in range(11, 18):
        shell: Row = {"function_name": "run_shell", "error_type": "nonzero_exit"}
        rows += prompt(folder, day, "o1", 20, 3 if day < 17 else 1, **shell)
        rows += prompt(folder, day, "o2", 1)
        # A release without the contract has no baseline, and so is compared with nothing.
        rows += prompt(folder, day, "o3", 1, service_version="0.15.10")
    folder.publish(*rows, last_seen(folder, "2026-11-18T01:00"))
    refresh(folder.directory)
    found = folder.table("comparisons")
    assert {
        (row["environment"], row["version_a"], row["version_b"], row["window_end_a"], row["window_end_b"])
        for row in found
    } == {("internal", "0.23.4", "0.24.4", november(9), november(17))}
    shown = ("measure", "function_name", "a", "b", "definition_changed", "error_types")
    assert [tuple(row[name] for name in shown) for row in found] == [
        # Of 100 + 5 calls none, of 140 + 7 calls 6 * 3 + 1 failed.
        ("failure_rate", None, 0.0, pytest.approx(19 / 147), None, []),
        ("failure_rate", "read_file", 0.0, 0.0, False, []),
        ("failure_rate", "run_shell", 0.0, pytest.approx(19 / 140), True, ["nonzero_exit"]),
    ]
    assert all(row["low"] <= row["difference"] <= row["high"] for row in found)
    assert found[2]["low"] > 0


def test_a_baseline_that_was_revised_into_a_refusal_is_no_good_one() -> None:
    shared: Row = {"environment": "internal", "service_version": "0.24.4", "version_order": "1"}
    told = [
        (19, 0, "refused", 0.1),
        (19, 1, "ok", 0.2),
        (20, 0, "ok", 0.3),
        (20, 1, "refused", 0.4),
        (21, 0, "refused", 0.5),
    ]
    rows = pl.DataFrame(
        [
            dict.fromkeys(BASELINES.names)
            | shared
            | {"window_end": november(day), "revision": revision, "status": status, "failure_rate": rate}
            for day, revision, status, rate in told
        ],
        schema=polars_schema(BASELINES),
    )
    for order in (rows, rows.reverse()):
        assert latest_good(order)["failure_rate"].to_list() == [0.2]


def test_a_receivers_record_that_reaches_back_further_later(folder: EventFolder) -> None:
    days = range(12, 21)
    folder.publish(*up(folder, *days), last_seen(folder, "2026-11-21T02:00"), *week(folder, days))
    refresh(folder.directory)
    folder.publish(*up(folder, 2))
    refresh(folder.directory)
    reason = "4 of 7 complete days from 2026-11-06 to 2026-11-15: the receiver left no record on "
    (row,) = baselines(folder, "reason", window_end=november(15), revision=1)
    assert row[0].startswith(f"{reason}11-06, 11-07")
    stepwise = folder.tables()
    refresh(folder.directory, rebuild=True)
    assert folder.tables() == stepwise
