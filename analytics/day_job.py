"""The job of the days: puts everything that belongs to a day into a draft of the results."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

import polars as pl

from analytics.day import Day
from analytics.day_partials import (
    latency_rows,
    owner_rows,
    prompt_day_rows,
    prompt_rows,
    receiver_rows,
)
from analytics.day_tables import DAY_TABLES
from analytics.partials import LATENCY_DAYS, OWNER_DAYS, PROMPT_DAYS, RECEIVER_DAYS
from analytics.results_draft import ResultsDraft
from sli.schemas import PROMPTS, SLI_HOURLY, Dataset

# A statement takes some milliseconds however few rows it writes: days are written together.
_ROWS_AT_ONCE = 50_000


class DayJob:
    """Computes days, each at most once.

    Attributes:
        rows: rows that were written.
    """

    def __init__(self, draft: ResultsDraft) -> None:
        self.rows = 0
        self._draft = draft
        self._start_batch()

    def compute(self, day: Day) -> None:
        """Compute a day, and replace what the draft holds of it."""
        self._days.append(day.day)
        for table in DAY_TABLES:
            self._add(table.dataset, table.compute(day))
        self._add(RECEIVER_DAYS, receiver_rows(day))
        self._add(PROMPT_DAYS, prompt_day_rows(day))
        self._draft.file(PROMPTS, day.day, prompt_rows(day))
        self._draft.file(OWNER_DAYS, day.day, owner_rows(day))
        self._draft.file(LATENCY_DAYS, day.day, latency_rows(day))
        if self._waiting >= _ROWS_AT_ONCE:
            self._write()

    def finish(self) -> None:
        """Write what is not written yet, and put the tables in order."""
        self._write()
        for table in DAY_TABLES:
            self._draft.put_in_order(table.dataset, table.order)

    def _add(self, dataset: Dataset, rows: pl.DataFrame) -> None:
        self._fresh.setdefault(dataset, []).append(rows)
        self._waiting += len(rows)

    def _write(self) -> None:
        starts = [datetime.combine(day, time(), UTC) for day in self._days]
        for dataset, rows in self._fresh.items():
            times: Sequence[datetime] = starts
            if dataset is SLI_HOURLY:
                times = [start + timedelta(hours=hour) for start in starts for hour in range(24)]
            self._draft.replace(dataset, times, pl.concat(rows))
        self.rows += self._waiting
        self._start_batch()

    def _start_batch(self) -> None:
        self._waiting = 0
        self._days: list[date] = []
        self._fresh: dict[Dataset, list[pl.DataFrame]] = {}
