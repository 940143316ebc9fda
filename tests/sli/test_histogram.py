"""Log-bucket histograms: by hand, against exact quantiles, and that they add up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from sli.histogram import GROWTH, HISTOGRAM, SHORTEST, ZERO_BUCKET, bucket, merged, quantiles

PERCENTILES = {"p0": 0.0, "p5": 0.05, "p50": 0.5, "p95": 0.95, "p99": 0.99, "p100": 1.0}

DURATIONS = st.lists(
    st.one_of(st.floats(0.0, 1e9), st.integers(0, 100_000).map(float), st.just(0.0)), min_size=1, max_size=200
)


def buckets_of(milliseconds: Sequence[float | None]) -> list[int | None]:
    column = pl.Series("milliseconds", milliseconds, dtype=pl.Float64)
    return pl.DataFrame(column).select(bucket(pl.col("milliseconds"))).to_series().to_list()


def histogram_of(milliseconds: Sequence[float]) -> pl.DataFrame:
    column = pl.Series("milliseconds", milliseconds, dtype=pl.Float64)
    rows = pl.DataFrame(column).select(bucket=bucket(pl.col("milliseconds")), calls=pl.lit(1, dtype=pl.Int64))
    return merged(rows.lazy(), []).collect()


def percentiles_of(histogram: pl.DataFrame) -> dict[str, float]:
    return quantiles(histogram.lazy(), [], PERCENTILES).collect().row(0, named=True)


def test_buckets_by_hand() -> None:
    # ln 2 / ln 1.01 = 69.66, ln 1000 / ln 1.01 = 694.23, ln 0.5 / ln 1.01 = -69.66.
    assert buckets_of([1.0, 1.005, 2.0, 1_000.0, 0.5]) == [0, 1, 70, 695, -69]


def test_the_zero_bucket_is_the_lowest() -> None:
    # ln 1e-6 / ln 1.01 = -1388.45.
    assert buckets_of([0.0, 1e-300, SHORTEST]) == [ZERO_BUCKET, ZERO_BUCKET, -1_388]
    assert ZERO_BUCKET < -1_388


def test_what_is_no_duration_has_no_bucket() -> None:
    assert buckets_of([None, math.nan, math.inf, -math.inf, -0.001]) == [None] * 5
    assert buckets_of([-0.0]) == [ZERO_BUCKET]


def test_a_bucket_is_a_small_whole_number() -> None:
    assert histogram_of([1.0]).schema == HISTOGRAM
    # ln 1.7e308 / ln 1.01 = 71326.96: the largest there is fits as well.
    assert buckets_of([1.7e308]) == [71_327]


@given(st.floats(SHORTEST, 1e300))
def test_a_duration_lies_between_the_ends_of_its_bucket(milliseconds: float) -> None:
    (index,) = buckets_of([milliseconds])
    assert index is not None
    exact = math.log(milliseconds) / math.log(GROWTH)
    assert index - 1 - 1e-9 <= exact <= index + 1e-9


def test_quantiles_by_hand() -> None:
    # Ranks 0 to 3 are in bucket 0, ranks 4 to 9 in bucket 695. Median: rank floor(4.5) = 4, the first of
    # six: 1.01 ** (694 + 0.5 / 6). 95 %: rank floor(8.55) = 8, the fifth: 1.01 ** (694 + 4.5 / 6). Rank 0:
    # 1.01 ** (-1 + 0.5 / 4).
    histogram = pl.DataFrame({"bucket": [695, 0], "calls": [6, 4]}, schema=HISTOGRAM)
    row = percentiles_of(histogram)
    assert row["p0"] == pytest.approx(0.9913312527, abs=1e-9)
    assert row["p50"] == pytest.approx(998.6045019685, abs=1e-6)
    assert row["p95"] / row["p50"] == pytest.approx(1.01 ** (4 / 6), rel=1e-12)


@given(DURATIONS)
def test_quantiles_are_within_one_percent_of_the_exact_ones(milliseconds: list[float]) -> None:
    row = percentiles_of(histogram_of(milliseconds))
    for name, share in PERCENTILES.items():
        exact = float(np.quantile(milliseconds, share, method="lower"))
        assert row[name] == pytest.approx(exact, rel=0.01 + 1e-9, abs=SHORTEST)


@given(DURATIONS)
def test_quantiles_ascend(milliseconds: list[float]) -> None:
    values = list(percentiles_of(histogram_of(milliseconds)).values())
    assert values == sorted(values)


@given(st.lists(DURATIONS, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_histograms_of_parts_are_that_of_the_whole(parts: list[list[float]], random: object) -> None:
    whole = histogram_of([value for part in parts for value in part])
    histograms = [histogram_of(part) for part in parts]
    random.shuffle(histograms)  # type: ignore[attr-defined]
    apart = pl.concat(histograms)
    assert_frame_equal(merged(apart.lazy(), []).collect(), whole, check_row_order=False)
    # Unmerged rows do as well, and to the same bytes.
    assert percentiles_of(apart) == percentiles_of(whole)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_each_group_has_its_own(engine: Literal["in-memory", "streaming"]) -> None:
    histograms = pl.LazyFrame(
        {"environment": ["a", "b", "a", "b"], "bucket": [0, 70, 695, ZERO_BUCKET], "calls": [3, 1, 1, 5]},
        schema={"environment": pl.String, **HISTOGRAM},
    )
    found = quantiles(histograms, ["environment"], {"p50": 0.5, "p100": 1.0}).collect(engine=engine)
    rows = {row["environment"]: row for row in found.to_dicts()}
    # a: rank 1 of buckets 0, 0, 0, 695; b: rank 2 of five zeros and a 70.
    assert rows["a"]["p50"] == pytest.approx(1.01**-0.5, rel=1e-12)
    assert rows["a"]["p100"] == pytest.approx(1.01**694.5, rel=1e-12)
    assert rows["b"] == {"environment": "b", "p50": 0.0, "p100": pytest.approx(1.01**69.5, rel=1e-12)}


def test_no_calls_have_no_quantiles() -> None:
    nothing = pl.DataFrame(schema=HISTOGRAM)
    assert percentiles_of(nothing) == dict.fromkeys(PERCENTILES)
    assert quantiles(nothing.lazy(), [], PERCENTILES).collect().dtypes == [pl.Float64] * len(PERCENTILES)
    empty = pl.DataFrame({"bucket": [3, None], "calls": [0, 4]}, schema=HISTOGRAM)
    assert percentiles_of(empty) == dict.fromkeys(PERCENTILES)


def test_a_quantile_is_a_share() -> None:
    with pytest.raises(ValueError, match="p95 = 95"):
        quantiles(pl.LazyFrame(schema=HISTOGRAM), [], {"p95": 95})
