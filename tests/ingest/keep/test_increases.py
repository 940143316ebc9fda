"""What the points of counters add, in whatever order and company they come."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from ingest.decode.points import Points
from ingest.decode.protobuf import decode_fields
from ingest.decode.wire import Signal
from ingest.keep.store import Store
from ingest.normalise.counters import normalise_points

KEY = b"k" * 32
DELTA, CUMULATIVE = 1, 2
SECOND = 1_000_000_000


class Counters:
    """A store that points are put into, each call as a request of its own."""

    def __init__(self, folder: Path, otlp: Any) -> None:
        self.otlp = otlp
        self.path = folder / "events.duckdb"
        self.store = Store(self.path)

    def request(
        self,
        *points: tuple[int, float],
        start: int = 0,
        temporality: int = CUMULATIVE,
        name: str = "qwen-code.tool.execution.count",
        resource: dict[str, Any] | None = None,
        labels: dict[str, Any] | None = None,
    ) -> bytes:
        """Points at seconds after noon, with their values."""
        message = ExportMetricsServiceRequest()
        by_resource = message.resource_metrics.add()
        by_resource.resource.attributes.extend(self.otlp.attributes(resource or self.otlp.resource))
        counter = by_resource.scope_metrics.add().metrics.add(name=name).sum
        counter.aggregation_temporality = temporality  # type: ignore[assignment]
        counter.is_monotonic = True
        for second, value in points:
            counter.data_points.add(
                time_unix_nano=self.otlp.noon + second * SECOND,
                start_time_unix_nano=self.otlp.noon + start * SECOND if start else 0,
                as_double=value,
                attributes=self.otlp.attributes(labels or {}),
            )
        return message.SerializeToString()

    def put(self, *bodies: bytes) -> None:
        points = Points.of(decode_fields(Signal.METRICS, list(bodies)))
        received = np.full(len(bodies), self.otlp.arrival)
        events = normalise_points(points, received, "owner.id", KEY)
        assert not any(counts.any() for counts in events.rejected.values())
        self.store.insert(list(events.rows), len(events.arrivals) + 1)

    def reopen(self) -> None:
        self.store.close()
        self.store = Store(self.path)

    def increases(self) -> list[float]:
        rows = self.store.reader().execute(
            "SELECT increase FROM metric_increases ORDER BY time_unix_nano, value"
        )
        return [increase for (increase,) in rows.fetchall()]


@pytest.fixture
def counters(tmp_path: Path, otlp: Any) -> Any:
    counters = Counters(tmp_path, otlp)
    yield counters
    counters.store.close()


def test_without_a_start_the_first_value_is_the_base_line(counters: Counters) -> None:
    counters.put(counters.request((5, 10), (15, 25)))
    assert counters.increases() == [0, 15]


def test_with_a_start_the_first_value_counts_whole(counters: Counters) -> None:
    counters.put(counters.request((5, 10), (15, 25), start=1))
    assert counters.increases() == [10, 15]


def test_a_drop_is_a_restart_and_nothing_is_negative(counters: Counters) -> None:
    for second, value in ((5, 5), (10, 10), (15, 3), (20, 6)):
        counters.put(counters.request((second, value)))
    assert counters.increases() == [0, 5, 0, 3]


def test_two_processes_are_two_series(counters: Counters) -> None:
    one = counters.otlp.resource | {"session.id": "one"}
    two = counters.otlp.resource | {"session.id": "two"}
    for second, value, resource in ((1, 100, one), (2, 50, two), (3, 110, one), (4, 60, two)):
        counters.put(counters.request((second, value), resource=resource))
    assert counters.increases() == [0, 0, 10, 10]


def test_two_starts_are_two_series(counters: Counters) -> None:
    counters.put(counters.request((9, 7), start=1), counters.request((9, 5), start=2))
    assert sorted(counters.increases()) == [5, 7]


@pytest.mark.parametrize("labels", [{"status": "success"}, {"function_name": "a"}, {"x": 1}, {"x": "1"}])
def test_other_labels_are_another_series(counters: Counters, labels: dict[str, Any]) -> None:
    counters.put(counters.request((1, 4), start=1), counters.request((1, 5), start=1, labels=labels))
    assert sorted(counters.increases()) == [4, 5]


def test_the_order_of_labels_is_no_matter(counters: Counters) -> None:
    forward = {"status": "success", "tool_type": "mcp"}
    backward = dict(reversed(forward.items()))
    counters.put(counters.request((1, 4), start=1, labels=forward))
    counters.put(counters.request((1, 4), (2, 6), start=1, labels=backward))
    assert counters.increases() == [4, 2]


def test_delta_points_are_summed_once(counters: Counters) -> None:
    body = counters.request((1, 3), (2, 4), start=1, temporality=DELTA)
    counters.put(body, body)
    counters.put(body)
    assert counters.increases() == [3, 4]


def test_many_label_sets_are_many_series(counters: Counters) -> None:
    bodies = [counters.request((1, 1), start=1, labels={"mode": f"m{n}"}) for n in range(5000)]
    counters.put(*bodies)
    counters.put(*bodies)
    assert counters.increases() == [1] * 5000


_points = st.lists(
    st.tuples(st.sampled_from([0, 3]), st.integers(4, 12), st.integers(0, 9)), min_size=1, max_size=12
)


@settings(max_examples=40)
@given(points=_points, cuts=st.lists(st.integers(0, 12), max_size=4), repeat=st.integers(0, 12))
def test_neither_order_nor_batches_nor_repeats_change_the_sum(
    otlp: Any, tmp_path_factory: Any, points: list[tuple[int, int, int]], cuts: list[int], repeat: int
) -> None:
    counters = Counters(tmp_path_factory.mktemp("increases"), otlp)
    bounds = sorted({0, len(points), *(min(cut, len(points)) for cut in cuts)})
    for number, (first, last) in enumerate(itertools.pairwise(bounds)):
        bodies = [counters.request((at, value), start=start) for start, at, value in points[first:last]]
        counters.put(*bodies)
        if number == 0:
            counters.reopen()
    start, at, value = points[repeat % len(points)]
    counters.put(counters.request((at, value), start=start))
    found = counters.increases()
    assert min(found) >= 0
    assert sum(found) == sum(_by_the_rule([p for p in points if p[0] == start]) for start in (0, 3))
    counters.store.close()


def _by_the_rule(points: list[tuple[int, int, int]]) -> int:
    """The differences of neighbours in time, without the drops; from 0 where a start is known."""
    in_order = sorted({(at, value) for _, at, value in points})
    values = [value for _, value in in_order]
    if points and points[0][0]:
        values.insert(0, 0)
    return sum(max(after - before, 0) for before, after in itertools.pairwise(values))
