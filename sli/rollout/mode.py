"""The answer to the control plane: which mode an agent is to run, and why.

When anything is not known the answer is `shadow`, which watches and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sli.assignment import Arm, arm, owner_number
from sli.guard import Mode
from sli.rollout.phase import Phase, Standing


class Reason(StrEnum):
    """Why a mode is answered."""

    UNKNOWN_STATE = "unknown_state"
    UNKNOWN_ENVIRONMENT = "unknown_environment"
    DEMOTED = "demoted"
    UNTRUSTED_PRODUCER = "untrusted_producer"
    UNPINNED_VERSION = "unpinned_version"
    PHASE = "phase"
    STOP_RATE = "stop_rate"
    UNKNOWN_OWNER = "unknown_owner"
    HOLDOUT = "holdout"
    OUTSIDE_COHORT = "outside_cohort"
    IN_COHORT = "in_cohort"


@dataclass(frozen=True, slots=True)
class Question:
    """Who asks.

    Attributes:
        environment: its name.
        owner: the keyed hash of the owner; None where none is known.
        version: `service.version` of the agent; None where it does not say.
        producer: `service.name` of the agent; None where it does not say.
    """

    environment: str
    owner: str | None
    version: str | None
    producer: str | None


@dataclass(frozen=True, slots=True)
class RolloutState:
    """What the answer depends on.

    Attributes:
        standings: where each environment stands.
        producers: the trusted producers, by `service.name`.
        demoted: for each environment that an invariant has sent back, a sentence that says why.
        stop_rates: for each environment whose stop rate is above the bound of its warn phase, a sentence.
        unknown: why nothing can be told at all, a sentence; None where all is well.
    """

    standings: Mapping[str, Standing]
    producers: Collection[str]
    demoted: Mapping[str, str] = field(default_factory=dict)
    stop_rates: Mapping[str, str] = field(default_factory=dict)
    unknown: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The mode to run.

    Attributes:
        mode: `shadow`, `warn` or `enforce`.
        reason: why, in one word.
        detail: the same, in a sentence; names no owner.
        phase: of the environment; None where it is not known.
        wave: of the environment.
        arm: of the owner; None where it was not looked at.
    """

    mode: Mode
    reason: Reason
    detail: str
    phase: Phase | None
    wave: int
    arm: Arm | None


def answer(question: Question, state: RolloutState) -> Answer:
    """The mode to run: `enforce` only where everything speaks for it.

    An environment in `contract` or `shadow` is answered `shadow`. One that an invariant has sent back is
    answered `shadow` whatever its phase, and needs nobody for it. In `warn`, and where a stop rate is out
    of bounds or the owner is not in the cohort, `warn` is the most that is answered.
    """
    if state.unknown is not None:
        return Answer(Mode.SHADOW, Reason.UNKNOWN_STATE, state.unknown, None, 0, None)
    standing = state.standings.get(question.environment)
    if standing is None:
        sentence = "no act is on record for this environment"
        return Answer(Mode.SHADOW, Reason.UNKNOWN_ENVIRONMENT, sentence, None, 0, None)
    found = _held_to_shadow(question, standing, state)
    if found is None:
        found = _held_to_warn(question, standing, state)
    mode, reason, sentence, of_owner = found
    return Answer(mode, reason, sentence, standing.phase, standing.wave, of_owner)


_Found = tuple[Mode, Reason, str, Arm | None]


def _held_to_shadow(question: Question, standing: Standing, state: RolloutState) -> _Found | None:
    def shadow(reason: Reason, sentence: str) -> _Found:
        return Mode.SHADOW, reason, sentence, None

    demoted = state.demoted.get(question.environment)
    if demoted is not None:
        return shadow(Reason.DEMOTED, demoted)
    if standing.phase in (Phase.CONTRACT, Phase.SHADOW):
        return shadow(Reason.PHASE, f"the environment stands in {standing.phase}")
    if question.producer not in state.producers:
        return shadow(Reason.UNTRUSTED_PRODUCER, "the producer is none that the rollout trusts")
    if question.version is None or question.version != standing.pinned_version:
        return shadow(Reason.UNPINNED_VERSION, f"{standing.pinned_version} is pinned, and this is another")
    return None


def _held_to_warn(question: Question, standing: Standing, state: RolloutState) -> _Found:
    if standing.phase is Phase.WARN:
        return Mode.WARN, Reason.PHASE, "the environment stands in warn", None
    stop_rate = state.stop_rates.get(question.environment)
    if stop_rate is not None:
        return Mode.WARN, Reason.STOP_RATE, stop_rate, None
    if question.owner is None:
        return Mode.WARN, Reason.UNKNOWN_OWNER, "the owner is not known", Arm.UNASSIGNED
    number = owner_number(standing.environment, standing.salt_id, question.owner)
    of_owner = arm(number, standing.cohort_share, standing.holdout_share)
    if of_owner is Arm.TREATMENT:
        return Mode.ENFORCE, Reason.IN_COHORT, f"the owner is in the cohort of wave {standing.wave}", of_owner
    if of_owner is Arm.HOLDOUT:
        return Mode.WARN, Reason.HOLDOUT, "the owner is in the holdout", of_owner
    return Mode.WARN, Reason.OUTSIDE_COHORT, "the owner is not in the cohort", of_owner
