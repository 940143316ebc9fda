"""The answer to the control plane: one row for each thing that may hold an agent back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sli.assignment import Arm, owner_number
from sli.guard import Mode
from sli.rollout.mode import Question, Reason, RolloutState, answer
from sli.rollout.phase import Phase, Standing

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
ENFORCED = Standing("internal", Phase.ENFORCE, 2, NOON, "0.24.4", 0.05, 0.1, "1")
OWNERS = [f"{n:064x}" for n in range(400)]
NUMBERS = {owner: owner_number("internal", "1", owner) for owner in OWNERS}
TREATED = min(OWNERS, key=lambda owner: NUMBERS[owner])
HELD_OUT = max(OWNERS, key=lambda owner: NUMBERS[owner])
OUTSIDE = next(owner for owner in OWNERS if 0.3 < NUMBERS[owner] < 0.7)
QUESTION = Question("internal", TREATED, "0.24.4", "qwen-code")
STATE = RolloutState({"internal": ENFORCED}, {"qwen-code"})


def state(phase: Phase) -> RolloutState:
    return replace(STATE, standings={"internal": replace(ENFORCED, phase=phase, wave=0)})


@pytest.mark.parametrize(
    ("question", "known", "mode", "reason"),
    [
        (QUESTION, STATE, Mode.ENFORCE, Reason.IN_COHORT),
        (QUESTION, state(Phase.WARN), Mode.WARN, Reason.PHASE),
        (QUESTION, state(Phase.SHADOW), Mode.SHADOW, Reason.PHASE),
        (QUESTION, state(Phase.CONTRACT), Mode.SHADOW, Reason.PHASE),
        (replace(QUESTION, owner=OUTSIDE), STATE, Mode.WARN, Reason.OUTSIDE_COHORT),
        (replace(QUESTION, owner=HELD_OUT), STATE, Mode.WARN, Reason.HOLDOUT),
        (replace(QUESTION, owner=None), STATE, Mode.WARN, Reason.UNKNOWN_OWNER),
        (replace(QUESTION, owner=None), state(Phase.WARN), Mode.WARN, Reason.PHASE),
        (replace(QUESTION, version="0.24.5"), STATE, Mode.SHADOW, Reason.UNPINNED_VERSION),
        (replace(QUESTION, version=None), state(Phase.WARN), Mode.SHADOW, Reason.UNPINNED_VERSION),
        (replace(QUESTION, producer="other"), STATE, Mode.SHADOW, Reason.UNTRUSTED_PRODUCER),
        (replace(QUESTION, producer=None), STATE, Mode.SHADOW, Reason.UNTRUSTED_PRODUCER),
        (replace(QUESTION, environment="public"), STATE, Mode.SHADOW, Reason.UNKNOWN_ENVIRONMENT),
        (QUESTION, replace(STATE, demoted={"internal": "invariant 1"}), Mode.SHADOW, Reason.DEMOTED),
        (QUESTION, replace(STATE, demoted={"public": "invariant 1"}), Mode.ENFORCE, Reason.IN_COHORT),
        (QUESTION, replace(STATE, stop_rates={"internal": "high"}), Mode.WARN, Reason.STOP_RATE),
        (QUESTION, replace(state(Phase.WARN), stop_rates={"internal": "high"}), Mode.WARN, Reason.PHASE),
        (QUESTION, replace(STATE, unknown="results are old"), Mode.SHADOW, Reason.UNKNOWN_STATE),
    ],
)
def test_answers(question: Question, known: RolloutState, mode: Mode, reason: Reason) -> None:
    found = answer(question, known)
    assert (found.mode, found.reason) == (mode, reason)
    assert found.detail
    assert question.owner is None or question.owner not in found.detail


def test_the_answer_says_where_the_environment_stands() -> None:
    found = answer(QUESTION, STATE)
    assert (found.phase, found.wave, found.arm) == (Phase.ENFORCE, 2, Arm.TREATMENT)


@given(
    owner=st.sampled_from([*OWNERS, None]),
    version=st.sampled_from(["0.24.4", "0.24.5", None]),
    producer=st.sampled_from(["qwen-code", "other", None]),
    environment=st.sampled_from(["internal", "public"]),
    phase=st.sampled_from(Phase),
    share=st.floats(0, 0.5),
    demoted=st.booleans(),
    stops=st.booleans(),
    unknown=st.booleans(),
)
def test_enforce_only_where_everything_speaks_for_it(
    owner: str | None,
    version: str | None,
    producer: str | None,
    environment: str,
    phase: Phase,
    share: float,
    demoted: bool,
    stops: bool,
    unknown: bool,
) -> None:
    known = RolloutState(
        {"internal": replace(ENFORCED, phase=phase, cohort_share=share)},
        {"qwen-code"},
        {"internal": "violated"} if demoted else {},
        {"internal": "high"} if stops else {},
        "not known" if unknown else None,
    )
    found = answer(Question(environment, owner, version, producer), known)
    everything = (
        owner is not None
        and NUMBERS[owner] < share
        and (version, producer, environment) == ("0.24.4", "qwen-code", "internal")
        and phase is Phase.ENFORCE
        and not (demoted or stops or unknown)
    )
    assert (found.mode is Mode.ENFORCE) == everything
    if phase in (Phase.CONTRACT, Phase.SHADOW) or demoted or unknown or environment == "public":
        assert found.mode is Mode.SHADOW
