"""The service looks for duplicates once a day, beside the refreshes, and is loud when it finds any."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
import structlog
from structlog.testing import capture_logs

from analytics.duplicates import JOB
from analytics.refresh import refresh
from analytics.results_file import last_run
from tests.analytics.segments import EventFolder
from toolgauge import jobs


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as entries:
        yield entries


def _run(folder: EventFolder) -> bool:
    """What a service that was just started does; whether it checked."""
    checking = jobs._DailyCheck(folder.directory)
    checking.start_if_due()
    if checking._thread is None:
        return False
    checking._thread.join(60)
    return True


def test_it_is_done_once_a_day_also_over_restarts(folder: EventFolder, logged: list[Any]) -> None:
    folder.publish(folder.call("2026-11-30T10:00"))
    refresh(folder.directory)
    assert _run(folder)
    assert not _run(folder)
    with duckdb.connect(folder.directory.results) as results:
        results.execute("UPDATE runs SET started = started - INTERVAL 1 DAY WHERE job = ?", [JOB])
    assert _run(folder)
    last = last_run(folder.directory, JOB)
    assert last is not None
    assert last.status == "ok"
    assert [entry for entry in logged if entry["log_level"] == "error"] == []


def test_what_it_finds_is_an_error_in_the_log(folder: EventFolder, logged: list[Any]) -> None:
    twice = folder.call("2026-11-30T10:00")
    folder.publish(twice, twice)
    refresh(folder.directory)
    assert _run(folder)
    (entry,) = [entry for entry in logged if entry["log_level"] == "error"]
    assert (entry["event"], entry["dataset"], entry["events"]) == ("events_stored_twice", "tool_calls", 1)
    assert entry["examples"] == [str(twice["event_id"])]


def test_a_check_that_fails_is_said_and_does_not_end_the_service(
    folder: EventFolder, logged: list[Any]
) -> None:
    folder.publish(folder.call("2026-11-30T10:00"))
    refresh(folder.directory)
    folder.path(folder.segments[0]).unlink()
    assert _run(folder)
    assert [entry["event"] for entry in logged] == ["duplicate_check_failed"]
