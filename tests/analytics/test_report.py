"""The report's data, by hand."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest

from analytics.exceptions import DayNotClosedError, NoResultsError, ResultsNotReadError
from analytics.refresh import refresh
from analytics.report import closed_days, report_data
from sli.schemas import GUARD_DECISIONS, RECEIVER_UPTIME
from tests.analytics.segments import EventFolder

DAY = date(2026, 11, 3)
QUIET = {"would_warn": 0, "would_stop": 0}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.fixture
def data(folder: EventFolder) -> dict[str, Any]:
    """Of a day with two environments and three versions, one of which went silent."""
    new = {"service_version": "0.10.0"}
    folder.publish(
        folder.row(
            RECEIVER_UPTIME,
            "2026-11-03T00:00",
            since=moment("2026-11-03T00:00"),
            until=moment("2026-11-03T22:00"),
        ),
        folder.call("2026-11-02T10:00", service_version="0.9.0"),
        folder.call("2026-11-02T10:00", "error", error_type="a", **new),
        folder.call("2026-11-03T10:00", "error", error_type="timeout", function_name="web", **new),
        folder.call("2026-11-03T10:01", "error", error_type="not_found", **new),
        folder.call("2026-11-03T10:02", "error", error_type="not_found", **new),
        folder.call("2026-11-03T10:03", **new),
        folder.call("2026-11-03T10:04", "not_started", error_type="denied", **new | {"status": "error"}),
        folder.call("2026-11-03T11:00", environment="canary"),
        folder.row(
            GUARD_DECISIONS,
            "2026-11-03T12:00",
            prompt_id="g########1",
            session_id="g",
            mode="shadow",
            route="acp_foreground",
            decision="tracked",
            candidate_ordinal=1,
        ),
        folder.call("2026-11-04T02:00", environment="canary"),
    )
    refresh(folder.directory)
    return report_data(folder.directory, DAY)


def test_environments_and_versions_are_in_order(data: dict[str, Any]) -> None:
    assert (data["day"], data["revised"], data["lost_segments"]) == ("2026-11-03", [], [])
    parts = [
        (each["environment"], version["service_version"])
        for each in data["environments"]
        for version in each["versions"]
    ]
    assert parts == [
        ("canary", "0.24.4"),
        ("internal", "0.9.0"),
        ("internal", "0.10.0"),
        ("internal", "0.24.4"),
    ]
    assert data["receiver"] == {"seconds_not_accepting": 7200.0, "gaps": 1}


def test_a_version_beside_its_day_before(data: dict[str, Any]) -> None:
    silent, busy, prompts_only = data["environments"][1]["versions"]
    assert (silent["sli"], silent["before"]["total"], silent["change"]) == (None, 1, None)
    assert (prompts_only["sli"], prompts_only["before"]) == (None, None)
    assert [(row["mode"], row["prompts"]) for row in prompts_only["shadow"]] == [("shadow", 1)]

    sli = busy["sli"]
    counts = {name: sli[name] for name in ("total", "success", "error", "not_started", "executed")}
    assert counts == {"total": 5, "success": 1, "error": 3, "not_started": 1, "executed": 4}
    assert (sli["failure_rate"], busy["before"]["failure_rate"], busy["change"]) == (0.75, 1.0, -0.25)
    assert busy["failure_classes"] == [
        {"class": "denied_before_execution", "error_type": "denied", "calls": 1},
        {"class": "execution_failure", "error_type": "not_found", "calls": 2},
        {"class": "execution_failure", "error_type": "timeout", "calls": 1},
    ]
    assert busy["top_errors"] == [
        {"function_name": "read_file", "error_type": "not_found", "calls": 2, **QUIET},
        {"function_name": "web", "error_type": "timeout", "calls": 1, **QUIET},
    ]
    assert busy["quality"]["stored"] == 5
    assert busy["baseline"]["status"] == "refused"
    assert busy["baseline"]["window_end"] == "2026-11-03"


def test_it_is_json_and_stays_the_same_over_a_rebuild(folder: EventFolder, data: dict[str, Any]) -> None:
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    refresh(folder.directory, rebuild=True)
    assert report_data(folder.directory, DAY) == data


def test_days_that_have_closed(folder: EventFolder, data: dict[str, Any]) -> None:
    assert closed_days(folder.directory) == [date(2026, 11, 2), DAY]
    with pytest.raises(DayNotClosedError, match="2026-11-04 closes at 2026-11-05T01:00:00Z"):
        report_data(folder.directory, date(2026, 11, 4))


def test_late_events_of_days_before_are_told_for_ten_days(folder: EventFolder) -> None:
    late = folder.call("2026-11-02T11:00") | {"received_at": moment("2026-11-20T12:00")}
    folder.publish(late, folder.call("2026-11-20T12:00"))
    refresh(folder.directory)
    told = {
        day: [row["day"] for row in report_data(folder.directory, date(2026, 11, day))["revised"]]
        for day in (1, 2, 11, 12)
    }
    assert told == {1: [], 2: ["2026-11-02"], 11: ["2026-11-02"], 12: []}


def test_without_results_it_says_what_to_do(folder: EventFolder) -> None:
    assert closed_days(folder.directory) == []
    with pytest.raises(NoResultsError, match="toolgauge refresh"):
        report_data(folder.directory, DAY)
    folder.directory.results_folder.mkdir(parents=True)
    folder.directory.results.write_bytes(b"no database")
    with pytest.raises(ResultsNotReadError, match="toolgauge rebuild"):
        report_data(folder.directory, DAY)


def test_each_version_is_told_by_its_own_contract(folder: EventFolder) -> None:
    """Of many versions: a mark that belongs to another one is then seen each time."""
    versions = [f"0.{minor}.0" for minor in range(1, 31)]
    folder.publish(*[folder.call("2026-11-03T10:00", service_version=version) for version in versions])
    folder.publish(folder.call("2026-11-04T02:00"))
    refresh(folder.directory)
    (environment,) = report_data(folder.directory, DAY)["environments"]
    bearing = [v["service_version"] for v in environment["versions"] if v["quality"]["contract_bearing"]]
    # The first release with the contract is 0.21.10.
    assert bearing == [f"0.{minor}.0" for minor in range(22, 31)]
