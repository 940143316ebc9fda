"""Results of a day as Parquet files beside the results database: what is too much to copy at each refresh.

A file is never changed. A day that is computed again gets a new file; the old one stays for a while, for
readers that opened the results before.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from datetime import date, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import polars as pl

from analytics.partials import DAY_FILES, RETIRED_FILES
from analytics.published import polars_schema
from sli.data_directory import DataDirectory
from sli.schemas import Dataset

KEPT_FOR = timedelta(minutes=2)
"""How long a file is kept that nothing lists any more."""

_FOLDER = "days"


class DayFiles:
    """The files that a draft of the results lists."""

    def __init__(self, directory: DataDirectory, listed: pl.DataFrame, retired: pl.DataFrame) -> None:
        """Start from what the results in place say.

        Args:
            listed: `DAY_FILES`.
            retired: `RETIRED_FILES`.
        """
        self._root = directory.results_folder
        self._listed = {(dataset, day): path for dataset, day, path in listed.iter_rows()}
        self._retired: dict[str, datetime] = dict(retired.iter_rows())

    def write(self, dataset: Dataset, day: date, rows: pl.DataFrame) -> None:
        """Write the rows of a day, and list the file in the place of an older one.

        Raises:
            OSError: nothing is listed anew.
        """
        self._listed.pop((dataset.name, day), None)
        if not len(rows):
            return
        relative = Path(_FOLDER) / dataset.name / f"{day}-{uuid4().hex}.parquet"
        path = self._root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        rows.write_parquet(path, compression="zstd", statistics=True)
        _sync(path)
        _sync(path.parent)
        self._listed[dataset.name, day] = str(relative)

    def scan(self, dataset: Dataset, days: Collection[date]) -> pl.LazyFrame:
        """The rows of `days`: at least the columns of the dataset."""
        paths = [
            self._root / self._listed[key] for day in days if (key := (dataset.name, day)) in self._listed
        ]
        if not paths:
            return pl.LazyFrame(schema=polars_schema(dataset))
        return pl.scan_parquet(paths, glob=False, hive_partitioning=False)

    def listed(self) -> pl.DataFrame:
        """`DAY_FILES`, in order."""
        rows = sorted((dataset, day, path) for (dataset, day), path in self._listed.items())
        return pl.DataFrame(rows, schema=polars_schema(DAY_FILES), orient="row")

    def retired(self) -> pl.DataFrame:
        """`RETIRED_FILES`, in order."""
        return pl.DataFrame(sorted(self._retired.items()), schema=polars_schema(RETIRED_FILES), orient="row")

    def retire(self, now: datetime) -> list[Path]:
        """Note which files nothing lists any more, also those that a killed refresh left.

        Returns:
            Those that have not been listed for `KEPT_FOR`: to be removed once the draft is in place.
        """
        listed = set(self._listed.values())
        found = {
            str(path.relative_to(self._root)) for path in (self._root / _FOLDER).glob("*/*.parquet")
        } - listed
        self._retired = {path: self._retired.get(path, now) for path in found}
        # The clock may have been set back; then the file waits from now on.
        due = [path for path, since in self._retired.items() if now - since >= KEPT_FOR]
        for path in due:
            del self._retired[path]
        return [self._root / path for path in due]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
