"""Attributes of records as they are on the wire: each is looked at, and only what is asked for is taken out.

A record has some twenty attributes, most of which nobody reads. So they are left as the bytes of their
messages, end to end, and a few vector operations find in each of them the key, the kind of the value and
where the value stands. Texts that are dropped are never copied, and never turned into text.

    0a <length> key  12 <length> value            KeyValue, opentelemetry/proto/common/v1
                                 0a <length> …    its value is a string; 10 a bool, 18 an int, 21 a double,
                                                  2a an array, 32 a map, 3a bytes

Every writer of protobuf puts the fields in this order and once. Attributes of another form are told by
`is_odd`; whoever decodes has them written anew by protobuf's own reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.attributes import Attributes, Index
from ingest.decode.protobuf import decode_attributes
from ingest.decode.vectors import NO_NUMBER, arrow
from ingest.decode.wire import Signal
from ingest.exceptions import MalformedBody

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int32]
Marks = npt.NDArray[np.bool_]

_KEY, _VALUE = 0x0A, 0x12
_STRING, _BOOL, _INT, _DOUBLE, _ARRAY, _MAP, _BYTES = 0x0A, 0x10, 0x18, 0x21, 0x2A, 0x32, 0x3A
_OF_A_LENGTH = np.zeros(256, dtype=np.bool_)
_OF_A_LENGTH[[_STRING, _ARRAY, _MAP, _BYTES]] = True
_MORE = 0x80
# A varint of 64 bits has at most ten bytes.
_LONGEST_VARINT = 10
_WORD = 8
# Without an end pyarrow 26 takes the wrong size for its buffer.
_NO_END = 2**31 - 1


@dataclass(frozen=True, slots=True)
class WireAttributes:
    """The attributes of `rows` records, end to end.

    An attribute without a key or without a value is absent. Where a record repeats a key, the last value
    counts.

    Attributes:
        signal: what they are attributes of.
        rows: number of records.
        holder: for each attribute, the record it belongs to; ascending.
        raw: the attributes' messages.
        data: the bytes of all of them.
        key, key_length: where each key stands, and how long it is.
        kind: the tag of the value; 0 where it is absent.
        begin: where the message begins.
        content, end: where the content of the value begins and ends.
        is_odd: whether a message is not of the form above.
    """

    signal: Signal
    rows: int
    holder: Index
    raw: pa.BinaryArray
    data: Bytes
    key: Places
    key_length: Places
    kind: Bytes
    begin: Places
    content: Places
    end: Places
    is_odd: Marks

    @staticmethod
    def of_lists(signal: Signal, lists: pa.ListArray) -> WireAttributes:
        """Look at a column of lists of messages, one list a record."""
        raw = lists.values
        _, offsets, content = raw.buffers()
        bounds = np.frombuffer(offsets, dtype=np.int32)[raw.offset : raw.offset + len(raw) + 1]
        data = np.frombuffer(content, dtype=np.uint8) if content is not None else np.zeros(0, np.uint8)
        if not len(data):
            data = np.zeros(1, dtype=np.uint8)
        begin, end = bounds[:-1], bounds[1:]
        holder = np.repeat(np.arange(len(lists), dtype=np.int32), np.diff(lists.offsets.to_numpy()))

        has_key = _byte(data, begin) == _KEY
        key_length, key = _varint(data, begin + 1, has_key)
        after_key = np.where(has_key, key + key_length, begin)
        has_value = (after_key < end) & (_byte(data, after_key) == _VALUE)
        value_length, value = _varint(data, after_key + 1, has_value)
        has_value_inside = has_value & (value < end)
        is_odd = np.where(has_value, value + value_length, after_key) != end

        kind = np.where(has_value_inside, _byte(data, value), np.uint8(0))
        has_length = _OF_A_LENGTH[kind]
        content_length, content_start = _varint(data, value + 1, has_length)
        content_start = np.where(has_length, content_start, value + 1)
        length = end - content_start
        is_right = np.where(has_length, content_length == length, kind == 0)
        is_right |= (kind == _DOUBLE) & (length == _WORD)
        varint = (kind == _INT) | (kind == _BOOL)
        if varint.any():
            is_right[varint] = _are_varints(data, content_start[varint], end[varint])
        is_odd |= ~is_right
        kind = np.where(key_length > 0, kind, np.uint8(0))
        return WireAttributes(
            signal, len(lists), holder, raw, data, key, key_length, kind, begin, content_start, end, is_odd
        )

    def locate(self, keys: tuple[str, ...], longest: int | None = None) -> WireColumns:
        """The columns of the values of `keys`, one row a record.

        Args:
            longest: texts of more bytes are null in the columns.
        """
        first, last = _words(self.data, self.key, self.key_length)
        lookup = _Lookup.of(keys)
        code = lookup.codes(first, last, self.key_length)
        for number, middle in lookup.middles().items():
            self._compare_middles(code, number, middle, len(keys))
        code[self.kind == 0] = len(keys)
        long = np.zeros(len(code), dtype=np.bool_)
        if longest is not None:
            long = (self.kind == _STRING) & (self.end - self.content > longest)
        holders = np.arange(self.rows, dtype=np.int32)
        return WireColumns(self, keys, code, holders, long)

    def _compare_middles(self, code: Bytes, number: int, middle: Bytes, none: int) -> None:
        """Take the key away from attributes that agree with it in all but the middle."""
        proposed = np.flatnonzero(code == number)
        if len(proposed):
            places = self.key[proposed, None] + _WORD + np.arange(len(middle))
            code[proposed[(_byte(self.data, places) != middle).any(axis=1)]] = none

    def of_holders(self, holders: Index) -> Attributes:
        """The attributes of a selection of records, given in ascending order and renumbered from 0."""
        renumbered = np.full(self.rows, -1, dtype=np.int32)
        renumbered[holders] = np.arange(len(holders), dtype=np.int32)
        holder = renumbered[self.holder]
        kept = np.flatnonzero((holder >= 0) & (self.kind > 0)).astype(np.int32)
        key, values = decode_attributes(self.raw.take(arrow(kept)))
        return Attributes(len(holders), holder[kept], key, values)


@dataclass(frozen=True, slots=True)
class WireColumns(Mapping[str, "WireColumn"]):
    """Where the values of some keys stand; a column is made when it is asked for.

    Attributes:
        attributes: all attributes.
        wanted: the keys that can be asked for.
        code: for each attribute, the position of its key among them; their number for all other keys.
        holders: the records that the columns have a row for.
        shortened: for each attribute, whether its text is too long to be kept.
    """

    attributes: WireAttributes
    wanted: tuple[str, ...]
    code: npt.NDArray[np.uint8]
    holders: Index
    shortened: Marks

    def __getitem__(self, key: str) -> WireColumn:
        positions = np.flatnonzero(self.code == self.wanted.index(key))
        where = np.full(self.attributes.rows, -1, dtype=np.int32)
        # Within a record the order is that of the wire, so the last of a repeated key is what stays.
        where[self.attributes.holder[positions]] = positions
        return WireColumn(self.attributes, where[self.holders], self.shortened)

    def __iter__(self) -> Iterator[str]:
        return iter(self.wanted)

    def __len__(self) -> int:
        return len(self.wanted)

    def at(self, holders: npt.NDArray[np.integer]) -> WireColumns:
        """The same for a selection of the records."""
        return replace(self, holders=self.holders[holders])

    def is_shortened(self, key: str) -> Marks:
        """Whether the record's value of a key is too long to be kept."""
        if not self.shortened.any():
            return np.zeros(len(self.holders), dtype=np.bool_)
        column = self[key]
        found: Marks = column.present & np.append(self.shortened, False)[column.where]
        return found


