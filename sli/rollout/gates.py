"""The gates between the phases: from facts to criteria, each with a verdict and a sentence.

A criterion passes only on evidence: what is not known is blocked or undecided, never passed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from sli.baseline import COMPLETE_DAYS, MIXED_FROM
from sli.rollout.criterion import Criterion
from sli.rollout.standing import Review
from sli.statistics.verdict import Verdict

ENVIRONMENT_FROM = 0.999
"""Share of a version's events that have to name an environment."""

OWNERS_FROM = 0.99
"""Share of sessions whose owner has to be known, for enforcement."""

SAMPLE_RATIO_BELOW = 0.001
"""p below which the arms are not of the sizes that were assigned."""


@dataclass(frozen=True, slots=True)
class InvariantFinding:
    """One invariant over the window of a gate.

    Attributes:
        number: 1 to 12.
        status: `ok`, `violated` or `not_checkable`.
        violations: how many.
        detail: what is wrong, or missing.
    """

    number: int
    status: str
    violations: int
    detail: str


@dataclass(frozen=True, slots=True)
class DaysFact:
    """The days of a gate's window.

    Attributes:
        first: the first whole day since the environment came to where it stands; None before one is over.
        last: the last closed day; None as well.
        complete: complete days among them.
        incomplete: the others, in order.
        wanted: as many complete days the gate asks for.
    """

    first: date | None
    last: date | None
    complete: int
    incomplete: tuple[date, ...]
    wanted: int = COMPLETE_DAYS


def contract_bearing(version: str | None, keeps: bool, seen: int) -> Criterion:
    """The version reports an execution status by contract, and is there.

    Args:
        version: that would be pinned.
        keeps: whether it is a release that keeps the contract.
        seen: events of it in the environment.
    """
    name = "contract_bearing"
    if version is None or seen == 0:
        which = version or "a version that keeps the contract"
        return Criterion(name, Verdict.BLOCKED, f"no events of {which} came from this environment")
    if not keeps:
        return Criterion(name, Verdict.FAIL, f"{version} does not report execution statuses by contract")
    return Criterion(name, Verdict.PASS, f"{version} keeps the contract; {seen} events")


def environment_attribute(named: int, total: int) -> Criterion:
    """The version's events say which environment they are from.

    Args:
        named: events of the version that name any environment.
        total: all events of the version.
    """
    name = "environment_attribute"
    if total == 0:
        return Criterion(name, Verdict.BLOCKED, "no events of the version")
    share = named / total
    verdict = Verdict.PASS if share >= ENVIRONMENT_FROM else Verdict.FAIL
    sentence = f"{named} of {total} events of the version name their environment"
    if verdict is Verdict.FAIL:
        sentence += f": less than {ENVIRONMENT_FROM:.1%}; set deployment.environment on every agent"
    return Criterion(name, verdict, sentence, estimate=share, margin=ENVIRONMENT_FROM)


def owners_known(known: int, sessions: int, *, needed: bool) -> Criterion:
    """The owner of nearly all sessions is known.

    Args:
        known: sessions with an owner.
        sessions: all sessions of the environment and version.
        needed: whether enforcement depends on it; before that it is a warning.
    """
    name = "owners_known"
    if sessions == 0:
        return Criterion(name, Verdict.BLOCKED, "no sessions were seen")
    share = known / sessions
    sentence = f"the owner of {known} of {sessions} sessions is known"
    if share >= OWNERS_FROM:
        return Criterion(name, Verdict.PASS, sentence, estimate=share, margin=OWNERS_FROM)
    sentence += f": less than {OWNERS_FROM:.0%}; set owner.id on every agent"
    if needed:
        return Criterion(name, Verdict.BLOCKED, sentence, estimate=share, margin=OWNERS_FROM)
    sentence = f"warning, no enforcement later: {sentence}"
    return Criterion(name, Verdict.PASS, sentence, estimate=share, margin=OWNERS_FROM)


def held_back(reason: str | None) -> Criterion | None:
    """Another environment has to go first; None where none has."""
    return None if reason is None else Criterion("held_back", Verdict.BLOCKED, reason)


def complete_days(days: DaysFact) -> Criterion:
    """Enough complete days, and no other among them."""
    name = "complete_days"
    if days.incomplete:
        named = ", ".join(day.isoformat() for day in days.incomplete[:3])
        more = f" and {len(days.incomplete) - 3} more" if len(days.incomplete) > 3 else ""
        sentence = (
            f"{named}{more}: the receiver did not accept for the whole day, or telemetry was lost; "
            f"{days.complete} complete days since {days.first}"
        )
        if days.complete < days.wanted:
            return Criterion(name, Verdict.BLOCKED, f"{sentence}, {days.wanted} are needed")
        return Criterion(name, Verdict.PASS, f"{sentence}; the others are left out")
    if days.complete < days.wanted:
        return Criterion(
            name, Verdict.BLOCKED, f"{days.complete} of {days.wanted} complete days since it came here"
        )
    return Criterion(name, Verdict.PASS, f"{days.complete} complete days, {days.first} to {days.last}")


