"""What becomes of records and spans that are no tool calls and no guard decisions."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.decode.wire import Signal
from ingest.normalise.events import TABLES
from sli.schemas import (
    GUARD_DECISIONS,
    LOOPS,
    MODEL_CALLS,
    PROMPT_EVENTS,
    SESSIONS,
    TOOL_CALLS,
    TOOL_EXECUTIONS,
)

STAMP = {"event.timestamp": "2026-11-30T12:00:00.000Z", "session.id": "s-1", "prompt_id": "s-1########1"}
TRACE, SPAN, PARENT = bytes(range(16)), bytes(range(1, 9)), bytes(range(2, 10))
SHARED = {
    "time_unix_nano": 1_796_040_000_000_000_000,
    "time_source": "record",
    "environment": "internal",
    "service_name": "qwen-code",
    "service_version": "0.24.4",
    "owner": None,
    "trace_id": None,
    "span_id": None,
    "session_id": "s-1",
}
IDS = {"trace_id": TRACE.hex(), "span_id": SPAN.hex(), "parent_span_id": PARENT.hex()}


def _own(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if k not in ("identity", "arrival", "time", "day", "received_at")}


def _log(otlp: Any, dataset: str, name: str, **attributes: Any) -> dict[str, Any]:
    body = otlp.logs(otlp.log(STAMP | {"event.name": name} | attributes))
    (row,) = otlp.rows(body, dataset=dataset)
    return _own(row)


def _span(otlp: Any, dataset: str, name: str, **attributes: Any) -> dict[str, Any]:
    ids = {"trace_id": TRACE, "span_id": SPAN, "parent_span_id": PARENT}
    body = otlp.spans(otlp.span({"session.id": "s-1"} | attributes, name=name, **ids))
    (row,) = otlp.rows(body, dataset=dataset, signal=Signal.TRACES)
    return _own(row)


def test_every_table_is_filled_to_its_last_column() -> None:
    assert [table.dataset for table in TABLES] == [
        TOOL_CALLS,
        GUARD_DECISIONS,
        LOOPS,
        PROMPT_EVENTS,
        MODEL_CALLS,
        TOOL_EXECUTIONS,
        SESSIONS,
    ]


def test_a_loop(otlp: Any) -> None:
    row = _log(otlp, "loops", "loop_detected", loop_type="consecutive_identical_tool_calls")
    assert row == SHARED | {
        "prompt_id": "s-1########1",
        "loop_type": "consecutive_identical_tool_calls",
    }


def test_an_interaction(otlp: Any) -> None:
    sent = {
        "qwen-code.prompt_id": "s-1########1",
        "qwen-code.message_type": "acp_prompt",
        "qwen-code.turn_status": "error",
        "interaction.duration_ms": 1160,
        "error.type": "api_error",
        "qwen-code.model": "demo-model",
    }
    assert _span(otlp, "prompt_events", "qwen-code.interaction", **sent) == SHARED | IDS | {
        "prompt_id": "s-1########1",
        "kind": "interaction",
        "message_type": "acp_prompt",
        "turn_status": "error",
        "duration_ms": 1160.0,
        "error_type": "api_error",
        "turn_count": None,
    }


@pytest.mark.parametrize("sent", [{}, {"qwen-code.turn_status": "fine"}, {"qwen-code.turn_status": 1}])
def test_a_turn_status_that_is_none_of_the_contracts_is_unknown(otlp: Any, sent: dict[str, Any]) -> None:
    assert _span(otlp, "prompt_events", "qwen-code.interaction", **sent)["turn_status"] == "unknown"


@pytest.mark.parametrize("kind", ["user_prompt", "user_retry", "conversation_finished"])
def test_records_around_a_prompt(otlp: Any, kind: str) -> None:
    row = _log(otlp, "prompt_events", f"qwen-code.{kind}", turnCount=4, prompt="secret", prompt_length=6)
    assert row == SHARED | {
        "prompt_id": "s-1########1",
        "parent_span_id": None,
        "kind": kind,
        "message_type": None,
        "turn_status": None,
        "duration_ms": None,
        "error_type": None,
        "turn_count": 4,
    }


def test_a_model_answer(otlp: Any) -> None:
    sent = {
        "response_id": "chatcmpl-1",
        "model": "demo-model",
        "duration_ms": 49,
        "input_token_count": 1000,
        "output_token_count": 50,
        "cached_content_token_count": 100,
        "thoughts_token_count": 7,
        "total_token_count": 1050,
        "status_code": 200,
        "response_text": "secret",
    }
    assert _log(otlp, "model_calls", "qwen-code.api_response", **sent) == SHARED | {
        "prompt_id": "s-1########1",
        "outcome": "response",
        "response_id": "chatcmpl-1",
        "model": "demo-model",
        "by_subagent": False,
        "duration_ms": 49.0,
        "input_tokens": 1000,
        "output_tokens": 50,
        "cached_tokens": 100,
        "thought_tokens": 7,
        "total_tokens": 1050,
        "status_code": 200,
        "error_type": None,
        "attempt_number": None,
    }


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("api_error", "error"),
        ("api_cancel", "cancel"),
        ("api_retry", "retry"),
        ("chat.content_retry", "content_retry"),
    ],
)
def test_what_else_becomes_of_a_question(otlp: Any, name: str, outcome: str) -> None:
    row = _log(otlp, "model_calls", f"qwen-code.{name}", error_type="RateLimitError", attempt_number=2)
    assert (row["outcome"], row["error_type"], row["attempt_number"]) == (outcome, "RateLimitError", 2)


@pytest.mark.parametrize(("sent", "kept"), [(429, 429), ("429", 429), ("busy", None), (None, None)])
def test_a_status_code_comes_as_a_number_or_as_text(otlp: Any, sent: Any, kept: int | None) -> None:
    sent = {} if sent is None else {"status_code": sent}
    assert _log(otlp, "model_calls", "qwen-code.api_error", **sent)["status_code"] == kept


@pytest.mark.parametrize(("name", "by"), [("general-purpose", True), ("", False), (" ", False)])
def test_a_subagent_is_told_and_not_named(otlp: Any, name: str, by: bool) -> None:
    row = _log(otlp, "model_calls", "qwen-code.api_response", subagent_name=name)
    assert row["by_subagent"] is by
    assert "general-purpose" not in row.values()


def test_an_execution(otlp: Any) -> None:
    sent = {
        "tool.call_id": "call-1",
        "execution_status": "error",
        "error_type": "file_not_found",
        "duration_ms": 6,
        "error": "secret",
        "gen_ai.tool.name": "secret",
    }
    assert _span(otlp, "tool_executions", "qwen-code.tool.execution", **sent) == SHARED | IDS | {
        "prompt_id": None,
        "kind": "execution",
        "call_id": "call-1",
        "execution_status": "error",
        "error_type": "file_not_found",
        "duration_ms": 6.0,
        "waiting_ms": None,
    }


@pytest.mark.parametrize(
    ("sent", "status", "error_type"),
    [
        ({}, "unknown", None),
        ({"execution_status": "cancelled", "error_type": "x"}, "cancelled", None),
        ({"execution_status": "error"}, "error", "unknown"),
        ({"execution_status": "fine", "success": False}, "unknown", None),
    ],
)
def test_the_status_of_an_execution_is_never_inferred(
    otlp: Any, sent: dict[str, Any], status: str, error_type: str | None
) -> None:
    row = _span(otlp, "tool_executions", "qwen-code.tool.execution", **sent)
    assert (row["execution_status"], row["error_type"]) == (status, error_type)


def test_a_tool_span_and_the_waiting_within_it(otlp: Any) -> None:
    tool = _span(otlp, "tool_executions", "qwen-code.tool", call_id="call-1", **{"error.type": "tool_error"})
    assert (tool["kind"], tool["call_id"], tool["execution_status"]) == ("tool", "call-1", None)
    # The span itself says how long it took: 17 ms.
    assert (tool["error_type"], tool["duration_ms"], tool["waiting_ms"]) == (None, 17.0, None)
    waiting = _span(otlp, "tool_executions", "qwen-code.tool.blocked_on_user", duration_ms=1259)
    assert (waiting["kind"], waiting["duration_ms"], waiting["waiting_ms"]) == (
        "blocked_on_user",
        None,
        1259.0,
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("session.start", "start"),
        ("session.end", "end"),
        ("qwen-code.daemon.session.die", "session.die"),
        ("qwen-code.daemon.channel.spawn", "channel.spawn"),
        ("qwen-code.daemon.session.SECRET-1", "session.other"),
    ],
)
def test_kinds_of_session_records(otlp: Any, name: str, kind: str) -> None:
    assert _log(otlp, "sessions", name)["kind"] == kind


def test_an_event_stream(otlp: Any) -> None:
    opened = {"qwen-code.daemon.sse.stream_id": "x-1", "qwen-code.daemon.sse.resume_from_event_id": 42}
    row = _log(otlp, "sessions", "qwen-code.daemon.sse.opened", **opened)
    assert (row["kind"], row["stream_id"], row["resumed"]) == ("sse_opened", "x-1", True)
    closed = {
        "qwen-code.daemon.sse.stream_id": "x-1",
        "qwen-code.daemon.sse.close_reason": "client_disconnect",
        "qwen-code.daemon.sse.duration_ms": 1019.08,
    }
    row = _log(otlp, "sessions", "qwen-code.daemon.sse.closed", **closed)
    assert (row["close_reason"], row["duration_ms"], row["resumed"]) == ("client_disconnect", 1019.08, None)
    row = _log(
        otlp, "sessions", "qwen-code.daemon.channel.exit", **{"qwen-code.daemon.channel.expected": True}
    )
    assert row["expected"] is True


def _identity(otlp: Any, dataset: str, body: bytes, signal: Signal = Signal.LOGS) -> bytes:
    (row,) = otlp.rows(body, dataset=dataset, signal=signal)
    identity: bytes = row["identity"]
    return identity


def test_a_log_and_the_span_that_bridges_it_are_one_event(otlp: Any) -> None:
    sent = STAMP | {"event.name": "qwen-code.api_response", "response_id": "r", "duration_ms": 5}
    log = otlp.logs(otlp.log(sent, time=otlp.noon + 3_000_000, trace_id=TRACE))
    span = otlp.spans(otlp.span(sent, name="qwen-code.api_response", trace_id=bytes(16)[:-1] + b"x"))
    assert _identity(otlp, "model_calls", log) == _identity(otlp, "model_calls", span, Signal.TRACES)


def test_a_spans_identity_is_its_ids(otlp: Any) -> None:
    def span(**changes: Any) -> bytes:
        ids = {"trace_id": TRACE, "span_id": SPAN} | changes
        return _identity(
            otlp,
            "tool_executions",
            otlp.spans(otlp.span({"call_id": "c"}, name="qwen-code.tool", **ids)),
            Signal.TRACES,
        )

    assert span() == span(parent_span_id=PARENT)
    assert span() != span(span_id=PARENT)
    # Without valid ids it is all that was stamped.
    assert span(span_id=b"") == span(span_id=bytes(8), trace_id=TRACE[::-1])
    assert span(span_id=b"") != span()


def test_two_events_of_one_millisecond_differ_in_what_is_kept(otlp: Any) -> None:
    def body(**changes: Any) -> bytes:
        sent = STAMP | {"event.name": "loop_detected", "loop_type": "a"} | changes
        return bytes(otlp.logs(otlp.log(sent)))

    assert _identity(otlp, "loops", body()) != _identity(otlp, "loops", body(loop_type="b"))
    assert _identity(otlp, "loops", body()) != _identity(otlp, "loops", body(prompt_id="s-1########2"))
    assert _identity(otlp, "loops", body()) == _identity(otlp, "loops", body(other="x"))


@pytest.mark.parametrize("key", ["session.id", "prompt_id"])
def test_ids_that_cannot_be_kept_reject_the_record(otlp: Any, key: str) -> None:
    for value in ("x" * 4097, 7):
        body = otlp.logs(otlp.log(STAMP | {"event.name": "loop_detected", key: value}))
        assert otlp.rows(body, dataset="loops") == []
        (row,) = otlp.rows(body, dataset="rejected")
        reason = "too_long" if isinstance(value, str) else "wrong_type"
        assert (row["name"], row["reason"], row["signal"], row["records"]) == (
            "loop_detected",
            reason,
            "logs",
            1,
        )


def test_everything_is_counted_by_a_name_that_looks_like_one(otlp: Any) -> None:
    names = [
        "qwen-code.auth",
        "qwen-code.auth",
        "loop_detected",
        "POST /v1/SECRET",
        "Qwen",
        "a1b2",
        "",
        "x" * 99,
    ]
    events = otlp.normalised(otlp.logs(*(otlp.log(STAMP | {"event.name": name}) for name in names)))
    arrivals = events.arrivals
    counted = dict(zip(arrivals.name.to_pylist(), arrivals.records.tolist(), strict=True))
    assert sum(arrivals.records) == len(names)
    assert counted["qwen-code.auth"] == 2
    assert counted["loop_detected"] == 1
    assert set(counted) == {"qwen-code.auth", "loop_detected", "other"}
    assert arrivals.kept.sum() == 1
