"""Spans, in the form in which the agent exports them. Times are milliseconds since 1970."""

from __future__ import annotations

from functools import cache

from toolgauge.demo.logs import MODEL, Ids
from toolgauge.demo.tools import Outcome
from toolgauge.demo.wire import Value, attribute, attributes, fixed64, integer, message, text, usual

# opentelemetry/proto/trace/v1, Span.
_TRACE_ID, _SPAN_ID, _PARENT, _NAME, _KIND, _START, _END, _ATTRIBUTES, _STATUS = 1, 2, 4, 5, 6, 7, 8, 9, 15
_INTERNAL = integer(_KIND, 1)
_FAILED = message(_STATUS, text(2, "(made up)") + integer(3, 2))


def interaction(
    ids: Ids, start: int, end: int, message_type: str, sequence: int, turn_status: str, error_type: str | None
) -> bytes:
    """A prompt from its beginning to its end."""
    parts = [
        _session(ids.session_id),
        _INVOKE,
        attribute(_ATTRIBUTES, "qwen-code.prompt_id", ids.prompt_id),
        attributes(
            _ATTRIBUTES,
            (
                ("qwen-code.message_type", message_type),
                ("qwen-code.model", MODEL),
                ("qwen-code.approval_mode", "default"),
                ("interaction.sequence", sequence),
            ),
        ),
        attribute(_ATTRIBUTES, "interaction.duration_ms", end - start),
        usual(_ATTRIBUTES, "qwen-code.turn_status", turn_status),
    ]
    if error_type is not None:
        parts.append(usual(_ATTRIBUTES, "error.type", error_type))
    return _span(
        ids, ids.span_id, b"", "qwen-code.interaction", start, end, parts, failed=error_type is not None
    )


def tool(ids: Ids, span_id: bytes, call_id: str, outcome: Outcome, start: int, end: int) -> bytes:
    """A call, waiting for permission included."""
    name = outcome.tool.name
    parts = [
        _session(ids.session_id),
        attribute(_ATTRIBUTES, "tool.call_id", call_id),
        attribute(_ATTRIBUTES, "call_id", call_id),
        attributes(
            _ATTRIBUTES,
            (
                ("tool_name", name),
                ("gen_ai.operation.name", "execute_tool"),
                ("gen_ai.tool.name", name),
                ("gen_ai.tool.type", "function"),
                ("duration_ms", end - start),
                ("success", outcome.status == "success"),
            ),
        ),
    ]
    if outcome.status == "cancelled":
        parts.append(usual(_ATTRIBUTES, "tool.failure_kind", "cancelled"))
    elif outcome.status == "error":
        parts.append(attributes(_ATTRIBUTES, (("error", "(made up)"), ("error.type", "tool_error"))))
    failed = outcome.status == "error"
    return _span(ids, span_id, ids.span_id, "qwen-code.tool", start, end, parts, failed)


def execution(
    ids: Ids, span_id: bytes, parent: bytes, call_id: str, outcome: Outcome, start: int, end: int
) -> bytes:
    """What the tool itself did; there is none if it was not begun."""
    status = outcome.execution_status
    said: list[tuple[str, Value]] = [("duration_ms", end - start), ("success", status == "success")]
    if status in ("error", "cancelled"):
        said.append(("error", f"tool_{status}"))
    said.append(("execution_status", status))
    if status == "error" and outcome.error_type is not None:
        said += [("error_type", outcome.error_type), ("error.type", outcome.error_type)]
    parts = [
        _session(ids.session_id),
        usual(_ATTRIBUTES, "gen_ai.tool.name", outcome.tool.name),
        attribute(_ATTRIBUTES, "tool.call_id", call_id),
        attributes(_ATTRIBUTES, said),
    ]
    failed = status == "error"
    return _span(ids, span_id, parent, "qwen-code.tool.execution", start, end, parts, failed)


def blocked_on_user(
    ids: Ids, span_id: bytes, parent: bytes, call_id: str, outcome: Outcome, start: int, end: int
) -> bytes:
    """Waiting for a person's permission at a screen."""
    refused = outcome.execution_status == "not_started"
    parts = [
        _session(ids.session_id),
        usual(_ATTRIBUTES, "tool.name", outcome.tool.name),
        attribute(_ATTRIBUTES, "tool.call_id", call_id),
        attribute(_ATTRIBUTES, "duration_ms", end - start),
        attributes(_ATTRIBUTES, (("decision", "cancel" if refused else "proceed_once"), ("source", "cli"))),
    ]
    return _span(ids, span_id, parent, "qwen-code.tool.blocked_on_user", start, end, parts, failed=False)


def _span(
    ids: Ids,
    span_id: bytes,
    parent: bytes,
    name: str,
    start: int,
    end: int,
    parts: list[bytes],
    failed: bool,
) -> bytes:
    return b"".join(
        (
            message(_TRACE_ID, ids.trace_id),
            message(_SPAN_ID, span_id),
            message(_PARENT, parent) if parent else b"",
            _name(name),
            _INTERNAL,
            fixed64(_START, start * 1_000_000),
            fixed64(_END, end * 1_000_000),
            *parts,
            _FAILED if failed else b"",
        )
    )


@cache
def _name(name: str) -> bytes:
    return text(_NAME, name)


def _session(session_id: str) -> bytes:
    return usual(_ATTRIBUTES, "session.id", session_id)


_INVOKE = attributes(
    _ATTRIBUTES, (("gen_ai.operation.name", "invoke_agent"), ("gen_ai.agent.name", "qwen-code"))
)
