"""OTLP/JSON bodies as nested Arrow columns, many bodies at once and without a Python object a value.

DuckDB's JSON functions do the reading: one pass tells the structure of each body, which is compared with
what OTLP says, and one more lays the fields out as columns. A body of any other structure, or with a value
that has not the form of its field, is left to `otlp_json`, which reads it field by field: it accepts what is
unusual, and says of what is wrong where it stands. Both give the same columns.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.otlp_json import (
    COUNTED_NAMES,
    NESTED_VALUES,
    OUTER_NAMES,
    WrongField,
    check_size,
    json_to_wire,
    nested_to_wire,
)
from ingest.decode.protobuf import decode_fields
from ingest.decode.vectors import booleans
from ingest.decode.wire import VALUE_KINDS, Signal

Shape = dict[str, Any] | list[Any] | str
"""What a part of a body may be: fields of an object, the elements of a list, or a kind of value."""

_TEXT, _INTEGER, _NUMBER, _FLAG, _ANY = "text", "integer", "number", "flag", "any"

_VALUE: Shape = {
    "stringValue": _TEXT,
    "boolValue": _FLAG,
    "intValue": _INTEGER,
    "doubleValue": _NUMBER,
    "arrayValue": _ANY,
    "kvlistValue": _ANY,
    "bytesValue": _ANY,
}
_ATTRIBUTES: Shape = [{"key": _TEXT, "value": _VALUE}]
_COUNTED: Shape = {"dataPoints": [{"flags": _ANY}]}
_RECORDS: dict[Signal, Shape] = {
    Signal.LOGS: {
        "timeUnixNano": _INTEGER,
        "observedTimeUnixNano": _INTEGER,
        "traceId": _TEXT,
        "spanId": _TEXT,
        "eventName": _TEXT,
        "attributes": _ATTRIBUTES,
    },
    Signal.TRACES: {
        "startTimeUnixNano": _INTEGER,
        "endTimeUnixNano": _INTEGER,
        "traceId": _TEXT,
        "spanId": _TEXT,
        "parentSpanId": _TEXT,
        "name": _TEXT,
        "attributes": _ATTRIBUTES,
    },
    Signal.METRICS: {
        "name": _TEXT,
        "sum": {
            "dataPoints": [
                {
                    "attributes": _ATTRIBUTES,
                    "startTimeUnixNano": _INTEGER,
                    "timeUnixNano": _INTEGER,
                    "asDouble": _NUMBER,
                    "asInt": _INTEGER,
                    "flags": _INTEGER,
                }
            ],
            "aggregationTemporality": _INTEGER,
            "isMonotonic": _FLAG,
        },
        "gauge": _COUNTED,
        "histogram": _COUNTED,
        "exponentialHistogram": _COUNTED,
        "summary": _COUNTED,
    },
}

# What DuckDB's json_structure calls the values that a kind of field may hold. "JSON" stands for a mixture,
# or for nothing but empty objects; integers may be a mixture of numbers and strings.
_STRUCTURES = {
    _TEXT: {"VARCHAR"},
    _INTEGER: {"VARCHAR", "UBIGINT", "BIGINT", "JSON"},
    _NUMBER: {"UBIGINT", "BIGINT", "DOUBLE"},
    _FLAG: {"BOOLEAN"},
}
_TYPES = {_TEXT: "VARCHAR", _INTEGER: "VARCHAR", _NUMBER: "DOUBLE", _FLAG: "BOOLEAN", _ANY: "JSON"}
_NULL = "NULL"


class _UnusualError(Exception):
    """A body is not of the structure, or not of the forms, that are read as columns."""


def decode_json(signal: Signal, bodies: list[bytes]) -> pa.RecordBatch:
    """Decode OTLP/JSON export requests of one signal, all at once.

    Args:
        bodies: UTF-8 JSON, one or more.

    Returns:
        The columns that `decode_fields` gives for the same requests.

    Raises:
        MalformedBody: one of the bodies is no such request. Which one is not said: decode them one
            by one to know.
        TooLarge: one of them is of more objects than can be held.
    """
    for body in bodies:
        check_size(body)
    try:
        return _columns(signal, bodies)
    except _UnusualError:
        if len(bodies) == 1:
            return decode_fields(signal, [json_to_wire(signal, bodies[0])])
    return (
        pa.Table.from_batches([decode_json(signal, [body]) for body in bodies])
        .combine_chunks()
        .to_batches()[0]
    )


def _columns(signal: Signal, bodies: list[bytes]) -> pa.RecordBatch:
    types = _layout(signal)[1]
    # An empty body is an empty request in protobuf, and clients mean the same by it here.
    table = pa.table({"body": pa.array([body or b"{}" for body in bodies], pa.binary())})
    connection = _engine()
    connection.register("bodies", table)
    try:
        found = connection.sql(
            f"""
            SELECT json_structure(text) AS structure, from_json(text, '{types}') AS request
            FROM (SELECT decode(body) AS text FROM bodies)
            """
        ).to_arrow_table()
    except duckdb.Error as error:
        raise _UnusualError from error
    finally:
        connection.unregister("bodies")
    for structure in set(found["structure"].to_pylist()):
        if not _is_usual(structure, signal):
            raise _UnusualError
    try:
        return _batch(signal, found["request"].combine_chunks())
    except (pa.ArrowInvalid, pl.exceptions.PolarsError, WrongField) as error:
        raise _UnusualError from error


_engines = threading.local()


def _engine() -> duckdb.DuckDBPyConnection:
    """A database in memory, one a thread: nothing is stored in it."""
    if not hasattr(_engines, "connection"):
        _engines.connection = duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "threads": 1,
            },
        )
    connection: duckdb.DuckDBPyConnection = _engines.connection
    return connection


@lru_cache
def _layout(signal: Signal) -> tuple[Shape, str]:
    """The shape of a request, and the same as DuckDB's from_json takes it."""
    resources, scopes, records = OUTER_NAMES[signal]
    scope: Shape = {"name": _TEXT, "version": _TEXT, "attributes": _ATTRIBUTES}
    shape: Shape = {
        resources: [
            {
                "resource": {"attributes": _ATTRIBUTES},
                scopes: [{"scope": scope, records: [_RECORDS[signal]]}],
            }
        ]
    }

    def types(part: Shape) -> Any:
        if isinstance(part, dict):
            return {name: types(inner) for name, inner in part.items()}
        return [types(part[0])] if isinstance(part, list) else _TYPES[part]

    return shape, json.dumps(types(shape))


