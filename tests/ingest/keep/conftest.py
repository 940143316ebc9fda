"""A writer over a real store, that can be restarted."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.decode.wire import Signal
from ingest.exceptions import IngestError
from ingest.keep.store import Store
from ingest.keep.writer import Encoding, Outcome, Request, Writer


class Keeper:
    """A writer over a store in a folder, that can be restarted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.open()

    def open(self) -> None:
        self.store = Store(self.path)
        self.writer = Writer(self.store, "owner.id", b"k" * 32)

    def close(self) -> None:
        self.writer.close()
        self.store.close()

    def restart(self) -> None:
        self.close()
        self.open()

    def keep(
        self,
        *bodies: bytes,
        signal: Signal = Signal.LOGS,
        encoding: Encoding = Encoding.PROTOBUF,
        arrival: int = 1_796_040_060_000_000_000,
    ) -> list[Outcome | IngestError]:
        answers: dict[int, Outcome | IngestError] = {}
        done = threading.Semaphore(0)
        for number, body in enumerate(bodies):

            def answer(result: Outcome | IngestError, number: int = number) -> None:
                assert number not in answers
                answers[number] = result
                done.release()

            self.writer.submit(Request(signal, encoding, body, arrival), answer)
        for _ in bodies:
            assert done.acquire(timeout=30)
        return [answers[number] for number in range(len(bodies))]

    def query(self, sql: str) -> list[Any]:
        return self.store.reader().execute(sql).fetchall()

    def calls(self) -> Counter[str]:
        return Counter(dict(self.query("SELECT call_id, count(*) FROM tool_calls GROUP BY ALL")))

    def keep_calls(self, otlp: Any, numbers: Any) -> list[Outcome | IngestError]:
        """Keep calls c0, c1, … that lie seven seconds apart."""
        return self.keep(self.call_body(otlp, numbers))

    def call_body(self, otlp: Any, numbers: Any) -> bytes:
        body: bytes = otlp.logs(
            *(
                otlp.log(otlp.tool_call | {"call_id": f"c{n}"}, time=otlp.noon + n * 7_000_000_000)
                for n in numbers
            )
        )
        return body


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    keeper = Keeper(tmp_path / "events.duckdb")
    yield keeper
    keeper.close()


@pytest.fixture
def open_keeper() -> type[Keeper]:
    """Opens keepers on paths of one's own; whoever opens one closes it."""
    return Keeper
