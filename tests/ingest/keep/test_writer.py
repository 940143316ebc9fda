"""Every event once, however it is delivered; every request answered once, after the commit."""

from __future__ import annotations

import hashlib
import random
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.decode.wire import Signal
from ingest.exceptions import IngestError, MalformedBody, ShuttingDown, StoreUnavailable
from ingest.keep.store import Store
from ingest.keep.writer import Encoding, Outcome, Request


def test_a_request_is_stored_once_however_often_it_comes(otlp: Any, keeper: Any) -> None:
    body = keeper.call_body(otlp, range(5))
    assert keeper.keep(body) == [Outcome(stored=5)]
    assert keeper.keep(body) == [Outcome(duplicates=5)]
    keeper.restart()
    assert keeper.keep(body, body) == [Outcome(duplicates=5)] * 2
    assert keeper.calls() == Counter({f"c{n}": 1 for n in range(5)})


def test_overlapping_batches(otlp: Any, keeper: Any) -> None:
    # Records 1 to 512, then 257 to 768, together and after a restart: 768.
    first, second = keeper.call_body(otlp, range(1, 513)), keeper.call_body(otlp, range(257, 769))
    outcomes = keeper.keep(first, second)
    keeper.restart()
    outcomes += keeper.keep(second, first)
    assert sum(outcome.stored for outcome in outcomes) == 768
    assert keeper.calls() == Counter({f"c{n}": 1 for n in range(1, 769)})


def test_one_batch_may_hold_the_same_call_many_times(otlp: Any, keeper: Any) -> None:
    other_payload = otlp.tool_call | {"call_id": "c1", "duration_ms": 99}
    body = otlp.logs(
        otlp.log(otlp.tool_call | {"call_id": "c1"}),
        otlp.log(otlp.tool_call | {"call_id": "c1"}),
        otlp.log(other_payload),
    )
    assert keeper.keep(body) == [Outcome(stored=1, duplicates=2)]
    assert keeper.query("SELECT duration_ms FROM tool_calls") == [(12.0,)]


def test_a_log_and_the_span_that_bridges_it_are_one_call(otlp: Any, keeper: Any) -> None:
    log = otlp.logs(otlp.log(otlp.tool_call, time=otlp.noon + 4_000_000))
    span = otlp.spans(otlp.span(otlp.tool_call, time=otlp.noon))
    for first, second in (
        ((log, Signal.LOGS), (span, Signal.TRACES)),
        ((span, Signal.TRACES), (log, Signal.LOGS)),
    ):
        keeper.keep(first[0], signal=first[1])
        assert keeper.keep(second[0], signal=second[1]) == [Outcome(duplicates=1)]
    assert keeper.calls() == Counter({"call-1": 1})


def test_records_without_any_time_of_the_producer_are_found_again_at_any_distance(
    otlp: Any, keeper: Any
) -> None:
    sent = {k: v for k, v in otlp.tool_call.items() if k != "event.timestamp"}
    day = 86_400 * 10**9
    for observed in (0, otlp.noon - 300 * day, otlp.noon):
        keeper.keep(
            otlp.logs(otlp.log(sent, time=0, observed_time_unix_nano=observed)),
            arrival=otlp.arrival + 30 * day,
        )
    assert keeper.calls() == Counter({"call-1": 1})


def test_a_copy_without_a_time_is_found_by_one_that_has_a_time(otlp: Any, keeper: Any) -> None:
    sent = otlp.tool_call | {"event.timestamp": "noon"}
    log = otlp.logs(otlp.log(sent, time=0))
    span = otlp.spans(otlp.span(sent, time=otlp.noon - 3_600 * 10**9))
    assert keeper.keep(log) == [Outcome(stored=1)]
    for _ in range(2):
        assert keeper.keep(span, signal=Signal.TRACES) == [Outcome(duplicates=1)]
        keeper.restart()


