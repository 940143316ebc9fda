"""The releases that the fleet runs, and what is particular about each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta


@dataclass(frozen=True, slots=True)
class Version:
    """One release.

    Attributes:
        by_contract: it reports call ids and execution statuses, and has the guard.
        exits_are_errors: a command that ends with another code than 0 is a failed execution.
        broken_edits: share of edits that fail because of a defect of this release.
        unknown_share: share of calls whose execution status is not said.
        violation_share: share of failed executions that are reported as a success all the same.
    """

    name: str
    by_contract: bool = True
    exits_are_errors: bool = True
    broken_edits: float = 0.0
    unknown_share: float = 0.0001
    violation_share: float = 0.0


ANCIENT = Version("0.15.10", by_contract=False, exits_are_errors=False)
FIRST = Version("0.21.10", exits_are_errors=False, violation_share=0.06)
STEADY = Version("0.23.4")
BAD = Version("0.24.3", broken_edits=0.27)
FIXED = Version("0.24.4")
DEVELOPMENT = Version("dev", unknown_share=0.006)


def nightly(last_day: date) -> Version:
    """A nightly, built some weeks before the last day."""
    return Version(f"0.25.0-nightly.{last_day - timedelta(days=36):%Y%m%d}")