@lru_cache(maxsize=4096)
def _is_usual(structure: str, signal: Signal) -> bool:
    """Whether what json_structure says of a body agrees with OTLP; clients send few different structures."""
    if structure == '"JSON"':
        # An empty object: an empty request.
        return True
    found = json.loads(structure)
    return found != _NULL and _agrees(found, _layout(signal)[0])


def _agrees(found: Any, shape: Shape) -> bool:
    if found == _NULL or shape == _ANY:
        return True
    if isinstance(shape, dict):
        if not isinstance(found, dict):
            return False
        return all(_agrees(inner, shape[name]) for name, inner in found.items() if name in shape)
    if isinstance(shape, list):
        return isinstance(found, list) and all(_agrees(inner, shape[0]) for inner in found)
    return isinstance(found, str) and found in _STRUCTURES[shape]


def _batch(signal: Signal, requests: pa.StructArray) -> pa.RecordBatch:
    """The columns under the names and types of `wire`."""
    resources_name, scopes_name, records_name = OUTER_NAMES[signal]
    read = {Signal.LOGS: _log_records, Signal.TRACES: _spans, Signal.METRICS: _metrics}[signal]

    def scopes(rows: pa.StructArray) -> dict[str, pa.Array]:
        scope = rows.field("scope")
        fields = {
            "name": _text(scope.field("name")),
            "version": _text(scope.field("version")),
            "attributes": _attributes(scope.field("attributes")),
        }
        return {"scope": _struct(fields, scope.is_null()), "records": _list(rows.field(records_name), read)}

    def resources(rows: pa.StructArray) -> dict[str, pa.Array]:
        resource = rows.field("resource")
        attributes = _attributes(resource.field("attributes"))
        return {
            "resource": _struct({"attributes": attributes}, resource.is_null()),
            "scopes": _list(rows.field(scopes_name), scopes),
        }

    batch = pa.RecordBatch.from_arrays([_list(requests.field(resources_name), resources)], ["resources"])
    return batch.cast(_schema(signal))


@lru_cache
def _schema(signal: Signal) -> pa.Schema:
    return decode_fields(signal, [b""]).schema


def _struct(fields: dict[str, pa.Array], missing: pa.BooleanArray | None = None) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=missing)


def _list(lists: pa.ListArray, read: Callable[[pa.StructArray], dict[str, pa.Array]]) -> pa.ListArray:
    """A column of lists of objects, with the objects read; a list that is not sent is empty."""
    objects = lists.flatten()
    if objects.null_count:
        # A null among the objects, or something that is none.
        raise _UnusualError
    return pa.ListArray.from_arrays(_offsets(lists), _struct(read(objects)))


def _offsets(lists: pa.ListArray) -> npt.NDArray[np.int32]:
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def _text(column: pa.StringArray) -> pa.StringArray:
    return pc.fill_null(column, "")


