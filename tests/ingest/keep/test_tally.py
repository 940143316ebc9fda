"""What arrived is counted by name, and so is the time in which it could arrive."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ingest.decode.wire import Signal
from ingest.keep import writer as writer_module
from ingest.keep.store import Store
from ingest.keep.writer import Encoding, Outcome, Request, Writer


class Kept:
    """A writer over a store of its own, and what its tables hold."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / "events.duckdb")
        self.started = time.time()
        self.writer = Writer(self.store, "owner.id", b"k" * 32)

    def put(self, body: bytes, signal: Signal = Signal.LOGS) -> Any:
        answers: list[Any] = []
        answered = threading.Event()

        def answer(result: Any) -> None:
            answers.append(result)
            answered.set()

        self.writer.submit(Request(signal, Encoding.PROTOBUF, body, time.time_ns()), answer)
        assert answered.wait(30)
        return answers[0]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.store.reader().execute(query).fetchall()


@pytest.fixture
def kept(tmp_path: Path) -> Any:
    kept = Kept(tmp_path)
    yield kept
    kept.store.close()


COUNTS = """
    SELECT signal, name, environment, sum(records), sum(stored), sum(duplicates), sum(rejected)
    FROM ingest_counts GROUP BY ALL ORDER BY signal, name
"""


def test_every_record_is_counted_as_what_became_of_it(kept: Kept, otlp: Any) -> None:
    call = otlp.log(otlp.tool_call)
    bad = otlp.log(otlp.tool_call | {"call_id": 7})
    other = otlp.log({"event.name": "qwen-code.auth"})
    body = otlp.logs(call, call, bad, other, otlp.log({"event.name": "SECRET 1"}), otlp.log(otlp.guard))
    first = kept.put(body)
    assert (first.stored, first.duplicates, sum(first.rejected.values())) == (2, 1, 1)
    again = kept.put(body)
    assert (again.stored, again.duplicates, sum(again.rejected.values())) == (0, 3, 1)
    kept.put(otlp.spans(otlp.span({}, name="GET /secret")), Signal.TRACES)
    kept.writer.close()
    assert kept.rows(COUNTS) == [
        ("logs", "other", "internal", 2, 0, 0, 0),
        ("logs", "qwen-code.auth", "internal", 2, 0, 0, 0),
        ("logs", "qwen-code.repeated_tool_failure_guard", "internal", 2, 1, 1, 0),
        ("logs", "qwen-code.tool_call", "internal", 6, 1, 3, 2),
        ("traces", "other", "internal", 1, 0, 0, 0),
    ]
    # What can never be kept is told of once, however often it is sent.
    assert kept.rows("SELECT signal, name, reason, records FROM rejected") == [
        ("logs", "qwen-code.tool_call", "wrong_type", 1)
    ]


def test_a_malformed_request_counts_nothing(kept: Kept) -> None:
    assert not isinstance(kept.put(b"\xff\xff"), Outcome)
    kept.writer.close()
    assert kept.rows(COUNTS) == []


def test_the_time_of_accepting_is_told_without_a_gap(
    kept: Kept, otlp: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_COUNTS_SECONDS", 0.2)
    for number in range(4):
        kept.put(otlp.logs(otlp.log(otlp.tool_call | {"call_id": f"c{number}"})))
        time.sleep(0.25)
    kept.writer.close()
    intervals = kept.rows("SELECT epoch(since), epoch(until), refused FROM receiver_uptime ORDER BY since")
    assert len(intervals) >= 3
    assert all(after[0] == before[1] for before, after in itertools.pairwise(intervals))
    assert intervals[0][0] == pytest.approx(kept.started, abs=1)
    assert intervals[-1][1] == pytest.approx(time.time(), abs=1)
    assert [refused for *_, refused in intervals] == [0] * len(intervals)


def test_what_was_refused_is_told(kept: Kept, otlp: Any) -> None:
    kept.writer.refuse()
    kept.writer.refuse()
    kept.writer.close()
    assert kept.rows("SELECT refused FROM receiver_uptime") == [(2,)]


def test_an_end_without_a_word_leaves_a_gap(tmp_path: Path, otlp: Any) -> None:
    first = Kept(tmp_path)
    first.put(otlp.logs(otlp.log(otlp.tool_call)))
    first.writer.close()
    first.store.close()
    time.sleep(0.5)
    second = Kept(tmp_path)
    second.writer.close()
    intervals = second.rows("SELECT epoch(since), epoch(until) FROM receiver_uptime ORDER BY since")
    assert len(intervals) == 2
    assert intervals[1][0] - intervals[0][1] >= 0.5
    second.store.close()