def test_a_time_that_becomes_possible_later_does_not_make_a_second_event(otlp: Any, keeper: Any) -> None:
    # Two days ahead of the first arrival the record's time is impossible, and event.timestamp is taken;
    # when the same record comes again three days later, its own time is fine.
    day = 86_400 * 10**9
    body = otlp.logs(otlp.log(otlp.tool_call, time=otlp.noon + 2 * day))
    assert keeper.keep(body) == [Outcome(stored=1)]
    assert keeper.keep(body, arrival=otlp.arrival + 3 * day) == [Outcome(duplicates=1)]
    assert keeper.query("SELECT time_source FROM tool_calls") == [("event_timestamp",)]


def test_a_receivers_clock_that_goes_back_does_not_make_a_second_event(otlp: Any, keeper: Any) -> None:
    day = 86_400 * 10**9
    body = otlp.logs(otlp.log(otlp.tool_call, time=otlp.noon + 2 * day))
    assert keeper.keep(body, arrival=otlp.arrival + 3 * day) == [Outcome(stored=1)]
    assert keeper.keep(body) == [Outcome(duplicates=1)]
    assert keeper.query("SELECT time_source FROM tool_calls") == [("record",)]


def test_a_malformed_request_is_refused_alone(otlp: Any, keeper: Any) -> None:
    good, bad = keeper.call_body(otlp, range(2)), b"\xff\xff\xff"
    outcomes = keeper.keep(good, bad, keeper.call_body(otlp, range(2, 4)))
    assert (outcomes[0], outcomes[2]) == (Outcome(stored=2), Outcome(stored=2))
    assert isinstance(outcomes[1], MalformedBody)
    assert len(keeper.calls()) == 4


def test_guards_and_calls_share_one_commit(otlp: Any, keeper: Any) -> None:
    body = otlp.logs(otlp.log(otlp.tool_call), otlp.log(otlp.guard), otlp.log({"event.name": "other"}))
    assert keeper.keep(body) == [Outcome(stored=2)]
    assert keeper.query("SELECT commit_number FROM tool_calls") == keeper.query(
        "SELECT commit_number FROM guard_decisions"
    )


def test_a_request_with_nothing_to_keep_is_accepted(otlp: Any, keeper: Any) -> None:
    assert keeper.keep(b"", otlp.logs(otlp.log({"event.name": "other"}))) == [Outcome(), Outcome()]
    assert keeper.keep(b"", signal=Signal.METRICS) == [Outcome()]
    assert keeper.store.last_commit == 0


def test_a_closing_writer_answers_what_it_took_and_takes_no_more(
    otlp: Any, tmp_path: Path, open_keeper: Any
) -> None:
    keeper = open_keeper(tmp_path / "events.duckdb")
    answers: list[Outcome | IngestError] = []
    for n in range(50):
        keeper.writer.submit(
            Request(Signal.LOGS, Encoding.PROTOBUF, keeper.call_body(otlp, [n]), otlp.arrival), answers.append
        )
    keeper.writer.close()
    assert [answer.stored for answer in answers if isinstance(answer, Outcome)] == [1] * 50
    with pytest.raises(ShuttingDown):
        keeper.writer.submit(Request(Signal.LOGS, Encoding.PROTOBUF, b"", 0), answers.append)
    keeper.store.close()


def test_a_store_that_fails_refuses_and_recovers(otlp: Any, keeper: Any) -> None:
    # The table is gone for a moment: whatever the store's trouble is, the client must come again.
    cursor = keeper.store.reader()
    cursor.execute("ALTER TABLE tool_calls RENAME TO elsewhere")
    (refused,) = keeper.keep(keeper.call_body(otlp, [1]))
    assert isinstance(refused, StoreUnavailable)
    assert not keeper.writer.healthy
    cursor.execute("ALTER TABLE elsewhere RENAME TO tool_calls")
    assert keeper.keep(keeper.call_body(otlp, [1])) == [Outcome(stored=1)]
    assert keeper.writer.healthy