@dataclass(frozen=True, slots=True)
class WireColumn:
    """The values of one key, one row a record.

    Attributes:
        where: for each record, the position of its attribute, or -1 without one.
        shortened: for each attribute, whether its text is too long to be kept.
    """

    attributes: WireAttributes
    where: Index
    shortened: Marks

    def _of_kind(self, kind: int) -> Marks:
        if not len(self.attributes.kind):
            # Position -1 stands for none, but there must be one to look at.
            return np.zeros(len(self.where), dtype=np.bool_)
        found: Marks = (self.attributes.kind[self.where] == kind) & (self.where >= 0)
        return found

    @property
    def present(self) -> Marks:
        """Whether the record has a value of any kind."""
        return self.where >= 0

    @property
    def is_text(self) -> Marks:
        """Where `text` is not null."""
        texts = self._of_kind(_STRING)
        return texts & ~self.shortened[self.where] if texts.any() else texts

    @property
    def text(self) -> pa.StringArray:
        """The string values; null where there is none, one of another kind, or one that is too long.

        Raises:
            MalformedBody: one of them is not UTF-8. Texts that nobody asks for are not looked at.
        """
        attributes = self.attributes
        valid = self.is_text
        if not valid.any():
            return pa.nulls(len(valid), pa.string())
        # What stands before the content is as long in all of them, but where a length takes a byte more.
        rows = np.flatnonzero(valid)
        before = (attributes.content - attributes.begin)[self.where[rows]]
        sizes = before[:1] if (before == before[0]).all() else np.unique(before)
        parts = [rows[before == size] for size in sizes] if len(sizes) > 1 else [rows]
        texts = [
            pc.binary_slice(attributes.raw.take(arrow(self.where[part])), int(size), _NO_END)
            for part, size in zip(parts, sizes, strict=True)
        ]
        try:
            text = (texts[0] if len(texts) == 1 else pa.concat_arrays(texts)).cast(pa.string())
        except pa.ArrowInvalid as error:
            raise MalformedBody(attributes.signal, "a text is not UTF-8") from error
        if len(parts) == 1 and len(rows) == len(valid):
            return text
        place = np.zeros(len(valid), dtype=np.int32)
        place[np.concatenate(parts)] = np.arange(len(rows), dtype=np.int32)
        return text.take(arrow(place, valid=valid))

    @property
    def integer(self) -> pa.Int64Array:
        """The int values, exact; null where there is none, or one of another kind."""
        return arrow(*self._integers())

    @property
    def flag(self) -> pa.BooleanArray:
        """The boolean values; null where there is none, or one of another kind."""
        valid = self._of_kind(_BOOL)
        return arrow(_varint_values(self.attributes, self.where, valid) != 0, valid=valid)

    @property
    def number(self) -> pa.DoubleArray:
        """Int and double values as doubles; null where there is neither, or no finite one."""
        integers, is_integer = self._integers()
        numbers = integers.astype(np.float64)
        is_double = self._of_kind(_DOUBLE)
        if is_double.any():
            at = self.attributes.content[self.where[is_double]]
            eight = self.attributes.data[at[:, None] + np.arange(_WORD)]
            numbers[is_double] = np.ascontiguousarray(eight).view("<f8")[:, 0]
        number = arrow(numbers, valid=is_integer | is_double)
        return pc.if_else(pc.is_finite(number), number, NO_NUMBER)

    def _integers(self) -> tuple[npt.NDArray[np.int64], Marks]:
        valid = self._of_kind(_INT)
        return _varint_values(self.attributes, self.where, valid), valid


