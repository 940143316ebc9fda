"""When a streak is long enough for a reminder."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Both must be reached. The defaults are the contract's.

    Attributes:
        failures: failed calls of the streak.
        batches: batches of the streak. The batch that starts one is never more than tracked, so that
            1 acts as 2.
    """

    failures: int = 8
    batches: int = 2


DEFAULT_THRESHOLDS = Thresholds()
