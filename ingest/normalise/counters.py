"""Points of the producer's counters become rows of `metric_increases`.

What a point adds to its series is known only beside the points that are stored already; the store fills
it in (`keep/increases.py`). Everything else of a point is settled here.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.points import Points
from ingest.decode.vectors import NO_NUMBER, arrow, booleans, constant, words
from ingest.decode.wire import Signal
from ingest.normalise.arrivals import Arrivals
from ingest.normalise.columns import ResourceColumns, Rows, not_empty
from ingest.normalise.identity import canonical_attributes, joined, resource_digests, scope_digests
from ingest.normalise.names import counted_names
from ingest.normalise.rejections import Rejections
from ingest.normalise.rows import EventRows, Events, shared_columns
from ingest.normalise.times import EventTimes, arrival_times, settle_times
from sli.profile import PROFILES
from sli.schemas import METRIC_INCREASES, REJECTED
from sli.vocabulary import LONGEST_TEXT, Rejection, Temporality

LABELS: tuple[str, ...] = (
    "status",
    "execution_status",
    "tool_type",
    "type",
    "mode",
    "decision",
    "reset_reason",
)
"""The labels that are kept. Others, such as function names, may be text that a model made up."""

_LABEL_FORM = r"^[a-z][a-z0-9_]{0,63}$"
_OTHER_LABEL = "other"

_COUNTERS = {name: word for profile in PROFILES for word, name in profile.counters.items()}
_NAMES, _WORDS = words(tuple(_COUNTERS)), words(tuple(_COUNTERS.values()))

# opentelemetry/proto/metrics/v1, AggregationTemporality.
_DELTA, _CUMULATIVE = 1, 2


def normalise_points(
    points: Points,
    received: npt.NDArray[np.int64],
    owner_attribute: str,
    key: bytes,
    oldest_unix_nano: int = 0,
) -> Events:
    """Turn the points of the kept counters into rows, and count all others by name.

    Args:
        received: when each request arrived, nanoseconds since 1970.
        owner_attribute: the resource attribute that names the owner.
        key: of the hashes of owners and series.
        oldest_unix_nano: points before it were removed, and are refused.
    """
    envelope = points.envelope
    resources = ResourceColumns.read(envelope.resources, owner_attribute, key)
    encoded = points.name.dictionary_encode()
    counter = pc.index_in(encoded.dictionary, value_set=_NAMES)
    arrivals = Arrivals.count(
        Signal.METRICS,
        envelope,
        encoded.indices.to_numpy().astype(np.int32),
        counted_names(encoded.dictionary, counter),
        resources,
        weight=points.count,
    )
    rejections = Rejections(arrivals)
    word = _WORDS.take(counter).take(encoded.indices)

    metrics: Rows = np.flatnonzero(booleans(word.is_valid()))
    too_long = resources.too_long[envelope.resource[metrics]]
    metrics = rejections.refuse(Rejection.TOO_LONG, metrics, too_long, points.count[metrics])
    counts = points.is_monotonic & np.isin(points.temporality, (_DELTA, _CUMULATIVE))
    metrics = rejections.refuse(Rejection.WRONG_SHAPE, metrics, ~counts[metrics], points.count[metrics])
    rows: Rows = np.flatnonzero(np.isin(points.metric, metrics) & points.recorded)
    rows = _countable(points, rows, rejections)
    rows, times = _timed(points, rows, received, rejections, oldest_unix_nano)
    np.add.at(arrivals.kept, arrivals.of_record[points.metric[rows]], 1)
    tables = []
    if len(rows):
        tables.append(_increases(points, rows, word, times, received, arrivals, resources, key))
    if rejections.rows:
        tables.append(_rejected(points, received, resources, rejections))
    return Events(tuple(tables), arrivals, rejections.by_request(envelope.requests))


def _countable(points: Points, rows: Rows, rejections: Rejections) -> Rows:
    """The points whose value can be a count."""
    value = pc.fill_null(points.value.take(arrow(rows)), -1.0).to_numpy()
    return _refuse_points(
        points, Rejection.WRONG_SHAPE, rows, ~(np.isfinite(value) & (value >= 0)), rejections
    )


def _timed(
    points: Points,
    rows: Rows,
    received: npt.NDArray[np.int64],
    rejections: Rejections,
    oldest_unix_nano: int,
) -> tuple[Rows, EventTimes]:
    nothing = np.zeros(len(rows), dtype=np.uint64)
    request = points.envelope.request[points.metric[rows]]
    times = settle_times(points.time[rows], nothing.astype(np.int64), nothing, received[request])
    kept = _refuse_points(points, Rejection.IMPOSSIBLE_TIME, rows, times.impossible, rejections)
    times = times.at(~times.impossible)
    too_old = times.unix_nano < oldest_unix_nano
    return _refuse_points(points, Rejection.TOO_OLD, kept, too_old, rejections), times.at(~too_old)


def _refuse_points(
    points: Points, reason: Rejection, rows: Rows, bad: npt.NDArray[np.bool_], rejections: Rejections
) -> Rows:
    """Points are refused under their metrics: there a row of `rejected` stands for all of a metric."""
    if bad.any():
        metrics, records = np.unique(points.metric[rows[bad]], return_counts=True)
        rejections.refuse(reason, metrics, np.ones(len(metrics), dtype=np.bool_), records)
    return rows[~bad]


def _increases(
    points: Points,
    rows: Rows,
    word: pa.StringArray,
    times: EventTimes,
    received: npt.NDArray[np.int64],
    arrivals: Arrivals,
    resources: ResourceColumns,
    key: bytes,
) -> EventRows:
    metric = points.metric[rows]
    # The columns of a resource are taken for the metric of each point.
    shared = shared_columns(points.envelope, metric, resources, times, received, arrivals.of_record[metric])
    found = points.attributes.locate((*LABELS, "session.id"), LONGEST_TEXT).at(rows)
    temporality = points.temporality[metric]
    value = points.value.take(arrow(rows))
    series = _series(points, rows, key)
    session = resources.session_id.take(arrow(points.envelope.resource[metric]))
    columns = {
        "session_id": pc.coalesce(not_empty(found["session.id"].text), session),
        "counter": word.take(arrow(metric)),
        "series": series,
        "temporality": pc.if_else(
            arrow(temporality == _DELTA),
            constant(Temporality.DELTA.value),
            constant(Temporality.CUMULATIVE.value),
        ),
        "start_unix_nano": arrow(np.minimum(points.start_time[rows], np.uint64(2**63 - 1)).astype(np.int64)),
        "value": value,
        "increase": pc.if_else(arrow(temporality == _DELTA), value, NO_NUMBER),
        **{label: _label(found[label].text) for label in LABELS},
    }
    identity = joined(
        constant("point"),
        series,
        arrow(points.time[rows]).cast(pa.string()),
        value.view(pa.int64()).cast(pa.string()),
    )
    return EventRows.of(METRIC_INCREASES.name, shared | columns | {"identity": identity}, times)


def _label(text: pa.StringArray) -> pa.StringArray:
    """A label of the contract's; `other` where it has not the form of one."""
    text = not_empty(text)
    listed = pc.or_kleene(pc.is_null(text), pc.match_substring_regex(text, _LABEL_FORM))
    return pc.if_else(listed, text, constant(_OTHER_LABEL))


