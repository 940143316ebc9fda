"""The words of the guard, as producers log them."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """How far the guard may go."""

    OFF = "off"
    SHADOW = "shadow"
    WARN = "warn"
    ENFORCE = "enforce"

    @classmethod
    def parse(cls, text: str | None) -> Mode:
        """The mode that a setting names, in any case and with blanks around it.

        Missing or invalid: `shadow`, which watches and changes nothing.
        """
        try:
            return cls((text or "").strip().lower())
        except ValueError:
            return cls.SHADOW


class Phase(StrEnum):
    """Where the machine stands. After `latched` nothing is decided any more."""

    IDLE = "idle"
    TRACKING = "tracking"
    WARNED = "warned"
    LATCHED = "latched"


class DecisionName(StrEnum):
    """What came of a batch."""

    RESET = "reset"
    TRACKED = "tracked"
    WOULD_WARN = "would_warn"
    WARNED = "warned"
    WOULD_STOP = "would_stop"
    STOPPED = "stopped"


class ResetReason(StrEnum):
    """Why a candidate was dropped."""

    UNRELIABLE_INPUT = "unreliable_input"
    EXTERNAL_INPUT = "external_input"
    QUEUED_PROMPT = "queued_prompt"
    INCOMPLETE = "incomplete"
    CONTRACT_VIOLATION = "contract_violation"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    NOT_STARTED = "not_started"
    POST_EXECUTION_FAILURE = "post_execution_failure"
    SUCCESS = "success"
    MIXED = "mixed"


INELIGIBLE_PRECEDENCE = (
    ResetReason.CONTRACT_VIOLATION,
    ResetReason.CANCELLED,
    ResetReason.UNKNOWN,
    ResetReason.NOT_STARTED,
    ResetReason.POST_EXECUTION_FAILURE,
)
"""Which reason names the reset where calls of a batch give several: the first of these."""

DISABLES_ENFORCEMENT = frozenset(
    {ResetReason.CONTRACT_VIOLATION, ResetReason.UNKNOWN, ResetReason.UNRELIABLE_INPUT}
)
"""After any of these a prompt is only warned, never stopped: what it reports cannot be relied on."""

INPUT_RESETS = (ResetReason.UNRELIABLE_INPUT, ResetReason.EXTERNAL_INPUT, ResetReason.QUEUED_PROMPT)
"""Resets that the input boundary causes and no call; by precedence."""
