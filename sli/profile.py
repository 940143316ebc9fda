"""Producer profiles: what a kind of agent calls its events, spans, counters and attributes.

Another agent, or a fork that renames the prefix, is one more row here and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class ProducerProfile:
    """The names that one producer uses. All of them are of the form `<prefix>.<name>` unless given whole.

    Attributes:
        service_name: the `service.name` under which its telemetry is trusted.
        prefix: what its names begin with.
        first_contract_release: the first release that reports an execution status by contract.
        events: for each event table and each kind of its rows, the event name (log record, or the span
            that bridges it).
        spans: the same for spans that are no bridged log records.
        event_families: for each event table, the beginnings of names that are all its own; the kind is
            what follows, after the given word.
        counters: the counters whose increases are kept, by the word that stands in the table.
    """

    service_name: str
    prefix: str
    first_contract_release: str
    events: Mapping[str, Mapping[str, str]]
    spans: Mapping[str, Mapping[str, str]]
    event_families: Mapping[str, Mapping[str, str]]
    counters: Mapping[str, str]

    def attribute(self, name: str) -> str:
        """The key of an attribute that carries the prefix."""
        return f"{self.prefix}.{name}"

    @cached_property
    def tool_call(self) -> str:
        """The event name of a finished tool call."""
        return self.events["tool_calls"]["tool_call"]

    @cached_property
    def guard_decision(self) -> str:
        """The event name of a transition of the repeated-failure guard."""
        return self.events["guard_decisions"]["guard_decision"]


def _qwen_code(service_name: str, prefix: str) -> ProducerProfile:
    """What qwen-code sends, releases 0.15.10 to 0.24.4, under the prefix of the product or of a fork."""
    return ProducerProfile(
        service_name=service_name,
        prefix=prefix,
        first_contract_release="0.21.10",
        events={
            "tool_calls": {"tool_call": f"{prefix}.tool_call"},
            "guard_decisions": {"guard_decision": f"{prefix}.repeated_tool_failure_guard"},
            "loops": {"loop_detected": "loop_detected"},
            "prompt_events": {
                "user_prompt": f"{prefix}.user_prompt",
                "user_retry": f"{prefix}.user_retry",
                "conversation_finished": f"{prefix}.conversation_finished",
            },
            "model_calls": {
                "response": f"{prefix}.api_response",
                "error": f"{prefix}.api_error",
                "cancel": f"{prefix}.api_cancel",
                "retry": f"{prefix}.api_retry",
                "content_retry": f"{prefix}.chat.content_retry",
            },
            "sessions": {
                "start": "session.start",
                "end": "session.end",
                "sse_opened": f"{prefix}.daemon.sse.opened",
                "sse_closed": f"{prefix}.daemon.sse.closed",
            },
        },
        spans={
            "prompt_events": {"interaction": f"{prefix}.interaction"},
            "tool_executions": {
                "execution": f"{prefix}.tool.execution",
                "tool": f"{prefix}.tool",
                "blocked_on_user": f"{prefix}.tool.blocked_on_user",
            },
        },
        event_families={
            "sessions": {
                "session": f"{prefix}.daemon.session.",
                "channel": f"{prefix}.daemon.channel.",
            }
        },
        counters={
            "tool_calls": f"{prefix}.tool.call.count",
            "tool_executions": f"{prefix}.tool.execution.count",
            "guard_decisions": f"{prefix}.repeated_tool_failure_guard.count",
            "tokens": f"{prefix}.token.usage",
        },
    )


QWEN_CODE = _qwen_code("qwen-code", "qwen-code")

PROFILES: tuple[ProducerProfile, ...] = (QWEN_CODE,)
