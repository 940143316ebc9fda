"""Which event a record is: by its name, in whatever profile it stands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.vectors import arrow, booleans, constant, words
from ingest.decode.wire import Signal
from sli.profile import PROFILES

OTHER = "other"
"""What stands for a name that has not the form of one."""

# Names are counted, and so are kept: this form has no room for what is not one. Span names such as
# "POST /v1/…" carry addresses and never look like this.
_NAME_FORM = r"^[a-z][a-z_-]*([.][a-z_-]+){0,7}$"
_LONGEST_NAME = 80
_OTHER_KIND = "other"
_KIND_FORM = r"^[a-z_]{1,32}$"


@dataclass(frozen=True, slots=True)
class Names:
    """The names of some records, each looked at once.

    Attributes:
        code: for each record, the position of its name below.
        name: the distinct names, as they are counted.
        dataset: for each name, the event table that it belongs to; null if none.
        kind: for each name, the kind of row that it is there; null if none.
    """

    code: npt.NDArray[np.int32]
    name: pa.StringArray
    dataset: pa.StringArray
    kind: pa.StringArray

    @staticmethod
    def read(names: pa.StringArray, signal: Signal) -> Names:
        """Look the names of log records or spans up.

        Spans may be log records that the producer's bridge turned into spans, so all names of log
        records stand for spans too.
        """
        encoded = names.dictionary_encode("encode")
        distinct = encoded.dictionary.fill_null("")
        known, datasets, kinds = _KNOWN[signal]
        position = pc.index_in(distinct, value_set=known)
        dataset, kind = datasets.take(position), kinds.take(position)
        for table, word, beginning in _FAMILIES:
            member = pc.and_(pc.is_null(position), pc.starts_with(distinct, beginning))
            if pc.any(member).as_py():
                rest = pc.utf8_slice_codeunits(distinct, len(beginning))
                rest = pc.if_else(pc.match_substring_regex(rest, _KIND_FORM), rest, constant(_OTHER_KIND))
                dataset = pc.if_else(member, constant(table), dataset)
                kind = pc.if_else(
                    member, pc.binary_join_element_wise(constant(word), rest, constant(".")), kind
                )
        return Names(
            encoded.indices.to_numpy().astype(np.int32), counted_names(distinct, position), dataset, kind
        )

    def of(self, dataset: str) -> npt.NDArray[np.int64]:
        """The records that belong to an event table, ascending."""
        member = booleans(pc.fill_null(pc.equal(self.dataset, constant(dataset)), constant(False)))
        return np.flatnonzero(member[self.code]) if member.any() else np.zeros(0, dtype=np.int64)

    def kinds(self, rows: npt.NDArray[np.integer]) -> pa.StringArray:
        """The kinds of some of the records."""
        return self.kind.take(arrow(self.code[rows]))


def counted_names(names: pa.StringArray, known: pa.Array) -> pa.StringArray:
    """The names under which records are counted.

    Args:
        names: as sent.
        known: not null where the name is one of the contract's.
    """
    form = pc.and_(
        pc.match_substring_regex(names, _NAME_FORM),
        pc.less_equal(pc.binary_length(names), constant(_LONGEST_NAME).cast(pa.int32())),
    )
    form = pc.or_(form, pc.is_valid(known))
    return pc.if_else(form, names, constant(OTHER))


def _known(signal: Signal) -> tuple[pa.StringArray, pa.StringArray, pa.StringArray]:
    names: dict[str, tuple[str, str]] = {}
    for profile in PROFILES:
        tables = [profile.events] if signal is Signal.LOGS else [profile.events, profile.spans]
        for by_table in tables:
            for table, by_kind in by_table.items():
                names |= {name: (table, kind) for kind, name in by_kind.items()}
    datasets, kinds = zip(*names.values(), strict=True)
    return words(tuple(names)), words(datasets), words(kinds)


_KNOWN = {signal: _known(signal) for signal in (Signal.LOGS, Signal.TRACES)}
_FAMILIES = [
    (table, word, beginning)
    for profile in PROFILES
    for table, families in profile.event_families.items()
    for word, beginning in families.items()
]
