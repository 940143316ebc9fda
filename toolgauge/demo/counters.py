"""The counters of one agent process: sums since its start, exported again and again."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from toolgauge.demo.wire import Value, attributes, fixed64, integer, message, text

Labels = tuple[tuple[str, Value], ...]

# opentelemetry/proto/metrics/v1.
_CUMULATIVE_AND_MONOTONIC = integer(2, 2) + integer(3, 1)


class Counters:
    """Counts of one process. A series begins when it is first counted in."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._series: dict[tuple[str, Labels], list[int]] = {}

    def add(self, name: str, labels: Labels, amount: int, time: int) -> None:
        """Count; `time` is in milliseconds since 1970."""
        series = self._series.get((name, labels))
        if series is None:
            self._series[name, labels] = [time, amount]
        else:
            series[1] += amount

    def metrics(self, time: int) -> list[bytes]:
        """All of them as of `time`, as metrics."""
        points: dict[str, list[bytes]] = defaultdict(list)
        for (name, labels), (start, value) in self._series.items():
            point = (
                fixed64(2, start * 1_000_000),
                fixed64(3, time * 1_000_000),
                fixed64(6, value),
                attributes(7, labels),
            )
            points[name].append(message(1, b"".join(point)))
        return [_metric(name, b"".join(of_name)) for name, of_name in points.items()]


def _metric(name: str, points: bytes) -> bytes:
    return _named(name) + message(7, points + _CUMULATIVE_AND_MONOTONIC)


@cache
def _named(name: str) -> bytes:
    return text(1, name)
