"""Finding the rows that do not count, day by day, without reading more than keys of three days."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, timedelta

import polars as pl

from analytics.published import Published
from analytics.sli_partials import hour_number
from sli.calls import CALL_KEY, key_hash, repeated_hashes, uncounted, with_call_id
from sli.schemas import TOOL_CALLS

_DAY = timedelta(days=1)
_CANDIDATE_COLUMNS = ("day", "event_id", "time_unix_nano", "execution_status", *CALL_KEY)


class Repeats:
    """The repeats of calls among the published events.

    Holds 16 bytes a call for each of at most `_DAYS_KEPT` days, so that a walk over the days in
    order reads the keys of each day once.
    """

    _DAYS_KEPT = 3

    def __init__(self, published: Published) -> None:
        self._published = published
        self._days = frozenset(published.days(TOOL_CALLS))
        self._keys: dict[date, pl.DataFrame] = {}

    def uncounted(self, day: date) -> pl.DataFrame:
        """The rows of `day` that do not count in the SLI: `event_id`, Binary, each once."""
        window = self._window(day)
        hashes = self._candidate_hashes(day, window)
        parts = [self._candidates(each, hashes) for each in window] if len(hashes) else []
        if not parts:
            return pl.DataFrame(schema={"event_id": pl.Binary})
        return uncounted(pl.concat(parts), day).collect(engine="streaming")

    def hours_with(self, hashes: pl.Series, day: date) -> pl.DataFrame:
        """The hours of `day` and the days around it that hold one of the keys.

        Args:
            hashes: UInt64, of `key_hash`.

        Returns:
            `day` (Date) and `hour` (Int64, since 1970), each pair once.
        """
        found = [
            self._keys_of(each)
            .filter(pl.col("key_hash").is_in(hashes.implode()))
            .select(pl.lit(each).alias("day"), hour_number())
            for each in self._window(day)
        ]
        return pl.concat(found).unique() if found else pl.DataFrame(schema={"day": pl.Date, "hour": pl.Int64})

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
