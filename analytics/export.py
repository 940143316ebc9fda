"""Exports: the tables as plain Parquet files, for whoever wants to read them with other tools."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path

import duckdb

from analytics.exceptions import ExportFailedError, ExportInTheWayError
from analytics.published import Published, on_published, read_published
from analytics.results_file import connect
from sli.data_directory import DataDirectory
from sli.schemas import EVENT_DATASETS, FILED_DATASETS, RESULT_DATASETS, Dataset

DESCRIPTION = "export.json"
_MEMORY = "512MiB"

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Period:
    """Rows from `since` on and before `until`; None does not restrict."""

    since: datetime | None = None
    until: datetime | None = None

    def condition(self, dataset: Dataset) -> str:
        """As SQL over the dataset's columns; tables without a time are exported whole."""
        if "time" not in dataset.names:
            return "true"
        conditions = [
            f"time {sign} TIMESTAMPTZ '{moment.astimezone(UTC).isoformat()}'"
            for sign, moment in ((">=", self.since), ("<", self.until))
            if moment is not None
        ]
        return " AND ".join(conditions) or "true"

    def touches(self, day: date) -> bool:
        """Whether a UTC day has any moment of it."""
        start = datetime.combine(day, time(), UTC)
        before = self.until is None or start < self.until
        return before and (self.since is None or self.since < start + timedelta(days=1))


@dataclass(frozen=True, slots=True)
class Exported:
    """One table of an export.

    Attributes:
        files: how many, of which none is empty but that of an empty result table.
    """

    dataset: str
    files: int
    rows: int
    bytes: int


def export(
    directory: DataDirectory,
    target: Path,
    datasets: Sequence[Dataset],
    period: Period,
    *,
    overwrite: bool = False,
    on_progress: Progress | None = None,
) -> list[Exported]:
    """Write tables into a new folder: `<dataset>/<day>.parquet` for events, `<dataset>.parquet` for results.

    All events are those of the moment at which it began. The folder gets its name when all is written.

    Args:
        target: must not exist, or be empty, or hold an earlier export if `overwrite` is given.

    Raises:
        ExportInTheWayError: something else lies there.
        AnalyticsError: events or results cannot be read, or the folder not written; nothing is left of it.
    """
    _require_room(target, overwrite)
    building = target.with_name(f".{target.name}.exporting-{os.getpid()}")
    try:
        building.mkdir(parents=True)
        exported = _write(directory, building, datasets, period, on_progress)
        description = {
            "made_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "since": period.since.isoformat() if period.since else None,
            "until": period.until.isoformat() if period.until else None,
            "rows": {each.dataset: each.rows for each in exported},
        }
        (building / DESCRIPTION).write_text(json.dumps(description, indent=1) + "\n")
        _put_in_place(building, target)
    except (OSError, duckdb.Error) as error:
        raise ExportFailedError(target, str(error).splitlines()[0]) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return exported


def _write(
    directory: DataDirectory,
    building: Path,
    datasets: Sequence[Dataset],
    period: Period,
    on_progress: Progress | None,
) -> list[Exported]:
    exported: list[Exported] = []
    published = read_published(directory)
    with connect() as connection:
        connection.execute(f"SET memory_limit = '{_MEMORY}'")
        connection.execute(f"SET temp_directory = {_text(building / 'spill.tmp')}")
        for dataset in datasets:
            if dataset in EVENT_DATASETS:
                days = published.days(dataset) if published is not None else []
                wanted = [day for day in days if period.touches(day)]
                (building / dataset.name).mkdir()
                files = []
                for done, day in enumerate(wanted):
                    if on_progress:
                        on_progress(dataset.name, done, len(wanted))
                    assert published is not None
                    through = published.manifest.published_through
                    file = building / dataset.name / f"{day.isoformat()}.parquet"
                    rows = on_published(
                        directory, partial(_export_day, connection, dataset, day, period, through, file)
                    )
                    files.append((file, rows or 0))
            else:
                file = building / f"{dataset.name}.parquet"
                files = [(file, _export_results(connection, directory, dataset, period, file))]
            exported.append(_exported(dataset, files))
        shutil.rmtree(building / "spill.tmp", ignore_errors=True)
    return exported


