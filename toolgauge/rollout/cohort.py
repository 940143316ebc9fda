"""The arms of owners: the same answer for the command line, the HTTP API and whoever imports this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ingest.normalise.owner import hash_owners
from sli.assignment import Arm, arm, owner_number
from sli.data_directory import DataDirectory
from sli.rollout.phase import Standing
from toolgauge.exceptions import NoOwnerKey, NotAHash

_HASH_DIGITS = 64


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where an owner is.

    Attributes:
        environment: the environment.
        owner: the keyed hash of the owner; None where none was named.
        number: u in [0, 1); None without an owner.
        arm: the arm.
    """

    environment: str
    owner: str | None
    number: float | None
    arm: Arm


def owner_hashes(directory: DataDirectory, owners: Sequence[str]) -> list[str | None]:
    """The keyed hash of each owner, by the very function of the receiver; None where none is named.

    Raises:
        NoOwnerKey: nothing was ever received here, or the key is missing.
    """
    try:
        key = directory.owner_key.read_bytes()
    except OSError as error:
        raise NoOwnerKey(directory.owner_key, error.strerror or type(error).__name__) from error
    hashed: list[str | None] = hash_owners(pa.array(owners, pa.string()), key).to_pylist()
    return hashed


def checked_hashes(hashes: Sequence[str]) -> list[str | None]:
    """The hashes as they are.

    Raises:
        NotAHash: one of them is none; it is not shown, since it may be the owner's name.
    """
    for place, each in enumerate(hashes, start=1):
        if len(each) != _HASH_DIGITS or not set(each) <= set("0123456789abcdef"):
            raise NotAHash(place)
    return list(hashes)


def cohort(standing: Standing, hashes: Sequence[str | None]) -> list[Assignment]:
    """The arm of each owner, given its hash, where the environment stands so."""
    environment, salt = standing.environment, standing.salt_id
    numbers = [owner_number(environment, salt, each) if each is not None else None for each in hashes]
    shares = standing.cohort_share, standing.holdout_share
    return [
        Assignment(environment, each, number, arm(number, *shares))
        for each, number in zip(hashes, numbers, strict=True)
    ]
