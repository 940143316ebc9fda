"""Acts, as people decide them: what is checked before one is put on record, and what goes into it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from analytics.gate_facts import GateFacts
from analytics.gates import Gate, evaluate_gate
from analytics.results_reader import open_results
from sli.data_directory import DataDirectory
from sli.rollout.act import Act, ActName, next_act
from sli.rollout.criterion import UNWAIVABLE
from sli.rollout.move import MoveRefusedError, Target, demotion, held_back_by, promotion
from sli.rollout.phase import MOST_ENFORCED_SHARE, Phase
from sli.rollout.standing import EnvironmentRecord, environment_records, no_record
from sli.statistics.verdict import Verdict
from toolgauge.exceptions import ActRefused
from toolgauge.rollout.record import record_act, recorded_acts
from toolgauge.rollout.sample import REVIEW_VERDICTS, Sample

_LONGEST = 1000


@dataclass(frozen=True, slots=True)
class Step:
    """The step of a promotion, as it is asked for; see `promotion` for what may be named when."""

    version: str | None = None
    share: float | None = None
    holdout: float | None = None
    salt: str | None = None


class Deciding:
    """Puts acts on record for one data directory, in the name of one person."""

    def __init__(self, directory: DataDirectory, rollout_after: Mapping[str, str], by: str) -> None:
        """Prepare.

        Args:
            rollout_after: for an environment, the one whose gates have to pass first.
            by: who decides.
        """
        self._directory = directory
        self._after = rollout_after
        self._by = _text("by", by)

    def gate(self, environment: str, version: str | None = None) -> Gate:
        """The next gate of an environment, on the results in place and the acts on record.

        Raises:
            AnalyticsError: there are no results.
            RecordDamaged, RecordUnreadable: the acts are not known.
        """
        records = environment_records(recorded_acts(self._directory))
        with open_results(self._directory) as results:
            facts = GateFacts(results, results.as_of)
            return evaluate_gate(facts, environment, records, self._after, version)

    def promote(self, environment: str, step: Step, why: str, *, override: bool = False) -> Act:
        """Move an environment on, through its gate; or, as an override, past it.

        An override needs the same step to be there, and a reason that stays on record. What another
        environment holds back, and a share beyond the capacity on record, no override moves.

        Raises:
            ActRefused: the gate does not pass, or there is no such step.
        """
        why = _text("why", why)
        gate = self.gate(environment, step.version)
        if not override and gate.verdict is not Verdict.PASS:
            raise ActRefused(
                environment,
                f"the gate {gate.name} is {gate.verdict}: {gate.sentence}. An override passes "
                "it, with a reason that stays on record",
            )
        name = ActName.OVERRIDE if override else ActName.PROMOTE

        def target(record: EnvironmentRecord, records: Mapping[str, EnvironmentRecord]) -> Target:
            found = promotion(
                record,
                version=step.version or (gate.version if record.standing.phase is Phase.CONTRACT else None),
                share=step.share,
                holdout=step.holdout,
                salt=step.salt,
            )
            held = held_back_by(found, self._after.get(environment), records)
            if held is not None:
                raise MoveRefusedError(environment, held)
            return found

        return self._move(environment, name, why, target, gate)

    def demote(self, environment: str, to: Phase, why: str) -> Act:
        """Move an environment back.

        Raises:
            ActRefused: it would be no step back.
        """
        return self._move(
            environment, ActName.DEMOTE, _text("why", why), lambda record, _: demotion(record, to), None
        )

    def waive(self, environment: str, criterion: str, why: str, *, withdraw: bool = False) -> Act:
        """Let a criterion of an environment pass undecided, or no longer; it shows on every verdict.

        Raises:
            ActRefused: the criterion is none that can be waived, or there is no waiver to withdraw.
        """
        gate = self.gate(environment)
        known = [each.name for each in gate.criteria]
        if criterion in UNWAIVABLE:
            raise ActRefused(environment, f"{criterion} cannot be waived; an override is recorded for it")
        if not withdraw and criterion not in known:
            raise ActRefused(
                environment, f"{criterion} is no criterion of {gate.name}; these are: {', '.join(known)}"
            )

        def terms(record: EnvironmentRecord) -> Mapping[str, Any]:
            if withdraw and criterion not in record.waivers:
                raise ActRefused(environment, f"there is no waiver of {criterion} to withdraw")
            return {"criterion": criterion, "withdrawn": withdraw}

        return self._grant(environment, ActName.WAIVE, _text("why", why), terms, gate)

    def review(
        self, environment: str, sample: Sample, verdicts: Mapping[str, str], veto_share: float, why: str
    ) -> Act:
        """Record what people saw in a sample of prompts.

        Args:
            sample: the prompts that were to be looked at.
            verdicts: by prompt id, one for each prompt of the sample and for no other.
            veto_share: share of prompts with useful progress from which the review is a veto, in (0, 1].

        Raises:
            ActRefused: a verdict is none, or is missing.
        """
        if not sample.prompt_ids:
            raise ActRefused(environment, f"there is no {sample.subject} prompt to review yet")
        if set(verdicts) != set(sample.prompt_ids):
            raise ActRefused(
                environment,
                f"verdicts are for {len(sample.prompt_ids)} prompts of the sample, each and no other: "
                f"{len(set(sample.prompt_ids) - set(verdicts))} are missing, "
                f"{len(set(verdicts) - set(sample.prompt_ids))} are not of it",
            )
        if not set(verdicts.values()) <= set(REVIEW_VERDICTS):
            raise ActRefused(environment, f"a verdict is one of {', '.join(REVIEW_VERDICTS)}")
        if not 0 < veto_share <= 1:
            raise ActRefused(environment, "the share for a veto has to be in (0, 1]")
        terms = {
            "subject": sample.subject,
            "service_version": sample.service_version,
            "seed": sample.seed,
            "of": sample.of,
            "veto_share": veto_share,
            "prompts": dict(sorted(verdicts.items())),
        }
        return self._grant(environment, ActName.REVIEW, _text("why", why), lambda _: terms, None)

    def capacity(self, environment: str, share: float, why: str) -> Act:
        """Record that tool servers and people can bear a share of owners beyond the usual bound.

        Raises:
            ActRefused: the share is none, or needs no check.
        """
        if not MOST_ENFORCED_SHARE < share <= 1:
            raise ActRefused(
                environment, f"a capacity check is for a share above {MOST_ENFORCED_SHARE:g}, to 1"
            )
        return self._grant(environment, ActName.CAPACITY, _text("why", why), lambda _: {"share": share}, None)

    def _move(
        self,
        environment: str,
        name: ActName,
        why: str,
        target: Callable[[EnvironmentRecord, Mapping[str, EnvironmentRecord]], Target],
        gate: Gate | None,
    ) -> Act:
        def terms(acts: Sequence[Act]) -> Mapping[str, Any]:
            records = environment_records(acts)
            record = records.get(environment) or no_record(environment)
            if gate is not None and (record.standing.phase, record.standing.wave) != gate.stood:
                raise ActRefused(environment, "it was moved meanwhile; look at its gate again")
            try:
                return target(record, records).terms()
            except MoveRefusedError as error:
                raise ActRefused(environment, error.reason) from error

        return self._record(environment, name, why, terms, gate)

    def _grant(
        self,
        environment: str,
        name: ActName,
        why: str,
        terms: Callable[[EnvironmentRecord], Mapping[str, Any]],
        gate: Gate | None,
    ) -> Act:
        def of_acts(acts: Sequence[Act]) -> Mapping[str, Any]:
            return terms(environment_records(acts).get(environment) or no_record(environment))

        return self._record(environment, name, why, of_acts, gate)

    def _record(
        self,
        environment: str,
        name: ActName,
        why: str,
        terms: Callable[[Sequence[Act]], Mapping[str, Any]],
        gate: Gate | None,
    ) -> Act:
        evidence = [] if gate is None else gate.evidence()

        def decide(acts: Sequence[Act], now: datetime) -> Act:
            return next_act(
                acts, environment, now, name, by=self._by, why=why, terms=terms(acts), evidence=evidence
            )

        return record_act(self._directory, decide)


def _text(name: str, text: str) -> str:
    text = text.strip()
    if not text or len(text) > _LONGEST or not text.isprintable():
        raise ActRefused(
            "the record of acts", f"{name} has to be one line of text, of at most {_LONGEST} signs"
        )
    return text
