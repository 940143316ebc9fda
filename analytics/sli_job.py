"""The SLI job: counts days and puts partials and tables into a draft of the results."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

import polars as pl

from analytics.published import Published
from analytics.repeats import Repeats
from analytics.results_draft import ResultsDraft
from analytics.sli_partials import SLI_PARTIALS_HOURLY, hour_start, in_hours, sli_partials
from analytics.sli_tables import SLI_TABLES
from sli.calls import counted
from sli.schemas import TOOL_CALLS

# A statement takes some milliseconds however few rows it writes: days are written together.
_PARTIALS_AT_ONCE = 50_000


class SliJob:
    """Counts days, in order, each at most once.

    Attributes:
        hours: hours that were counted.
        rows: rows that were written into the SLI tables.
    """

    def __init__(self, published: Published, repeats: Repeats, draft: ResultsDraft) -> None:
        self.hours = 0
        self.rows = 0
        self._published = published
        self._repeats = repeats
        self._draft = draft
        self._start_batch()

    def count(self, day: date, hours: list[int] | None) -> None:
        """Count the calls of `hours` of a day (hours since 1970), or of the whole day if None."""
        rows = self._published.scan(TOOL_CALLS, [day])
        if hours is not None:
            rows = in_hours(rows, hours)
        uncounted = self._repeats.uncounted(day)
        if len(uncounted):
            rows = counted(rows, uncounted.lazy())
        fresh = sli_partials(rows).collect(engine="streaming").sort(SLI_PARTIALS_HOURLY.names)
        if hours is None:
            times, others = fresh["time"].unique().sort().to_list(), fresh.clear()
        else:
            times = [hour_start(hour) for hour in hours]
            others = self._draft.partials(day).filter(~pl.col("time").is_in(times))
        self._times += times
        self._days.append(datetime.combine(day, time(), UTC))
        self._fresh.append(fresh)
        self._others.append(others)
        if sum(len(frame) for frame in self._fresh + self._others) >= _PARTIALS_AT_ONCE:
            self._write()

    def finish(self) -> None:
        """Write what is not written yet, and put the tables in order."""
        self._write()
        for table in SLI_TABLES:
            self._draft.put_in_order(table.dataset, table.order)

    def _write(self) -> None:
        if self._times:
            fresh = pl.concat(self._fresh)
            whole_days = pl.concat([fresh, *self._others])
            self._draft.replace(SLI_PARTIALS_HOURLY, self._times, fresh)
            for table in SLI_TABLES:
                hourly = table.every == "1h"
                rows = table.compute(fresh if hourly else whole_days)
                self._draft.replace(table.dataset, self._times if hourly else self._days, rows)
                self.rows += len(rows)
            self.hours += len(self._times)
        self._start_batch()

    def _start_batch(self) -> None:
        self._times: list[datetime] = []
        self._days: list[datetime] = []
        self._fresh: list[pl.DataFrame] = []
        self._others: list[pl.DataFrame] = []
