"""What the acts on record come to: where each environment stands, and what has been granted to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sli.rollout.act import MOVES, Act, ActName
from sli.rollout.phase import MOST_ENFORCED_SHARE, Phase, Standing

FIRST_SALT = "1"
"""The salt of an environment's assignment until another is named."""

_BEGINNING = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Waiver:
    """Leave to pass one criterion undecided.

    Attributes:
        criterion: its name.
        by: who gave it.
        why: the reason.
        time: when.
    """

    criterion: str
    by: str
    why: str
    time: datetime


@dataclass(frozen=True, slots=True)
class Review:
    """What people saw in a seeded sample of prompts.

    Attributes:
        time: when it was recorded.
        by: who looked.
        service_version: of the prompts.
        subject: what was sampled: `would_stop`, or `repeated_after_warning`.
        verdicts: prompts by verdict: `useful_progress`, `none` or `cannot_tell`.
        vetoed: the share with useful progress is at or above the one that was set.
    """

    time: datetime
    by: str
    service_version: str | None
    subject: str
    verdicts: Mapping[str, int]
    vetoed: bool


@dataclass(frozen=True, slots=True)
class EnvironmentRecord:
    """All that is on record about one environment.

    Attributes:
        history: where it stood, oldest first; the last is where it stands.
        moves: the act that began each of `history`; None for the beginning.
        waivers: those in force, by criterion.
        reviews: oldest first.
        capacity_share: the largest share of owners that a capacity check allows.
    """

    history: tuple[Standing, ...]
    moves: tuple[Act | None, ...]
    waivers: Mapping[str, Waiver] = field(default_factory=dict)
    reviews: tuple[Review, ...] = ()
    capacity_share: float = MOST_ENFORCED_SHARE

    @property
    def standing(self) -> Standing:
        """Where it stands."""
        return self.history[-1]

    def at(self, moment: datetime) -> Standing:
        """Where it stood at a moment."""
        return next(
            each for each in reversed(self.history) if each.since <= moment or each is self.history[0]
        )

    def review_of(self, subject: str) -> Review | None:
        """The latest review of a subject since the environment last moved."""
        since, version = self.standing.since, self.standing.pinned_version
        found = [
            each
            for each in self.reviews
            if (each.subject, each.service_version) == (subject, version) and each.time >= since
        ]
        return found[-1] if found else None


def beginning(environment: str) -> Standing:
    """Where an environment stands that nobody has moved."""
    return Standing(environment, Phase.CONTRACT, 0, _BEGINNING, None, 0.0, 0.0, FIRST_SALT)


def environment_records(acts: Iterable[Act]) -> dict[str, EnvironmentRecord]:
    """Fold acts, in the order of the record, into what is on record for each environment named in them."""
    records: dict[str, EnvironmentRecord] = {}
    for act in acts:
        found = records.get(act.environment) or no_record(act.environment)
        records[act.environment] = _with(found, act)
    return records


def no_record(environment: str) -> EnvironmentRecord:
    """The record of an environment that no act names."""
    return EnvironmentRecord((beginning(environment),), (None,))


def _with(record: EnvironmentRecord, act: Act) -> EnvironmentRecord:
    history, moves = record.history, record.moves
    waivers, reviews, capacity = dict(record.waivers), record.reviews, record.capacity_share
    if act.act in MOVES:
        history, moves = (*history, _standing(act)), (*moves, act)
        if history[-1].pinned_version != history[-2].pinned_version:
            # What was granted was granted to a version.
            waivers = {}
    elif act.act is ActName.WAIVE:
        if act.terms["withdrawn"]:
            waivers.pop(act.terms["criterion"], None)
        else:
            waivers[act.terms["criterion"]] = Waiver(act.terms["criterion"], act.by, act.why, act.time)
    elif act.act is ActName.REVIEW:
        reviews = (*reviews, _review(act))
    else:
        capacity = float(act.terms["share"])
    return EnvironmentRecord(history, moves, waivers, reviews, capacity)


def _standing(act: Act) -> Standing:
    terms = act.terms
    return Standing(
        act.environment,
        Phase(terms["phase"]),
        int(terms["wave"]),
        act.time,
        terms["pinned_version"],
        float(terms["cohort_share"]),
        float(terms["holdout_share"]),
        str(terms["salt_id"]),
    )


def _review(act: Act) -> Review:
    terms: Mapping[str, Any] = act.terms
    counts: dict[str, int] = {}
    for verdict in terms["prompts"].values():
        counts[verdict] = counts.get(verdict, 0) + 1
    useful = counts.get("useful_progress", 0) / max(1, sum(counts.values()))
    return Review(
        act.time,
        act.by,
        terms["service_version"],
        str(terms["subject"]),
        counts,
        useful >= float(terms["veto_share"]),
    )
