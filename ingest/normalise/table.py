"""An event table as ingest fills it: which attributes are read, and how its columns come from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.attributes import Located
from ingest.decode.records import Records
from ingest.decode.vectors import NO_TEXT, arrow, constant
from ingest.normalise.columns import ResourceColumns, Rows, hex_id, not_empty
from ingest.normalise.identity import event_identities
from sli.profile import PROFILES
from sli.prompt import SESSION_SEPARATOR
from sli.schemas import Dataset


@dataclass(frozen=True, slots=True)
class Chosen:
    """The records of one event table.

    Attributes:
        records: the batch.
        rows: which of its records, ascending.
        names: their names.
        kinds: the kind of row that each becomes.
        found: their attributes, one row each; texts that are too long to be kept are null.
        resources: what the batch's resources say.
    """

    records: Records
    rows: Rows
    names: pa.StringArray
    kinds: pa.StringArray
    found: Located
    resources: ResourceColumns

    @property
    def session_id(self) -> pa.StringArray:
        """The record's own session, else that of its resource."""
        resource = arrow(self.records.envelope.resource[self.rows])
        return pc.coalesce(not_empty(self.found["session.id"].text), self.resources.session_id.take(resource))

    @property
    def prompt_id(self) -> pa.StringArray:
        """The prompt; spans name it under the producer's prefix."""
        return pc.coalesce(not_empty(self.found["prompt_id"].text), self.prefixed("prompt_id"))

    @property
    def parent_span_id(self) -> pa.StringArray:
        """The parent of each span in hex; null for log records."""
        if self.records.parent_span_id is None:
            return pa.nulls(len(self.rows), pa.string())
        return hex_id(self.records.parent_span_id.take(arrow(self.rows)), 8)

    def text(self, *keys: str) -> pa.StringArray:
        """The first of some attributes that is a text and not empty."""
        return pc.coalesce(*(not_empty(self.found[key].text) for key in keys))

    def prefixed(self, name: str) -> pa.StringArray:
        """The text of an attribute that carries the producer's prefix."""
        return self.text(*(profile.attribute(name) for profile in PROFILES))

    def identities(self, *kept: pa.Array) -> pa.BinaryArray:
        """Identities of log events over the columns that are kept of them."""
        stamps = self.found["event.timestamp"].text
        return event_identities(self.records, self.rows, self.kinds, stamps, *kept)


@dataclass(frozen=True, slots=True)
class EventTable:
    """How one event table is filled.

    Attributes:
        attributes: the keys that are read, and no others.
        ids: those of them that other tables are joined by: a record in which one of them is not a text,
            or too long, cannot be kept.
        columns: makes the columns of the table beside the shared ones, and `identity`.
    """

    dataset: Dataset
    attributes: tuple[str, ...]
    ids: tuple[str, ...]
    columns: Callable[[Chosen], dict[str, pa.Array]]


def prefixed_keys(*names: str) -> tuple[str, ...]:
    """The keys of attributes that carry a producer's prefix, in every profile."""
    return tuple(profile.attribute(name) for profile in PROFILES for name in names)


def sessions_of(prompt_id: pa.StringArray) -> pa.StringArray:
    """The part of a prompt id before the separator; null where there is none."""
    before = pc.list_element(pc.split_pattern(prompt_id, SESSION_SEPARATOR, max_splits=1), 0)
    separated = pc.match_substring(prompt_id, SESSION_SEPARATOR)
    return not_empty(pc.if_else(separated, before, NO_TEXT))


def only_for(kinds: pa.StringArray, kind: str, column: pa.Array) -> pa.Array:
    """`column` in the rows of one kind, null in the others."""
    return pc.if_else(pc.equal(kinds, constant(kind)), column, pa.scalar(None, column.type))
