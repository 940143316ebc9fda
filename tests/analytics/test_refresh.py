"""Refreshing the results: what they come to, and that it does not matter how they were arrived at."""

from __future__ import annotations

import os
import threading
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from analytics.exceptions import (
    ManifestUnreadableError,
    NewerResultsError,
    ResultsNotWrittenError,
)
from analytics.refresh import refresh
from analytics.results_file import draft_path, previous_results, results_locked
from sli.partials import count_cells
from sli.schemas import INGEST_COUNTS, RESULT_FORMAT

if TYPE_CHECKING:
    from tests.analytics.segments import EventFolder


def assert_same_as_rebuilt(folder: EventFolder) -> None:
    incremental = folder.tables()
    assert not refresh(folder.directory, rebuild=True).up_to_date
    assert folder.tables() == incremental


def counts(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def test_without_published_events_nothing_is_written(folder: EventFolder) -> None:
    outcome = refresh(folder.directory)
    assert outcome.up_to_date
    assert (outcome.computed_through, outcome.rows) == (0, 0)
    assert not folder.directory.root.exists()


def test_a_first_refresh(folder: EventFolder) -> None:
    folder.publish(
        folder.call("2026-11-03T10:05"),
        folder.call("2026-11-03T10:55", "error", function_name="run_shell"),
        folder.call("2026-11-03T12:00", "cancelled", tool_type="mcp"),
        folder.call("2026-11-04T00:00", contract_violation=True),
    )
    outcome = refresh(folder.directory)
    assert (outcome.computed_through, outcome.previously_through) == (1, 0)
    assert outcome.days == 2
    assert outcome.rows == sum(map(len, folder.tables().values())) - len(folder.prompts())
    assert not outcome.up_to_date
    assert outcome.seconds > 0
    hourly = folder.table("sli_hourly")
    assert [counts(row, "time", "total", "executed", "failure_rate") for row in hourly] == [
        ("2026-11-03T10:00", 2, 2, 0.5),
        ("2026-11-03T12:00", 1, 0, None),
        ("2026-11-04T00:00", 1, 1, 0.0),
    ]
    daily = folder.table("sli_daily")
    assert [counts(row, "time", "total", "executed", "contract_violations") for row in daily] == [
        ("2026-11-03T00:00", 3, 2, 0),
        ("2026-11-04T00:00", 1, 1, 1),
    ]
    assert [counts(row, "time", "tool_type", "total") for row in folder.table("sli_by_tool_type_daily")] == [
        ("2026-11-03T00:00", "mcp", 1),
        ("2026-11-03T00:00", "native", 2),
        ("2026-11-04T00:00", "native", 1),
    ]
    functions = folder.table("sli_by_function_daily")
    assert [counts(row, "function_name", "success", "error", "cancelled") for row in functions] == [
        ("read_file", 1, 0, 1),
        ("run_shell", 0, 1, 0),
        ("read_file", 1, 0, 0),
    ]


def test_nothing_new_writes_nothing(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    refresh(folder.directory)
    before = folder.directory.results.stat()
    outcome = refresh(folder.directory)
    assert outcome.up_to_date
    assert (outcome.computed_through, outcome.previously_through, outcome.rows) == (1, 1, 0)
    after = folder.directory.results.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert len(folder.table("runs")) == 1


def test_a_commit_without_tool_calls_moves_on(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    refresh(folder.directory)
    folder.publish()
    outcome = refresh(folder.directory)
    assert (outcome.computed_through, outcome.previously_through, outcome.days) == (2, 1, 0)
    assert len(folder.table("sli_hourly")) == 1
    assert refresh(folder.directory).up_to_date


def test_events_that_are_published_without_any_row(folder: EventFolder) -> None:
    folder.publish()
    assert refresh(folder.directory).computed_through == 1
    assert folder.table("sli_daily") == []


def test_only_touched_days_are_computed_again(folder: EventFolder) -> None:
    folder.publish(
        *[
            folder.call(f"2026-11-0{day}T{hour:02}:30", prompt_id=f"s########{day}")
            for day in (2, 3)
            for hour in range(24)
        ]
    )
    refresh(folder.directory)
    third = {"prompt_id": "s########3"}
    folder.publish(*[folder.call(f"2026-11-03T0{hour}:10", "error", **third) for hour in (7, 9)])
    outcome = refresh(folder.directory)
    assert outcome.days == 1
    assert counts(folder.table("sli_daily")[1], "total", "error") == (26, 2)
    assert_same_as_rebuilt(folder)


def test_a_late_event_changes_a_past_hour_and_its_day(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:05"), folder.call("2026-11-05T10:05"))
    refresh(folder.directory)
    folder.publish(folder.call("2026-11-03T10:06", "error"), folder.call("2026-11-01T23:59", "error"))
    outcome = refresh(folder.directory)
    assert outcome.days >= 2
    assert [counts(row, "time", "failure_rate") for row in folder.table("sli_daily")] == [
        ("2026-11-01T00:00", 1.0),
        ("2026-11-03T00:00", 0.5),
        ("2026-11-05T00:00", 0.0),
    ]
    assert_same_as_rebuilt(folder)


def test_a_release_before_the_contract_has_no_rate(folder: EventFolder) -> None:
    folder.publish(*[folder.call("2026-11-03T10:05", "unknown", service_version="0.15.10") for _ in range(4)])
    refresh(folder.directory)
    (row,) = folder.table("sli_daily")
    assert counts(row, "total", "unknown", "executed", "unknown_ratio") == (4, 4, 0, 1.0)
    assert counts(row, "failure_rate", "failure_rate_low", "failure_rate_high") == (None, None, None)


def test_versions_and_environments_are_never_pooled_and_sorted(folder: EventFolder) -> None:
    versions = ["unknown", "0.100.0", "dev", "0.10.0", "0.9.0", "0.10.0-nightly.20261001", "0.99.0"]
    folder.publish(*[folder.call("2026-11-03T10:05", service_version=version) for version in versions])
    folder.publish(folder.call("2026-11-03T10:05", "error", environment="unset", service_version="0.9.0"))
    refresh(folder.directory)
    for table in ("sli_hourly", "sli_daily", "sli_by_tool_type_daily", "sli_by_function_daily"):
        assert [counts(row, "environment", "service_version", "total") for row in folder.table(table)] == [
            ("internal", "0.9.0", 1),
            ("internal", "0.10.0-nightly.20261001", 1),
            ("internal", "0.10.0", 1),
            ("internal", "0.99.0", 1),
            ("internal", "0.100.0", 1),
            ("internal", "dev", 1),
            ("internal", "unknown", 1),
            ("unset", "0.9.0", 1),
        ]
        assert folder.table(table)[-1]["failure_rate"] == 1.0


def test_rows_lie_in_order_after_a_late_event_too(folder: EventFolder) -> None:
    for time in ("2026-11-03T10:05", "2026-11-03T08:05", "2026-11-04T08:05", "2026-11-03T09:05"):
        folder.publish(*[folder.call(time, service_version=version) for version in ("0.10.0", "0.9.0")])
        refresh(folder.directory)
    for table in ("sli_hourly", "sli_daily", "sli_by_tool_type_daily", "sli_by_function_daily"):
        keys = [counts(row, "time", "environment", "version_order") for row in folder.table(table)]
        assert keys == sorted(keys)
        assert len(keys) > 1


CONFLICT: dict[str, Any] = {"session_id": "s", "prompt_id": "p", "call_id": "c"}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2026-11-03T10:05", "2026-11-03T10:06"),
        ("2026-11-03T10:05", "2026-11-03T18:06"),
        ("2026-11-03T23:59", "2026-11-04T00:01"),
    ],
)
def test_of_two_outcomes_the_first_counts(
    folder: EventFolder, first: str, second: str, together: bool
) -> None:
    rows = [folder.call(second, "error", **CONFLICT), folder.call(first, "success", **CONFLICT)]
    if together:
        folder.publish(*rows)
    else:
        # The later outcome arrives first, and gives way when the earlier one comes.
        folder.publish(rows[0])
        refresh(folder.directory)
        assert [row["failure_rate"] for row in folder.table("sli_hourly")] == [1.0]
        folder.publish(rows[1])
    refresh(folder.directory)
    assert [counts(row, "time", "total", "failure_rate") for row in folder.table("sli_hourly")] == [
        (first[:13] + ":00", 1, 0.0)
    ]
    assert len(folder.table("sli_daily")) == 1
    assert_same_as_rebuilt(folder)


def test_an_executed_outcome_takes_the_place_of_a_row_of_the_day_before(folder: EventFolder) -> None:
    folder.publish(
        folder.call("2026-11-03T23:59", "not_started", **CONFLICT), folder.call("2026-11-03T23:58")
    )
    refresh(folder.directory)
    folder.publish(folder.call("2026-11-04T00:01", "error", **CONFLICT))
    outcome = refresh(folder.directory)
    assert outcome.days >= 2
    assert [counts(row, "time", "total", "error", "not_started") for row in folder.table("sli_daily")] == [
        ("2026-11-03T00:00", 1, 0, 0),
        ("2026-11-04T00:00", 1, 1, 0),
    ]
    assert_same_as_rebuilt(folder)


def test_a_repeat_two_days_later_is_a_call_of_its_own(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T23:59", **CONFLICT))
    refresh(folder.directory)
    folder.publish(folder.call("2026-11-05T00:00", **CONFLICT))
    refresh(folder.directory)
    assert [row["total"] for row in folder.table("sli_daily")] == [1, 1]
    assert_same_as_rebuilt(folder)


def test_calls_without_a_call_id_count_each(folder: EventFolder) -> None:
    folder.publish(*[folder.call("2026-11-03T10:05", **CONFLICT | {"call_id": None}) for _ in range(3)])
    refresh(folder.directory)
    assert folder.table("sli_daily")[0]["total"] == 3


def test_merged_segments_change_nothing(folder: EventFolder) -> None:
    for minute in range(3):
        folder.publish(folder.call(f"2026-11-03T10:0{minute}"))
        refresh(folder.directory)
    before = folder.tables()
    folder.merge(date(2026, 11, 3))
    assert refresh(folder.directory).up_to_date
    folder.publish(folder.call("2026-11-03T11:00"))
    folder.merge(date(2026, 11, 3))
    assert refresh(folder.directory).days == 1
    assert folder.tables()["sli_hourly"][0] == before["sli_hourly"][0]
    assert_same_as_rebuilt(folder)


def test_segments_that_are_merged_while_they_are_read(
    folder: EventFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for minute in range(3):
        folder.publish(folder.call(f"2026-11-03T10:0{minute}"))
    merged: list[bool] = []

    def merge_first(rows: Any) -> Any:
        if not merged:
            merged.append(True)
            folder.merge(date(2026, 11, 3))
        return count_cells(rows)

    monkeypatch.setattr("analytics.day.count_cells", merge_first)
    outcome = refresh(folder.directory)
    assert merged
    assert outcome.computed_through == 3
    assert [row["total"] for row in folder.table("sli_daily")] == [3]
    assert not draft_path(folder.directory).exists()


def test_an_unreadable_manifest(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    folder.directory.manifest.write_text("{")
    with pytest.raises(ManifestUnreadableError, match="damaged"):
        refresh(folder.directory)


def test_results_of_another_store_are_rebuilt(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    folder.publish(folder.call("2026-11-03T10:06"))
    refresh(folder.directory)
    folder.store, folder.segments, folder.published_through = "store-2", [], 2
    folder.publish(folder.call("2026-11-07T10:05"))
    outcome = refresh(folder.directory)
    assert (outcome.previously_through, outcome.computed_through) == (0, 3)
    assert outcome.set_aside is None
    assert [row["time"] for row in folder.table("sli_daily")] == ["2026-11-07T00:00"]


def test_results_ahead_of_the_events_are_rebuilt(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    folder.publish(folder.call("2026-11-04T10:05"))
    refresh(folder.directory)
    folder.segments, folder.published_through = folder.segments[:1], 1
    folder.write_manifest()
    outcome = refresh(folder.directory)
    assert (outcome.previously_through, outcome.computed_through) == (0, 1)
    assert [row["time"] for row in folder.table("sli_daily")] == ["2026-11-03T00:00"]


@pytest.mark.parametrize(
    "change",
    [
        f"UPDATE results_info SET format = {RESULT_FORMAT - 1}",
        "UPDATE results_info SET partial_format = partial_format + 1",
        "ALTER TABLE sli_daily RENAME COLUMN total TO calls",
        "DROP TABLE sli_hourly",
    ],
)
def test_results_of_another_format_are_rebuilt(folder: EventFolder, change: str) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    refresh(folder.directory)
    before = folder.tables()
    with duckdb.connect(folder.directory.results) as results:
        results.execute(change)
    outcome = refresh(folder.directory)
    assert (outcome.previously_through, outcome.up_to_date, outcome.set_aside) == (0, False, None)
    assert folder.tables() == before
    assert refresh(folder.directory).up_to_date


@pytest.mark.parametrize("rebuild", [False, True])
def test_results_of_a_newer_version_are_refused_and_left_alone(folder: EventFolder, rebuild: bool) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    refresh(folder.directory)
    with duckdb.connect(folder.directory.results) as results:
        # Whatever else there is in them.
        results.execute("CREATE OR REPLACE TABLE results_info AS SELECT 999 AS format")
    before = folder.directory.results.read_bytes()
    with pytest.raises(NewerResultsError, match=r"results\.duckdb has format 999, .* use the toolgauge that"):
        refresh(folder.directory, rebuild=rebuild)
    assert folder.directory.results.read_bytes() == before


@pytest.mark.parametrize("damage", [b"", b"nonsense" * 1000])
def test_damaged_results_are_set_aside_and_rebuilt(folder: EventFolder, damage: bytes) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    refresh(folder.directory)
    before = folder.tables()
    folder.directory.results.write_bytes(damage)
    outcome = refresh(folder.directory)
    assert outcome.set_aside is not None
    assert outcome.set_aside.name.startswith("results.duckdb.damaged-")
    assert outcome.set_aside.read_bytes() == damage
    assert folder.tables() == before
    assert refresh(folder.directory).set_aside is None


def test_a_database_of_something_else_is_set_aside(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    folder.directory.results_folder.mkdir(parents=True)
    with duckdb.connect(folder.directory.results) as other:
        other.execute("CREATE TABLE somebody (else_ VARCHAR)")
    assert refresh(folder.directory).set_aside is not None
    assert len(folder.table("sli_daily")) == 1


def test_damage_inside_a_table_is_set_aside_once_it_is_in_the_way(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:05"), folder.call("2026-11-03T11:05"))
    refresh(folder.directory)
    # What the file says of itself lies in some block, which stays; as many others as can be do not.
    sound = folder.directory.results.read_bytes()
    for blocks in range(1, len(sound) // 262_144):
        tables = 3 * 4096 + blocks * 262_144
        damaged = sound[:tables] + bytes(byte ^ 0x55 for byte in sound[tables:])
        folder.directory.results.write_bytes(damaged)
        if not previous_results(folder.directory).damaged:
            break
    assert not previous_results(folder.directory).damaged
    folder.publish(folder.call("2026-11-03T10:06"))
    outcome = refresh(folder.directory)
    assert (outcome.previously_through, outcome.computed_through) == (0, 2)
    assert outcome.set_aside is not None
    assert outcome.set_aside.read_bytes() == damaged
    assert [row["total"] for row in folder.table("sli_hourly")] == [2, 1]


def test_what_a_killed_refresh_left_is_removed(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    folder.directory.results_folder.mkdir(parents=True)
    draft_path(folder.directory).write_bytes(b"half")
    refresh(folder.directory)
    assert sorted(os.listdir(folder.directory.results_folder)) == ["days", "results.duckdb", "results.lock"]


def test_a_failed_refresh_leaves_the_results_and_no_draft(
    folder: EventFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    refresh(folder.directory)
    before = folder.directory.results.read_bytes()
    folder.publish(folder.call("2026-11-03T10:06"))

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("analytics.results_draft.os.replace", no_space)
        with pytest.raises(ResultsNotWrittenError, match="No space left"):
            refresh(folder.directory)
    assert folder.directory.results.read_bytes() == before
    assert not draft_path(folder.directory).exists()
    assert refresh(folder.directory).computed_through == 2


def test_sound_results_are_not_set_aside_when_new_ones_cannot_be_written(
    folder: EventFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    refresh(folder.directory)
    before = folder.directory.results.read_bytes()
    folder.publish(folder.call("2026-11-03T10:06"))

    def no_space(*_: object) -> None:
        raise duckdb.IOException("could not write to the file: no space left on device")

    monkeypatch.setattr("analytics.results_draft.sync", no_space)
    with pytest.raises(ResultsNotWrittenError, match="no space left"):
        refresh(folder.directory)
    assert folder.directory.results.read_bytes() == before
    assert sorted(os.listdir(folder.directory.results_folder)) == ["days", "results.duckdb", "results.lock"]


def test_readers_keep_what_they_opened(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    refresh(folder.directory)
    with duckdb.connect() as reader:
        reader.execute(f"ATTACH '{folder.directory.results}' AS results (READ_ONLY)")
        folder.publish(folder.call("2026-11-03T10:06"))
        assert not refresh(folder.directory).up_to_date
        assert reader.execute("SELECT sum(total) FROM results.sli_hourly").fetchall() == [(1,)]
    assert folder.table("sli_hourly")[0]["total"] == 2


def test_two_refreshes_do_not_interleave(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    outcomes: list[bool] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(refresh(folder.directory).up_to_date))
        for _ in range(2)
    ]
    with results_locked(folder.directory):
        for thread in threads:
            thread.start()
        threads[0].join(0.2)
        assert all(thread.is_alive() for thread in threads)
        assert not folder.directory.results.exists()
    for thread in threads:
        thread.join(30)
    assert sorted(outcomes) == [False, True]


def test_runs_are_recorded_and_kept_over_a_rebuild(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    refresh(folder.directory)
    folder.publish(folder.call("2026-11-03T11:05"))
    refresh(folder.directory)
    refresh(folder.directory, rebuild=True)
    runs = folder.table("runs")
    assert [counts(run, "job", "status", "inputs", "detail") for run in runs] == [
        ("rebuild", "ok", 1, "1 days"),
        ("refresh", "ok", 2, "1 days"),
        ("rebuild", "ok", 2, "1 days"),
    ]
    assert all(run["rows"] > 0 for run in runs)
    assert all(run["started"] <= run["finished"] for run in runs)


def test_many_days_are_written_in_several_parts(folder: EventFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analytics.day_job._ROWS_AT_ONCE", 2)
    folder.publish(*[folder.call(f"2026-11-0{day}T10:00", **CONFLICT) for day in range(1, 6)])
    folder.publish(*[folder.call(f"2026-11-0{day}T11:00") for day in range(1, 6)])
    refresh(folder.directory)
    in_parts = folder.tables()
    monkeypatch.undo()
    refresh(folder.directory, rebuild=True)
    assert folder.tables() == in_parts


def test_progress_is_told_day_by_day(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:05"), folder.call("2026-11-04T10:05"))
    told: list[tuple[str, int, int]] = []
    refresh(folder.directory, on_progress=lambda stage, done, total: told.append((stage, done, total)))
    assert told == [("days", 0, 2), ("days", 1, 2), ("days", 2, 2)]


def test_results_whose_files_are_gone_are_rebuilt(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    refresh(folder.directory)
    before = [prompt["prompt_id"] for prompt in folder.prompts()]
    for path in (folder.directory.results_folder / "days").rglob("*.parquet"):
        path.unlink()
    folder.publish(folder.row(INGEST_COUNTS, "2026-11-09T10:59"))
    outcome = refresh(folder.directory)
    assert (outcome.previously_through, outcome.computed_through) == (0, 2)
    assert [prompt["prompt_id"] for prompt in folder.prompts()] == before == ["s########1"]


def test_files_that_nothing_lists_are_kept_for_readers_and_then_removed(
    folder: EventFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.publish(folder.call("2026-11-03T10:05"))
    refresh(folder.directory)
    (old,) = (folder.directory.results_folder / "days" / "prompts").iterdir()
    folder.publish(folder.call("2026-11-03T10:06"))
    refresh(folder.directory)
    assert old.exists()
    assert len(folder.prompts()) == 1
    monkeypatch.setattr("analytics.day_files.KEPT_FOR", timedelta(0))
    folder.publish(folder.row(INGEST_COUNTS, "2026-11-09T10:59"))
    refresh(folder.directory)
    assert not old.exists()
    assert len(folder.prompts()) == 1