def _series(points: Points, rows: Rows, key: bytes) -> pa.StringArray:
    """What tells series apart: resource, scope, counter, temporality, labels and start time, hashed.

    Labels may hold model-made text; whoever has only the hash cannot try words out without the key.
    """
    envelope = points.envelope
    metric = points.metric[rows]
    name = points.name.take(arrow(metric))
    texts = joined(
        resource_digests(envelope).take(arrow(envelope.resource[metric])),
        scope_digests(envelope).take(arrow(envelope.scope[metric])),
        pc.binary_length(name).cast(pa.string()),
        name,
        arrow(points.temporality[metric]).cast(pa.string()),
        arrow(points.start_time[rows]).cast(pa.string()),
        canonical_attributes(points.attributes.of_holders(rows.astype(np.int32))),
    )
    hashes = [blake2b(text, digest_size=16, key=key).hexdigest() for text in texts.to_pylist()]
    return pa.array(hashes, pa.string())


def _rejected(
    points: Points,
    received: npt.NDArray[np.int64],
    resources: ResourceColumns,
    rejections: Rejections,
) -> EventRows:
    """A row of `rejected` for each metric and reason."""
    envelope = points.envelope
    metric = rejections.all_rows()
    groups = rejections.arrivals.of_record[metric]
    times = arrival_times(received[envelope.request[metric]])
    columns = shared_columns(envelope, metric, resources, times, received, groups)
    columns |= rejections.columns()
    first = np.searchsorted(points.metric, metric)
    earliest = np.append(points.time, np.uint64(0))[np.minimum(first, len(points))]
    identity = joined(
        constant("rejected"),
        resource_digests(envelope).take(arrow(envelope.resource[metric])),
        scope_digests(envelope).take(arrow(envelope.scope[metric])),
        points.name.take(arrow(metric)),
        columns["reason"],
        columns["records"].cast(pa.string()),
        arrow(earliest).cast(pa.string()),
    )
    return EventRows.of(REJECTED.name, columns | {"identity": identity}, times)
