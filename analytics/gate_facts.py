"""What the gates are decided on, read from the results: days, events, owners, prompts, baselines."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, datetime, timedelta
from typing import Any, Protocol

import polars as pl

from sli.days import CLOSES_AFTER, DAY
from sli.quality import COMPLETE_FROM, keeps_the_contract
from sli.rollout.gates import DaysFact
from sli.rollout.phase import Standing
from sli.schemas import BASELINES, COVERAGE, PROMPTS, QUALITY_DAILY, SHADOW_DAILY, Dataset
from sli.vocabulary import UNSET_ENVIRONMENT

RECENT_DAYS = 7
"""Days up to the last closed one that the contract gate looks at."""


class Results(Protocol):
    """The results, in place or as a draft."""

    def read(self, dataset: Dataset) -> pl.DataFrame:
        """All rows of a table."""
        ...

    def filed(self, dataset: Dataset, days: Collection[date]) -> pl.LazyFrame:
        """The rows of `days` that files hold."""
        ...


class GateFacts:
    """The facts of all gates, read once from one state of the results."""

    def __init__(self, results: Results, as_of: datetime) -> None:
        """Read what all gates need.

        Args:
            as_of: until when the events tell anything.
        """
        self._results = results
        self.as_of = as_of
        self._quality = _with_day(results.read(QUALITY_DAILY))
        self._coverage = results.read(COVERAGE)
        self._shadow = _with_day(results.read(SHADOW_DAILY))
        self._baselines = results.read(BASELINES)

    @property
    def environments(self) -> list[str]:
        """The environments that events named, in order."""
        named = self._quality.filter(pl.col("environment") != UNSET_ENVIRONMENT)
        return sorted(named["environment"].unique().to_list())

    @property
    def last_closed_day(self) -> date:
        """The last day that is over, and its last telemetry in."""
        return (self.as_of - CLOSES_AFTER).date() - DAY

    def latest_version(self, environment: str) -> str | None:
        """The latest release in the environment that keeps the contract: the one to pin."""
        rows = self._quality.filter((pl.col("environment") == environment) & (pl.col("stored") > 0))
        rows = rows.filter(keeps_the_contract(rows["service_version"])).sort("version_order")
        return rows["service_version"][-1] if len(rows) else None

    def days_since(self, standing: Standing) -> DaysFact:
        """The whole days since an environment came to where it stands; in contract, the recent days."""
        if standing.pinned_version is None:
            return DaysFact(self.as_of.date() - RECENT_DAYS * DAY, self.last_closed_day, 0, ())
        first = standing.since.date()
        if standing.since != datetime(first.year, first.month, first.day, tzinfo=standing.since.tzinfo):
            first += DAY
        last = self.last_closed_day
        if first > last:
            return DaysFact(None, None, 0, ())
        of_version = self._quality.filter(
            (pl.col("environment") == standing.environment)
            & (pl.col("service_version") == standing.pinned_version)
            & (pl.col("completeness") < COMPLETE_FROM)
        )
        lost = set(of_version["day"].to_list())
        accepted = self._coverage.filter((pl.col("environment") == standing.environment) & pl.col("complete"))
        complete = set(accepted["day"].to_list()) - lost
        days = [first + DAY * n for n in range((last - first).days + 1)]
        incomplete = tuple(day for day in days if day not in complete)
        return DaysFact(first, last, len(days) - len(incomplete), incomplete)

    def events(self, environment: str, version: str | None) -> int:
        """Stored tool calls of a version in an environment, over the recent days."""
        rows = self._recent(version).filter(pl.col("environment") == environment)
        return int(rows["stored"].sum())

    def events_with_environment(self, version: str | None) -> tuple[int, int]:
        """Stored tool calls of a version that name any environment, and all of them, over the recent days."""
        rows = self._recent(version)
        named = rows.filter(pl.col("environment") != UNSET_ENVIRONMENT)
        return int(named["stored"].sum()), int(rows["stored"].sum())

    def sessions(self, environment: str, version: str | None) -> tuple[int, int]:
        """Sessions of the recent days with a known owner, and all of them."""
        last = self.as_of.date()
        days = [last - DAY * back for back in range(RECENT_DAYS + 1)]
        sessions = (
            self._results.filed(PROMPTS, days)
            .filter((pl.col("environment") == environment) & _is(version))
            .filter(pl.col("session_id").is_not_null())
            .group_by("session_id")
            .agg(known=pl.col("owner").is_not_null().any())
            .select(pl.col("known").sum(), sessions=pl.len())
            .collect(engine="streaming")
        )
        known, total = sessions.row(0)
        return int(known), int(total)

    def supported_prompts(self, standing: Standing, days: DaysFact) -> tuple[int, int]:
        """Foreground prompts of supported hosts in the window, and those of them with guard records."""
        if days.first is None:
            return 0, 0
        rows = self._shadow.filter(
            (pl.col("environment") == standing.environment)
            & (pl.col("service_version") == standing.pinned_version)
            & pl.col("supported_host")
            & pl.col("day").is_between(days.first, days.last)
        )
        return int(rows["prompts"].sum()), int(rows["guarded_prompts"].sum())

    def baseline(self, environment: str, version: str | None) -> dict[str, Any] | None:
        """The latest revision of the latest window; None where there is none."""
        rows = self._baselines.filter((pl.col("environment") == environment) & _is(version)).sort(
            "window_end", "revision"
        )
        return rows.row(-1, named=True) if len(rows) else None

    def _recent(self, version: str | None) -> pl.DataFrame:
        first = self.as_of.date() - timedelta(days=RECENT_DAYS)
        return self._quality.filter(_is(version) & (pl.col("day") >= first))


def _with_day(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(day=pl.col("time").dt.date())


def _is(version: str | None) -> pl.Expr:
    # No row is of a version that is not pinned yet.
    return pl.col("service_version").eq_missing(pl.lit(version, pl.String))
