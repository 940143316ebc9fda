"""Completeness, and what bears the contract."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from sli.quality import completeness, contract_bearing, keeps_the_contract

KEY = {"environment": "internal", "service_version": "0.24.4", "counter": "tool_executions"}
NAMES = dict.fromkeys([*KEY, "status"], pl.String)


def found(counted: dict[str | None, float], stored: dict[str, int]) -> list[tuple[Any, ...]]:
    of_counter = pl.LazyFrame(
        [KEY | {"status": status, "counted": count} for status, count in counted.items()],
        schema={**NAMES, "counted": pl.Float64},
    )
    of_rows = pl.LazyFrame(
        [KEY | {"status": status, "stored": count} for status, count in stored.items()],
        schema={**NAMES, "stored": pl.Int64},
    )
    rows = completeness(of_counter, of_rows).sort("status").collect()
    return rows.select("status", "counted", "stored", "completeness").rows()


def test_what_was_lost_and_what_is_doubled() -> None:
    assert found({"error": 10.0, "success": 100.0}, {"error": 9, "success": 110}) == [
        ("error", 10.0, 9, 0.9),
        ("success", 100.0, 110, 1.1),
    ]


def test_what_was_lost_altogether_is_a_row_too() -> None:
    assert found({"error": 10.0}, {}) == [("error", 10.0, 0, 0.0)]


def test_without_a_counter_nobody_can_tell() -> None:
    assert found({}, {"success": 5}) == [("success", None, 5, None)]


def test_a_counter_without_labels_is_compared_as_a_whole() -> None:
    assert found({None: 15.0}, {"error": 10, "success": 5}) == [("all", 15.0, 15, 1.0)]


def test_releases_with_the_contract() -> None:
    versions = ["0.21.10", "0.21.9", "0.21.10-nightly.1", "0.100.0", "1.0.0", "dev", "unknown", "", "3f2a91c"]
    expected = [True, False, False, True, True, False, False, False, False]
    assert keeps_the_contract(pl.Series(versions)).to_list() == expected


@pytest.mark.parametrize(
    ("release", "total", "unknown", "expected"),
    [
        (True, 1000, 1, True),
        (True, 1000, 2, False),
        (True, 1, 1, False),
        (True, 0, 0, False),
        (False, 1000, 0, False),
    ],
)
def test_contract_bearing(release: bool, total: int, unknown: int, expected: bool) -> None:
    ratio = unknown / total if total else None
    frame = pl.DataFrame(
        {"release": [release], "total": [total], "unknown": [unknown], "unknown_ratio": [ratio]},
        schema_overrides={"unknown_ratio": pl.Float64},
    )
    assert frame.select(contract_bearing(pl.col("release"))).item() is expected
