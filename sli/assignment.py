"""Assignment: which owners a rollout treats. A pure function of environment, salt and the owner's hash.

An owner's number never changes while the salt stays, so a growing share keeps those already in it, and a
holdout at the top of the range stays out.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

import polars as pl

_DOMAIN = "toolgauge.assignment.1"
_BITS = 53


class Arm(StrEnum):
    """Where an owner is in a comparison."""

    TREATMENT = "treatment"
    CONTROL = "control"
    HOLDOUT = "holdout"
    UNASSIGNED = "unassigned"


def owner_number(environment: str, salt_id: str, owner: str) -> float:
    """The number u of an owner: uniform in [0, 1), independent over environments and salts.

    The first 53 bits (all that a double holds) of SHA-256 over the parts, each with its length before it, so
    that no two different triples are the same text.

    Args:
        environment: its name.
        salt_id: names the salt of the assignment.
        owner: the keyed hash of the owner.
    """
    parts = (_DOMAIN, environment, salt_id, owner)
    text = "".join(f"{len(part.encode())}:{part}" for part in parts)
    digest = hashlib.sha256(text.encode()).digest()
    number = int.from_bytes(digest[:8]) >> (64 - _BITS)
    return number * 2.0**-_BITS


def owner_numbers(environment: str, salt_id: str, owners: pl.Series) -> pl.Series:
    """`owner_number` of each owner: Float64; null where there is none. Distinct owners are hashed once."""
    distinct = owners.drop_nulls().unique()
    numbers = pl.Series(
        [owner_number(environment, salt_id, owner) for owner in distinct.to_list()], dtype=pl.Float64
    )
    return owners.replace_strict(distinct, numbers, default=None, return_dtype=pl.Float64)


def arm(number: float | None, cohort_share: float, holdout_share: float) -> Arm:
    """The arm of an owner.

    Args:
        number: of the owner, in [0, 1); None where the owner is not known.
        cohort_share: share of owners that are treated, from the bottom of the range.
        holdout_share: share of owners that never are, from the top of it.
    """
    if number is None:
        return Arm.UNASSIGNED
    if number < cohort_share:
        return Arm.TREATMENT
    return Arm.HOLDOUT if number >= 1 - holdout_share else Arm.CONTROL


def arm_column(number: pl.Expr, cohort_share: float, holdout_share: float) -> pl.Expr:
    """`arm` as an expression over a column of numbers: String."""
    return (
        pl.when(number.is_null())
        .then(pl.lit(str(Arm.UNASSIGNED)))
        .when(number < cohort_share)
        .then(pl.lit(str(Arm.TREATMENT)))
        .when(number >= 1 - holdout_share)
        .then(pl.lit(str(Arm.HOLDOUT)))
        .otherwise(pl.lit(str(Arm.CONTROL)))
    )
