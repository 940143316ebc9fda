"""The columns that are made from JSON at once are those that its reference reads field by field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.decode import json_columns
from ingest.decode.json_columns import decode_json
from ingest.decode.otlp_json import json_to_wire
from ingest.decode.protobuf import decode_fields
from ingest.decode.wire import Signal
from ingest.exceptions import BadRequest

NAMES = {
    Signal.LOGS: ("resourceLogs", "scopeLogs", "logRecords"),
    Signal.TRACES: ("resourceSpans", "scopeSpans", "spans"),
    Signal.METRICS: ("resourceMetrics", "scopeMetrics", "metrics"),
}


def _reference(signal: Signal, body: bytes) -> pa.RecordBatch | str:
    try:
        return decode_fields(signal, [json_to_wire(signal, body)])
    except BadRequest as error:
        return str(error)


def _at_once(signal: Signal, body: bytes) -> pa.RecordBatch | str:
    try:
        return decode_json(signal, [body])
    except BadRequest as error:
        return str(error)


@pytest.mark.parametrize("signal", list(Signal))
def test_every_body_of_the_real_producer_is_read_at_once(signal: Signal, fixtures: Path) -> None:
    bodies = [path.read_bytes() for path in sorted(fixtures.glob(f"*/*-{signal}.body.json"))]
    assert len(bodies) > 5
    columns = json_columns._columns(signal, bodies)
    expected = decode_fields(signal, [json_to_wire(signal, body) for body in bodies])
    assert columns.schema == expected.schema
    assert columns.equals(expected)


def test_one_odd_body_takes_no_other_off_the_way(otlp: Any) -> None:
    def body(time: Any) -> bytes:
        return json.dumps(
            {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"timeUnixNano": time}]}]}]}
        ).encode()

    found = decode_json(Signal.LOGS, [body("5"), body(6.0), body(7)])
    records = found.column("resources").values.field("scopes").values.field("records").values
    assert records.field("time").to_pylist() == [5, 6, 7]


@pytest.mark.parametrize("kind", ["sum", "gauge", "histogram", "exponentialHistogram", "summary"])
@pytest.mark.parametrize("points", [[None], [{}, None], [5], None, {}])
def test_points_that_are_none(kind: str, points: Any) -> None:
    metric = {"name": "m", kind: {"dataPoints": points}}
    body = json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}).encode()
    expected, found = _reference(Signal.METRICS, body), _at_once(Signal.METRICS, body)
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
    else:
        assert found.equals(expected)


_integers = st.one_of(
    st.integers(-3, 2**64),
    st.integers(0, 2**63).map(str),
    st.sampled_from([1.0, 1.5, "1e3", "x", True, [], {}]),
)
_texts: Any = st.one_of(st.text(max_size=4), st.sampled_from([None, 5, {}, "\x00", "\U0001f600"]))
_hex = st.sampled_from(["", "5b8efff798038103d269b633813fc60c", "EEE19B7EC3C1B174", "zz", None, 5])
_member = st.one_of(
    st.fixed_dictionaries({"stringValue": _texts}),
    st.fixed_dictionaries({"intValue": _integers}),
    st.fixed_dictionaries({"boolValue": st.sampled_from([True, False, None, "true", 1])}),
    st.fixed_dictionaries({"doubleValue": st.one_of(st.floats(allow_nan=False), st.integers(), _texts)}),
    st.fixed_dictionaries({"bytesValue": st.sampled_from(["", "aGk=", "!", None])}),
    st.just({}),
    st.just({"stringValue": "a", "intValue": 1}),
)
_value = st.recursive(
    _member,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"arrayValue": st.fixed_dictionaries({"values": st.lists(inner, max_size=2)})}),
        st.fixed_dictionaries(
            {
                "kvlistValue": st.fixed_dictionaries(
                    {"values": st.lists(st.fixed_dictionaries({"key": _texts, "value": inner}), max_size=2)}
                )
            }
        ),
    ),
    max_leaves=3,
)
_attributes = st.lists(st.fixed_dictionaries({"key": _texts}, optional={"value": _value}), max_size=3)
_anything: Any = st.sampled_from([None, 5, "x", [], {}, [None], [5], [[]], True])
_points = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "attributes": _attributes,
            "startTimeUnixNano": _integers,
            "timeUnixNano": _integers,
            "asInt": _integers,
            "asDouble": st.one_of(st.floats(allow_nan=False), st.just("NaN")),
            "flags": _integers,
        },
    ),
    max_size=2,
)
_records = {
    Signal.LOGS: {
        "timeUnixNano": _integers,
        "observedTimeUnixNano": _integers,
        "traceId": _hex,
        "spanId": _hex,
        "eventName": _texts,
        "attributes": st.one_of(_attributes, _anything),
        "body": _value,
    },
    Signal.TRACES: {
        "startTimeUnixNano": _integers,
        "endTimeUnixNano": _integers,
        "traceId": _hex,
        "parentSpanId": _hex,
        "name": _texts,
        "attributes": _attributes,
        "status": _anything,
    },
    Signal.METRICS: {
        "name": _texts,
        "sum": st.fixed_dictionaries(
            {},
            optional={
                "dataPoints": st.one_of(_points, _anything),
                "aggregationTemporality": st.one_of(_integers, st.just("AGGREGATION_TEMPORALITY_CUMULATIVE")),
                "isMonotonic": st.sampled_from([True, False, None, 1]),
            },
        ),
        "gauge": st.one_of(st.fixed_dictionaries({"dataPoints": _points}), _anything),
        "histogram": st.fixed_dictionaries({"dataPoints": st.one_of(_points, _anything)}),
    },
}


@pytest.mark.parametrize("signal", list(Signal))
@settings(max_examples=60)
@given(data=st.data())
def test_right_and_wrong_bodies_are_read_as_the_reference_reads_them(signal: Signal, data: Any) -> None:
    resources, scopes, records = NAMES[signal]
    record = st.fixed_dictionaries({}, optional=_records[signal])
    record_list = data.draw(st.one_of(st.lists(record, max_size=3), _anything))
    resource = data.draw(
        st.one_of(st.none(), st.fixed_dictionaries({"attributes": st.one_of(_attributes, _anything)}))
    )
    scope = data.draw(
        st.one_of(_anything, st.fixed_dictionaries({"name": _texts}, optional={"attributes": _attributes}))
    )
    tree = {resources: [{"resource": resource, scopes: [{"scope": scope, records: record_list}]}]}
    body = json.dumps(tree).encode()
    expected, found = _reference(signal, body), _at_once(signal, body)
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
    else:
        assert found.equals(expected)
