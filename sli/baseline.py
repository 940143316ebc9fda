"""Baselines: what is normal for one environment and one version, or why nobody can say yet.

A window ends on a closed day and has the latest seven complete days of at most ten calendar days. A day is
complete when the receiver accepted for all of it but a minute, and nothing of the version was lost on the
way, as far as its own counters tell. A complete day without events is a quiet day, not a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from sli.coverage import MOST_SECONDS_NOT_ACCEPTING
from sli.profile import QWEN_CODE
from sli.quality import COMPLETE_FROM, UNKNOWN_RATIO_BOUND
from sli.vocabulary import UNKNOWN_VERSION, UNSET_ENVIRONMENT

COMPLETE_DAYS = 7
CALENDAR_DAYS = 10
DAYS_WITH_EVENTS = 5
MIXED_FROM = 0.01
"""Share of the owners' prompts that ran another version, from which a window is mixed."""


@dataclass(frozen=True, slots=True)
class WindowDay:
    """What is known of one day for one environment and version.

    Attributes:
        seconds_not_accepting: of the receiver; None where it left no record of the day.
        completeness: of the version; None where it has no counter.
        calls: distinct calls of the version.
        unknown: of these, without a known execution status.
    """

    day: date
    seconds_not_accepting: float | None
    completeness: float | None
    calls: int
    unknown: int

    @property
    def is_complete(self) -> bool:
        """Whether the day can be part of a baseline."""
        accepted = (
            self.seconds_not_accepting is not None
            and self.seconds_not_accepting <= MOST_SECONDS_NOT_ACCEPTING
        )
        return accepted and (self.completeness is None or self.completeness >= COMPLETE_FROM)


@dataclass(frozen=True, slots=True)
class Window:
    """The days that a baseline stands on, and what speaks against it.

    Attributes:
        days: the complete days, in order; at most `COMPLETE_DAYS`.
        quiet_days: how many of them have no events.
        reasons: sentences; empty where nothing speaks against it.
    """

    end: date
    days: tuple[date, ...]
    quiet_days: int
    reasons: tuple[str, ...]

    @property
    def start(self) -> date:
        """The first complete day; the end where there is none."""
        return self.days[0] if self.days else self.end


def complete_days(known: Sequence[WindowDay], end: date) -> list[WindowDay]:
    """The latest complete days of a window, in order: at most `COMPLETE_DAYS` of `CALENDAR_DAYS`."""
    first = end - timedelta(days=CALENDAR_DAYS - 1)
    within = sorted((day for day in known if first <= day.day <= end), key=lambda day: day.day)
    return [day for day in within if day.is_complete][-COMPLETE_DAYS:]


def choose_window(
    environment: str, version: str, has_contract: bool, end: date, known: Sequence[WindowDay], mixed: float
) -> Window:
    """Choose the days of a window, and say what speaks against a baseline on them.

    Args:
        has_contract: whether the version is a release with the contract.
        end: the last day; closed.
        known: what is known of days; those outside of the calendar days do not count.
        mixed: share in [0, 1] of the owners' foreground prompts that ran another version, from the first
            of the complete days to the end.
    """
    first = end - timedelta(days=CALENDAR_DAYS - 1)
    within = sorted((d for d in known if first <= d.day <= end), key=lambda d: d.day)
    complete = complete_days(known, end)
    with_events = sum(1 for day in complete if day.calls)
    reasons = []
    if environment == UNSET_ENVIRONMENT:
        reasons.append("the environment is not set: set deployment.environment.name where the agents run")
    if version == UNKNOWN_VERSION:
        reasons.append("the version is not known: service.version is missing")
    elif not has_contract:
        reasons.append(
            f"the version makes no promise about execution statuses: it is no release from "
            f"{QWEN_CODE.first_contract_release} on"
        )
    if len(complete) < COMPLETE_DAYS:
        reasons.append(_missing_days(within, len(complete), first, end))
    if with_events < DAYS_WITH_EVENTS:
        reasons.append(
            f"{with_events} of {len(complete)} complete days have events, at least {DAYS_WITH_EVENTS} must"
        )
    calls, unknown = sum(d.calls for d in complete), sum(d.unknown for d in complete)
    if calls and calls == unknown:
        reasons.append("no call says what became of its execution")
    elif calls and unknown / calls > UNKNOWN_RATIO_BOUND:
        reasons.append(
            f"{unknown} of {calls} calls do not say what became of their execution, at most "
            f"{UNKNOWN_RATIO_BOUND:.1%} may"
        )
    if mixed > MIXED_FROM:
        reasons.append(
            f"{mixed:.1%} of its owners' prompts ran another version, at most {MIXED_FROM:.0%} may"
        )
    days = tuple(day.day for day in complete)
    return Window(end, days, len(complete) - with_events, tuple(reasons))


def _missing_days(within: Sequence[WindowDay], complete: int, first: date, end: date) -> str:
    incomplete = [day for day in within if not day.is_complete]
    down = [d for d in incomplete if (d.seconds_not_accepting or 0.0) > MOST_SECONDS_NOT_ACCEPTING]
    unrecorded = [d for d in incomplete if d.seconds_not_accepting is None]
    lossy = [d for d in incomplete if d not in down and d not in unrecorded]
    parts = [
        f"{words} on {', '.join(f'{d.day:%m-%d}' for d in days)}"
        for words, days in (
            ("the receiver did not accept all the time", down),
            ("the receiver left no record", unrecorded),
            ("telemetry was lost on the way", lossy),
        )
        if days
    ]
    if len(within) < CALENDAR_DAYS:
        parts.append("the events do not reach back further")
    why = f": {'; '.join(parts)}" if parts else ""
    return f"{complete} of {COMPLETE_DAYS} complete days from {first} to {end}{why}"