def test_event_ids_are_the_md5_of_the_identity(otlp: Any, keeper: Any) -> None:
    # Pinned: were it computed otherwise by another release of the store, every event would count twice.
    keeper.keep(otlp.logs(otlp.log(otlp.tool_call)))
    (row,) = otlp.rows(otlp.logs(otlp.log(otlp.tool_call)))
    expected = uuid.UUID(bytes=hashlib.md5(row["identity"]).digest()[::-1])
    assert str(expected) == "f2c39ca8-3088-2244-2c20-4baf06f3733c"
    assert keeper.query("SELECT event_id FROM tool_calls") == [(expected,)]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.one_of(
            st.just("restart"),
            st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=12), min_size=1, max_size=4),
        ),
        min_size=1,
        max_size=8,
    ),
    seed=st.integers(0, 2**16),
)
def test_any_deliveries_give_each_event_once(
    otlp: Any, tmp_path: Path, open_keeper: Any, steps: list[Any], seed: int
) -> None:
    rng = random.Random(seed)
    path = tmp_path / f"{rng.getrandbits(64)}.duckdb"
    keeper = open_keeper(path)
    model: set[str] = set()
    try:
        for step in steps:
            if step == "restart":
                keeper.restart()
                continue
            bodies = [_mixed(otlp, numbers, rng) for numbers in step]
            wanted = {name for numbers in step for name in map(_name, numbers)}
            outcomes = keeper.keep(*bodies)
            assert sum(outcome.stored for outcome in outcomes) == len(wanted - model)
            assert sum(o.stored + o.duplicates for o in outcomes) == sum(map(len, step))
            model |= wanted
        found = keeper.query(
            "SELECT coalesce(call_id, response_id) FROM tool_calls "
            "UNION ALL SELECT prompt_id FROM guard_decisions"
        )
        assert sorted(name for (name,) in found) == sorted(model)
    finally:
        keeper.close()
        for file in (path, path.with_suffix(".duckdb.wal")):
            file.unlink(missing_ok=True)


def _name(number: int) -> str:
    return (f"call-{number}", f"response-{number}", f"prompt-{number}", f"untimed-{number}")[number % 4]


def _mixed(otlp: Any, numbers: list[int], rng: random.Random) -> bytes:
    """Calls with and without id, guard decisions, and calls without time, each in some delivered form."""
    records = []
    for number in numbers:
        name = _name(number)
        at = otlp.noon + number * 3_600_000_000_000
        match number % 4:
            case 0:
                sent = otlp.tool_call | {"call_id": name}
            case 1:
                sent = {k: v for k, v in otlp.tool_call.items() if k != "call_id"} | {"response_id": name}
            case 2:
                sent = otlp.guard | {"prompt_id": name}
            case _:
                at = 0
                sent = {k: v for k, v in otlp.tool_call.items() if k != "event.timestamp"} | {"call_id": name}
        pairs = list(sent.items())
        rng.shuffle(pairs)
        records.append(otlp.log(pairs, time=at, observed_time_unix_nano=rng.choice([0, otlp.noon])))
    return otlp.logs(*records)


def test_the_store_refuses_a_file_of_a_newer_version(tmp_path: Path) -> None:
    from ingest.exceptions import NewerStore

    path = tmp_path / "events.duckdb"
    Store(path).close()
    with duckdb.connect(str(path)) as connection:
        connection.execute("UPDATE store_info SET format = 999")
    with pytest.raises(NewerStore, match="format 999"):
        Store(path)


def test_the_store_refuses_what_is_no_store(tmp_path: Path) -> None:
    from ingest.exceptions import DamagedStore

    path = tmp_path / "events.duckdb"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(DamagedStore, match=r"events\.duckdb cannot be opened"):
        Store(path)
    assert path.read_bytes().startswith(b"not a database")