class _Lookup:
    """Finds some keys by their first and last eight bytes and their length, in one step."""

    _SIZE_BITS = 14

    def __init__(self, keys: tuple[str, ...]) -> None:
        encoded = [key.encode() for key in keys]
        self._none = len(keys)
        self._lengths = np.array([*map(len, encoded), -1], dtype=np.int32)
        self._first = np.array([_word(key[:_WORD]) for key in encoded] + [0], dtype=np.uint64)
        last = [_word(key[-_WORD:]) if len(key) >= _WORD else 0 for key in encoded]
        self._last = np.array([*last, 0], dtype=np.uint64)
        self._middles = {
            number: np.frombuffer(key[_WORD:-_WORD], dtype=np.uint8)
            for number, key in enumerate(encoded)
            if len(key) > 2 * _WORD
        }
        slots = self._slots(self._first[:-1], self._last[:-1], self._lengths[:-1])
        # Few keys in many slots: the multiplier below keeps those of the contract apart.
        if len(np.unique(slots)) != len(keys):
            raise ValueError("two keys fall into one slot")
        self._code = np.full(1 << self._SIZE_BITS, self._none, dtype=np.uint8)
        self._code[slots] = np.arange(len(keys), dtype=np.uint8)

    @staticmethod
    @lru_cache
    def of(keys: tuple[str, ...]) -> _Lookup:
        """The lookup of some keys, made once."""
        return _Lookup(keys)

    def codes(
        self, first: npt.NDArray[np.uint64], last: npt.NDArray[np.uint64], length: Places
    ) -> npt.NDArray[np.uint8]:
        """For each key its position among the wanted ones; their number where it is none of them."""
        code = self._code[self._slots(first, last, length)]
        # A slot only proposes; the words and the length decide.
        is_same = (self._first[code] == first) & (self._last[code] == last) & (self._lengths[code] == length)
        return np.where(is_same, code, np.uint8(self._none))

    def middles(self) -> dict[int, Bytes]:
        """What stands between the first and the last word of the longer keys."""
        return self._middles

    def _slots(
        self, first: npt.NDArray[np.uint64], last: npt.NDArray[np.uint64], length: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.uint64]:
        mixed = (first ^ (last << np.uint64(7)) ^ length.astype(np.uint64)) * np.uint64(_MULTIPLIER)
        return mixed >> np.uint64(64 - self._SIZE_BITS)


