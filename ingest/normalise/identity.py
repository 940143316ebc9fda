"""What makes two deliveries the same event: only what the producer stamped.

An identity is a text; the store keeps its MD5 as the 128-bit `event_id`. Each text can be read back
in one way only (parts of open length are preceded by their lengths), so different events never have
the same text. Arrival, observed time, trace ids, transport and the order of attributes are no part
of it.
"""

from __future__ import annotations

from hashlib import md5
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.attributes import Attributes
from ingest.decode.envelope import Envelope
from ingest.decode.records import Records
from ingest.decode.vectors import NO_TEXT, arrow, booleans, constant
from ingest.decode.wire import VALUE_KINDS, Signal

_SEPARATOR = b"\x1f"
_NULL = b"\x00"


def call_identities(
    session_id: pa.StringArray,
    prompt_id: pa.StringArray,
    call_id: pa.StringArray,
    event_timestamp: pa.StringArray,
    record_time: npt.NDArray[np.uint64],
    status: pa.StringArray,
    execution_status: pa.StringArray,
) -> pa.BinaryArray:
    """Identities of tool calls that have a call id.

    The identity time is event.timestamp as sent, else the record's time. A log record and the span
    that bridges it agree in all of this, and so are one event.
    """
    return joined(
        constant("call"),
        _length(session_id),
        _length(prompt_id),
        _length(call_id),
        session_id,
        prompt_id,
        call_id,
        _identity_time(event_timestamp, record_time),
        status,
        execution_status,
    )


def event_identities(
    records: Records,
    rows: npt.NDArray[np.integer],
    kinds: pa.StringArray,
    event_timestamp: pa.StringArray,
    *kept: pa.Array,
) -> pa.BinaryArray:
    """Identities of log events of which only a few columns are kept: the resource, the time and these.

    What is not kept (whole answers of models) is not read for it, and a log record and the span that
    bridges it are one event here too.

    Args:
        records: the batch.
        rows: which of its records, ascending.
        kinds: what kind of event each is.
        kept: columns of text, number or boolean.
    """
    digests = resource_digests(records.envelope)
    texts = [column.cast(pa.string()) for column in kept]
    return joined(
        constant("event"),
        kinds,
        digests.take(arrow(records.envelope.resource[rows])),
        _identity_time(event_timestamp, records.time[rows]),
        *(_length(text) for text in texts),
        *texts,
    )


def span_identities(records: Records, rows: npt.NDArray[np.integer], names: pa.StringArray) -> pa.BinaryArray:
    """Identities of spans: trace id and span id; all that the producer stamped where these are not valid."""
    taken = arrow(rows.astype(np.int32))
    trace_id, span_id = records.trace_id.take(taken), records.span_id.take(taken)
    identities = joined(constant("span"), trace_id, span_id)
    invalid = booleans(pc.or_(is_invalid_id(trace_id, 16), is_invalid_id(span_id, 8)))
    if not invalid.any():
        return identities
    whole = record_identities(records, rows[invalid], names.filter(arrow(invalid)))
    return pc.replace_with_mask(identities, arrow(invalid), whole)


def record_identities(
    records: Records, rows: npt.NDArray[np.integer], names: pa.StringArray
) -> pa.BinaryArray:
    """Identities of records that have no id of their own: all that the producer stamped.

    Args:
        records: the batch.
        rows: which of its records, ascending.
        names: their event names.
    """
    envelope = records.envelope
    scope = arrow(envelope.scope[rows])
    resource = arrow(envelope.resource[rows])
    times = [arrow(records.time[rows]).cast(pa.string())]
    if records.signal is Signal.TRACES:
        times.append(arrow(records.other_time[rows]).cast(pa.string()))
    return joined(
        constant("record"),
        _length(names),
        names,
        *times,
        resource_digests(envelope).take(resource),
        scope_digests(envelope).take(scope),
        canonical_attributes(records.attributes.of_holders(rows.astype(np.int32))),
    )


def scope_digests(envelope: Envelope) -> pa.StringArray:
    """A digest of the name, the version and the attributes of each scope."""
    name, version = envelope.scope_name, envelope.scope_version
    return _digests(
        joined(_length(name), _length(version), name, version, canonical_attributes(envelope.scopes))
    )


def resource_digests(envelope: Envelope) -> pa.StringArray:
    """A digest of the attributes of each resource."""
    return _digests(canonical_attributes(envelope.resources))


def canonical_attributes(attributes: Attributes) -> pa.BinaryArray:
    """All attributes of each holder as one text, the same in whatever order they come.

    They are sorted by key (a repeated key keeps its order), and each is written as the lengths of key
    and value, the kind of value, the key and the value.
    """
    keys = attributes.key.dictionary_encode()
    rank = np.empty(len(keys.dictionary), dtype=np.int64)
    rank[pc.array_sort_indices(keys.dictionary).to_numpy()] = np.arange(len(rank))
    sort_key = attributes.holder * np.int64(len(rank)) + rank[keys.indices.to_numpy()]
    order = arrow(np.argsort(sort_key, kind="stable"))

    columns = {kind: _as_binary(kind, column) for kind, column in attributes.values.items()}
    letter = pc.coalesce(
        *(
            pc.if_else(pc.is_null(column), NO_TEXT, constant(_KIND_LETTER[kind]))
            for kind, column in columns.items()
        )
    )
    value = pc.coalesce(*columns.values())
    entries = joined(_length(attributes.key), _length(value), letter, attributes.key, value).take(order)
    bounds = np.searchsorted(attributes.holder, np.arange(attributes.rows + 1)).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(arrow(bounds), entries), constant(_SEPARATOR))


def _identity_time(event_timestamp: pa.StringArray, record_time: npt.NDArray[np.uint64]) -> pa.BinaryArray:
    """event.timestamp as sent, else the record's time, told apart by a letter."""
    return pc.if_else(
        pc.fill_null(pc.not_equal(event_timestamp, constant("")), constant(False)),
        joined(constant("t"), event_timestamp),
        joined(constant("n"), arrow(record_time).cast(pa.string())),
    )


def is_invalid_id(ids: pa.BinaryArray, size: int) -> pa.BooleanArray:
    """Whether a trace or span id is of a wrong size or all zero (W3C Trace Context, 3.2.2.3)."""
    return pc.or_(
        pc.not_equal(pc.binary_length(ids), constant(size)), pc.equal(ids, constant(b"\x00" * size))
    )


def _digests(texts: pa.BinaryArray) -> pa.StringArray:
    """MD5 of each text: what many records share must not be repeated in the identity of each."""
    return pa.array([md5(text, usedforsecurity=False).hexdigest() for text in texts.to_pylist()], pa.string())


_KIND_LETTER = dict(zip(VALUE_KINDS, "sbidamy", strict=True))


def _as_binary(kind: str, column: pa.Array) -> pa.BinaryArray:
    if kind == "double_value":
        # Its 64 bits, so that no decimal form of it matters.
        column = column.view(pa.int64())
    if kind in ("bool_value", "int_value", "double_value"):
        column = column.cast(pa.string())
    return column.cast(pa.binary())


def _length(text: pa.Array) -> pa.StringArray:
    return pc.binary_length(text).cast(pa.string())


def joined(*parts: Any) -> pa.BinaryArray:
    """The parts of each row with a separator between them; a null part has a mark of its own."""
    binary = [part.cast(pa.binary()) for part in parts]
    return pc.binary_join_element_wise(
        *binary, constant(_SEPARATOR), null_handling="replace", null_replacement=_NULL
    )
