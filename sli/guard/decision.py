"""What the machine decides: one decision a transition, with what a producer logs of it."""

from __future__ import annotations

from dataclasses import dataclass

from sli.guard.state import Key
from sli.guard.words import DecisionName, Phase, ResetReason

_FAILURE_BUCKETS = ((8, "8+"), (5, "5-7"), (3, "3-4"), (1, "1-2"))
_BATCH_BUCKETS = ((3, "3+"), (2, "2"), (1, "1"))


def failure_count_bucket(count: int) -> str:
    """The bucket of a number of failures: 0, 1-2, 3-4, 5-7, 8+."""
    return _bucket(count, _FAILURE_BUCKETS)


def batch_count_bucket(count: int) -> str:
    """The bucket of a number of batches: 0, 1, 2, 3+."""
    return _bucket(count, _BATCH_BUCKETS)


def _bucket(count: int, buckets: tuple[tuple[int, str], ...]) -> str:
    return next((name for least, name in buckets if count >= least), "0")


@dataclass(frozen=True, slots=True)
class Decision:
    """A transition.

    Attributes:
        failure_count, batch_count, candidate_ordinal: of the candidate after the batch; on a reset,
            before it.
        reset_reason: on a reset only.
        key: of the candidate; None on a reset.
        tool_type: of the failing tool; None on a reset, or if not known.
    """

    name: DecisionName
    phase_before: Phase
    phase_after: Phase
    failure_count: int
    batch_count: int
    candidate_ordinal: int
    reset_reason: ResetReason | None = None
    key: Key | None = None
    tool_type: str | None = None

    @property
    def failure_count_bucket(self) -> str:
        """As a producer logs it."""
        return failure_count_bucket(self.failure_count)

    @property
    def batch_count_bucket(self) -> str:
        """As a producer logs it."""
        return batch_count_bucket(self.batch_count)

    @property
    def reason(self) -> str:
        """The reason of a reset, else the decision's name: what decisions are counted by."""
        return str(self.name if self.reset_reason is None else self.reset_reason)
