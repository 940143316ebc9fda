"""Attributes as one long table, and the pivot of some of its keys into columns.

OTLP attributes are lists of key and value on each record. All lists of a batch lie here end to end;
asking for a key gives, for each record, where in that long table its value stands. No record is
ever visited by Python on its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.vectors import NO_NUMBER, NO_TEXT, arrow, booleans, constant, words
from ingest.decode.wire import VALUE_KINDS

Index = npt.NDArray[np.int32]


class AttributeColumn(Protocol):
    """The values of one key, one row a holder."""

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """Whether the holder has a value of any kind."""

    @property
    def is_text(self) -> npt.NDArray[np.bool_]:
        """Where `text` is not null."""

    @property
    def text(self) -> pa.StringArray:
        """The string values; null where there is none, or one of another kind."""

    @property
    def integer(self) -> pa.Int64Array:
        """The int values, exact; null where there is none, or one of another kind."""

    @property
    def flag(self) -> pa.BooleanArray:
        """The boolean values; null where there is none, or one of another kind."""

    @property
    def number(self) -> pa.DoubleArray:
        """Int and double values as doubles; null where there is neither, or no finite one."""


class Located(Protocol):
    """Where the values of some keys stand; a column is made when it is asked for."""

    def __getitem__(self, key: str, /) -> AttributeColumn:
        """The column of a key."""

    def at(self, holders: npt.NDArray[np.integer]) -> Located:
        """The same for a selection of the holders."""

    def is_shortened(self, key: str) -> npt.NDArray[np.bool_]:
        """Whether the holder's value of a key was too long to be kept."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of `rows` holders (records, resources or scopes), end to end.

    An attribute whose value has nothing set is absent, and so is one with an empty key: both are
    left out when this is made. Where a holder repeats a key, the last value counts.

    Attributes:
        rows: number of holders.
        holder: for each attribute, the holder it belongs to; ascending.
        key: for each attribute, its key.
        values: for each kind of value, a column that is null where the attribute is of another kind.
    """

    rows: int
    holder: Index
    key: pa.StringArray
    values: dict[str, pa.Array]

    @staticmethod
    def of_lists(lists: pa.ListArray) -> Attributes:
        """Lay out a column of lists of key-value structs, one list a holder."""
        entries = lists.values
        holder = np.repeat(np.arange(len(lists), dtype=np.int32), np.diff(lists.offsets.to_numpy()))
        kinds = entries.field("value").flatten()
        key = entries.field("key")
        present = pc.not_equal(key, constant(""))
        unset = pc.is_null(kinds[0])
        for kind in kinds[1:]:
            unset = pc.and_(unset, pc.is_null(kind))
        present = pc.and_not(present, unset)
        if not pc.all(present, min_count=0).as_py():
            positions = np.flatnonzero(booleans(present)).astype(np.int32)
            kept = arrow(positions)
            holder, key = holder[positions], key.take(kept)
            kinds = [kind.take(kept) for kind in kinds]
        return Attributes(len(lists), holder, key, dict(zip(VALUE_KINDS, kinds, strict=True)))

    def of_holders(self, holders: Index) -> Attributes:
        """The same for a selection of holders, given in ascending order and renumbered from 0."""
        renumbered = np.full(self.rows, -1, dtype=np.int32)
        renumbered[holders] = np.arange(len(holders), dtype=np.int32)
        holder = renumbered[self.holder]
        kept = np.flatnonzero(holder >= 0)
        taken = arrow(kept.astype(np.int32))
        return Attributes(
            len(holders),
            holder[kept],
            self.key.take(taken),
            {kind: column.take(taken) for kind, column in self.values.items()},
        )

    def locate(self, keys: tuple[str, ...], longest: int | None = None) -> TableColumns:
        """The columns of the values of `keys`, one row a holder.

        Args:
            longest: texts of more bytes are null in the columns.
        """
        code = (
            pc.index_in(self.key, value_set=words(keys))
            .fill_null(constant(len(keys)).cast(pa.int32()))
            .to_numpy()
        )
        order = np.argsort(code.astype(np.int16), kind="stable").astype(np.int32)
        bounds = np.searchsorted(code[order], np.arange(len(keys) + 1))
        # Within a key the order is that of the wire, so the last of a repeated key is what stays.
        positions = {key: order[bounds[number] : bounds[number + 1]] for number, key in enumerate(keys)}
        holders = np.arange(self.rows, dtype=np.int32)
        if longest is None:
            return TableColumns(self, positions, holders, np.zeros(len(self.key), dtype=np.bool_))
        too_long = self.longer_than(longest)
        return TableColumns(self.without(too_long), positions, holders, too_long)

    def longer_than(self, size: int) -> npt.NDArray[np.bool_]:
        """For each attribute, whether it is a string of more than `size` bytes."""
        lengths = pc.binary_length(self.values["string_value"])
        return booleans(pc.fill_null(pc.greater(lengths, constant(size)), constant(False)))

    def without(self, texts: npt.NDArray[np.bool_]) -> Attributes:
        """The same with the marked string values set to null, without copying what they held."""
        if not texts.any():
            return self
        kept = pc.if_else(arrow(texts), NO_TEXT, self.values["string_value"])
        return replace(self, values=self.values | {"string_value": kept})

    def unlisted(self, listed: Iterable[str]) -> tuple[Index, pa.StringArray]:
        """The attributes whose key is not among `listed`: their holders, and their keys."""
        strange = pc.invert(pc.is_in(self.key, value_set=words(tuple(listed))))
        positions = np.flatnonzero(booleans(strange))
        return self.holder[positions], self.key.take(arrow(positions))


@dataclass(frozen=True, slots=True)
class TableColumns(Mapping[str, "TableColumn"]):
    """Where the values of some keys stand; a column is made when it is asked for.

    Attributes:
        attributes: the long table.
        positions: for each key, the positions of its values in the long table, ascending.
        holders: the holders that the columns have a row for.
        shortened: for each attribute, whether its text was too long to be kept and is null.
    """

    attributes: Attributes
    positions: dict[str, Index]
    holders: Index
    shortened: npt.NDArray[np.bool_]

    def __getitem__(self, key: str) -> TableColumn:
        positions = self.positions[key]
        where = np.full(self.attributes.rows, -1, dtype=np.int32)
        where[self.attributes.holder[positions]] = positions
        return TableColumn(where[self.holders], self.attributes.values)

    def __iter__(self) -> Iterator[str]:
        return iter(self.positions)

    def __len__(self) -> int:
        return len(self.positions)

    def at(self, holders: npt.NDArray[np.integer]) -> TableColumns:
        """The same for a selection of the holders."""
        return replace(self, holders=self.holders[holders])

    def is_shortened(self, key: str) -> npt.NDArray[np.bool_]:
        """Whether the holder's value of a key was too long to be kept."""
        column = self[key]
        found: npt.NDArray[np.bool_] = np.append(self.shortened, False)[column.where]
        return found & column.present


