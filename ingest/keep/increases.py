"""What each point of a counter adds to the sum of its series.

The points of a cumulative series are ordered by time. Between two neighbours the increase is their
difference; a drop is a restart, which adds nothing. With a start time the series begins at 0 there, and
its first point counts whole; without one the first point is the base line (OpenTelemetry metrics data
model, "Resets and Gaps").

Rows are never edited. A point that comes late, between two that are stored, gets what it changes in the
sum of the whole series: from a to x to b instead of from a to b. As max(0, ·) is subadditive this is
never negative, and the sum does not depend on the order in which the points arrive.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

from sli.schemas import METRIC_INCREASES
from sli.vocabulary import Temporality

_CUMULATIVE = f"temporality = '{Temporality.CUMULATIVE}'"

# `before` is the neighbour among all points, `after` among the stored ones: of new points that stand side by
# side, each is counted from the one before it, up to the stored one behind them.
_SQL = f"""
WITH old AS (
    SELECT series, time_unix_nano AS moment, value, -1 AS position
    FROM {METRIC_INCREASES.name} AS stored
    WHERE {_CUMULATIVE} AND time_unix_nano >= {{earliest}}
        AND series IN (SELECT series FROM points WHERE {_CUMULATIVE})
),
new AS (
    SELECT series, time_unix_nano AS moment, value, position, start_unix_nano
    FROM points WHERE {_CUMULATIVE}
),
neighbours AS (
    SELECT
        position,
        value,
        coalesce(
            lag(value) OVER earlier,
            CASE WHEN max(start_unix_nano) OVER (PARTITION BY series) > 0 THEN 0.0 END
        ) AS before,
        lead(CASE WHEN position < 0 THEN value END IGNORE NULLS) OVER earlier AS after
    FROM (SELECT *, NULL AS start_unix_nano FROM old UNION ALL BY NAME SELECT * FROM new)
    WINDOW earlier AS (PARTITION BY series ORDER BY moment, value)
)
SELECT
    position,
    greatest(value - coalesce(before, value), 0)
        + coalesce(greatest(after - value, 0) - greatest(after - coalesce(before, after), 0), 0) AS increase
FROM neighbours WHERE position >= 0
"""


def fill_increases(connection: duckdb.DuckDBPyConnection, points: pa.Table) -> pa.Table:
    """Fill in `increase` where it is null: in the points of cumulative series.

    Args:
        connection: the store's, inside the transaction that is going to hold the points.
        points: new rows of `metric_increases`; none of them is stored, no two are the same.
    """
    if not points["increase"].null_count:
        return points
    position = pa.array(range(len(points)), pa.int32())
    # No point of a series is older than its start; only series without one are searched for everywhere.
    starts = points["start_unix_nano"].filter(points["increase"].is_null())
    earliest = min(starts.to_numpy())
    connection.register("points", points.append_column("position", position))
    try:
        found = connection.sql(_SQL.format(earliest=earliest)).to_arrow_table()
    finally:
        connection.unregister("points")
    increase = points["increase"].to_numpy().copy()
    increase[found["position"].to_numpy()] = found["increase"].to_numpy()
    place = points.schema.get_field_index("increase")
    return points.set_column(place, "increase", pa.array(increase))
