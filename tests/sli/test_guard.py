"""The guard: every line of its contract, with values written by hand, and what holds for any prompt."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sli.guard import (
    Batch,
    Decision,
    DecisionName,
    Key,
    Mode,
    Observation,
    Phase,
    ResetReason,
    State,
    Thresholds,
    Verdict,
    batch_count_bucket,
    failure_count_bucket,
    reduce,
    verdict,
)

READ = Key("read_file", "file_not_found")


def failed(tool: str = "read_file", error: str = "file_not_found", **fields: Any) -> Observation:
    return Observation("c", tool, "native", "error", "error", error, **fields)


def succeeded(tool: str = "read_file") -> Observation:
    return Observation("c", tool, "native", "success", "success")


def ended(status: str | None, execution_status: str | None) -> Observation:
    return Observation("c", "read_file", "native", status, execution_status, "file_not_found")


VIOLATION = ended("success", "error")
CANCELLED = ended("cancelled", "cancelled")
UNKNOWN = ended("error", None)
NOT_STARTED = ended("error", "not_started")
POST_EXECUTION = ended("error", "success")


def batch(*observations: Observation, **boundary: bool) -> Batch:
    return Batch(observations, **boundary)


def run(*batches: Batch, mode: str | None = "shadow", state: State | None = None) -> list[Decision | None]:
    return walk(batches, mode, state)[1]


def walk(
    batches: Sequence[Batch],
    mode: str | None = "shadow",
    state: State | None = None,
    thresholds: Thresholds | None = None,
) -> tuple[State, list[Decision | None]]:
    state, decisions = state or State(), []
    for each in batches:
        state, decision = reduce(state, each, mode, thresholds or Thresholds())
        decisions.append(decision)
    return state, decisions


def reasons(decisions: Sequence[Decision | None]) -> list[str | None]:
    return [decision.reason if decision else None for decision in decisions]


FOUR = batch(*[failed()] * 4)
ONE = batch(failed())
TRACKING = State(Phase.TRACKING, READ, 3, 2, 1, 1)
WARNED = State(Phase.WARNED, READ, 9, 3, 2, 2)
LATCHED = State(Phase.LATCHED, READ, 10, 4, 2, 2)
DISABLED = State(Phase.TRACKING, READ, 3, 2, 1, 1, enforcement_disabled=True)


@pytest.mark.parametrize(
    ("status", "execution_status", "expected"),
    [
        ("success", "success", Verdict(succeeded="read_file")),
        ("success", "not_started", Verdict(succeeded="read_file")),
        ("success", "error", Verdict(ineligible=ResetReason.CONTRACT_VIOLATION)),
        ("success", "cancelled", Verdict(ineligible=ResetReason.CONTRACT_VIOLATION)),
        ("error", "error", Verdict(failed=READ)),
        ("error", "success", Verdict(ineligible=ResetReason.POST_EXECUTION_FAILURE)),
        ("error", "not_started", Verdict(ineligible=ResetReason.NOT_STARTED)),
        ("error", "cancelled", Verdict(ineligible=ResetReason.CANCELLED)),
        *[
            ("cancelled", execution_status, Verdict(ineligible=ResetReason.CANCELLED))
            for execution_status in ("success", "error", "cancelled", "not_started", "unknown", "odd", None)
        ],
        *[
            (status, execution_status, Verdict(ineligible=ResetReason.UNKNOWN))
            for status in ("success", "error")
            for execution_status in (None, "", "unknown", "timeout", "Error")
        ],
        *[
            (status, execution_status, Verdict(ineligible=ResetReason.UNKNOWN))
            for status in (None, "", "unknown", "ok")
            for execution_status in ("success", "error", "cancelled", "not_started", "unknown", None)
        ],
    ],
)
def test_the_decision_table(status: str | None, execution_status: str | None, expected: Verdict) -> None:
    assert verdict(ended(status, execution_status)) == expected


@pytest.mark.parametrize("error_type", [None, "", "  ", "unknown"])
def test_a_failure_without_a_class_is_unknown(error_type: str | None) -> None:
    call = Observation("c", "read_file", "native", "error", "error", error_type)
    assert verdict(call).ineligible is ResetReason.UNKNOWN


@pytest.mark.parametrize("tool", [None, "", " ", "unknown_tool"])
@pytest.mark.parametrize("status", ["success", "error"])
def test_a_call_without_a_tool_name_is_unknown(tool: str | None, status: str) -> None:
    call = Observation("c", tool, "native", status, status, "file_not_found")
    assert verdict(call).ineligible is ResetReason.UNKNOWN


@pytest.mark.parametrize("status", ["success", "error", "cancelled"])
def test_the_other_rows_need_no_tool_name(status: str) -> None:
    call = Observation("c", None, None, status, "cancelled")
    expected = ResetReason.CONTRACT_VIOLATION if status == "success" else ResetReason.CANCELLED
    assert verdict(call).ineligible is expected


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("off", Mode.OFF),
        ("shadow", Mode.SHADOW),
        (" WARN\n", Mode.WARN),
        ("Enforce", Mode.ENFORCE),
        (None, Mode.SHADOW),
        ("", Mode.SHADOW),
        ("on", Mode.SHADOW),
    ],
)
def test_a_missing_or_invalid_mode_is_shadow(text: str | None, mode: Mode) -> None:
    assert Mode.parse(text) is mode


def test_without_a_mode_the_machine_is_in_shadow() -> None:
    state, decision = reduce(State(Phase.TRACKING, READ, 7, 1, 1, 1), ONE)
    assert decision is not None
    assert (decision.name, state.phase) == (DecisionName.WOULD_WARN, Phase.WARNED)
    assert reasons(run(FOUR, FOUR, ONE, mode="loud")) == ["tracked", "would_warn", "would_stop"]


@pytest.mark.parametrize("state", [State(), TRACKING, WARNED, LATCHED])
def test_off_decides_nothing(state: State) -> None:
    for each in (ONE, batch(VIOLATION), batch(succeeded()), batch(failed(), input_reliable=False)):
        assert reduce(state, each, Mode.OFF) == (state, None)


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.WARN, Mode.ENFORCE])
def test_latched_decides_nothing(mode: Mode) -> None:
    for each in (ONE, batch(VIOLATION), batch(succeeded()), batch(failed(), input_reliable=False)):
        assert reduce(LATCHED, each, mode) == (LATCHED, None)


@pytest.mark.parametrize(
    ("boundary", "reason", "disables"),
    [
        ({"input_reliable": False}, "unreliable_input", True),
        ({"has_external_input": True}, "external_input", False),
        ({"has_queued_prompt": True}, "queued_prompt", False),
        ({"complete": False}, "incomplete", False),
        ({"has_external_input": True, "input_reliable": False}, "unreliable_input", True),
        ({"has_external_input": True, "has_queued_prompt": True, "complete": False}, "external_input", False),
        ({"has_queued_prompt": True, "complete": False}, "queued_prompt", False),
    ],
)
def test_the_input_boundary_resets(boundary: dict[str, bool], reason: str, disables: bool) -> None:
    # Whatever the calls are: none, failures, or something else that would reset.
    for calls in ((), (failed(),), (succeeded(),), (failed(provider_duplicate=True),), (CANCELLED,)):
        state, (decision,) = walk([batch(*calls, **boundary)], state=TRACKING)
        assert state == State(last_ordinal=1, enforcement_disabled=disables)
        assert decision == Decision(
            DecisionName.RESET, Phase.TRACKING, Phase.IDLE, 3, 2, 1, ResetReason(reason)
        )


@pytest.mark.parametrize("boundary", ["has_external_input", "has_queued_prompt"])
def test_calls_behind_an_input_reset_are_not_looked_at(boundary: str) -> None:
    state, _ = walk([batch(UNKNOWN, VIOLATION, **{boundary: True})], state=TRACKING)
    assert not state.enforcement_disabled


def test_provider_duplicates_neither_advance_nor_reset() -> None:
    again = [
        failed(provider_duplicate=True),
        Observation("c", "read_file", "native", "success", "success", provider_duplicate=True),
        Observation("c", None, None, None, None, provider_duplicate=True),
    ]
    assert reduce(TRACKING, batch(*again), Mode.SHADOW) == (TRACKING, None)
    state, (decision,) = walk([batch(failed(), *again)], state=TRACKING)
    assert (state.failure_count, state.batch_count) == (4, 3)
    assert decision is not None
    assert decision.name is DecisionName.TRACKED


@pytest.mark.parametrize("state", [State(), TRACKING, WARNED])
def test_a_batch_without_calls_decides_nothing(state: State) -> None:
    assert reduce(state, batch(), Mode.SHADOW) == (state, None)


@pytest.mark.parametrize(
    ("calls", "reason", "disables"),
    [
        ((VIOLATION, CANCELLED, UNKNOWN, NOT_STARTED, POST_EXECUTION), "contract_violation", True),
        ((VIOLATION, CANCELLED), "contract_violation", True),
        ((CANCELLED, UNKNOWN, NOT_STARTED, POST_EXECUTION), "cancelled", True),
        ((CANCELLED, NOT_STARTED, POST_EXECUTION), "cancelled", False),
        ((UNKNOWN, NOT_STARTED, POST_EXECUTION), "unknown", True),
        ((NOT_STARTED, POST_EXECUTION), "not_started", False),
        ((POST_EXECUTION,), "post_execution_failure", False),
        ((ended("error", "cancelled"),), "cancelled", False),
        # One such call suffices, whatever the others are.
        ((failed(), failed(), succeeded("glob"), NOT_STARTED), "not_started", False),
        ((succeeded(), POST_EXECUTION), "post_execution_failure", False),
        ((failed(), failed("glob"), CANCELLED), "cancelled", False),
    ],
)
def test_an_ineligible_call_resets(calls: tuple[Observation, ...], reason: str, disables: bool) -> None:
    for order in (calls, calls[::-1]):
        state, (decision,) = walk([batch(*order)], state=WARNED)
        assert state == State(last_ordinal=2, enforcement_disabled=disables)
        assert decision == Decision(
            DecisionName.RESET, Phase.WARNED, Phase.IDLE, 9, 3, 2, ResetReason(reason)
        )


def test_success_of_the_tracked_tool_resets() -> None:
    for calls in ((succeeded(),), (failed(), succeeded()), (ended("success", "not_started"),)):
        state, decisions = walk([batch(*calls)], state=TRACKING)
        assert state == State(last_ordinal=1)
        assert reasons(decisions) == ["success"]


def test_success_of_other_tools_decides_nothing() -> None:
    for calls in ((succeeded("glob"),), (failed("glob"), succeeded("glob"))):
        assert reduce(TRACKING, batch(*calls), Mode.SHADOW) == (TRACKING, None)
        assert reduce(State(), batch(*calls), Mode.SHADOW) == (State(), None)


def test_failures_of_a_tool_that_also_succeeded_are_removed() -> None:
    state, (decision,) = walk([batch(failed(), failed(), failed("glob"), succeeded("glob"))])
    assert (state.key, state.failure_count) == (READ, 2)
    assert decision is not None
    assert decision.name is DecisionName.TRACKED


def test_failures_of_another_tool_outweigh_the_success_of_the_tracked_one() -> None:
    state, decisions = walk([batch(succeeded(), failed("glob", "no_match"))], state=TRACKING)
    assert (state.key, state.candidate_ordinal) == (Key("glob", "no_match"), 2)
    assert reasons(decisions) == ["tracked"]


def test_different_keys_in_one_batch_are_mixed() -> None:
    for calls in (
        (failed(), failed("glob", "file_not_found")),
        (failed(), failed("read_file", "permission_denied")),
        (failed(), failed(), failed(), failed("glob", "no_match"), succeeded("edit")),
    ):
        state, (decision,) = walk([batch(*calls)], state=TRACKING)
        assert state == State(last_ordinal=1)
        assert decision == Decision(
            DecisionName.RESET, Phase.TRACKING, Phase.IDLE, 3, 2, 1, ResetReason.MIXED
        )


def test_the_first_failure_starts_a_streak() -> None:
    state, (decision,) = walk([batch(failed(), failed(), failed())])
    assert state == State(Phase.TRACKING, READ, 3, 1, 1, 1)
    assert decision == Decision(
        DecisionName.TRACKED, Phase.IDLE, Phase.TRACKING, 3, 1, 1, key=READ, tool_type="native"
    )


@pytest.mark.parametrize("before", [TRACKING, WARNED])
def test_another_key_starts_a_new_streak(before: State) -> None:
    state, (decision,) = walk([batch(failed(error="permission_denied"))], state=before)
    key, ordinal = Key("read_file", "permission_denied"), before.last_ordinal + 1
    assert state == State(Phase.TRACKING, key, 1, 1, ordinal, ordinal)
    assert decision == Decision(
        DecisionName.TRACKED, before.phase, Phase.TRACKING, 1, 1, ordinal, key=key, tool_type="native"
    )


def test_the_batch_that_starts_a_streak_never_warns() -> None:
    thresholds = Thresholds(failures=3, batches=1)
    state, decisions = walk([batch(*[failed()] * 100), ONE, ONE], thresholds=thresholds)
    assert reasons(decisions) == ["tracked", "would_warn", "would_stop"]
    assert (state.failure_count, state.batch_count) == (102, 3)


def test_both_thresholds_must_be_reached() -> None:
    assert reasons(run(batch(*[failed()] * 8))) == ["tracked"]
    assert reasons(run(batch(*[failed()] * 8), ONE)) == ["tracked", "would_warn"]
    assert reasons(run(FOUR, batch(*[failed()] * 3))) == ["tracked", "tracked"]
    assert reasons(run(FOUR, FOUR)) == ["tracked", "would_warn"]
    assert reasons(run(*[ONE] * 8)) == [*["tracked"] * 7, "would_warn"]


@pytest.mark.parametrize(
    ("mode", "disabled", "warn", "stop"),
    [
        ("shadow", False, "would_warn", "would_stop"),
        ("shadow", True, "would_warn", "would_stop"),
        ("warn", False, "warned", "would_stop"),
        ("warn", True, "warned", "would_stop"),
        ("enforce", False, "warned", "stopped"),
        ("enforce", True, "warned", "would_stop"),
    ],
)
def test_what_each_mode_does(mode: str, disabled: bool, warn: str, stop: str) -> None:
    state, decisions = walk([FOUR, FOUR, ONE, ONE], mode, State(enforcement_disabled=disabled))
    assert reasons(decisions) == ["tracked", warn, stop, None]
    assert state == State(Phase.LATCHED, READ, 9, 3, 1, 1, disabled)
    assert [(d.phase_before, d.phase_after, d.failure_count, d.batch_count) for d in decisions if d] == [
        (Phase.IDLE, Phase.TRACKING, 4, 1),
        (Phase.TRACKING, Phase.WARNED, 8, 2),
        (Phase.WARNED, Phase.LATCHED, 9, 3),
    ]
    assert {d.candidate_ordinal for d in decisions if d} == {1}


def test_one_more_failure_after_the_reminder_stops() -> None:
    other = batch(succeeded("glob"))
    assert reasons(run(FOUR, FOUR, other, other, ONE)) == ["tracked", "would_warn", None, None, "would_stop"]


def test_after_the_reminder_a_reset_needs_a_whole_streak_again() -> None:
    decisions = run(FOUR, FOUR, batch(succeeded()), ONE, FOUR, FOUR, ONE)
    assert reasons(decisions) == [
        "tracked",
        "would_warn",
        "success",
        "tracked",
        "tracked",
        "would_warn",
        "would_stop",
    ]
    assert [decision and decision.candidate_ordinal for decision in decisions] == [1, 1, 1, 2, 2, 2, 2]


def test_thresholds_are_parameters_with_the_contracts_defaults() -> None:
    assert Thresholds() == Thresholds(failures=8, batches=2)
    _, decisions = walk([ONE] * 6, thresholds=Thresholds(failures=3, batches=4))
    assert reasons(decisions) == ["tracked", "tracked", "tracked", "would_warn", "would_stop", None]


def test_arguments_are_no_part_of_the_key() -> None:
    calls = [
        Observation(f"c{n}", "read_file", "native", "error", "error", "file_not_found") for n in "abcdefgh"
    ]
    assert reasons(run(batch(*calls[:4]), batch(*calls[4:]))) == ["tracked", "would_warn"]


@pytest.mark.parametrize("call", [CANCELLED, NOT_STARTED, POST_EXECUTION])
def test_a_reset_in_idle_that_changes_nothing_is_silent(call: Observation) -> None:
    for state in (State(), State(last_ordinal=3), State(last_ordinal=3, enforcement_disabled=True)):
        assert reduce(state, batch(call), Mode.ENFORCE) == (state, None)
    mixed = batch(failed(), failed("glob"))
    assert reduce(State(), mixed, Mode.ENFORCE) == (State(), None)
    assert reduce(State(), batch(failed(), has_external_input=True), Mode.ENFORCE) == (State(), None)


@pytest.mark.parametrize(
    ("each", "reason"),
    [
        (batch(UNKNOWN), ResetReason.UNKNOWN),
        (batch(VIOLATION), ResetReason.CONTRACT_VIOLATION),
        (batch(failed(), input_reliable=False), ResetReason.UNRELIABLE_INPUT),
        (batch(input_reliable=False), ResetReason.UNRELIABLE_INPUT),
        (batch(UNKNOWN, CANCELLED), ResetReason.CANCELLED),
    ],
)
@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.WARN, Mode.ENFORCE])
def test_a_reset_in_idle_that_newly_disables_is_emitted(each: Batch, reason: ResetReason, mode: Mode) -> None:
    state, (first, again) = walk([each, each], mode, State(last_ordinal=2))
    assert state == State(last_ordinal=2, enforcement_disabled=True)
    assert first == Decision(DecisionName.RESET, Phase.IDLE, Phase.IDLE, 0, 0, 0, reason)
    assert again is None


def test_a_reset_never_enables_enforcement_again() -> None:
    state, _ = walk([batch(CANCELLED), batch(succeeded()), ONE, batch(succeeded())], "enforce", DISABLED)
    assert state == State(last_ordinal=2, enforcement_disabled=True)
    assert reasons(run(FOUR, FOUR, ONE, mode="enforce", state=state)) == ["tracked", "warned", "would_stop"]


def test_a_reset_never_gives_an_ordinal_back() -> None:
    reset = batch(succeeded())
    decisions = run(ONE, reset, ONE, reset, batch(failed("glob")), ONE)
    assert [d and d.candidate_ordinal for d in decisions] == [1, 1, 2, 2, 3, 4]


def test_the_buckets() -> None:
    assert [failure_count_bucket(n) for n in range(10)] == [
        *["0", "1-2", "1-2", "3-4", "3-4", "5-7", "5-7", "5-7", "8+", "8+"]
    ]
    assert [batch_count_bucket(n) for n in range(5)] == ["0", "1", "2", "3+", "3+"]
    (decision,) = run(batch(*[failed()] * 6))
    assert decision is not None
    assert (decision.failure_count_bucket, decision.batch_count_bucket) == ("5-7", "1")


def test_a_reset_describes_the_state_before_it() -> None:
    decisions = run(FOUR, FOUR, batch(succeeded()))
    assert decisions[-1] is not None
    assert (decisions[-1].failure_count_bucket, decisions[-1].batch_count_bucket) == ("8+", "2")
    assert (decisions[-1].candidate_ordinal, decisions[-1].key, decisions[-1].tool_type) == (1, None, None)


OBSERVATIONS = st.one_of(
    st.builds(
        failed,
        st.sampled_from(["read_file", "glob"]),
        st.sampled_from(["file_not_found", "permission_denied"]),
        provider_duplicate=st.sampled_from([False, False, False, True]),
    ),
    st.builds(succeeded, st.sampled_from(["read_file", "glob", "edit"])),
    st.builds(
        Observation,
        call_id=st.none(),
        policy_tool_name=st.sampled_from(["read_file", "", None]),
        tool_type=st.sampled_from(["native", "mcp", None]),
        status=st.sampled_from(["success", "error", "cancelled", "unknown", None]),
        execution_status=st.sampled_from(["success", "error", "cancelled", "not_started", "odd", None]),
        execution_error_type=st.sampled_from(["file_not_found", "unknown", None]),
        provider_duplicate=st.booleans(),
    ),
)
SELDOM = st.integers(0, 19).map(lambda n: n == 0)
BATCHES = st.builds(
    Batch,
    st.one_of(
        st.integers(1, 5).map(lambda n: tuple([failed()] * n)), st.lists(OBSERVATIONS, max_size=4).map(tuple)
    ),
    complete=SELDOM.map(lambda seldom: not seldom),
    input_reliable=SELDOM.map(lambda seldom: not seldom),
    has_external_input=SELDOM,
    has_queued_prompt=SELDOM,
)
PROMPTS = st.lists(BATCHES, max_size=12)
MODES = st.sampled_from([*Mode, None, "odd"])
THRESHOLDS = st.builds(Thresholds, st.integers(1, 10), st.integers(1, 4))


@given(PROMPTS, MODES, THRESHOLDS, st.randoms())
def test_the_order_within_a_batch_never_matters(
    prompt: list[Batch], mode: str | None, thresholds: Thresholds, random: Any
) -> None:
    shuffled = [
        Batch(
            random.sample(each.observations, len(each.observations)),
            each.complete,
            each.input_reliable,
            each.has_external_input,
            each.has_queued_prompt,
        )
        for each in prompt
    ]
    assert walk(shuffled, mode, thresholds=thresholds) == walk(prompt, mode, thresholds=thresholds)


@given(PROMPTS, MODES, THRESHOLDS)
def test_what_holds_along_any_prompt(prompt: list[Batch], mode: str | None, thresholds: Thresholds) -> None:
    state, ordinals = State(), []
    for each in prompt:
        before = state
        state, decision = reduce(before, each, mode, thresholds)
        # Without a decision nothing has changed, and off and latched never decide.
        assert decision is not None or state == before
        assert decision is None or (mode is not Mode.OFF and before.phase is not Phase.LATCHED)
        assert state.enforcement_disabled >= before.enforcement_disabled
        assert state.last_ordinal >= before.last_ordinal
        assert (state.phase is Phase.IDLE) == (state.key is None) == (state.failure_count == 0)
        assert state.candidate_ordinal == (state.last_ordinal if state.key else 0)
        if decision is None:
            continue
        assert (decision.phase_before, decision.phase_after) == (before.phase, state.phase)
        assert (decision.name is DecisionName.RESET) == (decision.reset_reason is not None)
        if decision.name is DecisionName.STOPPED:
            assert mode is Mode.ENFORCE
            assert not before.enforcement_disabled
        if decision.name is not DecisionName.RESET and decision.batch_count == 1:
            ordinals.append(decision.candidate_ordinal)
    assert ordinals == list(range(1, len(ordinals) + 1))


@given(PROMPTS, THRESHOLDS)
def test_the_mode_changes_names_and_nothing_else(prompt: list[Batch], thresholds: Thresholds) -> None:
    shadow, warn, enforce = (
        walk(prompt, mode, thresholds=thresholds) for mode in ("shadow", "warn", "enforce")
    )
    assert shadow[0] == warn[0] == enforce[0]
    plain = {"would_warn": "warned", "stopped": "would_stop"}
    named = [
        [reason and plain.get(reason, reason) for reason in reasons(decisions)]
        for _, decisions in (shadow, warn, enforce)
    ]
    assert named[0] == named[1] == named[2]


def test_it_can_be_used_without_the_rest() -> None:
    code = "import sys, sli.guard; print({'polars', 'numpy', 'duckdb', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
