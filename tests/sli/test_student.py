"""Student's t: printed tables, closed forms, and scipy."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sli.student import student_quantile, student_quantile_expression


def quantile(probability: float, degrees_of_freedom: float) -> float:
    return float(student_quantile(probability, np.array([degrees_of_freedom]))[0])


# As every textbook prints them, for two-sided 95 %.
@pytest.mark.parametrize(
    ("degrees_of_freedom", "t"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (19, 2.093), (30, 2.042), (120, 1.980)],
)
def test_the_printed_table(degrees_of_freedom: int, t: float) -> None:
    assert quantile(0.975, degrees_of_freedom) == pytest.approx(t, abs=5e-4)


def test_closed_forms() -> None:
    # One degree of freedom is Cauchy: tan(pi (p - 1/2)). Two: (2p - 1) / sqrt(2 p (1 - p)).
    assert quantile(0.975, 1) == pytest.approx(math.tan(math.pi * 0.475), rel=1e-13)
    assert quantile(0.975, 2) == pytest.approx(0.95 / math.sqrt(0.04875), rel=1e-13)
    assert quantile(0.5, 7) == 0.0
    # So many that it is the normal distribution.
    assert quantile(0.975, 1e12) == pytest.approx(1.959963984540054, rel=1e-11)


@given(
    st.sampled_from([0.6, 0.9, 0.975, 0.99, 0.9975]),
    st.one_of(st.floats(1.0, 40.0), st.integers(1, 10**7).map(float)),
)
def test_agrees_with_scipy(probability: float, degrees_of_freedom: float) -> None:
    expected = float(stats.t.ppf(probability, degrees_of_freedom))
    assert quantile(probability, degrees_of_freedom) == pytest.approx(expected, rel=1e-9)


def test_a_value_does_not_depend_on_its_neighbours() -> None:
    degrees_of_freedom = np.concatenate([np.linspace(1, 3, 37), np.arange(4.0, 200.0)])
    together = student_quantile(0.975, degrees_of_freedom)
    alone = [quantile(0.975, float(value)) for value in degrees_of_freedom]
    assert together.tolist() == alone


@pytest.mark.parametrize(("probability", "degrees_of_freedom"), [(0.4, 5.0), (0.999, 5.0), (0.975, 0.99)])
def test_what_it_cannot_do_is_refused(probability: float, degrees_of_freedom: float) -> None:
    with pytest.raises(ValueError, match=r"probability|degree of freedom"):
        quantile(probability, degrees_of_freedom)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_a_column_keeps_its_order_and_its_nulls(engine: Literal["in-memory", "streaming"]) -> None:
    column = pl.LazyFrame({"owners": [19, None, 1, 19]}, schema={"owners": pl.Int64})
    t = column.select(student_quantile_expression(0.975, pl.col("owners"))).collect(engine=engine)
    assert t["owners"].to_list() == [
        pytest.approx(2.0930240544, abs=1e-9),
        None,
        pytest.approx(12.7062047362, abs=1e-9),
        pytest.approx(2.0930240544, abs=1e-9),
    ]


def test_an_empty_or_null_column_is_a_column_of_floats() -> None:
    for values in ([], [None, None]):
        column = pl.DataFrame({"owners": values}, schema={"owners": pl.Float64})
        t = column.select(student_quantile_expression(0.975, pl.col("owners")))["owners"]
        assert t.dtype == pl.Float64
        assert t.to_list() == values