def one_version(share: float) -> Criterion:
    """The owners ran the pinned version.

    Args:
        share: of the owners' foreground prompts, that ran another version.
    """
    name = "one_version"
    if share >= MIXED_FROM:
        return Criterion(
            name,
            Verdict.BLOCKED,
            f"{share:.1%} of the owners' prompts ran another version: what changed cannot be told apart",
            estimate=share,
            margin=MIXED_FROM,
        )
    return Criterion(
        name,
        Verdict.PASS,
        f"{share:.1%} of the owners' prompts ran another version",
        share,
        margin=MIXED_FROM,
    )


def invariants(findings: Sequence[InvariantFinding]) -> Criterion:
    """No invariant was violated, and each could be checked."""
    name = "invariants"
    violated = [each for each in findings if each.status == "violated"]
    if violated:
        named = "; ".join(f"{each.number}, {each.violations} times ({each.detail})" for each in violated)
        return Criterion(name, Verdict.FAIL, f"violated: {named}", estimate=float(len(violated)), margin=0.0)
    if not findings:
        return Criterion(name, Verdict.BLOCKED, "the invariants have not been evaluated for this window")
    unchecked = [each for each in findings if each.status != "ok"]
    if unchecked:
        named = "; ".join(f"{each.number} ({each.detail})" for each in unchecked)
        return Criterion(name, Verdict.UNDECIDED, f"not checkable: {named}")
    return Criterion(name, Verdict.PASS, "all hold", estimate=0.0, margin=0.0)


def baseline(found: Mapping[str, object] | None) -> Criterion:
    """There is a baseline of the version in the environment.

    Args:
        found: the latest row of `baselines`; None where there is none.
    """
    name = "baseline"
    if found is None:
        return Criterion(name, Verdict.BLOCKED, "no window of this version has closed yet")
    window = f"{found['window_start']} to {found['window_end']}"
    if found["status"] != "ok":
        return Criterion(name, Verdict.BLOCKED, f"refused, {window}: {found['reason']}")
    rate = found["failure_rate"]
    shown = f"{rate:.2%}" if isinstance(rate, float) else "none executed"
    return Criterion(name, Verdict.PASS, f"{window}: {found['executed']} executed calls, failing {shown}")


def supported_hosts(prompts: int, guarded: int) -> Criterion:
    """There are foreground prompts of supported hosts.

    Args:
        prompts: of supported hosts, in the window.
        guarded: of these, with a record of the guard.
    """
    name = "supported_hosts"
    if prompts == 0:
        return Criterion(name, Verdict.BLOCKED, "no foreground prompt of a supported host was seen")
    return Criterion(
        name, Verdict.PASS, f"{prompts} prompts of supported hosts, {guarded} with guard records"
    )


def review(found: Review | None, subject: str, environment: str) -> Criterion:
    """People have looked at a seeded sample, and have no veto. They can veto; they cannot approve."""
    name = "review"
    if found is None:
        return Criterion(
            name,
            Verdict.BLOCKED,
            f"no review of {subject} prompts is on record since it came here: "
            f"`toolgauge rollout review {environment}`",
        )
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(found.verdicts.items()))
    if found.vetoed:
        return Criterion(name, Verdict.FAIL, f"vetoed by {found.by}: {counts}")
    return Criterion(name, Verdict.PASS, f"no veto by {found.by}: {counts}")


def sample_ratio(p: float | None, treatment: int, control: int) -> Criterion:
    """The arms have the sizes that were assigned, over owners who were active before the wave.

    Args:
        p: of the test; None without such owners.
        treatment: owners assigned to treatment.
        control: owners assigned to control.
    """
    name = "sample_ratio"
    if p is None:
        return Criterion(
            name, Verdict.BLOCKED, "no owner was active in the week before the wave", None, None, None
        )
    sentence = f"{treatment} owners in treatment, {control} in control (p = {p:.2g})"
    if p < SAMPLE_RATIO_BELOW:
        sentence += ": the arms are not what was assigned; look for owners that are lost or counted twice"
        return Criterion(name, Verdict.BLOCKED, sentence, owners_treatment=treatment, owners_control=control)
    return Criterion(name, Verdict.PASS, sentence, owners_treatment=treatment, owners_control=control)


def missing_source(name: str, sources: Collection[str], margin: float) -> Criterion:
    """A measure whose source was not collected."""
    return Criterion(
        name,
        Verdict.UNDECIDED,
        f"not collected: {', '.join(sorted(sources))}; collect it, or record a waiver for {name}",
        margin=margin,
    )
