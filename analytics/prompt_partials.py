"""What each day tells of prompts, worked out once a day although three days' results need it."""

from __future__ import annotations

from datetime import date

import polars as pl

from analytics.published import Published
from analytics.repeats import Repeats
from sli.calls import counted
from sli.prompts import prompt_partials
from sli.schemas import GUARD_DECISIONS, MODEL_CALLS, PROMPT_EVENTS, TOOL_CALLS

PROMPT_DATASETS = (TOOL_CALLS, MODEL_CALLS, PROMPT_EVENTS, GUARD_DECISIONS)
"""The tables whose rows say something of a prompt."""


class PromptPartials:
    """The partials of the days that were asked for last."""

    _DAYS_KEPT = 3

    def __init__(self, published: Published, repeats: Repeats) -> None:
        self._published = published
        self._repeats = repeats
        self._found: dict[date, pl.DataFrame] = {}

    def of(self, day: date) -> pl.DataFrame:
        """The prompts that any record of a day mentions: see `prompt_partials`."""
        found = self._found.pop(day, None)
        if found is None:
            while len(self._found) >= self._DAYS_KEPT:
                del self._found[next(iter(self._found))]
            others = (self._published.scan(dataset, [day]) for dataset in PROMPT_DATASETS[1:])
            found = prompt_partials(self.counted(day), *others).collect(engine="streaming")
        # Put back last: the one that was not asked for longest is the first to go.
        self._found[day] = found
        return found

    def counted(self, day: date) -> pl.LazyFrame:
        """The rows of `tool_calls` of a day that count."""
        rows = self._published.scan(TOOL_CALLS, [day])
        repeated = self._repeats.of(day).uncounted
        return counted(rows, repeated.lazy()) if len(repeated) else rows
