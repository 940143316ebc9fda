"""Moves between the phases: where a step leads, and which steps are none.

Whether a gate has passed is not asked here: these are the rules that hold for an override as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sli.rollout.act import ActName
from sli.rollout.phase import MOST_ENFORCED_SHARE, Phase, Standing
from sli.rollout.standing import EnvironmentRecord

_PHASES = tuple(Phase)


class MoveRefusedError(ValueError):
    """There is no such step from where the environment stands.

    Attributes:
        environment: which.
        reason: why, and what to do.
    """

    def __init__(self, environment: str, reason: str) -> None:
        super().__init__(f"{environment}: {reason}")
        self.environment = environment
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Target:
    """Where a step leads.

    Attributes:
        phase: the phase.
        wave: 1, 2, … in `enforce`, else 0.
        pinned_version: the release that it is for.
        cohort_share: share of owners that are enforced there; 0 but in `enforce`.
        holdout_share: share of owners that are never treated.
        salt_id: of the assignment.
    """

    phase: Phase
    wave: int
    pinned_version: str | None
    cohort_share: float
    holdout_share: float
    salt_id: str

    @property
    def rank(self) -> tuple[int, int]:
        """How far it is: a later phase, or a later wave, is greater."""
        return _PHASES.index(self.phase), self.wave

    def terms(self) -> Mapping[str, Any]:
        """The terms of the act that takes an environment there."""
        return {
            "phase": str(self.phase),
            "wave": self.wave,
            "pinned_version": self.pinned_version,
            "cohort_share": self.cohort_share,
            "holdout_share": self.holdout_share,
            "salt_id": self.salt_id,
        }


def rank(standing: Standing) -> tuple[int, int]:
    """How far an environment is: a later phase, or a later wave, is greater."""
    return _PHASES.index(standing.phase), standing.wave


def gate_name(standing: Standing) -> str:
    """The gate that is next: from where the environment stands to where a promotion leads."""
    if standing.phase is Phase.ENFORCE:
        return f"enforce {standing.wave} -> enforce {standing.wave + 1}"
    following = _PHASES[_PHASES.index(standing.phase) + 1]
    return f"{standing.phase} -> {following}" + (" 1" if following is Phase.ENFORCE else "")


def promotion(
    record: EnvironmentRecord,
    *,
    version: str | None = None,
    share: float | None = None,
    holdout: float | None = None,
    salt: str | None = None,
) -> Target:
    """Where the next step leads.

    Args:
        version: the release to pin; named when the environment leaves `contract`, and only then.
        share: share of owners to enforce, in (0, 1]; named for each step into or within `enforce`.
        holdout: share of owners never to treat, in [0, 1); named with the first wave, and only then.
        salt: of the assignment; named with the first wave, and only then.

    Raises:
        MoveRefusedError: there is no such step.
    """
    now = record.standing
    following = Phase.ENFORCE if now.phase is Phase.ENFORCE else _PHASES[_PHASES.index(now.phase) + 1]
    if now.phase is Phase.CONTRACT:
        if not version:
            raise MoveRefusedError(now.environment, "name the version to pin with --version")
    elif version not in (None, now.pinned_version):
        raise MoveRefusedError(
            now.environment,
            f"{now.pinned_version} is pinned; another version begins anew: demote to contract first",
        )
    if following is not Phase.ENFORCE:
        if share is not None or holdout is not None or salt is not None:
            raise MoveRefusedError(
                now.environment, f"share, holdout and salt are for enforce; the next phase is {following}"
            )
        return Target(following, 0, version or now.pinned_version, 0.0, now.holdout_share, now.salt_id)
    first = now.phase is not Phase.ENFORCE
    if not first and (holdout is not None or salt is not None):
        raise MoveRefusedError(
            now.environment, "holdout and salt stay as they were named with wave 1: owners would change arms"
        )
    holdout = now.holdout_share if holdout is None else holdout
    share = _checked_share(record, share, holdout)
    return Target(Phase.ENFORCE, now.wave + 1, now.pinned_version, share, holdout, salt or now.salt_id)


def demotion(record: EnvironmentRecord, to: Phase) -> Target:
    """Where a step back leads.

    Args:
        to: the phase, below the one where the environment stands. Back in `contract` no version is pinned.

    Raises:
        MoveRefusedError: it would be no step back.
    """
    now = record.standing
    if _PHASES.index(to) >= _PHASES.index(now.phase):
        raise MoveRefusedError(
            now.environment, f"it stands in {now.phase}: {to} is no step back; to go on, promote"
        )
    version = None if to is Phase.CONTRACT else now.pinned_version
    return Target(to, 0, version, 0.0, now.holdout_share, now.salt_id)


def held_back_by(target: Target, after: str | None, records: Mapping[str, EnvironmentRecord]) -> str | None:
    """Why an environment may not yet take a step, where it is to come after another.

    Args:
        target: where the step leads.
        after: the environment that has to be there first; None: none has.
        records: of all environments.

    Returns:
        A sentence; None where nothing holds it back.
    """
    if after is None:
        return None
    there = f"{target.phase} wave {target.wave}" if target.wave else str(target.phase)
    record = records.get(after)
    if record is None or rank(record.standing) < target.rank:
        stands = record.standing.phase if record else Phase.CONTRACT
        return f"held back by rollout_after: {after} stands in {stands} and has to be in {there} first"
    # Its moves since it last came from behind: those that an override made were no pass.
    for standing, move in zip(reversed(record.history), reversed(record.moves), strict=True):
        if rank(standing) == target.rank and move is not None:
            if move.act is ActName.OVERRIDE:
                return (
                    f"held back by rollout_after: {after} came into {there} by an override, not by its gate"
                )
            break
    return None


def _checked_share(record: EnvironmentRecord, share: float | None, holdout: float) -> float:
    now = record.standing
    if share is None:
        raise MoveRefusedError(now.environment, "name the share of owners to enforce with --share")
    if not 0 < share <= 1 or not 0 <= holdout < 1 or share + holdout > 1:
        raise MoveRefusedError(
            now.environment, "share has to be in (0, 1], holdout in [0, 1), and both together at most 1"
        )
    if share < now.cohort_share:
        raise MoveRefusedError(
            now.environment,
            f"{share:g} is less than the {now.cohort_share:g} of now: demote, then begin anew",
        )
    if share > record.capacity_share:
        raise MoveRefusedError(
            now.environment,
            f"{share:g} is more than {record.capacity_share:g}, beyond which a capacity check has to be on "
            f"record: `toolgauge rollout capacity {now.environment} --share {share:g}`"
            + ("" if record.capacity_share > MOST_ENFORCED_SHARE else "; no override replaces it"),
        )
    return share
