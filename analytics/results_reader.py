"""The results in place, as the jobs read them: tables as frames, and the files of days."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import date, datetime

import duckdb
import polars as pl

from analytics.day_files import DayFiles
from analytics.exceptions import NoResultsError, ResultsNotReadError
from analytics.partials import DAY_FILES, RESULTS_INFO, RETIRED_FILES
from analytics.published import polars_schema
from analytics.results_file import connect_to_results
from sli.data_directory import DataDirectory
from sli.schemas import Dataset


@contextmanager
def open_results(directory: DataDirectory) -> Iterator[ResultsReader]:
    """The results in place, as they are now, for as long as the context lasts.

    Raises:
        NoResultsError: there are none yet.
        ResultsNotReadError: they are damaged.
    """
    if not directory.results.exists():
        raise NoResultsError(directory.results)
    try:
        with connect_to_results(directory) as connection:
            yield ResultsReader(directory, connection)
    except duckdb.Error as error:
        raise ResultsNotReadError(directory.results, type(error).__name__) from error


class ResultsReader:
    """One state of the results; newer ones, put in its place meanwhile, do not change it."""

    def __init__(self, directory: DataDirectory, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._files = DayFiles(directory, self.read(DAY_FILES), self.read(RETIRED_FILES))

    @property
    def as_of(self) -> datetime:
        """Until when the events told anything."""
        moment = self.read(RESULTS_INFO)["as_of"][0]
        assert isinstance(moment, datetime)
        return moment

    def read(self, dataset: Dataset) -> pl.DataFrame:
        """All rows of a table, in no particular order."""
        rows = self._connection.sql(f"SELECT {dataset.select_list} FROM results.{dataset.name}")
        return pl.DataFrame(rows).cast(polars_schema(dataset))

    def filed(self, dataset: Dataset, days: Collection[date]) -> pl.LazyFrame:
        """The rows of `days` that files hold: at least the columns of the dataset."""
        return self._files.scan(dataset, days)
