"""The rules, in their order: a state and a batch in, the next state and a decision out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sli.guard.decision import Decision
from sli.guard.observation import Batch, Observation
from sli.guard.state import Key, State
from sli.guard.table import Verdict, verdict
from sli.guard.thresholds import DEFAULT_THRESHOLDS, Thresholds
from sli.guard.words import (
    DISABLES_ENFORCEMENT,
    INELIGIBLE_PRECEDENCE,
    DecisionName,
    Mode,
    Phase,
    ResetReason,
)


def reduce(
    state: State,
    batch: Batch,
    mode: Mode | str | None = None,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
) -> tuple[State, Decision | None]:
    """One step of the machine.

    Args:
        state: of the prompt, before the batch.
        batch: the calls of one model answer.
        mode: missing or invalid means shadow.
        thresholds: of the reminder.

    Returns:
        The state after the batch, and the decision; None where nothing changes that anybody is told.
    """
    mode = Mode.parse(mode)
    if mode is Mode.OFF or state.phase is Phase.LATCHED:
        return state, None
    boundary = batch.boundary_reset
    if boundary is not None:
        # Nothing is looked at behind it: its calls neither count nor disable anything.
        return _reset(state, boundary, boundary in DISABLES_ENFORCEMENT)
    observations = [each for each in batch.observations if not each.provider_duplicate]
    if not observations:
        return state, None
    verdicts = [verdict(each) for each in observations]
    reasons = {each.ineligible for each in verdicts if each.ineligible is not None}
    if reasons:
        named = next(reason for reason in INELIGIBLE_PRECEDENCE if reason in reasons)
        return _reset(state, named, not reasons.isdisjoint(DISABLES_ENFORCEMENT))
    return _after_eligible(state, observations, verdicts, mode, thresholds)


def _after_eligible(
    state: State,
    observations: Iterable[Observation],
    verdicts: list[Verdict],
    mode: Mode,
    thresholds: Thresholds,
) -> tuple[State, Decision | None]:
    succeeded = {each.succeeded for each in verdicts if each.succeeded is not None}
    left = [each.failed for each in verdicts if each.failed and each.failed.policy_tool_name not in succeeded]
    keys = set(left)
    if not keys:
        own_success = state.key is not None and state.key.policy_tool_name in succeeded
        return _reset(state, ResetReason.SUCCESS, False) if own_success else (state, None)
    if len(keys) > 1:
        return _reset(state, ResetReason.MIXED, False)
    (key,) = keys
    tool_type = _tool_type(observations, key)
    if key != state.key:
        return _step(state, state.with_candidate(key, len(left)), DecisionName.TRACKED, tool_type)
    after = state.with_batch(len(left))
    effective = Mode.WARN if mode is Mode.ENFORCE and state.enforcement_disabled else mode
    if state.phase is Phase.WARNED:
        name = DecisionName.STOPPED if effective is Mode.ENFORCE else DecisionName.WOULD_STOP
        return _step(state, replace(after, phase=Phase.LATCHED), name, tool_type)
    if after.failure_count >= thresholds.failures and after.batch_count >= thresholds.batches:
        name = DecisionName.WOULD_WARN if effective is Mode.SHADOW else DecisionName.WARNED
        return _step(state, replace(after, phase=Phase.WARNED), name, tool_type)
    return _step(state, after, DecisionName.TRACKED, tool_type)


def _tool_type(observations: Iterable[Observation], key: Key) -> str | None:
    types = {each.tool_type for each in observations if each.policy_tool_name == key.policy_tool_name}
    # One tool has one type; should a producer send two, the order of the calls must not choose.
    return min((each for each in types if each is not None), default=None)


def _step(
    before: State, after: State, name: DecisionName, tool_type: str | None
) -> tuple[State, Decision | None]:
    decision = Decision(
        name=name,
        phase_before=before.phase,
        phase_after=after.phase,
        failure_count=after.failure_count,
        batch_count=after.batch_count,
        candidate_ordinal=after.candidate_ordinal,
        key=after.key,
        tool_type=tool_type,
    )
    return after, decision


def _reset(state: State, reason: ResetReason, disables: bool) -> tuple[State, Decision | None]:
    disabled = state.enforcement_disabled or disables
    after = replace(state.without_candidate(), enforcement_disabled=disabled)
    if after == state:
        return state, None
    decision = Decision(
        name=DecisionName.RESET,
        phase_before=state.phase,
        phase_after=after.phase,
        failure_count=state.failure_count,
        batch_count=state.batch_count,
        candidate_ordinal=state.candidate_ordinal,
        reset_reason=reason,
    )
    return after, decision