def _exported(dataset: Dataset, files: Sequence[tuple[Path, int]]) -> Exported:
    there = [(file, rows) for file, rows in files if file.exists()]
    size = sum(file.stat().st_size for file, _ in there)
    return Exported(dataset.name, len(there), sum(rows for _, rows in there), size)


def _export_day(
    connection: duckdb.DuckDBPyConnection,
    dataset: Dataset,
    day: date,
    period: Period,
    through: int,
    file: Path,
    published: Published,
) -> int:
    """One day as one file, if it has rows; of the manifest of now, since segments may have been merged."""
    segments = published.manifest.select(dataset.name, [day])
    if not segments:
        return 0
    paths = ", ".join(_text(published.folder / segment.path) for segment in segments)
    condition = f"{period.condition(dataset)} AND commit_number <= {through}"
    source = f"read_parquet([{paths}], hive_partitioning = false)"
    try:
        rows = _copy(connection, dataset, source, condition, "time_unix_nano, event_id", file)
    except duckdb.Error as error:
        if published.missing():
            raise FileNotFoundError(str(error)) from error
        raise
    if rows == 0:
        file.unlink()
    return rows


def _export_results(
    connection: duckdb.DuckDBPyConnection,
    directory: DataDirectory,
    dataset: Dataset,
    period: Period,
    file: Path,
) -> int:
    if not directory.results.exists():
        columns = ", ".join(f"NULL::{column.type} AS {column.name}" for column in dataset.columns)
        return _copy(connection, dataset, f"(SELECT {columns} WHERE false)", "true", "ALL", file)
    connection.execute(f"ATTACH {_text(directory.results)} AS results (READ_ONLY)")
    try:
        source = f"results.{dataset.name}"
        if dataset in FILED_DATASETS:
            rows = connection.execute(
                "SELECT path FROM results.day_files WHERE dataset = ? ORDER BY day", [dataset.name]
            ).fetchall()
            paths = ", ".join(_text(directory.results_folder / path) for (path,) in rows)
            empty = ", ".join(f"NULL::{column.type} AS {column.name}" for column in dataset.columns)
            source = f"read_parquet([{paths}])" if paths else f"(SELECT {empty} WHERE false)"
        return _copy(connection, dataset, source, period.condition(dataset), "ALL", file)
    finally:
        connection.execute("DETACH results")


def _copy(
    connection: duckdb.DuckDBPyConnection,
    dataset: Dataset,
    source: str,
    condition: str,
    order: str,
    file: Path,
) -> int:
    columns = dataset.select_list
    rows = connection.execute(
        f"COPY (SELECT {columns} FROM {source} WHERE {condition} ORDER BY {order}) "
        f"TO {_text(file)} (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v1)"
    ).fetchall()
    return int(rows[0][0])


def _require_room(target: Path, overwrite: bool) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise ExportInTheWayError(target, "it is a file", can_be_replaced=False)
    if not any(target.iterdir()):
        return
    is_export = (target / DESCRIPTION).is_file()
    if not is_export:
        raise ExportInTheWayError(target, "it holds other files", can_be_replaced=False)
    if not overwrite:
        raise ExportInTheWayError(target, "it holds an earlier export", can_be_replaced=True)


def _put_in_place(building: Path, target: Path) -> None:
    if target.exists() and any(target.iterdir()):
        old = target.with_name(f".{target.name}.replaced-{os.getpid()}")
        os.replace(target, old)
        os.replace(building, target)
        shutil.rmtree(old)
    else:
        os.replace(building, target)


def _text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


DATASETS = {dataset.name: dataset for dataset in (*EVENT_DATASETS, *RESULT_DATASETS, *FILED_DATASETS)}
"""Everything that can be exported, by name."""
