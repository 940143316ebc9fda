"""The nightly report: what is written, when, and that it is the same from the same events."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
import structlog
from structlog.testing import capture_logs

from analytics.exceptions import DayNotClosedError, ReportNotWrittenError
from analytics.refresh import refresh
from analytics.results_file import last_run
from sli.data_directory import DataDirectory
from tests.analytics.segments import EventFolder
from tests.toolgauge.conftest import Run
from toolgauge import reports
from toolgauge.exceptions import BadSetting
from toolgauge.jobs import ReportSchedule
from toolgauge.reports import JOB, write_due_reports, write_report
from toolgauge.settings import load_settings

DAY = date(2026, 11, 3)
NIGHTLY = "30 1 * * *"


def three_days(folder: EventFolder) -> EventFolder:
    """Calls of three days; the last has not closed."""
    folder.publish(folder.call("2026-11-02T10:00"), folder.call("2026-11-03T10:00", "error"))
    folder.publish(folder.call("2026-11-04T10:00"))
    refresh(folder.directory)
    return folder


def files(directory: DataDirectory) -> dict[str, bytes]:
    """All that lies in the folder of the reports, but for the lock."""
    found = [path for path in directory.reports.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(directory.reports)): path.read_bytes() for path in found}


def times(directory: DataDirectory) -> dict[str, tuple[int, int]]:
    states = {path: path.stat() for path in directory.reports.rglob("report.*")}
    return {str(path): (state.st_ino, state.st_mtime_ns) for path, state in states.items()}


def test_a_report_is_a_folder_of_two_files(folder: EventFolder) -> None:
    written = write_report(three_days(folder).directory, DAY)
    assert written.changed
    found = files(folder.directory)
    assert sorted(found) == ["2026-11-03/report.json", "2026-11-03/report.md"]
    assert json.loads(found["2026-11-03/report.json"]) == written.data
    assert found["2026-11-03/report.md"].startswith(b"# Tool calls on 2026-11-03\n")


def test_a_second_report_of_the_same_leaves_the_files_as_they_are(folder: EventFolder) -> None:
    write_report(three_days(folder).directory, DAY)
    before, when = files(folder.directory), times(folder.directory)
    assert not write_report(folder.directory, DAY).changed
    refresh(folder.directory, rebuild=True)
    assert not write_report(folder.directory, DAY).changed
    assert (files(folder.directory), times(folder.directory)) == (before, when)


def test_the_order_of_arrival_and_the_place_do_not_matter(tmp_path: Path) -> None:
    found = []
    for number, order in enumerate(((0, 1, 2, 3), (3, 1, 0, 2))):
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            folder = EventFolder(tmp_path / f"place-{number}" / "data", connection)
            # Made in one order, published in another, one commit each or in pairs.
            calls = [
                folder.call("2026-11-02T10:00", "error", error_type="a"),
                folder.call("2026-11-03T10:00", "error", error_type="b"),
                folder.call("2026-11-03T10:00", "error", error_type="a", function_name="grep"),
                folder.call("2026-11-03T11:00", environment="staging"),
            ]
            for each in order:
                folder.publish(calls[each])
                if number:
                    refresh(folder.directory)
            folder.publish(folder.call("2026-11-04T10:00"))
            refresh(folder.directory)
            write_report(folder.directory, DAY)
            found.append(files(folder.directory))
    assert found[0] == found[1]


def test_the_clock_and_the_machine_are_not_in_it(
    toolgauge: Run, folder: EventFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_report(three_days(folder).directory, DAY)
    before = files(folder.directory)
    for zone in ("Pacific/Kiritimati", "America/Los_Angeles"):
        for path in folder.directory.reports.rglob("report.*"):
            path.unlink()
        done = toolgauge(
            "report", "--day", str(DAY), "--data-dir", "data", TZ=zone, LC_ALL="de_DE", LANG="tr_TR"
        )
        assert done.returncode == 0
        assert files(folder.directory) == before
    everything = b"".join(before.values())
    assert str(folder.directory.root).encode() not in everything
    assert f"{datetime.now(UTC):%Y-%m-%d}".encode() not in everything


def test_a_day_that_has_not_closed_is_refused(toolgauge: Run, folder: EventFolder) -> None:
    three_days(folder)
    with pytest.raises(DayNotClosedError):
        write_report(folder.directory, date(2026, 11, 4))
    done = toolgauge("report", "--day", "2026-11-04", "--data-dir", "data")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: 2026-11-04 closes at 2026-11-05T01:00:00Z, and the events reach to 2026-11-04T10:00:00Z; "
        "there is no report of a day that has not closed\n"
    )
    assert files(folder.directory) == {}


def test_a_day_closes_an_hour_after_its_end(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:00"))
    folder.publish(folder.call("2026-11-04T00:59:59"))
    refresh(folder.directory)
    assert write_due_reports(folder.directory) == []
    folder.publish(folder.call("2026-11-04T01:00"))
    refresh(folder.directory)
    assert [each.day for each in write_due_reports(folder.directory)] == [DAY]


def test_a_late_event_changes_its_day_and_the_revised_days_of_later_ones(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-02T10:00"), folder.call("2026-11-03T10:00"))
    folder.publish(folder.call("2026-11-05T10:00"))
    refresh(folder.directory)
    before = {each.day: each.data for each in write_due_reports(folder.directory)}
    # Days without a call have no report of their own, but the days that the results hold.
    assert sorted(before) == [date(2026, 11, 2), DAY]
    assert before[DAY]["revised"] == []

    late = folder.call("2026-11-02T11:00", "error", error_type="x")
    folder.publish(late | {"received_at": datetime(2026, 11, 5, 12, tzinfo=UTC)})
    refresh(folder.directory)
    after = {each.day: each for each in write_due_reports(folder.directory)}
    assert all(each.changed for each in after.values())
    (version,) = after[date(2026, 11, 2)].data["environments"][0]["versions"]
    assert (version["sli"]["total"], version["sli"]["error"]) == (2, 1)
    revised = {
        "day": "2026-11-02",
        "environment": "internal",
        "service_version": "0.24.4",
        "revision": 1,
        "late_after_close": 1,
    }
    assert after[DAY].data["revised"] == [revised]
    assert "## Revised days" in (after[DAY].folder / "report.md").read_text()


def _write_until_killed(root: Path, at: str, number: int) -> None:
    """Make a report, and end at the given step as if the power had gone."""
    original = getattr(os, at)
    calls = 0

    def deadly(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments)

    setattr(os, at, deadly)
    write_report(DataDirectory(root), DAY)


@pytest.mark.parametrize(("at", "number"), [("fsync", 1), ("fsync", 2), ("replace", 1), ("replace", 2)])
def test_killed_half_way_and_made_again(folder: EventFolder, at: str, number: int) -> None:
    three_days(folder)
    killed = multiprocessing.get_context("spawn").Process(
        target=_write_until_killed, args=(folder.directory.root, at, number)
    )
    killed.start()
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    assert any(name.endswith(".tmp") for name in files(folder.directory))
    write_report(folder.directory, DAY)
    found = files(folder.directory)
    assert sorted(found) == ["2026-11-03/report.json", "2026-11-03/report.md"]
    for path in folder.directory.reports.rglob("report.*"):
        path.unlink()
    write_report(folder.directory, DAY)
    assert files(folder.directory) == found


def test_a_folder_that_cannot_be_written_is_said_and_noted_as_failed(folder: EventFolder) -> None:
    three_days(folder)
    folder.directory.reports.mkdir()
    (folder.directory.reports / str(DAY)).write_text("in the way")
    with pytest.raises(ReportNotWrittenError, match="2026-11-03: File exists"):
        write_due_reports(folder.directory)
    last = last_run(folder.directory, JOB)
    assert last is not None
    assert (last.status, last.detail) == ("failed", "1 reports, changed: 2026-11-02; failed on 2026-11-03")
    assert (folder.directory.reports / "2026-11-02" / "report.md").exists()

    (folder.directory.reports / str(DAY)).unlink()
    assert [each.changed for each in write_due_reports(folder.directory)] == [False, True]
    last = last_run(folder.directory, JOB)
    assert last is not None
    assert (last.status, last.detail) == ("ok", "2 reports, changed: 2026-11-03")


def test_a_report_of_a_day_without_one_of_its_segments_says_so(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:00"))
    folder.publish(folder.call("2026-11-03T11:00"), folder.call("2026-11-05T10:00"))
    lost = folder.segments[0]
    content = folder.path(lost).read_bytes()
    folder.path(lost).unlink()
    refresh(folder.directory)
    written = write_report(folder.directory, DAY)
    assert written.data["lost_segments"] == [lost.path]
    assert f"cannot be read**: `{lost.path}`" in (written.folder / "report.md").read_text()
    folder.path(lost).write_bytes(content)
    refresh(folder.directory)
    written = write_report(folder.directory, DAY)
    assert (written.changed, written.data["lost_segments"]) == (True, [])


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as entries:
        yield entries


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[DataDirectory]:
    """Whenever the schedule makes reports."""
    found: list[DataDirectory] = []

    def noted(directory: DataDirectory) -> list[Any]:
        found.append(directory)
        return []

    monkeypatch.setattr("toolgauge.jobs.write_due_reports", noted)
    return found


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_the_schedule_makes_reports_when_they_are_due(folder: EventFolder, made: list[DataDirectory]) -> None:
    schedule = ReportSchedule(three_days(folder).directory, NIGHTLY)
    for now, times_made in (
        # None was ever made: the first one is due at once.
        ("2026-11-10T12:00", 1),
        ("2026-11-10T23:00", 1),
        ("2026-11-11T01:29:59", 1),
        ("2026-11-11T01:30", 2),
        ("2026-11-11T01:31", 2),
        # Three nights are missed together: one run makes up for all of them.
        ("2026-11-14T09:00", 3),
        ("2026-11-15T01:29", 3),
        ("2026-11-15T01:30", 4),
    ):
        schedule.run_if_due(at(now))
        assert len(made) == times_made, now


def test_a_restart_knows_when_the_last_reports_were_made(folder: EventFolder) -> None:
    three_days(folder)
    write_due_reports(folder.directory)
    started = last_run(folder.directory, JOB)
    assert started is not None
    first = started.started.replace(hour=1, minute=30, second=0, microsecond=0)
    due = first if first > started.started else first + timedelta(days=1)
    ReportSchedule(folder.directory, NIGHTLY).run_if_due(due - timedelta(seconds=1))
    unchanged = last_run(folder.directory, JOB)
    assert unchanged == started
    ReportSchedule(folder.directory, NIGHTLY).run_if_due(due)
    again = last_run(folder.directory, JOB)
    assert again is not None
    assert again.started > started.started


def test_an_empty_schedule_is_never_due(folder: EventFolder, made: list[DataDirectory]) -> None:
    schedule = ReportSchedule(three_days(folder).directory, "")
    schedule.run_if_due(at("2030-01-01T01:30"))
    assert made == []


def test_a_missed_night_is_made_up_for(folder: EventFolder, logged: list[Any]) -> None:
    folder.publish(*[folder.call(f"2026-11-{day:02}T10:00") for day in range(2, 8)])
    folder.publish(folder.call("2026-11-08T02:00"))
    refresh(folder.directory)
    write_report(folder.directory, date(2026, 11, 4))
    ReportSchedule(folder.directory, NIGHTLY).run_if_due(at("2026-11-08T02:00"))
    assert sorted({name.split("/")[0] for name in files(folder.directory)}) == [
        f"2026-11-{day:02}" for day in range(2, 8)
    ]
    said = [entry["days"] for entry in logged if entry["event"] == "reports_written"]
    assert said == [[f"2026-11-{day:02}" for day in (2, 3, 5, 6, 7)]]


def test_a_failing_report_is_said_and_does_not_end_the_service(
    folder: EventFolder, logged: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    three_days(folder)

    def fails(*_: Any) -> Any:
        raise ValueError("with telemetry in it")

    monkeypatch.setattr(reports, "report_data", fails)
    schedule = ReportSchedule(folder.directory, NIGHTLY)
    schedule.run_if_due(at("2026-11-10T12:00"))
    schedule.run_if_due(at("2026-11-10T12:01"))
    (entry,) = [entry for entry in logged if entry["event"] == "report_failed"]
    assert "telemetry" not in entry["reason"]
    last = last_run(folder.directory, JOB)
    assert last is not None
    assert last.status == "failed"


@pytest.mark.parametrize("schedule", ["nightly", "61 1 * * *", "* * *", "0 0 31 2 *"])
def test_a_schedule_that_never_comes_due_is_refused(
    toolgauge: Run, monkeypatch: pytest.MonkeyPatch, schedule: str
) -> None:
    monkeypatch.setenv("TOOLGAUGE_REPORT_SCHEDULE", schedule)
    with pytest.raises(BadSetting, match="is no cron expression of five fields that ever comes due"):
        load_settings()
    done = toolgauge("config")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        f"error: report_schedule (TOOLGAUGE_REPORT_SCHEDULE): '{schedule}' is no cron"
    )


def test_the_command_shows_the_last_closed_day(toolgauge: Run, folder: EventFolder) -> None:
    three_days(folder)
    done = toolgauge("report", "--data-dir", "data")
    assert done.returncode == 0
    assert done.stdout == (folder.directory.reports / "2026-11-03" / "report.md").read_text()
    assert done.stderr == "note: data/reports/2026-11-03 written\n"
    done = toolgauge("report", "--data-dir", "data", "--format", "json")
    assert json.loads(done.stdout)["day"] == "2026-11-03"
    assert done.stderr == "note: data/reports/2026-11-03 unchanged\n"
    done = toolgauge("report", "--due", "--data-dir", "data")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "note: data/reports/2026-11-02 written",
        "note: data/reports/2026-11-03 unchanged",
    ]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--day", "7d"), 2, "--day '7d' is no day; write a date (2026-10-01)"),
        (("--day", "2026-11-03", "--due"), 2, "choose one of them"),
        (("--day", "2026-11-04"), 1, "there is no report of a day that has not closed"),
        (("--format", "csv"), 2, "csv"),
    ],
)
def test_what_the_command_refuses(
    toolgauge: Run, folder: EventFolder, arguments: tuple[str, ...], status: int, words: str
) -> None:
    three_days(folder)
    done = toolgauge("report", *arguments, "--data-dir", "data")
    assert (done.returncode, done.stdout) == (status, "")
    assert words in done.stderr


def test_without_a_closed_day_there_is_no_report(toolgauge: Run, folder: EventFolder) -> None:
    folder.directory.root.mkdir()
    done = toolgauge("report", "--data-dir", "data")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no day with events has closed yet" in done.stderr
    assert toolgauge("report", "--due", "--data-dir", "data").returncode == 0
