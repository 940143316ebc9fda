"""The phases of a rollout, and where one environment stands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sli.guard import Mode

MOST_ENFORCED_SHARE = 0.05
"""The largest share of owners that may be enforced without a capacity check on record."""


class Phase(StrEnum):
    """The phases, in the order in which an environment walks through them."""

    CONTRACT = "contract"
    SHADOW = "shadow"
    WARN = "warn"
    ENFORCE = "enforce"


DESIRED_MODE = {
    Phase.CONTRACT: Mode.SHADOW,
    Phase.SHADOW: Mode.SHADOW,
    Phase.WARN: Mode.WARN,
    Phase.ENFORCE: Mode.ENFORCE,
}
"""The most that an agent is told to run in a phase."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the rollout of one environment stands since its last change.

    Attributes:
        environment: its name.
        phase: the phase.
        wave: 1, 2, … in `enforce`, else 0.
        since: when phase, wave, version or share last changed; windows of a gate and the invariants' count
            begin here.
        pinned_version: the release that everything is judged on; None before one was named.
        cohort_share: in [0, 1], share of owners that are enforced; 0 but in `enforce`.
        holdout_share: in [0, 1], share of owners that are never treated.
        salt_id: names the salt of the assignment, so that one that was spoilt can be replaced.
    """

    environment: str
    phase: Phase
    wave: int
    since: datetime
    pinned_version: str | None
    cohort_share: float
    holdout_share: float
    salt_id: str
