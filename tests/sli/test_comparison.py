"""Two baselines side by side."""

from __future__ import annotations

from datetime import date
from typing import Any

import polars as pl
import pytest

from sli.comparison import compared

A = {
    "environment": "internal",
    "service_version": "0.23.4",
    "window_start": date(2026, 11, 1),
    "window_end": date(2026, 11, 7),
    "failure_rate": 0.10,
    "failure_rate_low": 0.07,
    "failure_rate_high": 0.14,
    "clustered_low": None,
    "clustered_high": None,
}
B = A | {
    "service_version": "0.24.4",
    "window_start": date(2026, 11, 8),
    "window_end": date(2026, 11, 14),
    "failure_rate": 0.20,
    "failure_rate_low": 0.17,
    "failure_rate_high": 0.24,
}
PART = {"environment": pl.String, "service_version": pl.String, "day": pl.Date, "function_name": pl.String}
FUNCTIONS = PART | {"error": pl.Int64, "executed": pl.Int64}
ERRORS = PART | {"error_type": pl.String, "calls": pl.Int64}


def rows(
    a: dict[str, Any],
    b: dict[str, Any],
    functions: list[tuple[Any, ...]] | None = None,
    errors: list[tuple[Any, ...]] | None = None,
) -> list[dict[str, Any]]:
    """Compare; functions and errors are of version and day of November, of one environment."""

    def frame(given: list[tuple[Any, ...]] | None, schema: dict[str, Any]) -> pl.DataFrame:
        made = [("internal", version, date(2026, 11, day), *rest) for version, day, *rest in given or []]
        return pl.DataFrame(made, schema=schema, orient="row")

    return compared(a, b, frame(functions, FUNCTIONS), frame(errors, ERRORS)).rows(named=True)


def test_the_difference_and_its_interval() -> None:
    (row,) = rows(A, B)
    # Square and add: 0.05 is the root of 0.03**2 + 0.04**2, on both sides.
    assert row == {
        "measure": "failure_rate",
        "function_name": None,
        "a": 0.10,
        "b": 0.20,
        "difference": pytest.approx(0.10),
        "low": pytest.approx(0.05),
        "high": pytest.approx(0.15),
        "definition_changed": None,
        "error_types": [],
        "environment": "internal",
        "version_a": "0.23.4",
        "version_b": "0.24.4",
        "window_end_a": date(2026, 11, 7),
        "window_end_b": date(2026, 11, 14),
    }


def test_the_owners_interval_is_used_where_both_have_one() -> None:
    owned = {"clustered_low": 0.04, "clustered_high": 0.18}
    of_b = {"clustered_low": 0.14, "clustered_high": 0.28}
    (both,) = rows(A | owned, B | of_b)
    # 0.06 and 0.08 make 0.10.
    assert (both["low"], both["high"]) == (pytest.approx(0.0, abs=1e-12), pytest.approx(0.20))
    (one,) = rows(A | owned, B)
    assert (one["low"], one["high"]) == (pytest.approx(0.05), pytest.approx(0.15))


def test_without_a_rate_there_is_no_difference() -> None:
    none = dict.fromkeys(("failure_rate", "failure_rate_low", "failure_rate_high"))
    (row,) = rows(A, B | none)
    assert (row["a"], row["b"], row["difference"], row["low"], row["high"]) == (0.10, None, None, None, None)


def test_functions_of_the_two_windows_only() -> None:
    found = rows(
        A,
        B,
        functions=[
            ("0.23.4", 1, "write_file", 1, 10),
            ("0.23.4", 7, "write_file", 1, 10),
            ("0.24.4", 14, "write_file", 9, 10),
            ("0.24.4", 8, "edit", 1, 4),
            ("0.23.4", 3, "ls", 0, 0),
            # Not of the window, the version, the day.
            ("0.23.4", 8, "write_file", 99, 99),
            ("0.24.4", 7, "write_file", 99, 99),
            ("0.22.0", 3, "write_file", 99, 99),
        ],
    )
    shown = ("function_name", "a", "b", "difference", "definition_changed")
    assert [tuple(row[name] for name in shown) for row in found[1:]] == [
        ("edit", None, 0.25, None, False),
        ("ls", None, None, None, False),
        ("write_file", 0.1, 0.9, pytest.approx(0.8), False),
    ]
    assert {row["measure"] for row in found} == {"failure_rate"}


def test_a_step_made_of_a_new_error_type_is_no_plain_regression() -> None:
    functions = [("0.23.4", 3, "run_shell", 10, 1000), ("0.24.4", 10, "run_shell", 120, 1000)]
    functions += [("0.23.4", 3, "edit", 10, 1000), ("0.24.4", 10, "edit", 120, 1000)]
    errors = [("0.23.4", 3, "run_shell", "timeout", 10), ("0.24.4", 10, "run_shell", "timeout", 10)]
    errors += [("0.24.4", 10, "run_shell", "nonzero_exit", 110)]
    errors += [("0.23.4", 3, "edit", "timeout", 10), ("0.24.4", 10, "edit", "timeout", 120)]
    found = {row["function_name"]: row for row in rows(A, B, functions, errors)}
    changed = found["run_shell"]
    assert (changed["definition_changed"], changed["error_types"]) == (True, ["nonzero_exit"])
    assert (changed["a"], changed["b"]) == (0.01, 0.12)
    assert changed["low"] > 0
    # The same step of a type that was always there is a regression.
    assert (found["edit"]["definition_changed"], found["edit"]["error_types"]) == (False, [])
    back = {row["function_name"]: row for row in rows(B, A, functions, errors)}
    assert (back["run_shell"]["definition_changed"], back["run_shell"]["error_types"]) == (
        True,
        ["nonzero_exit"],
    )
