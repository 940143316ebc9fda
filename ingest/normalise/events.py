"""The one normalisation of logs and traces: decoded records in, rows of the event tables out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.attributes import Located
from ingest.decode.records import Records
from ingest.decode.vectors import arrow
from ingest.decode.wire import Signal
from ingest.normalise import (
    guard_decisions,
    loops,
    model_calls,
    prompt_events,
    sessions,
    tool_calls,
    tool_executions,
)
from ingest.normalise.arrivals import Arrivals
from ingest.normalise.columns import ResourceColumns, Rows, hex_id, is_wrongly_typed, not_empty
from ingest.normalise.identity import record_identities
from ingest.normalise.names import Names
from ingest.normalise.rejections import Rejections
from ingest.normalise.rows import EventRows, Events, shared_columns
from ingest.normalise.table import Chosen, EventTable
from ingest.normalise.times import EventTimes, arrival_times, parse_timestamps, settle_times
from sli.schemas import REJECTED
from sli.vocabulary import LONGEST_TEXT, Rejection

TABLES: tuple[EventTable, ...] = (
    tool_calls.TABLE,
    guard_decisions.TABLE,
    loops.TABLE,
    prompt_events.TABLE,
    model_calls.TABLE,
    tool_executions.TABLE,
    sessions.TABLE,
)

_KEYS = tuple(dict.fromkeys(("event.name", *(key for table in TABLES for key in table.attributes))))


def normalise(
    records: Records,
    received: npt.NDArray[np.int64],
    owner_attribute: str,
    owner_key: bytes,
    oldest_unix_nano: int = 0,
) -> Events:
    """Turn records into events.

    A log record is an event by its event_name field if set, else by its attribute event.name; a span
    by its name (the producer's bridge turns log records into such spans).

    Args:
        records: decoded log records or spans.
        received: when each request arrived, nanoseconds since 1970.
        owner_attribute: the resource attribute that names the owner.
        owner_key: the key of the owners' hashes.
        oldest_unix_nano: events before it were removed, and are refused.
    """
    found = records.attributes.locate(_KEYS, LONGEST_TEXT)
    sent_names = records.name
    if records.signal is Signal.LOGS:
        sent_names = pc.coalesce(not_empty(sent_names), found["event.name"].text)
    names = Names.read(sent_names, records.signal)
    resources = ResourceColumns.read(records.envelope.resources, owner_attribute, owner_key)
    arrivals = Arrivals.count(records.signal, records.envelope, names.code, names.name, resources)
    rejections = Rejections(arrivals)

    chosen = [
        (table, _keepable(records, names.of(table.dataset.name), table, found, resources, rejections))
        for table in TABLES
    ]
    chosen = [(table, rows) for table, rows in chosen if len(rows)]
    taken, times = _timed(records, chosen, found, received, rejections, oldest_unix_nano)
    shared = _shared(records, _together(taken), resources, times, received, arrivals)
    rows = []
    for (table, _), here, part in zip(chosen, taken, _parts(taken), strict=True):
        if not len(here):
            continue
        columns = {name: column[part] for name, column in shared.items()}
        names_here = sent_names.take(arrow(here))
        columns |= table.columns(
            Chosen(records, here, names_here, names.kinds(here), found.at(here), resources)
        )
        rows.append(EventRows.of(table.dataset.name, columns, times.at(part)))
        np.add.at(arrivals.kept, arrivals.of_record[here], 1)
    if rejections.rows:
        rows.append(_rejected(records, sent_names, resources, received, rejections))
    return Events(tuple(rows), arrivals, rejections.by_request(records.envelope.requests))


def _keepable(
    records: Records,
    rows: Rows,
    table: EventTable,
    found: Located,
    resources: ResourceColumns,
    rejections: Rejections,
) -> Rows:
    """The records of a table whose texts can be kept; the others are refused."""
    if not len(rows):
        return rows
    too_long = resources.too_long[records.envelope.resource[rows]]
    here = found.at(rows)
    for key in table.ids:
        too_long |= here.is_shortened(key)
    rows = rejections.refuse(Rejection.TOO_LONG, rows, too_long)
    here = found.at(rows)
    wrong = np.logical_or.reduce([is_wrongly_typed(here[key]) for key in table.ids])
    return rejections.refuse(Rejection.WRONG_TYPE, rows, wrong)


def _timed(
    records: Records,
    chosen: list[tuple[EventTable, Rows]],
    found: Located,
    received: npt.NDArray[np.int64],
    rejections: Rejections,
    oldest_unix_nano: int,
) -> tuple[list[Rows], EventTimes]:
    """The records of each table that have a possible time and are not too old, and the times of all."""
    every = _together([rows for _, rows in chosen])
    observed = records.other_time[every]
    if records.signal is Signal.TRACES:
        observed = np.zeros(len(every), dtype=np.uint64)
    times = settle_times(
        records.time[every],
        parse_timestamps(found.at(every)["event.timestamp"].text),
        observed,
        received[records.envelope.request[every]],
    )
    taken = [rows for _, rows in chosen]
    too_old = ~times.impossible & (times.unix_nano < oldest_unix_nano)
    for reason, bad in (
        (Rejection.TOO_OLD, too_old),
        (Rejection.IMPOSSIBLE_TIME, times.impossible[~too_old]),
    ):
        if bad.any():
            parts = zip(taken, _parts(taken), strict=True)
            taken = [rejections.refuse(reason, rows, bad[part]) for rows, part in parts]
            times = times.at(~bad)
    return taken, times


def _together(tables: list[Rows]) -> Rows:
    return np.concatenate([np.zeros(0, dtype=np.int64), *tables])


def _parts(tables: list[Rows]) -> list[slice]:
    """Where each table's rows stand among those of all, table after table."""
    ends = np.cumsum([len(rows) for rows in tables], dtype=np.int64)
    return [slice(end - len(rows), end) for rows, end in zip(tables, ends, strict=True)]


def _shared(
    records: Records,
    rows: Rows,
    resources: ResourceColumns,
    times: EventTimes,
    received: npt.NDArray[np.int64],
    arrivals: Arrivals,
) -> dict[str, pa.Array]:
    shared = shared_columns(records.envelope, rows, resources, times, received, arrivals.of_record[rows])
    place = arrow(rows)
    return shared | {
        "trace_id": hex_id(records.trace_id.take(place), 16),
        "span_id": hex_id(records.span_id.take(place), 8),
    }


def _rejected(
    records: Records,
    names: pa.StringArray,
    resources: ResourceColumns,
    received: npt.NDArray[np.int64],
    rejections: Rejections,
) -> EventRows:
    """A row of `rejected` for each; its time is that of its arrival, since its own cannot be trusted."""
    rows = rejections.all_rows()
    times = arrival_times(received[records.envelope.request[rows]])
    columns = shared_columns(
        records.envelope, rows, resources, times, received, rejections.arrivals.of_record[rows]
    )
    columns |= rejections.columns()
    ascending = np.argsort(rows, kind="stable")
    identities = record_identities(records, rows[ascending], names.take(arrow(rows[ascending])))
    back = np.empty(len(rows), dtype=np.int64)
    back[ascending] = np.arange(len(rows))
    return EventRows.of(REJECTED.name, columns | {"identity": identities.take(arrow(back))}, times)
