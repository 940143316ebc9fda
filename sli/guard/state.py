"""What the machine remembers of a prompt between two batches."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sli.guard.words import Phase


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What fails for which reason. Arguments are no part of it: other arguments, the same wall."""

    policy_tool_name: str
    execution_error_type: str


@dataclass(frozen=True, slots=True)
class State:
    """The state of a prompt; without arguments, of one that begins.

    Attributes:
        key: of the tracked candidate; None in idle.
        failure_count, batch_count: of the tracked candidate; 0 in idle.
        candidate_ordinal: of the tracked candidate; 0 in idle.
        last_ordinal: the highest ordinal that was given; never given again.
        enforcement_disabled: whether `enforce` acts as `warn` from here on.
    """

    phase: Phase = Phase.IDLE
    key: Key | None = None
    failure_count: int = 0
    batch_count: int = 0
    candidate_ordinal: int = 0
    last_ordinal: int = 0
    enforcement_disabled: bool = False

    def without_candidate(self) -> State:
        """The state after a reset."""
        return State(last_ordinal=self.last_ordinal, enforcement_disabled=self.enforcement_disabled)

    def with_candidate(self, key: Key, failures: int) -> State:
        """The state in which a new streak has begun."""
        ordinal = self.last_ordinal + 1
        return State(Phase.TRACKING, key, failures, 1, ordinal, ordinal, self.enforcement_disabled)

    def with_batch(self, failures: int) -> State:
        """The same candidate after one more batch, in the same phase."""
        return replace(self, failure_count=self.failure_count + failures, batch_count=self.batch_count + 1)
