"""How far the demo has been loaded, as it stands in the data directory."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path

from toolgauge.demo.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was loaded of which fleet.

    Attributes:
        last_day, seed, size, days: the fleet's.
        days_loaded: how many days are in, from the first one on.
        finished: nothing is to be loaded any more.
    """

    last_day: str
    seed: int
    size: float
    days: int
    days_loaded: int = 0
    finished: bool = False

    @staticmethod
    def nothing_of(fleet: Fleet) -> Loaded:
        """At the beginning."""
        return Loaded(fleet.last_day.isoformat(), fleet.seed, fleet.size, fleet.days)

    @property
    def fleet(self) -> Fleet:
        """The fleet that is being loaded: that of the first start, also where it is another day by now."""
        return Fleet(date.fromisoformat(self.last_day), self.seed, self.size, self.days)

    def with_day(self) -> Loaded:
        """One day further."""
        return replace(self, days_loaded=self.days_loaded + 1)

    def at_end(self) -> Loaded:
        """Finished."""
        return replace(self, finished=True)

    def write(self, path: Path) -> None:
        """Write it down."""
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(self)) + "\n")
        temporary.replace(path)


def read_loaded(path: Path) -> Loaded | None:
    """What was written down; None if nothing was."""
    try:
        return Loaded(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
