"""The SLI tables, from the partials: the sum over the sum, by hour or by day."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sli.rate import sum_expressions, with_rates
from sli.schemas import SLI_BY_FUNCTION_DAILY, SLI_BY_TOOL_TYPE_DAILY, SLI_DAILY, SLI_HOURLY, Dataset
from sli.version import version_order


@dataclass(frozen=True, slots=True)
class SliTable:
    """One table of the SLI.

    Attributes:
        every: the length of its time step, `1h` or `1d` (UTC).
        split: the column that it has beside time, environment and version, or None.
    """

    dataset: Dataset
    every: str
    split: str | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that no two rows share."""
        return ("time", "environment", "service_version", *self._split)

    @property
    def order(self) -> tuple[str, ...]:
        """The columns that the rows are sorted by; no two rows share them."""
        return ("time", "environment", "version_order", *self._split)

    @property
    def _split(self) -> tuple[str, ...]:
        return () if self.split is None else (self.split,)

    def compute(self, partials: pl.DataFrame) -> pl.DataFrame:
        """The rows of the table.

        Args:
            partials: `SLI_PARTIALS_HOURLY`, of whole time steps (all hours of a day, where a row
                is a day).

        Returns:
            The columns of the dataset, sorted by `order`; counts are calls, rates are in [0, 1],
            null without a denominator.
        """
        counts = (
            partials.lazy()
            .with_columns(pl.col("time").dt.truncate(self.every))
            .group_by(self.key)
            .agg(sum_expressions())
        )
        rows = with_rates(counts).collect(engine="streaming")
        return _with_version_order(rows).sort(self.order).select(self.dataset.names)


SLI_TABLES = (
    SliTable(SLI_HOURLY, "1h"),
    SliTable(SLI_DAILY, "1d"),
    SliTable(SLI_BY_TOOL_TYPE_DAILY, "1d", "tool_type"),
    SliTable(SLI_BY_FUNCTION_DAILY, "1d", "function_name"),
)


def _with_version_order(rows: pl.DataFrame) -> pl.DataFrame:
    versions = rows["service_version"].unique()
    keys = pl.Series([version_order(version) for version in versions], dtype=pl.String)
    order = pl.col("service_version").replace_strict(versions, keys, return_dtype=pl.String)
    return rows.with_columns(version_order=order)
