"""The agent's repeated-failure guard, as far as an agent of the demo needs it to report truly.

A state and a batch go in, what the agent logs comes out. Only complete batches come in here, with calls
that the provider did not repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from toolgauge.demo.tools import Outcome
from toolgauge.demo.wire import Value

_WARNING_FAILURES, _WARNING_BATCHES = 8, 2
# The reasons of calls that cannot be counted as failures, by precedence.
_REASONS = ("contract_violation", "cancelled", "unknown", "not_started", "post_execution_failure")
_DISABLING = ("contract_violation", "unknown")
_OF_ERRORS = {"success": "post_execution_failure", "not_started": "not_started", "cancelled": "cancelled"}


@dataclass
class Guard:
    """The guard of one prompt.

    Attributes:
        mode: shadow, warn or enforce; an agent whose guard is off has none.
    """

    mode: str
    phase: str = "idle"
    _key: tuple[str, str] | None = None
    _failures: int = 0
    _batches: int = 0
    _ordinal: int = 0
    _given: int = field(default=0)
    _disabled: bool = False

    def reduce(self, batch: Sequence[Outcome], input_reset: str | None = None) -> dict[str, Value] | None:
        """What the agent logs of a batch; None if nothing.

        Args:
            input_reset: `unreliable_input`, `external_input` or `queued_prompt` if the prompt's input was so.
        """
        if self.phase == "latched":
            return None
        found = [reason for reason in (_ineligible(call) for call in batch) if reason]
        newly = not self._disabled and (
            input_reset == "unreliable_input" or any(reason in _DISABLING for reason in found)
        )
        self._disabled |= newly
        if input_reset is not None:
            return self._reset(input_reset, newly)
        if found:
            return self._reset(min(found, key=_REASONS.index), newly)
        succeeded = {call.tool.name for call in batch if call.execution_status != "error"}
        failed = [
            call for call in batch if call.execution_status == "error" and call.tool.name not in succeeded
        ]
        if not failed:
            tracked = self._key is not None and self._key[0] in succeeded
            return self._reset("success", False) if tracked else None
        if len({_key(call) for call in failed}) > 1:
            return self._reset("mixed", False)
        return self._count(failed)

    def _count(self, failed: list[Outcome]) -> dict[str, Value]:
        before = self.phase
        if _key(failed[0]) != self._key:
            self._given += 1
            self._key, self._ordinal, self.phase = _key(failed[0]), self._given, "tracking"
            self._failures, self._batches = len(failed), 1
            decision = "tracked"
        else:
            self._failures += len(failed)
            self._batches += 1
            decision = self._advance()
        call = failed[0]
        return self._record(before, decision) | {
            "terminal_status": "error",
            "execution_status": "error",
            "execution_error_type": call.error_type,
            "tool_type": call.tool.type,
        }

    def _advance(self) -> str:
        enforcing = self.mode == "enforce" and not self._disabled
        if self.phase == "warned":
            self.phase = "latched"
            return "stopped" if enforcing else "would_stop"
        if self._failures >= _WARNING_FAILURES and self._batches >= _WARNING_BATCHES:
            self.phase = "warned"
            return "would_warn" if self.mode == "shadow" else "warned"
        return "tracked"

    def _reset(self, reason: str, newly_disabled: bool) -> dict[str, Value] | None:
        before = self.phase
        if before == "idle" and not newly_disabled:
            return None
        self.phase = "idle"
        record = self._record(before, "reset")
        self._key, self._failures, self._batches, self._ordinal = None, 0, 0, 0
        return record | {"reset_reason": reason}

    def _record(self, before: str, decision: str) -> dict[str, Value]:
        return {
            "route": "acp_foreground",
            "mode": self.mode,
            "phase_before": before,
            "phase_after": self.phase,
            "decision": decision,
            "failure_count_bucket": _failure_bucket(self._failures),
            "batch_count_bucket": ("0", "1", "2", "3+")[min(self._batches, 3)],
            "candidate_ordinal": self._ordinal,
        }


def _ineligible(call: Outcome) -> str | None:
    """Why a call cannot be counted; None for a plain success or failure."""
    if call.status == "cancelled":
        return "cancelled"
    if call.execution_status is None:
        return "unknown"
    if call.status == "success":
        return "contract_violation" if call.execution_status in ("error", "cancelled") else None
    if call.execution_status == "error":
        return "unknown" if call.error_type in (None, "unknown") else None
    return _OF_ERRORS[call.execution_status]


def _key(call: Outcome) -> tuple[str, str]:
    return call.tool.name, call.error_type or ""


def _failure_bucket(failures: int) -> str:
    for least, bucket in ((8, "8+"), (5, "5-7"), (3, "3-4"), (1, "1-2")):
        if failures >= least:
            return bucket
    return "0"
