"""Acts: what people decided about a rollout, each chained to the one before by its hash.

An act is never changed and never removed. Whatever stands later (phase, waivers, reviews) is folded from
the acts, so that the record is the whole truth and can be checked by anybody with a hash function.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

FIRST_HASH = "0" * 64
"""What the first act names as the hash before it."""


class ActName(StrEnum):
    """The kinds of acts."""

    PROMOTE = "promote"
    DEMOTE = "demote"
    OVERRIDE = "override"
    WAIVE = "waive"
    REVIEW = "review"
    CAPACITY = "capacity"


MOVES = (ActName.PROMOTE, ActName.OVERRIDE, ActName.DEMOTE)
"""The acts that move an environment; the others are what a gate asks for."""


@dataclass(frozen=True, slots=True)
class Act:
    """One act on record.

    Attributes:
        sequence: 1, 2, … over all environments: its place in the record.
        environment: the environment that it is about.
        number: 1, 2, … within the environment.
        time: when it was recorded, UTC, to the microsecond.
        act: its kind.
        by: who did it.
        why: the reason, in the words of whoever did it.
        terms: what was decided, of JSON's types; the fields depend on the kind.
        evidence: the gate as it stood, one mapping a criterion; empty where no gate was looked at.
        previous_hash: the hash of the act before it in the record; `FIRST_HASH` for the first.
        hash: SHA-256 in hexadecimal over all the fields above.
    """

    sequence: int
    environment: str
    number: int
    time: datetime
    act: ActName
    by: str
    why: str
    terms: Mapping[str, Any]
    evidence: Sequence[Mapping[str, Any]]
    previous_hash: str
    hash: str

    def line(self) -> str:
        """The act as one line of JSON, without a line end."""
        return _canonical(self._content() | {"hash": self.hash})

    def _content(self) -> dict[str, Any]:
        return {
            "sequence": self.sequence,
            "environment": self.environment,
            "number": self.number,
            "time": self.time.astimezone(UTC).isoformat(timespec="microseconds"),
            "act": str(self.act),
            "by": self.by,
            "why": self.why,
            "terms": self.terms,
            "evidence": self.evidence,
            "previous_hash": self.previous_hash,
        }

    def true_hash(self) -> str:
        """The hash that the content has, whatever `hash` says."""
        return hashlib.sha256(_canonical(self._content()).encode()).hexdigest()


class RecordDamagedError(ValueError):
    """The record of acts is not what was written.

    Attributes:
        line: the first line, from 1, that is not as it was written.
        reason: what is wrong with it.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"act {line} of the record {reason}")
        self.line = line
        self.reason = reason


def next_act(
    acts: Sequence[Act],
    environment: str,
    time: datetime,
    act: ActName,
    *,
    by: str,
    why: str,
    terms: Mapping[str, Any],
    evidence: Sequence[Mapping[str, Any]] = (),
) -> Act:
    """The act that comes after those on record.

    Args:
        acts: all acts, in the order of the record.
        time: when; a clock that went back does not put an act before the one that it follows.
        terms: of JSON's types.
        evidence: of JSON's types.
    """
    last = acts[-1] if acts else None
    number = max((each.number for each in acts if each.environment == environment), default=0) + 1
    time = max(time.astimezone(UTC), last.time) if last else time.astimezone(UTC)
    # Through JSON and back, so that what is hashed now is what is read later.
    terms, evidence = json.loads(_canonical(terms)), json.loads(_canonical(list(evidence)))
    previous = last.hash if last else FIRST_HASH
    draft = Act(len(acts) + 1, environment, number, time, act, by, why, terms, evidence, previous, "")
    return replace(draft, hash=draft.true_hash())


def read_acts(lines: Iterable[str]) -> tuple[Act, ...]:
    """All acts of a record, each checked against the one before it.

    Args:
        lines: one act each, in order.

    Raises:
        RecordDamagedError: a line is no act, or not the one that was written there.
    """
    acts: list[Act] = []
    numbers: dict[str, int] = {}
    for place, line in enumerate(lines, start=1):
        act = _parsed(place, line)
        numbers[act.environment] = numbers.get(act.environment, 0) + 1
        if act.hash != act.true_hash():
            raise RecordDamagedError(place, "was changed after it was recorded: its hash is another")
        if act.previous_hash != (acts[-1].hash if acts else FIRST_HASH):
            raise RecordDamagedError(place, "does not follow the one before it: acts were removed or put in")
        if (act.sequence, act.number) != (place, numbers[act.environment]):
            raise RecordDamagedError(place, "has a number that is not its place")
        acts.append(act)
    return tuple(acts)


def _parsed(place: int, line: str) -> Act:
    try:
        found = json.loads(line)
        return Act(**found | {"time": datetime.fromisoformat(found["time"]), "act": ActName(found["act"])})
    except (ValueError, TypeError, KeyError) as error:
        raise RecordDamagedError(place, "is no act: the line was damaged or cut short") from error


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
