"""Prompts from the records that mention them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from sli.foreground import PROMPT_KEY, foreground_prompts
from sli.prompts import (
    SESSION_KEY,
    breaks,
    first_modes,
    last_interactions,
    prompt_partials,
    prompts_of,
    with_disconnect_or_retry,
)
from sli.schemas import GUARD_DECISIONS, MODEL_CALLS, PROMPT_EVENTS, SESSIONS, TOOL_CALLS
from tests.sli.frames import events, moment, nanos

Row = dict[str, Any]

PROMPT = "s########1"
P: Row = {"prompt_id": PROMPT, "session_id": "s"}
ASKED: Row = P | {
    "kind": "interaction",
    "message_type": "acp_prompt",
    "turn_status": "ok",
    "duration_ms": 2000.0,
}
TRACKED: Row = P | {
    "route": "acp_foreground",
    "mode": "shadow",
    "decision": "tracked",
    "candidate_ordinal": 1,
}
# How long a call or an answer took says nothing of how long its prompt took.
CALL: Row = P | {"execution_status": "success", "duration_ms": 77.0}
ANSWER: Row = P | {"outcome": "response", "total_tokens": 100, "duration_ms": 78.0}


def frame(
    calls: Sequence[Row] = (),
    models: Sequence[Row] = (),
    told: Sequence[Row] = (),
    guard: Sequence[Row] = (),
    as_of: str = "2026-11-09",
) -> pl.LazyFrame:
    """The prompts that these records tell of."""
    prompt_events, decisions = events(PROMPT_EVENTS, *told), events(GUARD_DECISIONS, *guard)
    partials = prompt_partials(
        events(TOOL_CALLS, *calls), events(MODEL_CALLS, *models), prompt_events, decisions
    )
    return prompts_of(
        partials,
        last_interactions(prompt_events),
        first_modes(decisions, PROMPT_KEY, "guard_mode"),
        first_modes(decisions, SESSION_KEY, "session_mode"),
        foreground_prompts(prompt_events, decisions),
        moment(as_of),
    )


def prompts(
    calls: Sequence[Row] = (),
    models: Sequence[Row] = (),
    told: Sequence[Row] = (),
    guard: Sequence[Row] = (),
    as_of: str = "2026-11-09",
) -> dict[str, Row]:
    """The same, by id."""
    rows = frame(calls, models, told, guard, as_of).collect().rows(named=True)
    by_id = {row["prompt_id"]: row for row in rows}
    assert len(by_id) == len(rows)
    return by_id


def test_a_prompt_from_all_its_records() -> None:
    found = prompts(
        calls=[
            CALL | {"at": "10:00:01", "owner": "o"},
            CALL | {"at": "10:00:03", "execution_status": "error"},
        ],
        models=[
            ANSWER | {"at": "10:00:00.5"},
            ANSWER | {"at": "10:00:02", "total_tokens": None, "input_tokens": 7, "output_tokens": 5},
            ANSWER | {"at": "10:00:02.5", "by_subagent": True, "total_tokens": 30},
            P | {"outcome": "error", "total_tokens": 1000},
        ],
        told=[ASKED | {"at": "10:00:00", "duration_ms": 4000.0}, P | {"kind": "user_prompt"}],
        guard=[TRACKED | {"at": "10:00:03"}, TRACKED | {"at": "10:00:03", "decision": "would_warn"}],
    )[PROMPT]
    expected = {
        "environment": "internal",
        "service_version": "0.24.4",
        "prompt_id": PROMPT,
        "day": moment("10:00").date(),
        "session_id": "s",
        "owner": "o",
        "route": "acp_foreground",
        "mode": "shadow",
        "supported_host": True,
        "unreliable": 0,
        "turn_status": "ok",
        "started": nanos("10:00:00"),
        "ended": nanos("10:00:04"),
        "duration_ms": 4000.0,
        # The subagent's answer costs tokens, and is no round of the conversation.
        "rounds": 2,
        "tokens": 100 + 12 + 30,
        "calls": 2,
        "failed": 1,
        "retries": 0,
        "guarded": 2,
        "tracked": 1,
        "would_warn": 1,
        "warned": 0,
        "would_stop": 0,
        "stopped": 0,
        "reset": 0,
        "revision": 0,
    }
    assert {name: found[name] for name in expected} == expected


def test_without_tokens_or_calls_there_are_none() -> None:
    row = prompts(told=[ASKED])[PROMPT]
    assert (row["tokens"], row["rounds"], row["calls"], row["guarded"]) == (0, 0, 0, 0)


def test_what_was_cancelled_on_the_screen_carries_the_next_prompts_id_and_makes_none() -> None:
    assert prompts(models=[P | {"outcome": "cancel"}]) == {}
    row = prompts(models=[P | {"outcome": "cancel", "at": "09:00"}, ANSWER | {"at": "10:00"}])[PROMPT]
    assert row["started"] == nanos("10:00")


def test_records_without_a_prompt_belong_to_none() -> None:
    assert prompts(calls=[CALL | {"prompt_id": None}], told=[{"kind": "conversation_finished"}]) == {}


def test_two_versions_and_two_environments_are_never_pooled() -> None:
    calls = [CALL, CALL | {"service_version": "dev"}, CALL | {"environment": "unset"}]
    rows = frame(calls, told=[ASKED]).collect()
    assert sorted(rows.select("environment", "service_version", "calls", "route").rows()) == [
        ("internal", "0.24.4", 1, "acp_foreground"),
        ("internal", "dev", 1, "screen_or_cli"),
        ("unset", "0.24.4", 1, "screen_or_cli"),
    ]


@pytest.mark.parametrize(
    ("as_of", "expected"),
    [
        ("10:00:00", "open"),
        ("10:10:00", "open"),
        ("10:10:00.001", "unfinished"),
        ("2026-11-09", "unfinished"),
    ],
)
def test_a_prompt_without_an_interaction_is_unfinished_after_ten_minutes(as_of: str, expected: str) -> None:
    row = prompts(calls=[CALL | {"at": "09:50"}, CALL | {"at": "10:00"}], as_of=as_of)[PROMPT]
    assert row["turn_status"] == expected
    assert (row["started"], row["ended"]) == (nanos("09:50"), nanos("10:00"))
    assert row["duration_ms"] is None


@pytest.mark.parametrize("status", ["ok", "cancelled", "error", "unknown"])
def test_a_prompt_with_an_interaction_ends_as_that_says(status: str) -> None:
    assert prompts(told=[ASKED | {"turn_status": status}], as_of="10:00")[PROMPT]["turn_status"] == status


def test_of_two_interactions_the_later_one_counts() -> None:
    told = [ASKED | {"at": "10:05", "duration_ms": 1.0}, ASKED | {"at": "10:00", "turn_status": "error"}]
    for order in (told, told[::-1]):
        row = prompts(told=order)[PROMPT]
        assert (row["turn_status"], row["duration_ms"]) == ("ok", 1.0)


@pytest.mark.parametrize(
    ("prompt_id", "route"),
    [
        ("s########1/automatic/1", "automatic"),
        ("s########notification5b1e", "automatic"),
        ("s#explore-call_1#0", "subagent"),
        ("5f3a9c", "unknown"),
    ],
)
def test_what_no_person_asked_has_no_interaction_to_miss(prompt_id: str, route: str) -> None:
    of_prompt = {"prompt_id": prompt_id}
    # Though the guard watched it.
    row = prompts(calls=[CALL | of_prompt], guard=[TRACKED | of_prompt])[prompt_id]
    assert (row["route"], row["turn_status"], row["mode"], row["supported_host"]) == (route, None, None, None)


def test_the_mode_is_of_its_own_guard_records_else_of_its_sessions_else_unknown() -> None:
    second = {"prompt_id": "s########2"}
    third = {"prompt_id": "z########1", "session_id": "z"}
    found = prompts(
        told=[ASKED, ASKED | second, ASKED | third],
        guard=[
            TRACKED | {"at": "10:05", "mode": "enforce"},
            TRACKED | {"at": "10:00", "mode": "warn"},
            TRACKED | {"at": "09:00", "mode": "shadow", "prompt_id": "s########9"},
        ],
    )
    modes = {prompt_id: row["mode"] for prompt_id, row in found.items()}
    assert modes == {
        PROMPT: "warn",
        "s########2": "shadow",
        "s########9": "shadow",
        "z########1": "unknown",
    }
    assert [found[each]["guarded"] for each in sorted(found)] == [2, 0, 1, 0]


def test_a_session_of_another_version_tells_no_mode() -> None:
    other = TRACKED | {"prompt_id": "s########9", "service_version": "0.23.4"}
    assert prompts(told=[ASKED], guard=[other])[PROMPT]["mode"] == "unknown"


def test_a_guard_record_without_a_mode_is_of_shadow_mode() -> None:
    assert prompts(guard=[TRACKED | {"mode": None}])[PROMPT]["mode"] == "shadow"


def test_a_screen_prompt_has_neither_mode_nor_host() -> None:
    found = prompts(told=[ASKED | {"message_type": "userQuery"}])[PROMPT]
    assert (found["route"], found["mode"], found["supported_host"]) == ("screen_or_cli", None, None)


def test_one_unreliable_input_makes_the_host_an_unsupported_one() -> None:
    unreliable = TRACKED | {"decision": "reset", "reset_reason": "unreliable_input"}
    row = prompts(told=[ASKED], guard=[TRACKED, unreliable, TRACKED])[PROMPT]
    assert (row["supported_host"], row["reset"], row["tracked"]) == (False, 1, 2)
    other = TRACKED | {"decision": "reset", "reset_reason": "external_input"}
    assert prompts(guard=[other])[PROMPT]["supported_host"]


def test_records_that_came_after_the_day_had_closed_revise_a_prompt() -> None:
    came = {"came": "2026-11-05T02:00"}
    assert prompts(told=[ASKED], calls=[CALL | came, CALL | came])[PROMPT]["revision"] == 1


def test_a_retry_is_counted_as_a_record_says_it() -> None:
    told = [P | {"kind": "user_retry"}, ASKED | {"message_type": "retry"}, P | {"kind": "user_prompt"}]
    assert prompts(told=told)[PROMPT]["retries"] == 2


SECOND: Row = {"prompt_id": "s########2", "session_id": "s"}
CLOSED: Row = {"kind": "sse_closed", "session_id": "s", "close_reason": "client_disconnect"}


def broken(told: list[Row], sessions: list[Row] | None = None, reasons: tuple[str, ...] = ()) -> list[str]:
    """The prompts that are followed by a break, of those that the events tell of."""
    found, prompt_events = frame(told=told), events(PROMPT_EVENTS, *told)
    moments = breaks(prompt_events, events(SESSIONS, *(sessions or [])), reasons)
    rows = with_disconnect_or_retry(found, moments).collect()
    assert len(rows) == rows["prompt_id"].n_unique()
    return sorted(rows.filter(pl.col("disconnect_or_retry"))["prompt_id"])


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        # The first prompt ends at 10:00:02.
        ("10:00:02.000001", [PROMPT]),
        ("10:10:02", [PROMPT]),
        ("10:10:02.000001", []),
        ("10:00:02", []),
        ("10:00:01", []),
    ],
)
def test_a_retry_within_ten_minutes_of_the_end(at: str, expected: list[str]) -> None:
    assert broken([ASKED, SECOND | {"kind": "user_retry", "at": at}]) == expected
    retry = SECOND | {"kind": "interaction", "message_type": "retry", "at": at, "duration_ms": 1.0}
    assert broken([ASKED, retry]) == expected
    assert broken([ASKED, retry, SECOND | {"kind": "user_retry", "at": at}]) == expected


@pytest.mark.parametrize(
    "other",
    [
        {"session_id": "z", "prompt_id": "z########2"},
        {"service_version": "0.23.4"},
        {"environment": "unset"},
        {"session_id": None},
        {"kind": "user_prompt"},
    ],
)
def test_what_is_no_retry_in_the_same_session(other: Row) -> None:
    assert broken([ASKED, SECOND | {"kind": "user_retry", "at": "10:01"} | other]) == []


def test_a_disconnect_is_what_the_operator_says_it_is() -> None:
    closed = [CLOSED | {"at": "10:01"}]
    assert broken([ASKED], closed) == []
    assert broken([ASKED], closed, ("server_shutdown",)) == []
    assert broken([ASKED], closed, ("server_shutdown", "client_disconnect")) == [PROMPT]
    assert broken([ASKED], [CLOSED | {"at": "10:01", "kind": "sse_opened"}], ("client_disconnect",)) == []


def test_one_break_can_follow_several_prompts() -> None:
    told = [ASKED, ASKED | SECOND | {"at": "10:03"}, P | {"kind": "user_retry", "at": "10:05"}]
    # The retry is itself a record of the first prompt, which so ends with it.
    assert broken(told) == ["s########2"]
    told[-1] = told[-1] | {"prompt_id": "s########3"}
    assert broken(told) == [PROMPT, "s########2"]
