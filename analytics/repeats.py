"""Finding the rows that do not count, day by day, without reading more than keys of three days."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, timedelta

import polars as pl

from analytics.published import Published
from sli.calls import CALL_KEY, conflicting, key_hash, repeated_hashes, uncounted, with_call_id
from sli.schemas import TOOL_CALLS

_DAY = timedelta(days=1)
_CANDIDATE_COLUMNS = ("day", "event_id", "time_unix_nano", "execution_status", *CALL_KEY)
_NONE = pl.DataFrame(schema={"event_id": pl.Binary})


@dataclass(frozen=True, slots=True)
class DayRepeats:
    """Of one day.

    Attributes:
        uncounted: `event_id` (Binary) of the rows that do not count in the SLI, each once.
        conflicts: `event_id` of the rows that count, of calls with two different executed outcomes.
    """

    uncounted: pl.DataFrame
    conflicts: pl.DataFrame


class Repeats:
    """The repeats of calls among the published events.

    Holds 16 bytes a call for each of at most `_DAYS_KEPT` days, so that a walk over the days in
    order reads the keys of each day once.
    """

    _DAYS_KEPT = 4

    def __init__(self, published: Published) -> None:
        self._published = published
        self._days = frozenset(published.days(TOOL_CALLS))
        self._keys: dict[date, pl.DataFrame] = {}
        self._found: dict[date, DayRepeats] = {}

    def of(self, day: date) -> DayRepeats:
        """The repeats of a day."""
        found = self._found.get(day)
        if found is None:
            while len(self._found) >= self._DAYS_KEPT:
                del self._found[next(iter(self._found))]
            found = self._found[day] = self._find(day)
        return found

    def days_with(self, hashes: pl.Series, day: date) -> set[date]:
        """Which of `day` and the days around it hold one of the keys.

        Args:
            hashes: UInt64, of `key_hash`.
        """
        return {
            each
            for each in self._window(day)
            if self._keys_of(each)["key_hash"].is_in(hashes.implode()).any()
        }

    def hashes_of(self, day: date, hashes: pl.Series) -> pl.Series:
        """Those of the hashes of keys that `day` holds."""
        return hashes.filter(hashes.is_in(self._keys_of(day)["key_hash"].implode()))

    def repeated_on(self, day: date, hashes: pl.Series) -> pl.Series:
        """Those of the hashes of keys that `day` holds more than once."""
        own = self._keys_of(day).lazy().filter(pl.col("key_hash").is_in(hashes.implode()))
        return repeated_hashes(own).collect(engine="streaming")["key_hash"]

    def _find(self, day: date) -> DayRepeats:
        if day not in self._days:
            return DayRepeats(_NONE, _NONE)
        window = self._window(day)
        hashes = self._candidate_hashes(day, window)
        if not len(hashes):
            return DayRepeats(_NONE, _NONE)
        candidates = pl.concat([self._candidates(each, hashes) for each in window]).collect(
            engine="streaming"
        )
        return DayRepeats(
            uncounted(candidates.lazy(), day).collect(), conflicting(candidates.lazy(), day).collect()
        )

    def _window(self, day: date) -> list[date]:
        return [each for each in (day - _DAY, day, day + _DAY) if each in self._days]

    def _candidate_hashes(self, day: date, window: Collection[date]) -> pl.Series:
        # In pairs: the neighbours' own repeats, and those between them, are none of this day's.
        own = self._keys_of(day).select("key_hash")
        pairs = [self._keys_of(each).select("key_hash") for each in window if each != day] or [own.clear()]
        repeated = [repeated_hashes(pl.concat([own, other]).lazy()) for other in pairs]
        found = pl.concat(repeated).unique().collect(engine="streaming")["key_hash"]
        return found.filter(found.is_in(own["key_hash"].implode())) if len(found) else found

    def _candidates(self, day: date, hashes: pl.Series) -> pl.LazyFrame:
        times = self._keys_of(day).filter(pl.col("key_hash").is_in(hashes.implode()))["time_unix_nano"]
        rows = self._published.scan(TOOL_CALLS, [day] if len(times) else [])
        # By time first: of most of the file, only that column is then decoded.
        return (
            with_call_id(rows.filter(pl.col("time_unix_nano").is_in(times.unique().implode())))
            .filter(key_hash().is_in(hashes.implode()))
            .select(_CANDIDATE_COLUMNS)
        )

    def _keys_of(self, day: date) -> pl.DataFrame:
        keys = self._keys.pop(day, None)
        if keys is None:
            while len(self._keys) >= self._DAYS_KEPT:
                del self._keys[next(iter(self._keys))]
            rows = with_call_id(self._published.scan(TOOL_CALLS, [day]))
            keys = rows.select(key_hash(), "time_unix_nano").collect(engine="streaming")
        # Put back last: the one that was not asked for longest is the first to go.
        self._keys[day] = keys
        return keys
