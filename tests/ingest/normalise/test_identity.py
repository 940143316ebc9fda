"""What makes two deliveries one event, and what keeps two events apart."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.decode.wire import Signal


def _identity(otlp: Any, attributes: Any, time: int | None = None, **fields: Any) -> bytes:
    resource = fields.pop("resource", otlp.resource)
    scope = fields.pop("scope", "qwen-code")
    record = otlp.log(attributes, time=otlp.noon if time is None else time, **fields)
    (row,) = otlp.rows(otlp.logs(record, resource=resource, scope=scope))
    identity: bytes = row["identity"]
    return identity


def test_of_a_call_with_an_id_it_is_exactly_this(otlp: Any) -> None:
    # The text is kept in every store as its MD5: changing it would count every call a second time.
    parts = ["call", "3", "12", "6", "s-1", "s-1########1", "call-1", "t", "2026-11-30T12:00:00.000Z"]
    assert _identity(otlp, otlp.tool_call) == "\x1f".join([*parts, "success", "success"]).encode()


def test_transport_and_arrival_do_not_matter(otlp: Any) -> None:
    shuffled = list(otlp.tool_call.items())
    random.Random(1).shuffle(shuffled)
    same = _identity(otlp, otlp.tool_call)
    assert _identity(otlp, shuffled, observed_time_unix_nano=5, trace_id=b"x" * 16, span_id=b"y" * 8) == same
    assert _identity(otlp, otlp.tool_call | {"content_length": 5, "function_name": "other"}) == same
    (row,) = otlp.rows(otlp.logs(otlp.log(otlp.tool_call)), arrival=otlp.arrival + 1)
    assert row["identity"] == same


def test_a_log_record_and_its_bridged_span_are_one_call(otlp: Any) -> None:
    (row,) = otlp.rows(
        otlp.spans(otlp.span(otlp.tool_call, time=otlp.noon - 4_000_000)), signal=Signal.TRACES
    )
    assert row["identity"] == _identity(otlp, otlp.tool_call)


@pytest.mark.parametrize(
    "change",
    [
        {"session.id": "s-2"},
        {"prompt_id": "s-1########2"},
        {"call_id": "call-2"},
        {"event.timestamp": "2026-11-30T12:00:00.001Z"},
        {"status": "error"},
        {"execution_status": "error"},
    ],
)
def test_each_part_of_a_calls_identity_keeps_calls_apart(otlp: Any, change: dict[str, str]) -> None:
    assert _identity(otlp, otlp.tool_call | change) != _identity(otlp, otlp.tool_call)


def test_the_record_time_counts_only_without_a_timestamp(otlp: Any) -> None:
    assert _identity(otlp, otlp.tool_call, time=otlp.noon + 1) == _identity(otlp, otlp.tool_call)
    bare = {k: v for k, v in otlp.tool_call.items() if k != "event.timestamp"}
    assert _identity(otlp, bare, time=otlp.noon + 1) != _identity(otlp, bare)


@given(
    first=st.tuples(*[st.one_of(st.none(), st.text("ab\x1f0t", max_size=3))] * 3),
    second=st.tuples(*[st.one_of(st.none(), st.text("ab\x1f0t", max_size=3))] * 3),
)
def test_different_ids_never_make_the_same_identity(otlp: Any, first: Any, second: Any) -> None:
    def identity(ids: Any) -> tuple[Any, bytes]:
        names = ("session.id", "prompt_id", "call_id")
        sent = {k: v for k, v in otlp.tool_call.items() if k not in names}
        sent |= {"call_id": "x"} | {name: value for name, value in zip(names, ids, strict=True) if value}
        kept = tuple(sent.get(name) for name in names)
        return kept, _identity(otlp, sent)

    (ids, one), (other_ids, other) = identity(first), identity(second)
    assert (one == other) == (ids == other_ids)


class TestWithoutCallId:
    """Then all that the producer stamped is the identity."""

    @staticmethod
    def bare(otlp: Any) -> dict[str, Any]:
        return {k: v for k, v in otlp.tool_call.items() if k != "call_id"} | {
            "metadata": {"a": 1},
            "x": [1, "b"],
        }

    def test_order_of_attributes_observed_time_and_trace_do_not_matter(self, otlp: Any) -> None:
        sent = self.bare(otlp)
        same = _identity(otlp, sent)
        for seed in range(5):
            shuffled = list(sent.items())
            random.Random(seed).shuffle(shuffled)
            assert (
                _identity(otlp, shuffled, observed_time_unix_nano=seed, trace_id=bytes([seed]) * 16) == same
            )

    @pytest.mark.parametrize(
        "change",
        [
            {"function_args": "{}"},
            {"duration_ms": 13},
            {"duration_ms": 12.0},
            {"duration_ms": "12"},
            {"metadata": {"a": 2}},
            {"x": [1, "c"]},
            {"x": True},
            {"x": b"b"},
            {"": "dropped", "x": "1"},
        ],
    )
    def test_every_attribute_keeps_records_apart(self, otlp: Any, change: dict[str, Any]) -> None:
        assert _identity(otlp, self.bare(otlp) | change) != _identity(otlp, self.bare(otlp))

    def test_time_resource_and_scope_keep_records_apart(self, otlp: Any) -> None:
        sent = self.bare(otlp)
        same = _identity(otlp, sent)
        assert _identity(otlp, sent, time=otlp.noon + 1) != same
        assert _identity(otlp, sent, resource=otlp.resource | {"host.name": "h"}) != same
        assert _identity(otlp, sent, scope="other") != same

    def test_an_unset_attribute_is_as_if_it_were_not_there(self, otlp: Any) -> None:
        assert _identity(otlp, self.bare(otlp) | {"y": otlp.unset}) == _identity(otlp, self.bare(otlp))

    def test_records_of_one_batch_have_the_identities_they_have_alone(self, otlp: Any) -> None:
        sent = [
            self.bare(otlp) | {"n": n} if n % 2 else otlp.tool_call | {"call_id": f"c{n}"} for n in range(7)
        ]
        together = otlp.rows(otlp.logs(*(otlp.log(each) for each in sent)))
        assert [row["identity"] for row in together] == [_identity(otlp, each) for each in sent]
