"""One UTC day of the published events, as the tables of the day need it."""

from __future__ import annotations

from datetime import date, datetime
from functools import cached_property

import polars as pl

from analytics.prompt_partials import PromptPartials
from analytics.published import Published
from analytics.repeats import Repeats
from sli.days import DAY
from sli.foreground import PROMPT_KEY, foreground_prompts, with_settled_route
from sli.partials import count_cells
from sli.prompts import (
    SESSION_KEY,
    breaks,
    first_modes,
    last_interactions,
    merged,
    prompts_of,
    with_disconnect_or_retry,
)
from sli.quality import keeps_the_contract
from sli.replay import batches
from sli.replay.eventful import ReplayedPrompts, tell_apart
from sli.schemas import (
    GUARD_DECISIONS,
    MODEL_CALLS,
    PROMPT_EVENTS,
    RECEIVER_UPTIME,
    SESSIONS,
    TOOL_CALLS,
    TOOL_EXECUTIONS,
    Dataset,
)

DISCONNECT_REASONS: tuple[str, ...] = ()
"""Reasons of a closed event stream that count as a disconnect; none, until an operator names them."""


class Day:
    """What is published of one day; each attribute is worked out once, when it is first asked for.

    Attributes:
        day: the UTC date.
        as_of: the moment until which the published events tell anything.
    """

    def __init__(
        self,
        published: Published,
        repeats: Repeats,
        partials: PromptPartials,
        day: date,
        as_of: datetime,
    ) -> None:
        self.day = day
        self.as_of = as_of
        self._published = published
        self._repeats = repeats
        self._partials = partials

    def rows(self, dataset: Dataset) -> pl.LazyFrame:
        """The rows of a dataset, of this day."""
        return self._published.scan(dataset, [self.day])

    def around(self, dataset: Dataset) -> pl.LazyFrame:
        """The rows of a dataset, of this day and the days beside it."""
        return self._published.scan(dataset, [self.day - DAY, self.day, self.day + DAY])

    @property
    def calls(self) -> pl.LazyFrame:
        """The rows of `tool_calls` that count, with their settled route."""
        return self._partials.counted(self.day).pipe(with_settled_route, self.foreground.lazy())

    @cached_property
    def uncounted(self) -> pl.DataFrame:
        """`event_id` of the rows of `tool_calls` that repeat a call."""
        return self._repeats.of(self.day).uncounted

    @cached_property
    def conflicts(self) -> pl.DataFrame:
        """`event_id` of the rows that stand for a call with two executed outcomes."""
        return self._repeats.of(self.day).conflicts

    @cached_property
    def foreground(self) -> pl.DataFrame:
        """The foreground prompts of this day and those beside it: the columns of `PROMPT_KEY`."""
        events, decisions = self.around(PROMPT_EVENTS), self.around(GUARD_DECISIONS)
        return foreground_prompts(events, decisions).collect(engine="streaming")

    @cached_property
    def cells(self) -> pl.DataFrame:
        """Counts of calls by hour and cell: see `count_cells`."""
        return count_cells(self.calls).collect(engine="streaming")

    @cached_property
    def prompts(self) -> pl.DataFrame:
        """The prompts that began on this day: see `prompts_of` and `with_disconnect_or_retry`."""
        key = list(PROMPT_KEY)
        own = self._partials.of(self.day)
        before = self._partials.of(self.day - DAY)
        began = own.join(before.select(key), on=key, how="anti")
        after = self._partials.of(self.day + DAY).join(began.select(key), on=key, how="semi")
        events = self._published.scan(PROMPT_EVENTS, [self.day, self.day + DAY])
        decisions = self._published.scan(GUARD_DECISIONS, [self.day, self.day + DAY])
        prompts = prompts_of(
            merged([began, after]) if len(after) else began.lazy(),
            last_interactions(events),
            first_modes(decisions, PROMPT_KEY, "guard_mode"),
            first_modes(self.around(GUARD_DECISIONS), SESSION_KEY, "session_mode"),
            self.foreground.lazy(),
            self.as_of,
        )
        broken = breaks(self.around(PROMPT_EVENTS), self.around(SESSIONS), DISCONNECT_REASONS)
        found = with_disconnect_or_retry(prompts, broken)
        return found.collect(engine="streaming").sort(PROMPT_KEY)

    def of_prompts(self, dataset: Dataset, prompts: pl.DataFrame) -> pl.LazyFrame:
        """The rows of `dataset` that belong to prompts that began on this day.

        Args:
            dataset: with a prompt id; of `tool_calls`, all rows, repeats of calls included.
            prompts: the columns of `PROMPT_KEY`.
        """
        rows = self._published.scan(dataset, [self.day, self.day + DAY])
        return rows.join(prompts.lazy().select(PROMPT_KEY), on=list(PROMPT_KEY), how="semi")

    @cached_property
    def logged(self) -> pl.DataFrame:
        """The guard's own records of the prompts that began on this day."""
        return self.of_prompts(GUARD_DECISIONS, self.prompts).collect(engine="streaming")

    @cached_property
    def replayed(self) -> ReplayedPrompts:
        """The prompts of releases with the contract that called tools, told apart by what a replay can find.

        Without an execution status nothing can be replayed.
        """
        versions = self.prompts["service_version"].unique()
        bound = versions.filter(keeps_the_contract(versions))
        return tell_apart(self.prompts.filter(pl.col("service_version").is_in(bound.implode())))

    @cached_property
    def batches(self) -> pl.DataFrame:
        """The calls of the prompts in which the guard may find something, by batch: see `sli.replay`."""
        prompts = self.replayed.eventful
        calls = (
            self.of_prompts(TOOL_CALLS, prompts)
            .pipe(with_settled_route, self.foreground.lazy())
            .collect(engine="streaming")
        )
        traces = calls.lazy().select("trace_id").unique()
        executions = self._published.scan(TOOL_EXECUTIONS, [self.day, self.day + DAY])
        return batches(
            calls,
            self.of_prompts(MODEL_CALLS, prompts).collect(engine="streaming"),
            executions.join(traces, on="trace_id", how="semi").collect(engine="streaming"),
        )

    def uptime(self) -> pl.DataFrame:
        """The receiver's uptime that lies on this day, at least in part: `since` and `until`."""
        day = pl.lit(self.day)
        # A row lies on the day of its end.
        spans = self._published.scan(RECEIVER_UPTIME, [self.day, self.day + DAY]).select("since", "until")
        return spans.filter((pl.col("since").dt.date() <= day) & (pl.col("until").dt.date() >= day)).collect()
