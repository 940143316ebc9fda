"""Which clock an event's time comes from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

DAY = 86_400 * 1_000_000_000
EARLIEST = 1_577_836_800_000_000_000  # 2020-01-01T00:00:00Z


def _times(otlp: Any, time: int, timestamp: Any, observed: int = 0, arrival: int | None = None) -> Any:
    sent = {k: v for k, v in otlp.tool_call.items() if k != "event.timestamp"}
    if timestamp is not None:
        sent["event.timestamp"] = timestamp
    body = otlp.logs(otlp.log(sent, time=time, observed_time_unix_nano=observed))
    rows = otlp.rows(body, arrival=otlp.arrival if arrival is None else arrival)
    return (rows[0]["time_unix_nano"], rows[0]["time_source"]) if rows else None


def test_the_record_time_comes_first_and_keeps_its_nanoseconds(otlp: Any) -> None:
    for nanos in (123_456_789, 123_456_790):
        assert _times(otlp, otlp.noon + nanos, otlp.noon_text) == (otlp.noon + nanos, "record")


def test_without_a_record_time_the_timestamp_then_the_observed_time_then_arrival(otlp: Any) -> None:
    observed = otlp.noon + 5_000_000_001
    assert _times(otlp, 0, "2026-11-30T12:00:01.250Z", observed) == (
        otlp.noon + 1_250_000_000,
        "event_timestamp",
    )
    assert _times(otlp, 0, None, observed) == (observed, "observed")
    assert _times(otlp, 0, None) == (otlp.arrival, "arrival")


@pytest.mark.parametrize("text", ["yesterday", "", "2026-11-30", "2026-13-30T12:00:00Z", 1_796_040_000, True])
def test_a_timestamp_that_is_no_time_is_missing(otlp: Any, text: Any) -> None:
    assert _times(otlp, 0, text) == (otlp.arrival, "arrival")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-30T12:00:00Z", 0),
        ("2026-11-30T20:00:00.000+08:00", 0),
        ("2026-11-30T12:00:00.5Z", 0.5),
        ("2026-11-30T11:59:59.999999999Z", -1e-9),
    ],
)
def test_timestamps_may_have_zones_and_fractions(otlp: Any, text: str, seconds: float) -> None:
    assert _times(otlp, 0, text) == (otlp.noon + round(seconds * 1_000_000_000), "event_timestamp")


@pytest.mark.parametrize("impossible", [1, EARLIEST - 1, "arrival + a day + 1", 2**63 - 1, 2**63, 2**64 - 1])
def test_an_impossible_record_time_gives_way_to_a_possible_timestamp(otlp: Any, impossible: Any) -> None:
    time = otlp.arrival + DAY + 1 if isinstance(impossible, str) else impossible
    assert _times(otlp, time, otlp.noon_text) == (otlp.noon, "event_timestamp")
    assert _times(otlp, time, "2019-12-31T23:59:59Z") is None
    assert _times(otlp, time, None, observed=otlp.noon) is None


@pytest.mark.parametrize("text", ["2610-07-01T00:00:00.000Z", "1441-01-01T00:00:00Z", "9999-12-31T00:00:00Z"])
def test_a_timestamp_beyond_the_column_is_impossible(otlp: Any, text: str) -> None:
    assert _times(otlp, 0, text) is None


@pytest.mark.parametrize("time", ["earliest", "a day ahead"])
def test_the_bounds_themselves_are_possible(otlp: Any, time: str) -> None:
    at = {"earliest": EARLIEST, "a day ahead": otlp.arrival + DAY}[time]
    assert _times(otlp, at, None) == (at, "record")


def test_impossible_times_are_counted_by_request_and_reject_nobody_else(otlp: Any) -> None:
    bad = otlp.log({k: v for k, v in otlp.tool_call.items() if k != "event.timestamp"}, time=1)
    good = otlp.log(otlp.tool_call)
    events = otlp.normalised(otlp.logs(good), otlp.logs(bad, good, bad))
    assert events.rejected["impossible_time"].tolist() == [0, 2]
    assert {rows.dataset: len(rows.table) for rows in events.rows} == {"tool_calls": 2, "rejected": 2}


@given(
    record=st.sampled_from([0, 1, EARLIEST, 1_796_040_000_000_000_000, 2**64 - 1]),
    timestamp=st.sampled_from([None, "x", "2019-01-01T00:00:00Z", "2026-11-30T12:00:00.000Z"]),
    observed=st.sampled_from([0, 7, 1_796_040_000_000_000_001]),
)
def test_the_rule_in_words_gives_the_same(
    otlp: Any, record: int, timestamp: str | None, observed: int
) -> None:
    stamps = {"2019-01-01T00:00:00Z": 1_546_300_800 * 10**9, "2026-11-30T12:00:00.000Z": otlp.noon}
    stamp = stamps.get(timestamp or "", 0)

    def possible(nanos: int) -> bool:
        return EARLIEST <= nanos <= otlp.arrival + DAY

    expected = None
    for source, nanos in (
        ("record", record),
        ("event_timestamp", stamp),
        ("observed", observed),
        ("arrival", otlp.arrival),
    ):
        if nanos:
            if possible(nanos):
                expected = (nanos, source)
            elif possible(stamp):
                expected = (stamp, "event_timestamp")
            break
    assert _times(otlp, record, timestamp, observed) == expected
