"""The classes that a terminal error hides, pair by pair."""

from __future__ import annotations

import polars as pl
import pytest

from sli.failure_classes import failure_class


@pytest.mark.parametrize(
    ("status", "execution_status", "expected"),
    [
        ("error", "not_started", "denied_before_execution"),
        ("error", "error", "execution_failure"),
        ("error", "success", "failure_after_execution"),
        ("error", "cancelled", "cancelled"),
        ("error", "unknown", "unclassified"),
        ("cancelled", "cancelled", "cancelled"),
        ("cancelled", "not_started", "cancelled"),
        ("cancelled", "success", "cancelled"),
        ("cancelled", "error", "cancelled"),
        ("cancelled", "unknown", "cancelled"),
        ("success", "success", None),
        ("success", "error", None),
        ("success", "not_started", None),
        ("unknown", "error", None),
        ("unknown", "unknown", None),
    ],
)
def test_each_pair(status: str, execution_status: str, expected: str | None) -> None:
    frame = pl.DataFrame({"status": [status], "execution_status": [execution_status]})
    assert frame.select(failure_class()).item() == expected
