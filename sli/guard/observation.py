"""What the guard is told: the settled calls of one model answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sli.guard.words import ResetReason


@dataclass(frozen=True, slots=True)
class Observation:
    """One settled call. The texts are those of the contract; any other text is taken as unknown.

    Attributes:
        call_id: the call's id; no decision depends on it.
        policy_tool_name: the tool, as the agent's policy names it; None or empty if it is not known.
        tool_type: native or mcp.
        status: success, error, cancelled.
        execution_status: success, error, cancelled, not_started.
        execution_error_type: class of the execution's error, frozen when it settled.
        provider_duplicate: whether the provider repeats a call that the prompt had before.
    """

    call_id: str | None = None
    policy_tool_name: str | None = None
    tool_type: str | None = None
    status: str | None = None
    execution_status: str | None = None
    execution_error_type: str | None = None
    provider_duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """All calls of one model answer, and what came in from outside before the next question.

    Attributes:
        observations: in any order: no decision depends on it.
        complete: whether all calls of the answer are among them.
        input_reliable: whether the host can tell that there was input.
        has_external_input: whether the user, or anything else outside, gave input to the prompt.
        has_queued_prompt: whether another prompt waits.
    """

    observations: Sequence[Observation] = ()
    complete: bool = True
    input_reliable: bool = True
    has_external_input: bool = False
    has_queued_prompt: bool = False

    @property
    def boundary_reset(self) -> ResetReason | None:
        """The reset that the batch causes whatever its calls are; None if there is none."""
        if not self.input_reliable:
            return ResetReason.UNRELIABLE_INPUT
        if self.has_external_input:
            return ResetReason.EXTERNAL_INPUT
        if self.has_queued_prompt:
            return ResetReason.QUEUED_PROMPT
        return None if self.complete else ResetReason.INCOMPLETE
