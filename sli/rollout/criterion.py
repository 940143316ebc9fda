"""One criterion of a gate, and what several come to together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sli.rollout.standing import Waiver
from sli.statistics.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Criterion:
    """What one criterion of a gate comes to. Values that it does not have are None.

    Attributes:
        name: of the criterion.
        verdict: of it alone.
        detail: the verdict in a sentence, for an operator.
        estimate: how much worse it is than what it is held against.
        low: lower end of the estimate's interval.
        high: upper end of it.
        margin: how much worse it may be.
        call_weighted_estimate: the same with each prompt, not each owner, of equal weight.
        owners_treatment: owners in the arm that is judged.
        owners_control: owners in the arm that it is held against.
        half_width: half of the interval.
        forecast: when it can be decided, in words.
        waived: why an operator let it pass undecided.
    """

    name: str
    verdict: Verdict
    detail: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    margin: float | None = None
    call_weighted_estimate: float | None = None
    owners_treatment: int | None = None
    owners_control: int | None = None
    half_width: float | None = None
    forecast: str | None = None
    waived: str | None = None


UNWAIVABLE = frozenset({"invariants", "review", "held_back", "contract_bearing"})
"""Criteria that no waiver lets pass: an override, which stays visible, is for those."""


def with_waivers(criteria: Iterable[Criterion], waivers: Mapping[str, Waiver]) -> tuple[Criterion, ...]:
    """Note each waiver at its criterion, where it is used: a criterion that passes or fails needs none."""
    return tuple(
        replace(each, waived=f"{waivers[each.name].by}: {waivers[each.name].why}")
        if each.name in waivers and each.verdict is Verdict.UNDECIDED and each.name not in UNWAIVABLE
        else each
        for each in criteria
    )


def together(criteria: Sequence[Criterion]) -> Verdict:
    """What all criteria come to: the worst of blocked, fail, undecided; pass only if all do or are waived.

    All have to pass, so that none of them needs a correction for being one of many. No criteria at all are
    no pass.
    """
    verdicts = {Verdict.PASS if each.waived else each.verdict for each in criteria}
    for worst in (Verdict.BLOCKED, Verdict.FAIL, Verdict.UNDECIDED):
        if worst in verdicts or not verdicts:
            return worst
    return Verdict.PASS


def summary(criteria: Sequence[Criterion]) -> str:
    """The criteria that keep a gate from passing, in a sentence."""
    verdict = together(criteria)
    if verdict is Verdict.PASS:
        waived = [each.name for each in criteria if each.waived]
        return "all criteria pass" + (f", {', '.join(waived)} by waiver" if waived else "")
    return "; ".join(
        f"{each.name}: {each.detail}" for each in criteria if each.verdict is verdict and not each.waived
    )
