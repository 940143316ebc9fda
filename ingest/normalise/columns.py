"""What all events share: reading resources and attributes by the rules of the contract."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.attributes import AttributeColumn, Attributes
from ingest.decode.vectors import NO_BYTES, NO_FLAG, NO_TEXT, arrow, constant, words
from ingest.normalise.identity import is_invalid_id
from ingest.normalise.owner import hash_owners
from sli.prompt import ROUTE_PATTERNS
from sli.vocabulary import LONGEST_TEXT, UNKNOWN_SERVICE, UNKNOWN_VERSION, UNSET_ENVIRONMENT, Route

Rows = npt.NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class ResourceColumns:
    """What is read from the resources of a batch, one row a resource.

    Attributes:
        too_long: whether a text that would be kept is longer than what is kept.
    """

    environment: pa.StringArray
    service_name: pa.StringArray
    service_version: pa.StringArray
    owner: pa.StringArray
    session_id: pa.StringArray
    too_long: npt.NDArray[np.bool_]

    @staticmethod
    def read(resources: Attributes, owner_attribute: str, owner_key: bytes) -> ResourceColumns:
        """Read the resources; `deployment.environment.name` comes before its older name."""
        found = resources.locate(
            (
                "deployment.environment.name",
                "deployment.environment",
                "service.name",
                "service.version",
                "session.id",
                owner_attribute,
            ),
            LONGEST_TEXT,
        )
        too_long = np.logical_or.reduce([found.is_shortened(key) for key in found if key != owner_attribute])
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
    return column.present & ~column.is_text


def flags(column: AttributeColumn) -> pa.BooleanArray:
    """The boolean values, also where they are sent as the words true and false; null for anything else."""
    said = pc.if_else(
        pc.equal(column.text, constant("true")),
        constant(True),
        pc.if_else(pc.equal(column.text, constant("false")), constant(False), NO_FLAG),
    )
    return pc.coalesce(column.flag, said)


def integers(column: AttributeColumn) -> pa.Int64Array:
    """The int values, also where they are sent as text; null for anything else."""
    digits = pc.match_substring_regex(column.text, r"^[0-9]{1,18}$")
    return pc.coalesce(column.integer, pc.if_else(digits, column.text, NO_TEXT).cast(pa.int64()))


def routes(prompt_id: pa.StringArray) -> pa.StringArray:
    """The route that each prompt id tells of; prompts repeat, so each is matched once."""
    prompts = prompt_id.dictionary_encode()
    route: pa.Array = pa.repeat(constant(Route.UNKNOWN.value), len(prompts.dictionary))
    for name, pattern in reversed(ROUTE_PATTERNS):
        route = pc.if_else(pc.match_substring_regex(prompts.dictionary, pattern), constant(name.value), route)
    return pc.fill_null(route.take(prompts.indices), constant(Route.UNKNOWN.value))


def microseconds(unix_nano: npt.NDArray[np.int64]) -> pa.Array:
    """Nanoseconds since 1970 as timestamps."""
    return arrow(unix_nano // 1_000).cast(pa.timestamp("us", tz="UTC"))


def hex_id(ids: pa.BinaryArray, size: int) -> pa.StringArray:
    """Trace and span ids in lower-case hex; null where not sent, of a wrong size, or all zero."""
    ids = pc.if_else(is_invalid_id(ids, size), NO_BYTES, ids)
    return pl.Series(values=ids, dtype=pl.Binary).bin.encode("hex").to_arrow().cast(pa.string())
