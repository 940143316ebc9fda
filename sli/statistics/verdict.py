"""The verdicts of a criterion, and of a gate."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """What the evidence says.

    `blocked`: the question cannot be asked yet; `undecided`: it can, and the evidence does not answer it.
    """

    PASS = "pass"
    FAIL = "fail"
    UNDECIDED = "undecided"
    BLOCKED = "blocked"
