"""An export holds what was asked for, under the public names, and lies over nothing that it did not make."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from analytics import export as exports
from analytics.exceptions import ExportFailedError, ExportInTheWayError
from analytics.export import DATASETS, Period, export
from analytics.refresh import refresh
from sli.schemas import EVENT_DATASETS, FILED_DATASETS, RESULT_DATASETS, SLI_DAILY, TOOL_CALLS
from tests.analytics.segments import EventFolder


@pytest.fixture
def published(folder: EventFolder) -> EventFolder:
    for hour in (10, 11, 12):
        folder.publish(folder.call(f"2026-11-03T{hour}:00"), folder.call(f"2026-11-04T{hour}:00", "error"))
    refresh(folder.directory)
    return folder


def _rows(path: str | Path) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows: list[tuple[object, ...]] = connection.execute(f"FROM '{path}'").fetchall()
    return rows


def test_everything_is_exported_under_its_public_name(published: EventFolder, tmp_path: Path) -> None:
    target = tmp_path / "export"
    exported = export(published.directory, target, list(DATASETS.values()), Period())
    assert [each.dataset for each in exported] == [
        d.name for d in (*EVENT_DATASETS, *RESULT_DATASETS, *FILED_DATASETS)
    ]
    assert [(each.files, each.rows) for each in exported if each.dataset == "tool_calls"] == [(2, 6)]
    assert sorted(path.name for path in (target / "tool_calls").iterdir()) == [
        "2026-11-03.parquet",
        "2026-11-04.parquet",
    ]
    with duckdb.connect() as connection:
        for dataset in (TOOL_CALLS, SLI_DAILY):
            pattern = "tool_calls/*.parquet" if dataset is TOOL_CALLS else "sli_daily.parquet"
            described = connection.execute(f"DESCRIBE FROM '{target}/{pattern}'").fetchall()
            wanted = [
                (c.name, c.type.replace("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE")) for c in dataset.columns
            ]
            assert [(row[0], row[1]) for row in described] == wanted
    assert len(_rows(target / "tool_calls" / "*.parquet")) == 6
    assert len(_rows(target / "sli_daily.parquet")) == 2
    assert json.loads((target / "export.json").read_text())["rows"]["tool_calls"] == 6
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_period_takes_its_beginning_and_not_its_end(published: EventFolder, tmp_path: Path) -> None:
    period = Period(datetime(2026, 11, 3, 11, tzinfo=UTC), datetime(2026, 11, 4, 10, tzinfo=UTC))
    (calls, daily) = export(published.directory, tmp_path / "export", [TOOL_CALLS, SLI_DAILY], period)
    assert (calls.files, calls.rows) == (1, 2)
    assert [str(row[1]) for row in _rows(tmp_path / "export/tool_calls/*.parquet")] == [
        "2026-11-03 11:00:00+00:00",
        "2026-11-03 12:00:00+00:00",
    ]
    # Days that start in it.
    assert daily.rows == 1


def test_segments_that_are_merged_meanwhile_do_not_matter(published: EventFolder, tmp_path: Path) -> None:
    def show(dataset: str, done: int, total: int) -> None:
        if done == 1:
            published.merge(published.segments[-1].day)
            # What came after the export had begun is not in it.
            published.publish(published.call("2026-11-04T20:00"))

    (calls,) = export(published.directory, tmp_path / "export", [TOOL_CALLS], Period(), on_progress=show)
    assert (calls.files, calls.rows) == (2, 6)


def test_nothing_is_overwritten_unless_asked_and_only_an_export(
    published: EventFolder, tmp_path: Path
) -> None:
    target = tmp_path / "export"
    target.mkdir()
    export(published.directory, target, [TOOL_CALLS], Period())
    with pytest.raises(ExportInTheWayError, match="an earlier export; give --overwrite"):
        export(published.directory, target, [SLI_DAILY], Period())
    export(published.directory, target, [SLI_DAILY], Period(), overwrite=True)
    assert sorted(path.name for path in target.iterdir()) == ["export.json", "sli_daily.parquet"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").touch()
    with pytest.raises(ExportInTheWayError, match="other files; name another"):
        export(published.directory, other, [SLI_DAILY], Period(), overwrite=True)
    with pytest.raises(ExportInTheWayError, match="a file; name another"):
        export(published.directory, other / "letter.txt", [SLI_DAILY], Period(), overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["export", "other"]


def test_an_export_that_fails_leaves_nothing_and_the_earlier_one(
    published: EventFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "export"
    export(published.directory, target, [TOOL_CALLS], Period())
    before = sorted(target.rglob("*"))
    monkeypatch.setattr(exports, "_copy", _fails)
    with pytest.raises(ExportFailedError, match="No space left"):
        export(published.directory, target, [TOOL_CALLS], Period(), overwrite=True)
    assert sorted(target.rglob("*")) == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def _fails(*arguments: object) -> int:
    raise OSError(28, "No space left on device")


def test_tables_without_rows_are_there_all_the_same(folder: EventFolder, tmp_path: Path) -> None:
    folder.write_manifest()
    exported = export(folder.directory, tmp_path / "export", list(DATASETS.values()), Period())
    assert {each.rows for each in exported} == {0}
    assert _rows(tmp_path / "export" / "sli_daily.parquet") == []