@dataclass(frozen=True, slots=True)
class TableColumn:
    """The values of one key, one row a holder.

    Attributes:
        where: for each holder, the position of its value in `values`, or -1 without one.
        values: the value columns of the long table.
    """

    where: Index
    values: dict[str, pa.Array]

    def at(self, holders: npt.NDArray[np.integer]) -> TableColumn:
        """The same for a selection of holders."""
        return TableColumn(self.where[holders], self.values)

    def _take(self, kind: str) -> pa.Array:
        return self.values[kind].take(arrow(self.where, valid=self.where >= 0))

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """Whether the holder has a value of any kind."""
        return self.where >= 0

    @property
    def is_text(self) -> npt.NDArray[np.bool_]:
        """Where `text` is not null."""
        return booleans(self.text.is_valid())

    @property
    def text(self) -> pa.StringArray:
        """The string values; null where there is none, or one of another kind."""
        return self._take("string_value")

    @property
    def integer(self) -> pa.Int64Array:
        """The int values, exact; null where there is none, or one of another kind."""
        return self._take("int_value")

    @property
    def flag(self) -> pa.BooleanArray:
        """The boolean values; null where there is none, or one of another kind."""
        return self._take("bool_value")

    @property
    def number(self) -> pa.DoubleArray:
        """Int and double values as doubles; null where there is neither, or no finite one."""
        number = pc.coalesce(self._take("double_value"), self.integer.cast(pa.float64(), safe=False))
        return pc.if_else(pc.is_finite(number), number, NO_NUMBER)
