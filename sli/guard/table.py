"""The decision table: what one call means for the guard."""

from __future__ import annotations

from dataclasses import dataclass

from sli.guard.observation import Observation
from sli.guard.state import Key
from sli.guard.words import ResetReason
from sli.vocabulary import UNKNOWN_ERROR_TYPE, UNKNOWN_TOOL, ExecutionStatus, Status


@dataclass(frozen=True, slots=True)
class Verdict:
    """Exactly one of the three is set.

    Attributes:
        succeeded: the tool that succeeded.
        failed: the tool that failed, and why: eligible for a streak.
        ineligible: why the call resets.
    """

    succeeded: str | None = None
    failed: Key | None = None
    ineligible: ResetReason | None = None


_INELIGIBLE: dict[tuple[str | None, str | None], ResetReason] = {
    (Status.SUCCESS, ExecutionStatus.ERROR): ResetReason.CONTRACT_VIOLATION,
    (Status.SUCCESS, ExecutionStatus.CANCELLED): ResetReason.CONTRACT_VIOLATION,
    (Status.ERROR, ExecutionStatus.SUCCESS): ResetReason.POST_EXECUTION_FAILURE,
    (Status.ERROR, ExecutionStatus.NOT_STARTED): ResetReason.NOT_STARTED,
    (Status.ERROR, ExecutionStatus.CANCELLED): ResetReason.CANCELLED,
}
_SUCCEEDED: frozenset[tuple[str | None, str | None]] = frozenset(
    {(Status.SUCCESS, ExecutionStatus.SUCCESS), (Status.SUCCESS, ExecutionStatus.NOT_STARTED)}
)
_FAILED: tuple[str | None, str | None] = (Status.ERROR, ExecutionStatus.ERROR)

_UNKNOWN = Verdict(ineligible=ResetReason.UNKNOWN)


def verdict(observation: Observation) -> Verdict:
    """What `observation` means. A pair that the table does not hold is unknown."""
    if observation.status == Status.CANCELLED:
        # It wins every race, even against an execution status that is missing.
        return Verdict(ineligible=ResetReason.CANCELLED)
    pair = (observation.status, observation.execution_status)
    reason = _INELIGIBLE.get(pair)
    if reason is not None:
        return Verdict(ineligible=reason)
    tool = _known(observation.policy_tool_name, UNKNOWN_TOOL)
    if tool is None:
        return _UNKNOWN
    if pair in _SUCCEEDED:
        return Verdict(succeeded=tool)
    error_type = _known(observation.execution_error_type, UNKNOWN_ERROR_TYPE)
    if pair == _FAILED and error_type is not None:
        return Verdict(failed=Key(tool, error_type))
    return _UNKNOWN


def _known(text: str | None, unknown: str) -> str | None:
    return None if text is None or text.strip() in ("", unknown) else text
