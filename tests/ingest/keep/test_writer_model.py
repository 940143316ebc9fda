"""The writer against a set: any batches, in any order, over restarts and rebuilds, give each event once."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from ingest.decode.wire import Signal
from ingest.exceptions import IngestError
from ingest.keep.publisher import Publisher
from ingest.keep.recovery import open_store
from ingest.keep.writer import Encoding, Outcome, Request, Writer
from sli.data_directory import DataDirectory
from sli.vocabulary import Rejection

EVENTS = 60
FORMS = ("protobuf", "json", "span")
DAY = 86_400 * 10**9

numbers = st.lists(st.integers(0, EVENTS - 1), min_size=1, max_size=12)


def machine(otlp: Any) -> type[RuleBasedStateMachine]:
    class Deliveries(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.folder = Path(tempfile.mkdtemp())
            self.directory = DataDirectory(self.folder / "data")
            self.model: set[str] = set()
            self.clock = otlp.arrival
            self._open()

        def _open(self) -> None:
            self.store = open_store(self.directory)
            self.publisher = Publisher(self.store, self.directory)
            self.writer = Writer(self.store, "owner.id", b"k" * 32)

        def _close(self) -> None:
            self.writer.close()
            self.store.close()

        @rule(batches=st.lists(st.tuples(numbers, st.sampled_from(FORMS)), min_size=1, max_size=5))
        def deliver(self, batches: list[tuple[list[int], str]]) -> None:
            """Batches that overlap in part, in three forms at once."""
            answers: dict[int, Outcome | IngestError] = {}
            done = threading.Semaphore(0)
            for place, (chosen, form) in enumerate(batches):

                def answer(result: Outcome | IngestError, place: int = place) -> None:
                    answers[place] = result
                    done.release()

                self.writer.submit(_request(otlp, chosen, form, self.clock), answer)
            for _ in batches:
                assert done.acquire(timeout=30)
            outcomes = [each for each in answers.values() if isinstance(each, Outcome)]
            assert len(outcomes) == len(batches), answers
            wanted = {f"call-{number}" for chosen, _ in batches for number in chosen}
            assert sum(each.stored for each in outcomes) == len(wanted - self.model)
            assert sum(each.stored + each.duplicates for each in outcomes) == sum(
                len(chosen) for chosen, _ in batches
            )
            self.model |= wanted

        @rule(hours=st.integers(-20, 10_000))
        def turn_the_clock(self, hours: int) -> None:
            """Of the receiver, backwards and forwards; more than a day back, new events are refused."""
            self.clock = otlp.arrival + hours * DAY // 24

        @rule()
        def publish(self) -> None:
            self.publisher.publish()

        @rule()
        def restart(self) -> None:
            self._close()
            self._open()

        @rule(seed=st.integers(0, 99), file=st.sampled_from(["events.duckdb", "events.duckdb.wal"]))
        def kill_and_damage(self, seed: int, file: str) -> None:
            """What a kill leaves is copied from under the running store; then a byte is flipped in it."""
            left = DataDirectory(self.folder / "left")
            shutil.copytree(self.directory.root, left.root)
            self._close()
            shutil.rmtree(self.directory.root)
            left.root.rename(self.directory.root)
            path = self.directory.root / file
            if path.exists() and path.stat().st_size:
                content = bytearray(path.read_bytes())
                content[random.Random(seed).randrange(len(content))] ^= 0x10
                path.write_bytes(content)
            self._open()

        @invariant()
        def the_rows_are_the_models(self) -> None:
            if hasattr(self, "store"):
                rows = self.store.reader().execute("SELECT call_id FROM tool_calls ORDER BY ALL").fetchall()
                assert [call_id for (call_id,) in rows] == sorted(self.model)

        def teardown(self) -> None:
            if hasattr(self, "store"):
                self._close()
                shutil.rmtree(self.folder)

    return Deliveries


def _request(otlp: Any, chosen: list[int], form: str, arrival: int) -> Request:
    if form == "span":
        body = otlp.spans(*(otlp.span(_call(otlp, n), time=otlp.noon + n * 3_600 * 10**9) for n in chosen))
        return Request(Signal.TRACES, Encoding.PROTOBUF, body, arrival)
    # The log record is stamped up to 4 ms after the span that bridges it.
    body = otlp.logs(
        *(
            otlp.log(
                _call(otlp, n), time=otlp.noon + n * 3_600 * 10**9 + (n % 5) * 1_000_000, trace_id=bytes(16)
            )
            for n in chosen
        )
    )
    if form == "protobuf":
        return Request(Signal.LOGS, Encoding.PROTOBUF, body, arrival)
    tree = MessageToDict(ExportLogsServiceRequest.FromString(body))
    for resource in tree["resourceLogs"]:
        for scope in resource["scopeLogs"]:
            for record in scope["logRecords"]:
                record.pop("traceId", None)
    return Request(Signal.LOGS, Encoding.JSON, json.dumps(tree).encode(), arrival)


def _call(otlp: Any, number: int) -> dict[str, Any]:
    return otlp.tool_call | {"call_id": f"call-{number}"}


def test_any_history_gives_each_event_once(otlp: Any) -> None:
    run_state_machine_as_test(
        machine(otlp),
        settings=settings(
            max_examples=8, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.mark.parametrize("days", [-300, -1, 1, 300])
def test_a_clock_that_jumps_between_deliveries_changes_no_count(otlp: Any, tmp_path: Path, days: int) -> None:
    directory = DataDirectory(tmp_path)
    sent = [
        _request(otlp, list(range(20)), form, otlp.arrival + jump * DAY)
        for jump in (0, days)
        for form in FORMS
    ]
    for request in sent:
        store = open_store(directory)
        writer = Writer(store, "owner.id", b"k" * 32)
        answers: list[Outcome | IngestError] = []
        writer.submit(request, answers.append)
        writer.close()
        # Seen from 300 days before, the events are of an impossible time, as the contract has it.
        refused = [Outcome(rejected={Rejection.IMPOSSIBLE_TIME: 20})]
        assert answers in ([Outcome(stored=20)], [Outcome(duplicates=20)], refused)
        assert (answers == refused) == (days == -300 and request.received_unix_nano != otlp.arrival)
        assert store.reader().execute("SELECT count(*) FROM tool_calls").fetchall() == [(20,)]
        store.close()
