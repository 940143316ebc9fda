"""Steps that a changed definition makes, and steps that it does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from sli.definition_change import definition_changes

Counts = tuple[int | None, int | None]
"""Of a and b."""

FUNCTIONS = {
    "function_name": pl.String,
    "error_a": pl.Int64,
    "executed_a": pl.Int64,
    "error_b": pl.Int64,
    "executed_b": pl.Int64,
}
ERROR_TYPES = {
    "function_name": pl.String,
    "error_type": pl.String,
    "error_a": pl.Int64,
    "error_b": pl.Int64,
}


def compare(executed: Counts, error_types: Mapping[str | None, Counts]) -> dict[str, Any]:
    """One function, whose failures are those of its error types."""
    error_a = sum(a or 0 for a, _ in error_types.values())
    error_b = sum(b or 0 for _, b in error_types.values())
    functions = [("shell", error_a, executed[0], error_b, executed[1])]
    types = [("shell", name, *counts) for name, counts in error_types.items()]
    return (
        definition_changes(
            pl.LazyFrame(functions, schema=FUNCTIONS, orient="row"),
            pl.LazyFrame(types, schema=ERROR_TYPES, orient="row"),
            ["function_name"],
        )
        .collect()
        .row(0, named=True)
    )


def test_non_zero_exits_that_became_errors() -> None:
    row = compare((1_000, 1_120), {"shell_exit_nonzero": (0, 120)})
    assert row["definition_changed"] is True
    assert row["appeared"] == ["shell_exit_nonzero"]
    assert row["vanished"] == []
    assert row["explained"] == pytest.approx(1.0)
    assert row["rate_a"] == 0.0
    assert row["rate_b"] == pytest.approx(0.1071428571)
    assert row["difference"] == pytest.approx(0.1071428571)
    assert 0.08 < row["difference_low"] < 0.1071428571 < row["difference_high"] < 0.13


def test_the_way_back() -> None:
    row = compare((1_120, 1_000), {"shell_exit_nonzero": (120, 0)})
    assert row["definition_changed"] is True
    assert (row["appeared"], row["vanished"]) == ([], ["shell_exit_nonzero"])


def test_a_new_type_beside_known_ones_that_stay() -> None:
    row = compare((1_000, 1_000), {"timeout": (30, 33), "shell_exit_nonzero": (1, 100), None: (5, 4)})
    # The step is 36 to 137 per 1,000: 0.101, of which the new type makes 0.099.
    assert row["definition_changed"] is True
    assert row["explained"] == pytest.approx(0.099 / 0.101)


def test_failures_without_a_type_are_a_type() -> None:
    row = compare((1_000, 1_000), {"timeout": (10, 10), None: (0, 90)})
    assert row["definition_changed"] is True
    assert row["appeared"] == [None]


def test_more_of_every_known_type_is_a_plain_regression() -> None:
    row = compare((1_000, 1_000), {"timeout": (10, 90), "permission": (5, 45), "not_found": (2, 18)})
    assert row["definition_changed"] is False
    assert row["difference_low"] > 0
    assert (row["appeared"], row["explained"]) == ([], 0.0)


def test_a_regression_with_a_little_that_is_new_is_a_regression() -> None:
    # Of the step of 0.12, the new type makes 0.02.
    row = compare((1_000, 1_000), {"timeout": (20, 120), "quota": (0, 20)})
    assert row["definition_changed"] is False
    assert row["appeared"] == ["quota"]
    assert row["explained"] == pytest.approx(0.02 / 0.12)


@pytest.mark.parametrize(
    ("executed", "error_types"),
    [
        # Few calls on either side.
        ((99, 5_000), {"new": (0, 2_500)}),
        ((5_000, 99), {"new": (0, 50)}),
        # Enough calls, but a had too few to be sure to show the type: 100 of 2,000 make 5 of 100.
        ((100, 2_000), {"new": (0, 100)}),
        # A step, but of one percentage point.
        ((10_000, 10_000), {"new": (0, 100)}),
    ],
)
def test_small_samples_and_small_steps_are_not_flagged(
    executed: Counts, error_types: Mapping[str | None, Counts]
) -> None:
    assert compare(executed, error_types)["definition_changed"] is False


def test_relabelling_at_the_same_rate_is_no_step() -> None:
    row = compare((1_000, 1_000), {"exit": (100, 0), "shell_exit_nonzero": (0, 100)})
    assert row["definition_changed"] is False
    assert (row["appeared"], row["vanished"]) == (["shell_exit_nonzero"], ["exit"])
    assert row["explained"] is None


def test_new_failures_that_others_outweigh_are_no_change_of_that_direction() -> None:
    # The rate falls from 0.20 to 0.15, and what appeared would have made it rise.
    row = compare((1_000, 1_000), {"timeout": (200, 100), "new": (0, 50)})
    assert row["definition_changed"] is False
    assert row["explained"] == 0.0


@pytest.mark.parametrize("executed", [(None, 1_000), (1_000, None), (0, 0)])
def test_a_function_that_one_side_lacks_is_not_flagged(executed: Counts) -> None:
    row = compare(executed, {})
    assert row["definition_changed"] is False
    assert row["difference"] is None
    assert (row["appeared"], row["vanished"]) == ([], [])


def test_each_function_for_itself_in_any_order() -> None:
    functions = pl.DataFrame(
        [("read", 20, 1_000, 22, 1_000), ("shell", 0, 1_000, 120, 1_120), (None, 0, 500, 100, 500)],
        schema=FUNCTIONS,
        orient="row",
    )
    error_types = pl.DataFrame(
        [
            ("shell", "b", 0, 30),
            ("shell", "a", 0, 30),
            ("shell", "c", 0, 60),
            ("read", "c", 20, 22),
            (None, "c", 0, 100),
        ],
        schema=ERROR_TYPES,
        orient="row",
    )
    by = ["function_name"]
    found = definition_changes(functions.lazy(), error_types.lazy(), by).collect()
    assert found["function_name"].to_list() == ["read", "shell", None]
    assert found["definition_changed"].to_list() == [False, True, True]
    assert found["appeared"].to_list() == [[], ["c", "a", "b"], ["c"]]
    turned = definition_changes(functions.lazy(), error_types.reverse().lazy(), by).collect(
        engine="streaming"
    )
    assert_frame_equal(turned, found, check_exact=True)
