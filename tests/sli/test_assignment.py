"""Assignment: golden values, uniformity, and what a growing share and a holdout promise."""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sli.assignment import Arm, arm, arm_column, owner_number, owner_numbers

SHARES = st.floats(0, 0.5)
NUMBERS = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(
    ("environment", "salt_id", "owner", "number"),
    [
        ("internal", "1", "a" * 64, 0.6544269077798979),
        ("internal", "2", "a" * 64, 0.057085885074192655),
        ("public", "1", "a" * 64, 0.6429319183757535),
        ("internal", "1", "b" * 64, 0.19106009421375247),
        ("büro", "1", "", 0.5217519262495871),
    ],
)
def test_numbers_that_no_release_may_change(
    environment: str, salt_id: str, owner: str, number: float
) -> None:
    """From `printf '%s' '22:toolgauge.assignment.1LEN:PART…' | sha256sum`: the first 53 bits over 2**53."""
    assert owner_number(environment, salt_id, owner) == number


def test_parts_do_not_run_into_each_other() -> None:
    assert owner_number("ab", "c", "d") != owner_number("a", "bc", "d") != owner_number("a", "b", "cd")


def test_numbers_are_uniform_and_independent_of_environment_and_salt() -> None:
    owners = pl.Series([hashlib.sha256(str(n).encode()).hexdigest() for n in range(100_000)])
    first, *others = (
        owner_numbers(environment, salt, owners).to_numpy()
        for environment, salt in (("internal", "1"), ("internal", "2"), ("public", "1"))
    )
    for numbers in (first, *others):
        counts, _ = np.histogram(numbers, bins=200, range=(0, 1))
        assert stats.chisquare(counts).pvalue > 0.001
    for other in others:
        table, *_ = np.histogram2d(first, other, bins=20, range=((0, 1), (0, 1)))
        assert stats.chi2_contingency(table).pvalue > 0.001


def test_a_series_has_the_numbers_of_its_owners() -> None:
    found = owner_numbers("internal", "1", pl.Series(["b", None, "a", "b"], dtype=pl.String))
    b, a = owner_number("internal", "1", "b"), owner_number("internal", "1", "a")
    assert found.to_list() == [b, None, a, b]
    assert owner_numbers("internal", "1", pl.Series([None], dtype=pl.String)).to_list() == [None]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (None, Arm.UNASSIGNED),
        (0.0, Arm.TREATMENT),
        (0.0499, Arm.TREATMENT),
        (0.05, Arm.CONTROL),
        (0.8999, Arm.CONTROL),
        (0.9, Arm.HOLDOUT),
        (0.9999, Arm.HOLDOUT),
    ],
)
def test_arms(number: float | None, expected: Arm) -> None:
    assert arm(number, 0.05, 0.1) is expected


@given(NUMBERS, SHARES, SHARES, SHARES)
def test_a_growing_share_keeps_its_members_and_never_reaches_the_holdout(
    number: float, share: float, more: float, holdout: float
) -> None:
    before, after = arm(number, share, holdout), arm(number, min(share + more, 1 - holdout), holdout)
    if before is Arm.TREATMENT:
        assert after is Arm.TREATMENT
    assert (before is Arm.HOLDOUT) == (after is Arm.HOLDOUT)


@given(st.lists(st.none() | NUMBERS, min_size=1), SHARES, SHARES)
def test_the_column_says_the_same(numbers: list[float | None], share: float, holdout: float) -> None:
    frame = pl.DataFrame({"u": pl.Series(numbers, dtype=pl.Float64)})
    found = frame.select(arm_column(pl.col("u"), share, holdout)).to_series().to_list()
    assert found == [str(arm(number, share, holdout)) for number in numbers]
