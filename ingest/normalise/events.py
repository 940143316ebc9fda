"""The one normalisation: decoded records in, rows of the event tables out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.attributes import AttributeColumn
from ingest.decode.records import Records
from ingest.decode.vectors import arrow, booleans, words
from ingest.decode.wire import Signal
from ingest.normalise import guard_decisions, tool_calls
from ingest.normalise.columns import (
    ResourceColumns,
    Rows,
    is_wrongly_typed,
    not_empty,
    shared_columns,
)
from ingest.normalise.times import EventTimes, parse_timestamps, settle_times
from sli.profile import PROFILES
from sli.schemas import GUARD_DECISIONS, TOOL_CALLS
from sli.vocabulary import LONGEST_TEXT, Rejection, TimeSource

# A log record and the span that bridges it are stamped 1 to 4 ms apart.
TWIN_NANOS = 10_000_000

_TOOL_CALL_NAMES = tuple(profile.tool_call for profile in PROFILES)
_GUARD_NAMES = tuple(profile.guard_decision for profile in PROFILES)
_STAMPED = (TimeSource.RECORD, TimeSource.EVENT_TIMESTAMP)
_KEYS = tuple(dict.fromkeys((*tool_calls.ATTRIBUTES, *guard_decisions.ATTRIBUTES)))


@dataclass(frozen=True, slots=True)
class EventRows:
    """Rows of one event table.

    Attributes:
        table: the table's columns without event_id and commit_number; with `identity`, which makes
            the event id, and `request`, the position of the request that it came in.
        stamped: for each row, whether its time is the producer's own. Only then does the range
            below hold a copy of it that is stored already.
        earliest, latest: nanoseconds; the range of times in which copies of stamped rows may lie.
    """

    dataset: str
    table: pa.Table
    stamped: npt.NDArray[np.bool_]
    earliest: int
    latest: int

    def of_requests(self, numbers: npt.NDArray[np.int32]) -> EventRows:
        """The same rows, with each request under its number in a larger group."""
        position = self.table.schema.get_field_index("request")
        request = arrow(numbers[self.table["request"].to_numpy()])
        return replace(self, table=self.table.set_column(position, "request", request))


@dataclass(frozen=True, slots=True)
class Events:
    """What a batch of requests comes to.

    Attributes:
        rows: rows for the event tables; tables without any are left out.
        rejected: for each reason, how many records of each request cannot be kept.
        others: how many records are of no event that is kept.
    """

    rows: tuple[EventRows, ...]
    rejected: dict[Rejection, npt.NDArray[np.int64]]
    others: int


def normalise(
    records: Records, arrival: npt.NDArray[np.int64], owner_attribute: str, owner_key: bytes
) -> Events:
    """Turn records into events.

    A log record is an event by its event_name field if set, else by its attribute event.name; a span
    by its name (the producer's bridge turns log records into such spans).

    Args:
        records: decoded log records or spans.
        arrival: nanoseconds since 1970, one a request.
        owner_attribute: the resource attribute that names the owner.
        owner_key: the key of the owners' hashes.
    """
    rejected = {reason: np.zeros(records.requests, dtype=np.int64) for reason in Rejection}
    found = records.attributes.locate(("event.name", *_KEYS))
    names = records.name
    if records.signal is Signal.LOGS:
        names = pc.coalesce(not_empty(names), found["event.name"].text)
    resources = ResourceColumns.read(records, owner_attribute, owner_key)

    calls = _matching(names, _TOOL_CALL_NAMES)
    guards = _matching(names, _GUARD_NAMES)
    others = len(records) - len(calls) - len(guards)
    rows = []
    if len(calls):
        chosen = _Chosen.of(
            records,
            calls,
            names,
            found,
            arrival,
            rejected,
            kept=tool_calls.KEPT_TEXTS,
            must_be_text=("session.id", "prompt_id", "call_id"),
            resources=resources,
        )
        session_id = pc.coalesce(
            not_empty(chosen.found["session.id"].text),
            resources.session_id.take(arrow(records.resource[chosen.rows])),
        )
        columns = tool_calls.tool_call_columns(records, chosen.rows, chosen.names, chosen.found, session_id)
        rows.append(_event_rows(TOOL_CALLS.name, chosen, columns, records, resources, arrival))
    if len(guards):
        chosen = _Chosen.of(
            records,
            guards,
            names,
            found,
            arrival,
            rejected,
            kept=guard_decisions.ATTRIBUTES,
            must_be_text=("prompt_id",),
            resources=resources,
        )
        columns = guard_decisions.guard_decision_columns(records, chosen.rows, chosen.names, chosen.found)
        rows.append(_event_rows(GUARD_DECISIONS.name, chosen, columns, records, resources, arrival))
    return Events(tuple(each for each in rows if len(each.table)), rejected, others)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The records of one kind that can be kept."""

    rows: Rows
    names: pa.StringArray
    found: dict[str, AttributeColumn]
    times: EventTimes

    @staticmethod
    def of(
        records: Records,
        rows: Rows,
        names: pa.StringArray,
        found: dict[str, AttributeColumn],
        arrival: npt.NDArray[np.int64],
        rejected: dict[Rejection, npt.NDArray[np.int64]],
        kept: tuple[str, ...],
        must_be_text: tuple[str, ...],
        resources: ResourceColumns,
    ) -> _Chosen:
        """Choose, and count in `rejected` the records that cannot be kept."""
        marked = records.attributes.longer_than(LONGEST_TEXT)
        too_long = resources.too_long[records.resource[rows]]
        for key in kept:
            too_long |= found[key].at(rows).is_one_of(marked)
        if too_long.any():
            _count(rejected[Rejection.TOO_LONG], records.request[rows[too_long]])
            rows = rows[~too_long]
        wrong = np.logical_or.reduce([is_wrongly_typed(found[key].at(rows)) for key in must_be_text])
        if wrong.any():
            _count(rejected[Rejection.WRONG_TYPE], records.request[rows[wrong]])
            rows = rows[~wrong]
        times = _times(records, rows, found, arrival)
        if times.impossible.any():
            _count(rejected[Rejection.IMPOSSIBLE_TIME], records.request[rows[times.impossible]])
            rows = rows[~times.impossible]
            times = _times(records, rows, found, arrival)
        here = {key: column.at(rows) for key, column in found.items()}
        return _Chosen(rows, names.take(arrow(rows)), here, times)


def _times(
    records: Records, rows: Rows, found: dict[str, AttributeColumn], arrival: npt.NDArray[np.int64]
) -> EventTimes:
    observed = records.other_time[rows]
    if records.signal is Signal.TRACES:
        observed = np.zeros(len(rows), dtype=np.uint64)
    return settle_times(
        records.time[rows],
        parse_timestamps(found["event.timestamp"].at(rows).text),
        observed,
        arrival[records.request[rows]],
    )


def _event_rows(
    dataset: str,
    chosen: _Chosen,
    columns: dict[str, pa.Array],
    records: Records,
    resources: ResourceColumns,
    arrival: npt.NDArray[np.int64],
) -> EventRows:
    shared = shared_columns(records, chosen.rows, resources, chosen.times, arrival)
    is_stamped = booleans(pc.is_in(chosen.times.source, value_set=words(_STAMPED)))
    return EventRows(
        dataset=dataset,
        table=pa.table(shared | columns),
        stamped=is_stamped,
        earliest=int(chosen.times.earliest[is_stamped].min(initial=np.iinfo(np.int64).max)) - TWIN_NANOS,
        latest=int(chosen.times.latest[is_stamped].max(initial=0)) + TWIN_NANOS,
    )


def _matching(names: pa.StringArray, wanted: tuple[str, ...]) -> Rows:
    return np.flatnonzero(booleans(pc.is_in(names, value_set=words(wanted))))


def _count(counts: npt.NDArray[np.int64], requests: npt.NDArray[np.integer]) -> None:
    counts += np.bincount(requests, minlength=len(counts))
