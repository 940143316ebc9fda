"""Who is in the fleet, which release they run on which day, and what their guard is set to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from itertools import accumulate
from random import Random

from toolgauge.demo.versions import ANCIENT, BAD, DEVELOPMENT, FIRST, FIXED, STEADY, Version, nightly

DAYS = 36
"""Five weeks up to yesterday, and today."""

CALLS = 180_000
"""About so many tool calls in all, at full size."""

# Days are counted back from the last one, 0.
OUTAGE = 4
"""On this day the receiver is down, from ten past nine to twenty past two."""

LOSSES = {20: 0.05, 2: 0.012}
"""On these days some batches over gRPC get lost; public_cloud sends many of its own."""

_BAD_SINCE, _FIXED_SINCE = 16, 10
_NIGHTLY_ENDS = 12


@dataclass(frozen=True, slots=True)
class Owner:
    """Somebody whose agents these are.

    Attributes:
        place: number within the environment; the first ones are the last to upgrade.
        unreliable: their host cannot tell whether somebody typed, so the guard never counts.
    """

    name: str
    place: int
    unreliable: bool


@dataclass(frozen=True)
class Environment:
    """A deployment environment.

    Attributes:
        share: of the fleet's calls.
        owners: how many there are.
        spread: of the owners' sizes, sigma of a lognormal distribution.
        giant: share of one owner who is larger than all others.
        acp: share of sessions in an editor, where the guard is; the others are screens and scripts.
        queued: a collector in front keeps what cannot be delivered; else it is lost.
        over_http: batches go over HTTP, and come again when an answer is lost.
        version: the release of an owner, so many days before the last one; None: none exports.
        mode: the same for the guard.
    """

    name: str
    share: float
    owners: int
    spread: float
    giant: float
    acp: float
    queued: bool
    over_http: bool
    version: Callable[[int, int, date], Version | None]
    mode: Callable[[int, int], str]


def _internal_version(place: int, ago: int, last_day: date) -> Version:
    if ago > 29:
        return FIRST
    if ago > _BAD_SINCE:
        return STEADY
    # Half of them upgrade a day later.
    return BAD if ago > _FIXED_SINCE - place % 2 else FIXED


def _staging_version(place: int, ago: int, last_day: date) -> Version | None:
    if place == 0:
        return DEVELOPMENT
    if place == 1:
        return nightly(last_day) if ago > _NIGHTLY_ENDS else None
    return STEADY if ago > 14 else FIXED


def _private_version(place: int, ago: int, last_day: date) -> Version:
    return FIRST if ago > 21 else STEADY


def _public_version(place: int, ago: int, last_day: date) -> Version:
    if place < 12:
        return ANCIENT
    if ago > 14 or place < 24:
        return STEADY
    return BAD if ago > _FIXED_SINCE else FIXED


def _internal_mode(place: int, ago: int) -> str:
    if ago > 28:
        return "off"
    if ago > 14:
        return "shadow"
    # At the end the first wave is enforced, a twentieth of the owners.
    return "enforce" if ago < 10 and place in (5, 6) else "warn"


ENVIRONMENTS = (
    Environment(
        "internal",
        share=0.36,
        owners=44,
        spread=0.9,
        giant=0.0,
        acp=0.75,
        queued=False,
        over_http=False,
        version=_internal_version,
        mode=_internal_mode,
    ),
    Environment(
        "staging",
        share=0.05,
        owners=3,
        spread=0.5,
        giant=0.0,
        acp=0.5,
        queued=False,
        over_http=True,
        version=_staging_version,
        mode=lambda place, ago: "shadow",
    ),
    Environment(
        "private_cloud",
        share=0.29,
        owners=70,
        spread=1.1,
        giant=0.35,
        acp=0.85,
        queued=True,
        over_http=True,
        version=_private_version,
        mode=lambda place, ago: "off" if ago > 21 else "shadow",
    ),
    Environment(
        "public_cloud",
        share=0.30,
        owners=240,
        spread=1.4,
        giant=0.0,
        acp=0.65,
        queued=False,
        over_http=False,
        version=_public_version,
        mode=lambda place, ago: "shadow",
    ),
)


@dataclass(frozen=True)
class Fleet:
    """All of it: the same seed, last day, size and number of days give the same telemetry.

    Attributes:
        last_day: the last day of which there is telemetry, UTC.
        size: how much of it there is, 1 for `CALLS` tool calls in `DAYS` days.
        days: how many days there are.
    """

    last_day: date
    seed: int = 1
    size: float = 1.0
    days: int = DAYS

    def day(self, ago: int) -> date:
        """The day so many days before the last one."""
        return self.last_day - timedelta(days=ago)

    def random(self, *of: object) -> Random:
        """Random numbers of their own for each thing; texts seed alike in every process."""
        return Random("/".join(map(str, (self.seed, self.last_day, *of))))

    def pick_owner(self, environment: Environment, rng: Random) -> Owner:
        """An owner, by size."""
        owners, bounds = self._owners[environment.name]
        return rng.choices(owners, cum_weights=bounds)[0]

    @cached_property
    def _owners(self) -> dict[str, tuple[list[Owner], list[float]]]:
        return {environment.name: self._owners_of(environment) for environment in ENVIRONMENTS}

    def _owners_of(self, environment: Environment) -> tuple[list[Owner], list[float]]:
        rng = self.random("owners", environment.name)
        owners = [
            Owner(f"{environment.name}-{place:03d}@example.org", place, rng.random() < 0.08)
            for place in range(environment.owners)
        ]
        sizes = [rng.lognormvariate(0, environment.spread) for _ in owners]
        if environment.giant:
            sizes[-1] = sum(sizes[:-1]) * environment.giant / (1 - environment.giant)
        return owners, list(accumulate(sizes))
