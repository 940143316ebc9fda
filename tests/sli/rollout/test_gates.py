"""Criteria and what they come to: never a pass by absence, and a sentence that says what is missing."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from sli.rollout import gates
from sli.rollout.criterion import Criterion, summary, together, with_waivers
from sli.rollout.gates import DaysFact, InvariantFinding
from sli.rollout.standing import Review, Waiver
from sli.statistics.verdict import Verdict

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
FIRST, LAST = date(2026, 11, 1), date(2026, 11, 8)
OK = [InvariantFinding(number, "ok", 0, "") for number in range(1, 13)]
PASS, FAIL, UNDECIDED, BLOCKED = Verdict.PASS, Verdict.FAIL, Verdict.UNDECIDED, Verdict.BLOCKED


def with_status(status: str) -> list[InvariantFinding]:
    return [*OK[:9], InvariantFinding(10, status, 3, "internal, 0.24.4"), *OK[10:]]


def reviewed(vetoed: bool) -> Review:
    return Review(NOON, "Ann", "0.24.4", "would_stop", {"none": 3, "useful_progress": 1}, vetoed)


@pytest.mark.parametrize(
    ("found", "verdict", "words"),
    [
        (gates.contract_bearing("0.24.4", True, 10), PASS, "10 events"),
        (gates.contract_bearing("0.9.0", False, 10), FAIL, "does not report"),
        (gates.contract_bearing("0.24.4", True, 0), BLOCKED, "no events of 0.24.4"),
        (gates.contract_bearing(None, False, 0), BLOCKED, "no events of a version"),
        (gates.environment_attribute(999, 1000), PASS, "999 of 1000"),
        (gates.environment_attribute(998, 1000), FAIL, "deployment.environment"),
        (gates.environment_attribute(0, 0), BLOCKED, "no events"),
        (gates.owners_known(99, 100, needed=True), PASS, "99 of 100"),
        (gates.owners_known(98, 100, needed=True), BLOCKED, "owner.id"),
        (gates.owners_known(98, 100, needed=False), PASS, "warning, no enforcement later"),
        (gates.owners_known(0, 0, needed=False), BLOCKED, "no sessions"),
        (gates.complete_days(DaysFact(FIRST, LAST, 7, ())), PASS, "7 complete days"),
        (gates.complete_days(DaysFact(FIRST, LAST, 6, ())), BLOCKED, "6 of 7"),
        (gates.complete_days(DaysFact(None, None, 0, ())), BLOCKED, "0 of 7"),
        (gates.complete_days(DaysFact(FIRST, LAST, 6, (date(2026, 11, 3),))), BLOCKED, "2026-11-03: the rec"),
        (gates.complete_days(DaysFact(FIRST, LAST, 7, (date(2026, 11, 3),))), PASS, "others are left out"),
        (gates.one_version(0.009), PASS, "0.9%"),
        (gates.one_version(0.01), BLOCKED, "another version"),
        (gates.invariants(OK), PASS, "all hold"),
        (gates.invariants([]), BLOCKED, "not been evaluated"),
        (gates.invariants(with_status("violated")), FAIL, "10, 3 times"),
        (gates.invariants(with_status("not_checkable")), UNDECIDED, "not checkable: 10"),
        (gates.baseline(None), BLOCKED, "no window"),
        (gates.supported_hosts(0, 0), BLOCKED, "no foreground prompt"),
        (gates.supported_hosts(9, 3), PASS, "9 prompts of supported hosts, 3"),
        (gates.review(None, "would-stop", "internal"), BLOCKED, "rollout review internal"),
        (gates.review(reviewed(False), "would-stop", "internal"), PASS, "no veto by Ann: 3 none, 1 useful"),
        (gates.review(reviewed(True), "would-stop", "internal"), FAIL, "vetoed by Ann"),
        (gates.sample_ratio(None, 0, 0), BLOCKED, "no owner was active"),
        (gates.sample_ratio(0.0009, 9, 9), BLOCKED, "not what was assigned"),
        (gates.sample_ratio(0.001, 9, 9), PASS, "9 owners in treatment"),
        (gates.missing_source("tokens", {"model calls"}, 1.1), UNDECIDED, "not collected: model calls"),
    ],
)
def test_a_criterion(found: Criterion, verdict: Verdict, words: str) -> None:
    assert found.verdict is verdict
    assert words in found.detail


def test_a_baseline_that_is_refused_blocks_with_its_reason() -> None:
    row = {"window_start": FIRST, "window_end": LAST, "status": "refused", "reason": "6 of 7 complete days"}
    assert "6 of 7" in gates.baseline(row).detail
    good = row | {"status": "ok", "executed": 200, "failure_rate": 0.05}
    assert gates.baseline(good).detail == "2026-11-01 to 2026-11-08: 200 executed calls, failing 5.00%"
    assert gates.baseline(good | {"failure_rate": None}).verdict is PASS


@pytest.mark.parametrize(
    ("verdicts", "whole"),
    [
        ([], BLOCKED),
        ([PASS], PASS),
        ([PASS, UNDECIDED], UNDECIDED),
        ([PASS, UNDECIDED, FAIL], FAIL),
        ([PASS, UNDECIDED, FAIL, BLOCKED], BLOCKED),
    ],
)
def test_all_have_to_pass(verdicts: list[Verdict], whole: Verdict) -> None:
    found = [Criterion(f"c{n}", verdict, "so") for n, verdict in enumerate(verdicts)]
    assert together(found) is whole


def test_a_waiver_lets_what_is_undecided_pass_and_stays_visible() -> None:
    waivers = {
        name: Waiver(name, "Ann", "plain ACP", NOON) for name in ("tokens", "rounds", "latency", "invariants")
    }
    found = with_waivers(
        [
            Criterion("tokens", UNDECIDED, "not collected"),
            Criterion("rounds", PASS, "inside"),
            Criterion("complete_days", PASS, "7"),
        ],
        waivers,
    )
    assert [each.waived for each in found] == ["Ann: plain ACP", None, None]
    assert together(found) is PASS
    assert summary(found) == "all criteria pass, tokens by waiver"
    # Neither a failure, nor what must never be waived.
    for name, verdict in (("latency", FAIL), ("latency", BLOCKED), ("invariants", UNDECIDED)):
        (kept,) = with_waivers([Criterion(name, verdict, "so")], waivers)
        assert (kept.waived, together([kept])) == (None, verdict)
