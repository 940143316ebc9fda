"""Which rows count: one row a call, whatever order they lie in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from itertools import permutations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from sli.calls import counted, key_hash, repeated_hashes, uncounted, with_call_id

DAY = date(2026, 11, 3)
SCHEMA = {
    "day": pl.Date,
    "event_id": pl.Binary,
    "time_unix_nano": pl.Int64,
    "execution_status": pl.String,
    "session_id": pl.String,
    "prompt_id": pl.String,
    "call_id": pl.String,
}
Row = tuple[date, bytes, int, str, str | None, str | None, str | None]


def row(
    event: str,
    time: int,
    execution_status: str,
    key: tuple[str | None, str | None, str | None] = ("s", "p", "c"),
    day: date = DAY,
) -> Row:
    return (day, event.encode(), time, execution_status, *key)


def frame(rows: Sequence[Row]) -> pl.LazyFrame:
    return pl.LazyFrame(rows, schema=SCHEMA, orient="row")


def counting_events(rows: Sequence[Row], day: date = DAY) -> set[str]:
    """The rows of `day` that count, by the two steps that a job takes."""
    window = frame(rows)
    hashes = repeated_hashes(with_call_id(window).select(key_hash()))
    candidates = with_call_id(window).with_columns(key_hash()).join(hashes, on="key_hash", how="semi")
    left = counted(window.filter(pl.col("day") == day), uncounted(candidates.select(list(SCHEMA)), day))
    return {event.decode() for event in left.collect(engine="streaming")["event_id"]}


def assert_counts(rows: Sequence[Row], expected: set[str], day: date = DAY) -> None:
    for order in permutations(rows):
        assert counting_events(order, day) == expected


def test_a_call_that_came_once_counts() -> None:
    assert_counts([row("a", 1, "not_started"), row("b", 2, "error", ("s", "p", "d"))], {"a", "b"})


def test_rows_without_a_call_id_count_each() -> None:
    key = ("s", "p", None)
    assert_counts(
        [row("a", 1, "success", key), row("b", 1, "success", key), row("c", 2, "error", key)], set("abc")
    )


def test_the_first_executed_outcome_counts() -> None:
    rows = [row("a", 1, "not_started"), row("b", 2, "error"), row("c", 3, "success")]
    assert_counts([*rows, row("d", 0, "unknown")], {"b"})


def test_success_is_not_preferred_to_error() -> None:
    assert_counts([row("a", 1, "success"), row("b", 2, "error")], {"a"})
    assert_counts([row("a", 2, "success"), row("b", 1, "error")], {"b"})


def test_without_an_executed_outcome_the_first_row_counts() -> None:
    assert_counts([row("a", 3, "cancelled"), row("b", 2, "unknown"), row("c", 4, "not_started")], {"b"})


def test_at_the_same_time_the_lower_event_id_counts_byte_by_byte() -> None:
    assert_counts([row("\x7f", 1, "error"), row("A", 1, "success")], {"A"})
    ids = [bytes([0xFF]) + bytes(15), bytes([0x7F]) * 16]
    rows = [(DAY, event, 1, "success", "s", "p", "c") for event in ids]
    gone = uncounted(frame(rows), DAY).collect()
    assert gone["event_id"].to_list() == [ids[0]]


def test_the_key_is_all_three_columns() -> None:
    # Each call comes twice, so that the hashes alone do not settle it.
    keys = [("s", "p", "c"), ("t", "p", "c"), ("s", "q", "c"), ("s", "p", "d")]
    rows = [row(f"{n}{key}", n, "success", key) for n in (1, 2) for key in keys]
    assert counting_events(rows) == {f"1{key}" for key in keys}
    assert counting_events(rows[::-1]) == {f"1{key}" for key in keys}


def test_only_rows_of_the_day_are_told() -> None:
    after = DAY + timedelta(days=1)
    rows = [row("a", 1, "success"), row("b", 2, "success"), row("c", 3, "success", day=after)]
    assert uncounted(frame(rows), DAY).collect()["event_id"].to_list() == [b"b"]
    assert uncounted(frame(rows), after).collect()["event_id"].to_list() == [b"c"]


def test_missing_parts_of_a_key_are_equal() -> None:
    assert_counts([row("a", 1, "success", (None, None, "c")), row("b", 2, "error", (None, None, "c"))], {"a"})
    assert_counts([row("a", 1, "success", ("s", None, "c")), row("b", 2, "error", ("s", None, "c"))], {"a"})
    assert_counts(
        [row("a", 1, "success", (None, "p", "c")), row("b", 2, "error", ("s", "p", "c"))], {"a", "b"}
    )


def test_an_empty_call_id_is_a_call_id() -> None:
    assert_counts([row("a", 1, "success", ("s", "p", "")), row("b", 2, "error", ("s", "p", ""))], {"a"})


def test_the_days_around_are_looked_at_but_not_judged() -> None:
    before, after = DAY - timedelta(days=1), DAY + timedelta(days=1)
    assert_counts([row("a", 1, "success", day=before), row("b", 5, "error")], set())
    assert_counts([row("b", 5, "cancelled"), row("c", 9, "error", day=after)], set())
    assert_counts([row("b", 5, "success"), row("c", 9, "error", day=after)], {"b"})


def test_a_hash_that_only_seems_repeated_does_no_harm() -> None:
    candidates = frame([row("a", 1, "success"), row("b", 2, "error", ("s", "p", "other"))])
    assert uncounted(candidates, DAY).collect().is_empty()


def test_hashes_that_occur_once_are_not_repeated() -> None:
    hashes = pl.LazyFrame({"key_hash": pl.Series([5, 2, 5, 9, 5, 2], dtype=pl.UInt64)})
    assert set(repeated_hashes(hashes).collect()["key_hash"]) == {2, 5}
    assert repeated_hashes(hashes.head(0)).collect().is_empty()


def test_columns_with_the_same_text_swapped_do_not_share_a_hash() -> None:
    rows = [row("a", 1, "success", ("x", "y", "z")), row("b", 1, "success", ("z", "y", "x"))]
    rows += [row("c", 1, "success", ("x", "x", "z")), row("d", 1, "success", ("y", "y", "z"))]
    assert frame(rows).select(key_hash()).collect()["key_hash"].n_unique() == 4


MAYBE = st.sampled_from(["1", "2", None])


@given(
    st.lists(
        st.tuples(
            st.integers(-1, 1),
            st.integers(0, 3),
            st.sampled_from(["success", "error", "cancelled", "not_started", "unknown"]),
            st.tuples(MAYBE, MAYBE, MAYBE),
        ),
        max_size=12,
    )
)
def test_agrees_with_looking_at_every_pair(
    drawn: list[tuple[int, int, str, tuple[str | None, str | None, str | None]]],
) -> None:
    rows = [
        row(f"{number:02}", (day + 1) * 10 + time, status, key, DAY + timedelta(days=day))
        for number, (day, time, status, key) in enumerate(drawn)
    ]

    def stands_before(one: Row, other: Row) -> bool:
        executed = [r[3] in {"success", "error"} for r in (one, other)]
        return executed[0] if executed[0] != executed[1] else (one[2], one[1]) < (other[2], other[1])

    expected = {
        r[1].decode()
        for r in rows
        if r[0] == DAY
        and (r[6] is None or not any(o[4:] == r[4:] and stands_before(o, r) for o in rows if o is not r))
    }
    assert counting_events(rows) == expected
