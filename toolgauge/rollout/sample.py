"""A seeded sample of prompts for people to review: ids alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from sli.rollout.phase import Phase, Standing
from toolgauge.exceptions import ActRefused

if TYPE_CHECKING:
    import pyarrow as pa

REVIEW_VERDICTS = ("useful_progress", "none", "cannot_tell")

SUBJECTS = {
    Phase.SHADOW: ("would_stop", "shadow"),
    Phase.WARN: ("repeated_after_warning", "warn"),
}
"""What is reviewed in a phase, and the guard's mode in which a `would_stop` means that."""

_QUERY = """
SELECT DISTINCT prompt_id FROM guard_decisions
WHERE environment = ? AND service_version = ? AND mode = ? AND decision = 'would_stop'
AND route = 'acp_foreground' AND time >= ? AND prompt_id IS NOT NULL ORDER BY prompt_id
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """The prompts to look at.

    Attributes:
        subject: `would_stop`, or `repeated_after_warning`.
        service_version: of the prompts.
        seed: of the sample.
        of: how many such prompts there are.
        prompt_ids: the sample, in its order.
    """

    subject: str
    service_version: str | None
    seed: int
    of: int
    prompt_ids: tuple[str, ...]


def review_sample(
    ask: Callable[[str, list[object]], pa.Table], standing: Standing, size: int, seed: int
) -> Sample:
    """The sample of an environment, from the prompts since it came to where it stands.

    The same seed gives the same sample of the same prompts: prompts are taken in the order of a hash of the
    seed and their id, so a prompt that comes late moves no other out of order.

    Args:
        ask: answers an SQL query.
        size: most prompts.

    Raises:
        ActRefused: nothing is reviewed in the phase.
    """
    if standing.phase not in SUBJECTS:
        raise ActRefused(standing.environment, f"there is nothing to review in {standing.phase}")
    subject, mode = SUBJECTS[standing.phase]
    since: datetime = standing.since
    found = ask(_QUERY, [standing.environment, standing.pinned_version, mode, since])
    prompts: list[str] = found.column(0).to_pylist()
    order = sorted(prompts, key=lambda each: hashlib.sha256(f"{seed}:{each}".encode()).digest())
    return Sample(subject, standing.pinned_version, seed, len(prompts), tuple(order[:size]))