# An odd number whose bits are well mixed (2^64 over the golden ratio).
_MULTIPLIER = 0x9E3779B97F4A7C15


def _word(text: bytes) -> int:
    return int.from_bytes(text, "little")


def _byte(data: Bytes, at: Places) -> Bytes:
    """The bytes at some places; any byte for a place beyond the end."""
    return data.take(at, mode="clip")


def _varint(data: Bytes, at: Places, wanted: Marks) -> tuple[Places, Places]:
    """Lengths written as varints, and where what follows them stands; 0 where not wanted.

    Lengths of more than 28 bits are taken for wrong ones: no body is so large.
    """
    first = _byte(data, at)
    value = np.where(wanted, first, np.uint8(0)).astype(np.int32)
    after = np.where(wanted, at + 1, at).astype(np.int32)
    more = np.flatnonzero(wanted & (first >= _MORE))
    if len(more):
        value[more] &= _MORE - 1
        for shift in (7, 14, 21):
            byte = _byte(data, after[more]).astype(np.int32)
            value[more] |= (byte & (_MORE - 1)) << shift
            after[more] += 1
            more = more[byte >= _MORE]
        # What has still more bytes points nowhere.
        value[more] = np.int32(len(data))
    return value, after


def _are_varints(data: Bytes, begin: Places, end: Places) -> Marks:
    """Whether from `begin` to `end` there is one varint and nothing else."""
    length = end - begin
    right: Marks = (length > 0) & (length <= _LONGEST_VARINT) & (_byte(data, end - 1) < _MORE)
    for place in range(int(min(length.max(initial=1), _LONGEST_VARINT)) - 1):
        right &= (place >= length - 1) | (_byte(data, begin + place) >= _MORE)
    return right


def _varint_values(attributes: WireAttributes, where: Index, valid: Marks) -> npt.NDArray[np.int64]:
    """The numbers written as varints, in two's complement; 0 where not valid."""
    values = np.zeros(len(where), dtype=np.uint64)
    if not valid.any():
        return values.view(np.int64)
    begin, end = attributes.content[where[valid]], attributes.end[where[valid]]
    found = np.zeros(len(begin), dtype=np.uint64)
    for place in range(int((end - begin).max())):
        byte = np.where(begin + place < end, _byte(attributes.data, begin + place), np.uint8(0))
        found |= (byte & np.uint8(_MORE - 1)).astype(np.uint64) << np.uint64(7 * place)
    values[valid] = found
    return values.view(np.int64)


def _words(data: Bytes, at: Places, length: Places) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """The first eight bytes of each key (zeros behind a shorter one) and the last eight (0 for a shorter)."""
    if len(data) < 2 * _WORD:
        data = np.concatenate([data, np.zeros(2 * _WORD, dtype=np.uint8)])
    # Words at every byte of the memory; a key near the end is read from further left and shifted.
    words = np.ndarray((len(data) - _WORD + 1,), dtype="<u8", buffer=data.data, strides=(1,))
    last_word = len(data) - _WORD
    beyond = np.maximum(at - last_word, 0).astype(np.uint64)
    first = words[np.minimum(at, last_word)] >> (beyond * np.uint64(_WORD))
    missing = np.maximum(_WORD - length, 0).astype(np.uint64)
    short = missing > 0
    first[short] &= np.uint64(2**64 - 1) >> (missing[short] * np.uint64(_WORD))
    last = words[np.clip(at + length - _WORD, 0, last_word)]
    last[short] = 0
    return first, last
