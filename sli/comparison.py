"""Two baselines side by side: their difference, and whether what counts as a failure has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sli.definition_change import definition_changes
from sli.difference import Interval, difference, difference_high, difference_low

_FAILURE_RATE = "failure_rate"


def compared(
    a: Mapping[str, Any], b: Mapping[str, Any], functions: pl.DataFrame, errors: pl.DataFrame
) -> pl.DataFrame:
    """Compare two baselines.

    Args:
        a, b: rows of `baselines`, of one environment or of two.
        functions: rows of `sli_by_function_daily` with `day`; those of other days do not count.
        errors: rows of `function_errors_daily` with `day`.

    Returns:
        The columns of `comparisons`: first the failure rate of foreground prompts' calls, with the owners'
        interval where both have one, else Wilson's; then that of each function over all routes, in the
        order of names.
    """
    head = pl.DataFrame([_overall(a, b)], schema=_OVERALL)
    of_a, of_b = (_interval(side) for side in ("a", "b"))
    overall = head.with_columns(
        difference=difference(of_a, of_b),
        low=difference_low(of_a, of_b),
        high=difference_high(of_a, of_b),
    ).select(
        pl.lit(_FAILURE_RATE).alias("measure"),
        pl.lit(None, pl.String).alias("function_name"),
        "a",
        "b",
        "difference",
        "low",
        "high",
        pl.lit(None, pl.Boolean).alias("definition_changed"),
        pl.lit([], pl.List(pl.String)).alias("error_types"),
    )
    by_function = _by_function(a, b, functions, errors)
    return pl.concat([overall, by_function]).with_columns(
        environment=pl.lit(b["environment"]),
        version_a=pl.lit(a["service_version"]),
        version_b=pl.lit(b["service_version"]),
        window_end_a=pl.lit(a["window_end"]),
        window_end_b=pl.lit(b["window_end"]),
    )


_OVERALL = {f"{side}{end}": pl.Float64 for side in ("a", "b") for end in ("", "_low", "_high")}


def _overall(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, float | None]:
    both = a["clustered_low"] is not None and b["clustered_low"] is not None
    ends = "clustered" if both else _FAILURE_RATE
    found: dict[str, float | None] = {}
    for side, row in (("a", a), ("b", b)):
        found[side] = row[_FAILURE_RATE]
        found[f"{side}_low"], found[f"{side}_high"] = row[f"{ends}_low"], row[f"{ends}_high"]
    return found


def _interval(side: str) -> Interval:
    return Interval(pl.col(side), pl.col(f"{side}_low"), pl.col(f"{side}_high"))


def _of(rows: pl.DataFrame, baseline: Mapping[str, Any]) -> pl.DataFrame:
    return rows.filter(
        (pl.col("environment") == baseline["environment"])
        & (pl.col("service_version") == baseline["service_version"])
        & pl.col("day").is_between(baseline["window_start"], baseline["window_end"])
    )


def _by_function(
    a: Mapping[str, Any], b: Mapping[str, Any], functions: pl.DataFrame, errors: pl.DataFrame
) -> pl.DataFrame:
    key, typed = ["function_name"], ["function_name", "error_type"]
    counts = [
        _of(functions, each)
        .group_by(key)
        .agg(pl.col("error").sum().alias(f"error_{side}"), pl.col("executed").sum().alias(f"executed_{side}"))
        for side, each in (("a", a), ("b", b))
    ]
    types = [
        _of(errors, each).group_by(typed).agg(pl.col("calls").sum().alias(f"error_{side}"))
        for side, each in (("a", a), ("b", b))
    ]
    both = counts[0].join(counts[1], on=key, how="full", coalesce=True).sort(key)
    changes = definition_changes(
        both.lazy(), types[0].join(types[1], on=typed, how="full", coalesce=True).lazy(), key
    ).collect()
    return changes.select(
        pl.lit(_FAILURE_RATE).alias("measure"),
        "function_name",
        pl.col("rate_a").alias("a"),
        pl.col("rate_b").alias("b"),
        "difference",
        pl.col("difference_low").alias("low"),
        pl.col("difference_high").alias("high"),
        "definition_changed",
        pl.concat_list("appeared", "vanished").alias("error_types"),
    )
