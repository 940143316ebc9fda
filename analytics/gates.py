"""The gates of all environments: the facts put to the criteria, and what they come to, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import polars as pl

from analytics.gate_facts import GateFacts, Results
from analytics.published import polars_schema
from sli.quality import keeps_the_contract
from sli.rollout import gates
from sli.rollout.criterion import Criterion, summary, together, with_waivers
from sli.rollout.move import Target, gate_name, held_back_by
from sli.rollout.phase import Phase
from sli.rollout.standing import EnvironmentRecord, no_record
from sli.schemas import GATES
from sli.statistics.verdict import Verdict

GATE = "gate"
"""The name under which all criteria together stand in the table."""

_PHASES = tuple(Phase)


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate as it stands.

    Attributes:
        environment: the environment.
        name: from where to where.
        wave: that it leads to; 0 below enforce.
        version: the release that it is about; None where there is none.
        window_start: the first whole day since the environment came to where it stands.
        window_end: the last closed day.
        evaluated_at: until when the events told anything.
        criteria: each with its verdict, waivers noted.
    """

    environment: str
    name: str
    wave: int
    version: str | None
    window_start: date | None
    window_end: date | None
    evaluated_at: datetime
    criteria: tuple[Criterion, ...]

    @property
    def stood(self) -> tuple[Phase, int]:
        """The phase and the wave from which it leads."""
        phase = Phase(self.name.split(" ", 1)[0])
        return phase, self.wave - 1 if phase is Phase.ENFORCE else 0

    @property
    def verdict(self) -> Verdict:
        """What all criteria come to."""
        return together(self.criteria)

    @property
    def sentence(self) -> str:
        """What keeps it from passing, or that it passes."""
        return summary(self.criteria)

    def evidence(self) -> list[dict[str, Any]]:
        """The rows as JSON's types, without what is null: what an act keeps of it."""
        rows = self.rows().with_columns(
            pl.col("window_start", "window_end").cast(pl.String),
            pl.col("evaluated_at").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"),
        )
        return [
            {name: value for name, value in row.items() if value is not None}
            for row in rows.iter_rows(named=True)
        ]

    def rows(self) -> pl.DataFrame:
        """`GATES`: all together first, then each criterion."""
        whole = Criterion(GATE, self.verdict, self.sentence)
        columns = [
            {name: getattr(each, name) for name in Criterion.__slots__} for each in (whole, *self.criteria)
        ]
        schema = polars_schema(GATES)
        frame = pl.DataFrame(
            [
                each
                | {"criterion": each["name"], "verdict": str(each["verdict"])}
                | {"environment": self.environment, "gate": self.name, "wave": self.wave}
                | {"service_version": self.version, "evaluated_at": self.evaluated_at}
                | {"window_start": self.window_start, "window_end": self.window_end}
                for each in columns
            ],
            schema_overrides={name: schema[name] for name in GATES.names},
            infer_schema_length=None,
        )
        return frame.select(pl.col(name).cast(schema[name]) for name in GATES.names)


def evaluate_gate(
    facts: GateFacts,
    environment: str,
    records: Mapping[str, EnvironmentRecord],
    rollout_after: Mapping[str, str],
    version: str | None = None,
) -> Gate:
    """The next gate of an environment.

    Args:
        records: of all environments that acts name.
        rollout_after: for an environment, the one that has to go first.
        version: the release that would be pinned; in `contract` alone, the latest one if not given.
    """
    record = records.get(environment) or no_record(environment)
    standing = record.standing
    version = standing.pinned_version or version or facts.latest_version(environment)
    target = _target(record, version)
    days = facts.days_since(standing)
    found = [
        *_held_back(target, rollout_after.get(environment), records),
        *_BY_PHASE[standing.phase](_Case(facts, record, version, days)),
    ]
    return Gate(
        environment,
        gate_name(standing),
        target.wave,
        version,
        days.first,
        days.last,
        facts.as_of,
        with_waivers(found, record.waivers),
    )


def gate_rows(
    results: Results,
    as_of: datetime,
    records: Mapping[str, EnvironmentRecord],
    rollout_after: Mapping[str, str],
) -> pl.DataFrame:
    """`GATES`: the next gate of every environment that events or acts name."""
    facts = GateFacts(results, as_of)
    environments = sorted({*facts.environments, *records})
    frames = [evaluate_gate(facts, each, records, rollout_after).rows() for each in environments]
    return pl.concat([pl.DataFrame(schema=polars_schema(GATES)), *frames])


@dataclass(frozen=True, slots=True)
class _Case:
    facts: GateFacts
    record: EnvironmentRecord
    version: str | None
    days: gates.DaysFact


def _held_back(
    target: Target, after: str | None, records: Mapping[str, EnvironmentRecord]
) -> Iterator[Criterion]:
    criterion = gates.held_back(held_back_by(target, after, records))
    if criterion is not None:
        yield criterion


def _target(record: EnvironmentRecord, version: str | None) -> Target:
    now = record.standing
    if now.phase is Phase.ENFORCE:
        return Target(now.phase, now.wave + 1, version, now.cohort_share, now.holdout_share, now.salt_id)
    following = _PHASES[_PHASES.index(now.phase) + 1]
    wave = 1 if following is Phase.ENFORCE else 0
    return Target(following, wave, version, 0.0, now.holdout_share, now.salt_id)


def _contract(case: _Case) -> Iterator[Criterion]:
    environment = case.record.standing.environment
    keeps = case.version is not None and bool(keeps_the_contract(pl.Series([case.version]))[0])
    seen = case.facts.events(environment, case.version)
    yield gates.contract_bearing(case.version, keeps, seen)
    yield gates.environment_attribute(*case.facts.events_with_environment(case.version))
    yield gates.owners_known(*case.facts.sessions(environment, case.version), needed=False)


def _shadow(case: _Case) -> Iterator[Criterion]:
    standing = case.record.standing
    yield gates.complete_days(case.days)
    yield gates.baseline(case.facts.baseline(standing.environment, case.version))
    yield gates.invariants(())
    yield gates.supported_hosts(*case.facts.supported_prompts(standing, case.days))
    yield gates.review(case.record.review_of("would_stop"), "would-stop", standing.environment)


def _warn(case: _Case) -> Iterator[Criterion]:
    standing = case.record.standing
    yield gates.complete_days(case.days)
    yield gates.owners_known(*case.facts.sessions(standing.environment, case.version), needed=True)
    yield gates.invariants(())
    yield gates.review(
        case.record.review_of("repeated_after_warning"), "repeated-after-warning", standing.environment
    )


def _enforce(case: _Case) -> Iterator[Criterion]:
    yield gates.complete_days(case.days)
    yield gates.invariants(())


_BY_PHASE = {
    Phase.CONTRACT: _contract,
    Phase.SHADOW: _shadow,
    Phase.WARN: _warn,
    Phase.ENFORCE: _enforce,
}
