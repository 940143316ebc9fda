"""The order of versions as a column beside them."""

from __future__ import annotations

import polars as pl

from sli.version import version_order


def with_version_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `version_order` (String), the key of each row's `service_version`."""
    versions = rows["service_version"].unique()
    keys = pl.Series([version_order(version) for version in versions], dtype=pl.String)
    order = pl.col("service_version").replace_strict(versions, keys, return_dtype=pl.String)
    return rows.with_columns(version_order=order)
