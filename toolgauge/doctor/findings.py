"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How well it is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        check: what was looked at.
        detail: what was found.
        advice: what to do; empty if nothing needs to be done.
    """

    check: str
    state: State
    detail: str
    advice: str = ""


def ok(check: str, detail: str) -> Finding:
    """All is well."""
    return Finding(check, State.OK, detail)


def warning(check: str, detail: str, advice: str) -> Finding:
    """It works, but somebody should know."""
    return Finding(check, State.WARNING, detail, advice)


def problem(check: str, detail: str, advice: str) -> Finding:
    """It does not work, or not for long."""
    return Finding(check, State.PROBLEM, detail, advice)
