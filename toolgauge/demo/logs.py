"""Log records, in the form in which the agent exports them. Times are milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from toolgauge.demo.tools import Outcome
from toolgauge.demo.wire import Value, attribute, attributes, fixed32, fixed64, message, text, usual

MODEL = "demo-model"

# opentelemetry/proto/logs/v1, LogRecord.
_TIME, _BODY, _ATTRIBUTES, _FLAGS, _TRACE_ID, _SPAN_ID, _OBSERVED = 1, 5, 6, 8, 9, 10, 11
_SAMPLED = fixed32(_FLAGS, 1)
_NO_TRACE = fixed32(_FLAGS, 0)


class Ids:
    """What the records of one prompt have in common.

    Attributes:
        session, prompt: as attributes of a log record, made once.
        trace_id, span_id: of the prompt's interaction.
    """

    __slots__ = ("prompt", "prompt_id", "session", "session_id", "span_id", "trace_id")

    def __init__(self, session_id: str, prompt_id: str, trace_id: bytes, span_id: bytes) -> None:
        self.session_id, self.prompt_id = session_id, prompt_id
        self.trace_id, self.span_id = trace_id, span_id
        self.session = usual(_ATTRIBUTES, "session.id", session_id)
        self.prompt = attribute(_ATTRIBUTES, "prompt_id", prompt_id)


def tool_call(
    ids: Ids,
    time: int,
    outcome: Outcome,
    call_id: str,
    span_id: bytes,
    duration: int,
    response_id: str,
    decision: str | None,
    by_scheduler: bool,
    by_contract: bool,
) -> bytes:
    """A call that has ended.

    Args:
        decision: what became of the permission, where the agent says it.
        by_scheduler: of the screen, scripts and subagents, which say more than an editor's.
        by_contract: with call id and execution status.
    """
    succeeded = outcome.status == "success"
    name = outcome.tool.name
    parts = [ids.session, _named("qwen-code.tool_call", time)]
    if by_contract:
        parts.append(attribute(_ATTRIBUTES, "call_id", call_id))
        if by_scheduler:
            parts.append(_UNSET_PARENT)
    said: list[tuple[str, Value]] = [("function_name", name), ("function_args", '{\n  "demo": true\n}')]
    said.append(("duration_ms", duration))
    said.append(("status", outcome.status))
    if by_contract and outcome.execution_status is not None:
        said.append(("execution_status", outcome.execution_status))
    said.append(("success", succeeded))
    if by_scheduler:
        said.append(("decision", decision))
    if outcome.error_type is not None:
        said += [("error", "(made up)"), ("error_type", outcome.error_type)]
    parts += [attributes(_ATTRIBUTES, said), ids.prompt]
    if by_scheduler:
        parts += [attribute(_ATTRIBUTES, "response_id", response_id), _content_length(duration)]
    parts.append(attributes(_ATTRIBUTES, (("tool_type", outcome.tool.type), ("mcp_server_name", None))))
    if outcome.error_type is not None:
        parts.append(
            attributes(_ATTRIBUTES, (("error.message", "(made up)"), ("error.type", outcome.error_type)))
        )
    body = _body(f"Tool call: {name}. Success: {str(succeeded).lower()}.")
    return _record(time, body, parts, ids.trace_id, span_id)


def user_prompt(ids: Ids, time: int) -> bytes:
    """A person has asked for something."""
    parts = [
        ids.session,
        _named("qwen-code.user_prompt", time),
        usual(_ATTRIBUTES, "prompt_length", 24),
        ids.prompt,
        attributes(_ATTRIBUTES, (("auth_type", "openai"), ("prompt", "(made up)"))),
    ]
    return _record(time, _body("User prompt. Length: 24."), parts, ids.trace_id, ids.span_id)


def user_retry(ids: Ids, time: int) -> bytes:
    """A person has asked for the same again, at a screen."""
    parts = [ids.session, _named("qwen-code.user_retry", time), ids.prompt]
    return _record(time, _body("User retry."), parts, ids.trace_id, ids.span_id)


def api_response(
    ids: Ids,
    time: int,
    response_id: str,
    span_id: bytes,
    duration: int,
    tokens: tuple[int, int, int, int],
    subagent: str | None,
) -> bytes:
    """The model has answered; tokens are those of the question, the answer, the cache and of thoughts."""
    question, answer, cached, thought = tokens
    parts = [
        ids.session,
        _named("qwen-code.api_response", time),
        attribute(_ATTRIBUTES, "response_id", response_id),
        attributes(_ATTRIBUTES, (("model", MODEL), ("status_code", 200), ("duration_ms", duration))),
        attribute(_ATTRIBUTES, "input_token_count", question),
        attribute(_ATTRIBUTES, "output_token_count", answer),
        attribute(_ATTRIBUTES, "cached_content_token_count", cached),
        attribute(_ATTRIBUTES, "thoughts_token_count", thought),
        attribute(_ATTRIBUTES, "total_token_count", question + answer),
        usual(_ATTRIBUTES, "response_text", None),
        ids.prompt,
        attributes(
            _ATTRIBUTES,
            (("auth_type", "openai"), ("subagent_name", subagent), ("http.status_code", 200)),
        ),
    ]
    return _record(time, _body(f"API response from {MODEL}. Status: 200."), parts, ids.trace_id, span_id)


def api_error(ids: Ids, time: int, span_id: bytes, duration: int) -> bytes:
    """The model could not be reached."""
    parts = [
        ids.session,
        _named("qwen-code.api_error", time),
        attributes(
            _ATTRIBUTES,
            (("response_id", ""), ("model", MODEL), ("duration_ms", duration), ("status_code", 500)),
        ),
        ids.prompt,
        attributes(_ATTRIBUTES, (("error_type", "InternalServerError"), ("subagent_name", None))),
    ]
    return _record(time, _body(f"API error for {MODEL}."), parts, ids.trace_id, span_id)


def conversation_finished(ids: Ids, time: int, turns: int) -> bytes:
    """A prompt in an editor is done; the record names no prompt."""
    parts = [
        ids.session,
        usual(_ATTRIBUTES, "event_name", "conversation_finished"),
        attribute(_ATTRIBUTES, "event.timestamp", _timestamp(time)),
        attributes(
            _ATTRIBUTES,
            (
                ("approvalMode", "default"),
                ("turnCount", turns),
                ("event.name", "qwen-code.conversation_finished"),
            ),
        ),
    ]
    return _record(time, _body("Conversation finished."), parts, ids.trace_id, ids.span_id)


def guard_decision(ids: Ids, time: int, said: dict[str, Value]) -> bytes:
    """A transition of the guard; it names no session."""
    name = "qwen-code.repeated_tool_failure_guard"
    parts = [_named(name, time), ids.prompt, attributes(_ATTRIBUTES, said.items())]
    body = _body(f"Repeated tool failure guard decision: {said['decision']}.")
    return _record(time, body, parts, ids.trace_id, ids.span_id)


def loop_detected(ids: Ids, time: int, loop_type: str) -> bytes:
    """The agent has stopped a loop."""
    parts = [
        ids.session,
        _named("loop_detected", time),
        usual(_ATTRIBUTES, "loop_type", loop_type),
        ids.prompt,
    ]
    return _record(time, _body(f"Loop detected. Type: {loop_type}."), parts, ids.trace_id, ids.span_id)


def session_event(session_id: str, time: int, name: str, said: tuple[tuple[str, Value], ...] = ()) -> bytes:
    """A session, or the stream of one, begins or ends; these belong to no trace."""
    parts = [_named(name, time), usual(_ATTRIBUTES, "session.id", session_id)]
    parts += [attribute(_ATTRIBUTES, key, value) for key, value in said]
    return (
        fixed64(_TIME, time * 1_000_000) + _body(f"{name}.") + b"".join(parts) + _NO_TRACE + _observed(time)
    )


def _record(time: int, body: bytes, parts: list[bytes], trace_id: bytes, span_id: bytes) -> bytes:
    return b"".join(
        (
            fixed64(_TIME, time * 1_000_000),
            body,
            *parts,
            _SAMPLED,
            message(_TRACE_ID, trace_id),
            message(_SPAN_ID, span_id),
            _observed(time),
        )
    )


def _observed(time: int) -> bytes:
    return fixed64(_OBSERVED, time * 1_000_000)


def _named(name: str, time: int) -> bytes:
    stamp = attribute(_ATTRIBUTES, "event.timestamp", _timestamp(time))
    return usual(_ATTRIBUTES, "event.name", name) + stamp


@lru_cache(maxsize=4096)
def _body(content: str) -> bytes:
    return message(_BODY, text(1, content))


def _content_length(duration: int) -> bytes:
    return usual(_ATTRIBUTES, "content_length", duration % 997)


def _timestamp(time: int) -> str:
    return f"{_second(time // 1000)}.{time % 1000:03d}Z"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


_UNSET_PARENT = attributes(_ATTRIBUTES, (("parent_call_id", None), ("source", None)))
