"""What tool calls and guard decisions share: reading attributes by the rules of the contract."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.attributes import AttributeColumn
from ingest.decode.records import Records
from ingest.decode.vectors import NO_BYTES, NO_TEXT, arrow, booleans, constant, words
from ingest.normalise.owner import hash_owners
from ingest.normalise.times import NANOS_PER_DAY, EventTimes
from sli.prompt import ROUTE_PATTERNS
from sli.vocabulary import LONGEST_TEXT, UNKNOWN_SERVICE, UNKNOWN_VERSION, UNSET_ENVIRONMENT, Route

Rows = npt.NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class ResourceColumns:
    """What is read from the resources of a batch, one row a resource."""

    environment: pa.StringArray
    service_name: pa.StringArray
    service_version: pa.StringArray
    owner: pa.StringArray
    session_id: pa.StringArray
    too_long: npt.NDArray[np.bool_]

    @staticmethod
    def read(records: Records, owner_attribute: str, owner_key: bytes) -> ResourceColumns:
        """Read the resources; `deployment.environment.name` comes before its older name."""
        found = records.resources.locate(
            (
                "deployment.environment.name",
                "deployment.environment",
                "service.name",
                "service.version",
                "session.id",
                owner_attribute,
            )
        )
        marked = records.resources.longer_than(LONGEST_TEXT)
        too_long = np.logical_or.reduce([column.is_one_of(marked) for column in found.values()])
        environment = pc.coalesce(
            trimmed(found["deployment.environment.name"].text),
            trimmed(found["deployment.environment"].text),
            constant(UNSET_ENVIRONMENT),
        )
        return ResourceColumns(
            environment=environment,
            service_name=pc.coalesce(trimmed(found["service.name"].text), constant(UNKNOWN_SERVICE)),
            service_version=pc.coalesce(trimmed(found["service.version"].text), constant(UNKNOWN_VERSION)),
            owner=hash_owners(found[owner_attribute].text, owner_key),
            session_id=not_empty(found["session.id"].text),
            too_long=too_long,
        )


def shared_columns(
    records: Records,
    rows: Rows,
    resources: ResourceColumns,
    times: EventTimes,
    arrival: npt.NDArray[np.int64],
) -> dict[str, pa.Array]:
    """The columns that every event has, for the records `rows`.

    Args:
        times: of these rows.
        arrival: nanoseconds since 1970, of each request.
    """
    resource = arrow(records.resource[rows])
    request = records.request[rows]
    taken = arrow(rows.astype(np.int32))
    return {
        "request": arrow(request),
        "time": _microseconds(times.unix_nano),
        "time_unix_nano": arrow(times.unix_nano),
        "time_source": times.source,
        "day": arrow((times.unix_nano // NANOS_PER_DAY).astype(np.int32)).view(pa.date32()),
        "received_at": _microseconds(arrival[request]),
        "environment": resources.environment.take(resource),
        "service_name": resources.service_name.take(resource),
        "service_version": resources.service_version.take(resource),
        "owner": resources.owner.take(resource),
        "trace_id": _hex_id(records.trace_id.take(taken), 16),
        "span_id": _hex_id(records.span_id.take(taken), 8),
    }


def one_of(text: pa.StringArray, allowed: Iterable[str], otherwise: str) -> pa.StringArray:
    """`text` where it is one of `allowed`, else `otherwise`; exact, without trimming."""
    return pc.if_else(pc.is_in(text, value_set=words(tuple(allowed))), text, constant(otherwise))


def trimmed(text: pa.StringArray) -> pa.StringArray:
    """`text` without white space around it; null where nothing is left."""
    return not_empty(pc.utf8_trim_whitespace(text))


def not_empty(text: pa.StringArray) -> pa.StringArray:
    """`text`; null where it is empty."""
    return pc.if_else(pc.equal(text, constant("")), NO_TEXT, text)


def is_wrongly_typed(column: AttributeColumn) -> npt.NDArray[np.bool_]:
    """Where an attribute that must be a string is something else."""
    return column.present & booleans(column.text.is_null())


def routes(prompt_id: pa.StringArray) -> pa.StringArray:
    """The route that each prompt id tells of; prompts repeat, so each is matched once."""
    prompts = prompt_id.dictionary_encode()
    route: pa.Array = pa.repeat(constant(Route.UNKNOWN.value), len(prompts.dictionary))
    for name, pattern in reversed(ROUTE_PATTERNS):
        route = pc.if_else(pc.match_substring_regex(prompts.dictionary, pattern), constant(name.value), route)
    return pc.fill_null(route.take(prompts.indices), constant(Route.UNKNOWN.value))


def _microseconds(unix_nano: npt.NDArray[np.int64]) -> pa.Array:
    return arrow(unix_nano // 1_000).cast(pa.timestamp("us", tz="UTC"))


def _hex_id(ids: pa.BinaryArray, size: int) -> pa.StringArray:
    """Trace and span ids in lower-case hex; null where not sent, of a wrong size, or all zero."""
    valid = pc.and_(
        pc.equal(pc.binary_length(ids), constant(size)), pc.not_equal(ids, constant(b"\x00" * size))
    )
    ids = pc.if_else(valid, ids, NO_BYTES)
    return pl.Series(values=ids, dtype=pl.Binary).bin.encode("hex").to_arrow().cast(pa.string())