def _integers(column: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Integers sent as numbers or as text. Anything but digits (`1.0`, `1e3`) is unusual."""
    return column.cast(kind)


def _moments(column: pa.StringArray) -> pa.UInt64Array:
    return pc.fill_null(_integers(column, pa.uint64()), pa.scalar(0, pa.uint64()))


def _ids(column: pa.StringArray, digits: int) -> pa.BinaryArray:
    """Trace and span ids, which OTLP/JSON has in hex and not in base64."""
    ids = _text(column)
    lengths = pc.binary_length(ids).to_numpy()
    if not np.isin(lengths, (0, digits)).all():
        raise _UnusualError
    return pl.Series(values=ids, dtype=pl.String).str.decode("hex").to_arrow().cast(pa.binary())


def _attributes(lists: pa.ListArray) -> pa.ListArray:
    return _list(lists, _key_values)


def _key_values(entries: pa.StructArray) -> dict[str, pa.Array]:
    value = entries.field("value")
    strings = value.field("stringValue")
    kinds = [
        strings,
        value.field("boolValue"),
        _integers(value.field("intValue"), pa.int64()),
        value.field("doubleValue"),
        *(_nested(name, value.field(name)) for name in NESTED_VALUES),
    ]
    if sum(len(kind) - kind.null_count for kind in kinds) > len(entries) - _unset(kinds):
        # Two kinds of value in one: no AnyValue.
        raise _UnusualError
    fields = dict(zip(VALUE_KINDS, kinds, strict=True))
    return {"key": _text(entries.field("key")), "value": _struct(fields, value.is_null())}


def _unset(kinds: list[pa.Array]) -> int:
    """How many values have no member set."""
    missing = booleans(kinds[0].is_null())
    for kind in kinds[1:]:
        if kind.null_count < len(kind):
            missing &= booleans(kind.is_null())
    return int(missing.sum())


def _nested(name: str, column: pa.StringArray) -> pa.BinaryArray:
    """Arrays, maps and bytes as they are on the wire. They are rare, and of this producer never long."""
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.binary())
    texts = column.to_pylist()
    return pa.array(
        [None if text in (None, "null") else nested_to_wire(name, text) for text in texts], pa.binary()
    )


def _log_records(rows: pa.StructArray) -> dict[str, pa.Array]:
    return {
        "time": _moments(rows.field("timeUnixNano")),
        "observed_time": _moments(rows.field("observedTimeUnixNano")),
        "trace_id": _ids(rows.field("traceId"), 32),
        "span_id": _ids(rows.field("spanId"), 16),
        "name": _text(rows.field("eventName")),
        "attributes": _attributes(rows.field("attributes")),
    }


def _spans(rows: pa.StructArray) -> dict[str, pa.Array]:
    return {
        "time": _moments(rows.field("startTimeUnixNano")),
        "end_time": _moments(rows.field("endTimeUnixNano")),
        "trace_id": _ids(rows.field("traceId"), 32),
        "span_id": _ids(rows.field("spanId"), 16),
        "parent_span_id": _ids(rows.field("parentSpanId"), 16),
        "name": _text(rows.field("name")),
        "attributes": _attributes(rows.field("attributes")),
    }


def _metrics(rows: pa.StructArray) -> dict[str, pa.Array]:
    kinds = {wire: _counted(rows.field(name)) for name, wire in COUNTED_NAMES.items()}
    return {"name": _text(rows.field("name")), "sum": _sums(rows.field("sum")), **kinds}


def _counted(kind: pa.StructArray) -> pa.StructArray:
    """Metrics of a kind whose points are only counted: as many empty ones."""
    lists = kind.field("dataPoints")
    if lists.flatten().null_count:
        raise _UnusualError
    ends = _offsets(lists)
    points = pa.ListArray.from_arrays(ends, pa.array([b""] * int(ends[-1]), pa.binary()))
    return _struct({"data_points": points}, kind.is_null())


def _sums(sums: pa.StructArray) -> pa.StructArray:
    temporality = _integers(sums.field("aggregationTemporality"), pa.int32())
    fields = {
        "data_points": _list(sums.field("dataPoints"), _points),
        "aggregation_temporality": pc.fill_null(temporality, pa.scalar(0, pa.int32())),
        "is_monotonic": pc.fill_null(sums.field("isMonotonic"), False),
    }
    return _struct(fields, sums.is_null())


def _points(rows: pa.StructArray) -> dict[str, pa.Array]:
    as_double, as_int = rows.field("asDouble"), _integers(rows.field("asInt"), pa.int64())
    if pc.any(pc.and_(pc.is_valid(as_double), pc.is_valid(as_int))).as_py():
        raise _UnusualError
    flags = _integers(rows.field("flags"), pa.uint32())
    return {
        "start_time": _moments(rows.field("startTimeUnixNano")),
        "time": _moments(rows.field("timeUnixNano")),
        "as_double": as_double,
        "as_int": as_int,
        "attributes": _attributes(rows.field("attributes")),
        "flags": pc.fill_null(flags, pa.scalar(0, pa.uint32())),
    }
