"""Producer profiles: what a kind of agent calls its events.

Another agent, or a fork that renames the prefix, is one more row here and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProducerProfile:
    """The names that one producer uses.

    Attributes:
        service_name: the `service.name` under which its telemetry is trusted.
        tool_call: event name of a finished tool call (log record, or bridged span).
        guard_decision: event name of a transition of the repeated-failure guard.
        first_contract_release: the first release that reports an execution status by contract.
    """

    service_name: str
    tool_call: str
    guard_decision: str
    first_contract_release: str


QWEN_CODE = ProducerProfile(
    service_name="qwen-code",
    tool_call="qwen-code.tool_call",
    guard_decision="qwen-code.repeated_tool_failure_guard",
    first_contract_release="0.21.10",
)

PROFILES: tuple[ProducerProfile, ...] = (QWEN_CODE,)
