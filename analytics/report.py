"""The nightly report's data: one closed day, beside the day before, and how far it can be believed.

The same results give the same data. When it was made, and by which commit, is not part of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import duckdb

from analytics.exceptions import DayNotClosedError, NoResultsError, ResultsNotReadError
from analytics.results_file import connect_to_results
from sli.data_directory import DataDirectory
from sli.days import CLOSES_AFTER, DAY

REVISED_WITHIN = timedelta(days=10)
"""So far back a report tells of days that late events have changed."""

_TOP = 5
_SLI = (
    *("total", "success", "error", "cancelled", "not_started", "unknown", "executed", "failure_rate"),
    *("failure_rate_low", "failure_rate_high", "clustered_low", "clustered_high", "owners"),
    *("unknown_ratio", "contract_violations"),
)
_QUALITY = (
    *("stored", "call_conflicts", "provider_duplicates", "duplicates", "rejected", "missing_call_id"),
    *("missing_prompt_id", "missing_response_id", "missing_timestamp", "completeness", "lateness_p50_s"),
    *("lateness_p95_s", "late_after_close", "contract_bearing", "revision"),
)
_ERRORS = ("function_name", "error_type", "calls", "would_warn", "would_stop")
_SHADOW = (
    *("mode", "supported_host", "prompts", "tool_prompts", "prompts_would_warn", "prompts_warned"),
    *("prompts_would_stop", "prompts_stopped", "would_warn_per_1000", "would_stop_per_1000"),
    *("went_on_ratio", "calls_saved"),
)
_BASELINE = (
    *("window_start", "window_end", "revision", "status", "reason", "complete_days", "executed"),
    *("failure_rate", "failure_rate_low", "failure_rate_high", "clustered_low", "clustered_high", "owners"),
    *("prompts", "completion_rate", "latency_p95_ms", "would_warn_per_1000", "would_stop_per_1000"),
)

Row = dict[str, Any]


def closed_days(directory: DataDirectory) -> list[date]:
    """The days that the results hold and that have closed, in order.

    Raises:
        ResultsNotReadError: the results cannot be read.
    """
    if not directory.results.exists():
        return []
    with _reading(directory) as results:
        as_of = _as_of(results)
        rows = results.execute("SELECT DISTINCT day FROM coverage ORDER BY day").fetchall()
    return [day for (day,) in rows if _closes(day) <= as_of]


def report_data(directory: DataDirectory, day: date) -> dict[str, Any]:
    """What the report of a day says, as values of JSON.

    Returns:
        `day`; `receiver` (how it accepted); `lost_segments`, those that the day was computed without;
        `environments`, each with its `versions` in version order: the
        SLI of the day, of the day `before` and the `change` of the rate, quality, failure classes, top
        errors, shadow volumes, the latest baseline up to the day; `revised`: days of which late events came
        meanwhile.

    Raises:
        NoResultsError: there are no results.
        DayNotClosedError: the day may still change in the ordinary way.
        ResultsNotReadError: the results cannot be read.
    """
    if not directory.results.exists():
        raise NoResultsError(directory.results)
    with _reading(directory) as results:
        as_of = _as_of(results)
        if _closes(day) > as_of:
            raise DayNotClosedError(day, _closes(day), as_of)
        return _data(results, day)


def _data(results: duckdb.DuckDBPyConnection, day: date) -> dict[str, Any]:
    today, before = _by_part(results, _SLI, "sli_daily", day), _by_part(results, _SLI, "sli_daily", day - DAY)
    quality = _by_part(results, _QUALITY, "quality_daily", day)
    classes = _lists(results, ("class", "error_type", "calls"), "failure_classes_daily", day)
    errors = _lists(
        results,
        ("function_name", "error_type", "calls", "would_warn", "would_stop"),
        "function_errors_daily",
        day,
    )
    shadow = _lists(results, _SHADOW, "shadow_daily", day)
    baselines = {
        (row.pop("environment"), row.pop("service_version")): row
        for row in _rows(
            results,
            f"SELECT environment, service_version, {', '.join(_BASELINE)} FROM baselines "
            "WHERE window_end <= ? AND window_end > ? "
            "QUALIFY row_number() OVER (PARTITION BY environment, service_version "
            "ORDER BY window_end DESC, revision DESC) = 1",
            [day, day - REVISED_WITHIN],
        )
    }
    environments: dict[str, list[Row]] = {}
    for part in _parts(results, day):
        environment, version = part
        sli = today.get(part)
        environments.setdefault(environment, []).append(
            {
                "service_version": version,
                "sli": sli,
                "before": before.get(part),
                "change": _change(sli, before.get(part)),
                "quality": quality.get(part),
                "failure_classes": classes.get(part, []),
                "top_errors": sorted(
                    (row for row in errors.get(part, []) if row["calls"]),
                    key=lambda row: (-row["calls"], row["function_name"], row["error_type"]),
                )[:_TOP],
                "shadow": shadow.get(part, []),
                "baseline": baselines.get(part),
            }
        )
    return {
        "day": day.isoformat(),
        "receiver": _receiver(results, day),
        "lost_segments": _lost_segments(results, day),
        "environments": [
            {"environment": name, "versions": versions} for name, versions in sorted(environments.items())
        ],
        "revised": _revised(results, day),
    }


def _parts(results: duckdb.DuckDBPyConnection, day: date) -> Sequence[tuple[str, str]]:
    """Whoever has a row of the day, or of the day before: that a version went silent is news."""
    rows = results.execute(
        "SELECT environment, service_version FROM (SELECT environment, service_version, version_order "
        "FROM sli_daily WHERE time BETWEEN ? AND ? UNION SELECT environment, service_version, version_order "
        "FROM shadow_daily WHERE time = ?) ORDER BY environment, version_order",
        [_start(day - DAY), _start(day), _start(day)],
    ).fetchall()
    return [(environment, version) for environment, version in rows]


def _receiver(results: duckdb.DuckDBPyConnection, day: date) -> Row | None:
    rows = _rows(
        results, "SELECT seconds_not_accepting, gaps FROM receiver_days WHERE time = ?", [_start(day)]
    )
    return rows[0] if rows else None


def _lost_segments(results: duckdb.DuckDBPyConnection, day: date) -> list[str]:
    # Prompts that go on past midnight are computed from the next day's as well.
    rows = results.execute(
        "SELECT path FROM lost_segments WHERE day BETWEEN ? AND ? ORDER BY path", [day - DAY, day + DAY]
    ).fetchall()
    return [path for (path,) in rows]


def _revised(results: duckdb.DuckDBPyConnection, day: date) -> list[Row]:
    return _rows(
        results,
        "SELECT time::DATE AS day, environment, service_version, revision, late_after_close "
        "FROM quality_daily WHERE revision > 0 AND time > ? AND time <= ? "
        "ORDER BY time, environment, version_order",
        [_start(day - REVISED_WITHIN), _start(day)],
    )


def _change(today: Row | None, before: Row | None) -> float | None:
    if today is None or before is None or today["failure_rate"] is None or before["failure_rate"] is None:
        return None
    return float(today["failure_rate"] - before["failure_rate"])


def _by_part(
    results: duckdb.DuckDBPyConnection, columns: Sequence[str], table: str, day: date
) -> dict[tuple[str, str], Row]:
    return {part: rows[0] for part, rows in _lists(results, columns, table, day).items()}


def _lists(
    results: duckdb.DuckDBPyConnection, columns: Sequence[str], table: str, day: date
) -> dict[tuple[str, str], list[Row]]:
    """The rows of a day, in their order, by environment and version."""
    names = ", ".join(f'"{name}"' for name in columns)
    found = _rows(
        results,
        f"SELECT environment, service_version, {names} FROM {table} WHERE time = ? ORDER BY ALL",
        [_start(day)],
    )
    lists: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        lists.setdefault((row.pop("environment"), row.pop("service_version")), []).append(row)
    return lists


def _rows(results: duckdb.DuckDBPyConnection, query: str, parameters: Sequence[object]) -> list[Row]:
    found = results.execute(query, list(parameters))
    names = [column[0] for column in found.description or ()]
    return [{name: _value(value) for name, value in zip(names, row, strict=True)} for row in found.fetchall()]


def _value(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _as_of(results: duckdb.DuckDBPyConnection) -> datetime:
    rows = results.execute("SELECT as_of FROM results_info").fetchall()
    as_of: datetime = rows[0][0]
    return as_of.astimezone(UTC)


def _start(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _closes(day: date) -> datetime:
    return _start(day) + DAY + CLOSES_AFTER


@contextmanager
def _reading(directory: DataDirectory) -> Iterator[duckdb.DuckDBPyConnection]:
    try:
        with closing(connect_to_results(directory)) as results:
            yield results
    except duckdb.Error as error:
        raise ResultsNotReadError(directory.results, str(error).splitlines()[0]) from error
