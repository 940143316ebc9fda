"""A draft of the results: what it replaces, in which order, and what becomes of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest

from analytics import results_draft as results_draft_module
from analytics.day_tables import DAY_TABLES
from analytics.exceptions import ResultsNotWrittenError
from analytics.published import polars_schema
from analytics.results_draft import ResultsDraft, Run, results_draft
from analytics.results_file import draft_path
from sli.rollout.act import FIRST_HASH
from sli.schemas import SLI_HOURLY

if TYPE_CHECKING:
    from tests.analytics.segments import EventFolder

START = datetime(2026, 11, 3, tzinfo=UTC)
ORDER = DAY_TABLES[0].order


def hour(number: int) -> datetime:
    return START + timedelta(hours=number)


def rows(hours: dict[int, int]) -> pl.DataFrame:
    drawn = [
        {"time": hour(number), "environment": "internal", "version_order": "0", "total": total}
        for number, total in hours.items()
    ]
    return pl.DataFrame(drawn, schema=polars_schema(SLI_HOURLY))


def run(number: int) -> Run:
    return Run("refresh", hour(number), hour(number), "ok", number, 0, "")


def replace(draft: ResultsDraft, hours: dict[int, int], *others: int) -> None:
    draft.replace(SLI_HOURLY, [hour(number) for number in (*hours, *others)], rows(hours))


def write(folder: EventFolder, keep_previous: bool, *steps: dict[int, int]) -> list[tuple[str, int]]:
    folder.directory.results_folder.mkdir(parents=True, exist_ok=True)
    with results_draft(folder.directory, keep_previous=keep_previous) as draft:
        for step in steps:
            replace(draft, step)
        draft.put_in_order(SLI_HOURLY, ORDER)
        draft.record(run(1), "store", START, FIRST_HASH)
        draft.publish()
    return [(row["time"][8:13], row["total"]) for row in folder.table("sli_hourly")]


def test_rows_are_replaced_by_their_time(folder: EventFolder) -> None:
    assert write(folder, False, {1: 10, 2: 20}, {4: 40}) == [("03T01", 10), ("03T02", 20), ("03T04", 40)]
    assert write(folder, True, {2: 21, 5: 50}) == [("03T01", 10), ("03T02", 21), ("03T04", 40), ("03T05", 50)]


def test_times_between_the_replaced_ones_are_kept(folder: EventFolder) -> None:
    write(folder, False, {1: 10, 2: 20, 3: 30})
    assert write(folder, True, {1: 11, 3: 31}) == [("03T01", 11), ("03T02", 20), ("03T03", 31)]


def test_late_rows_lie_where_they_belong(folder: EventFolder) -> None:
    write(folder, False, {5: 50, 9: 90})
    assert write(folder, True, {7: 70}, {1: 10})[0] == ("03T01", 10)
    assert [row["time"][11:13] for row in folder.table("sli_hourly")] == ["01", "05", "07", "09"]


def test_a_time_may_be_left_without_rows(folder: EventFolder) -> None:
    write(folder, False, {1: 10, 2: 20})
    with results_draft(folder.directory, keep_previous=True) as draft:
        replace(draft, {}, 2)
        draft.put_in_order(SLI_HOURLY, ORDER)
        draft.publish()
    assert [row["total"] for row in folder.table("sli_hourly")] == [10]


def test_a_draft_that_is_not_published_is_as_if_it_had_not_been(folder: EventFolder) -> None:
    before = write(folder, False, {1: 10})
    with results_draft(folder.directory, keep_previous=True) as draft:
        replace(draft, {1: 11})
        draft.put_in_order(SLI_HOURLY, ORDER)
    assert not draft_path(folder.directory).exists()
    assert [(row["time"][8:13], row["total"]) for row in folder.table("sli_hourly")] == before


def test_only_the_last_runs_are_kept(folder: EventFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_draft_module, "RUNS_KEPT", 3)
    folder.directory.results_folder.mkdir(parents=True)
    with results_draft(folder.directory, keep_previous=False) as draft:
        for number in range(5):
            draft.record(run(number), "store", START, FIRST_HASH)
        draft.publish()
    assert [row["inputs"] for row in folder.table("runs")] == [2, 3, 4]
    assert folder.table("results_info")[0]["computed_through"] == 4


def test_results_do_not_grow_with_the_number_of_refreshes(folder: EventFolder) -> None:
    write(folder, False, dict.fromkeys(range(2000), 1))
    sizes = []
    for number in range(6):
        write(folder, True, dict.fromkeys(range(1000, 2000), number))
        sizes.append(folder.directory.results.stat().st_size)
    assert max(sizes[3:]) <= max(sizes[:3])


def test_a_folder_that_cannot_be_written(folder: EventFolder) -> None:
    folder.directory.root.mkdir(parents=True)
    folder.directory.results_folder.write_text("a file where the folder should be")
    with (
        pytest.raises(ResultsNotWrittenError) as caught,
        results_draft(folder.directory, keep_previous=False),
    ):
        pass
    assert caught.value.path == folder.directory.results
    assert str(folder.directory.results_folder) in str(caught.value)
