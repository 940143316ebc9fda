"""The order of versions, against comparisons written down independently of the keys."""

from __future__ import annotations

import itertools
from functools import cmp_to_key
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sli.version import version_order


def in_order(versions: list[str]) -> list[str]:
    # The order of the bytes is what DuckDB and polars sort by; Python's own is by code points.
    return sorted(versions, key=lambda version: version_order(version).encode())


def test_the_order_of_the_contract() -> None:
    expected = ["0.9.0", "0.10.0-nightly.20261001", "0.10.0", "0.99.0", "0.100.0", "dev", "unknown"]
    for versions in itertools.permutations(expected):
        assert in_order(list(versions)) == expected


def test_the_order_of_the_specification() -> None:
    # The example of SemVer 2.0.0, section 11, item 4.4.
    expected = [
        *("1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2"),
        *("1.0.0-beta.11", "1.0.0-rc.1", "1.0.0"),
    ]
    assert in_order(expected[::-1]) == expected


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("1.0.0-1", "1.0.0-a"),
        ("1.0.0-9", "1.0.0-10"),
        ("1.0.0-Z", "1.0.0-a"),
        ("1.0.0-a", "1.0.0-a-b"),
        ("1.0.0-a.b", "1.0.0-a-b"),
        ("1.0.0-a.0", "1.0.0-a0"),
        ("1.0.0-zzz", "1.0.0+0"),
        ("1.0", "1.0.1"),
        ("1.0.0", "1.0.0.1"),
        ("v1.2.3", "1.2.4"),
        ("99999999999999999999.0.0", "0"),
        ("1.0.0", "100000000000000000000.0.0"),
        ("9999.0.0", "1.0.0-a..b"),
        ("9999.0.0", ""),
        ("9999.0.0", "1.0.0\n"),
        ("9999.0.0", "٣.0.0"),
        ("\U0001f600", "unknown"),
    ],
)
def test_pairs(earlier: str, later: str) -> None:
    assert in_order([later, earlier]) == [earlier, later]


def test_build_metadata_does_not_order_but_tells_apart() -> None:
    same = ["1.0.0", "1.0.0+1", "1.0.0+2", "1.0.0+b", "v1.0.0"]
    assert in_order(["1.0.1", *same[::-1], "1.0.0-rc"]) == ["1.0.0-rc", *same, "1.0.1"]
    assert len({version_order(version) for version in same}) == len(same)


def is_number(text: str) -> bool:
    return text != "" and set(text) <= set("0123456789")


def parse(text: str) -> tuple[list[int], list[str] | None] | None:
    """The numbers and the pre-release identifiers of a version; None for anything else."""
    allowed = set("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")
    version, plus, build = text.partition("+")
    core, dash, pre_release = version.partition("-")
    numbers = core.removeprefix("v").split(".")
    identifiers = pre_release.split(".") if dash else []
    for part in identifiers + (build.split(".") if plus else []):
        if part == "" or not set(part) <= allowed:
            return None
    all_numbers = numbers + [part for part in identifiers if is_number(part)]
    if not 2 <= len(numbers) <= 4 or not all(is_number(n) for n in numbers):
        return None
    if any(len(number) > 20 for number in all_numbers):
        return None
    return [int(n) for n in numbers] + [0] * (4 - len(numbers)), identifiers if dash else None


def sign(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


def compare_identifiers(a: list[str], b: list[str]) -> int:
    for x, y in zip(a, b, strict=False):
        if is_number(x) and is_number(y):
            found = sign(int(x), int(y))
        elif is_number(x) != is_number(y):
            found = -1 if is_number(x) else 1
        else:
            found = sign(x, y)
        if found:
            return found
    return sign(len(a), len(b))


def compare(a: str, b: str) -> int:
    kind_a, kind_b = (2 if t == "unknown" else 0 if parse(t) else 1 for t in (a, b))
    if kind_a != kind_b or kind_a:
        return sign((kind_a, a.encode()), (kind_b, b.encode()))
    (numbers_a, pre_a), (numbers_b, pre_b) = parse(a) or ([], None), parse(b) or ([], None)
    if numbers_a != numbers_b:
        return sign(numbers_a, numbers_b)
    if pre_a is None or pre_b is None:
        found = sign(pre_a is None, pre_b is None)
    else:
        found = compare_identifiers(pre_a, pre_b)
    return found or sign(a, b)


NUMBERS = st.one_of(
    st.integers(0, 12).map(str), st.sampled_from(["00", "01", "007", "9" * 20, "1" + "0" * 20])
)
IDENTIFIERS = st.one_of(NUMBERS, st.text("ab0-Z", min_size=1, max_size=3))


@st.composite
def versions(draw: st.DrawFn) -> str:
    core = ".".join(draw(st.lists(NUMBERS, min_size=2, max_size=4)))
    pre_release = ".".join(draw(st.lists(IDENTIFIERS, max_size=3)))
    build = ".".join(draw(st.lists(IDENTIFIERS, max_size=2)))
    v = draw(st.sampled_from(["", "", "v"]))
    return v + core + (f"-{pre_release}" if pre_release else "") + (f"+{build}" if build else "")


TEXTS = st.one_of(
    versions(), versions(), st.text("0a.-+v ", max_size=8), st.text(max_size=5), st.just("unknown")
)


@given(TEXTS, TEXTS)
@example("1.0.0-a", "1.0.0-a.0")
@example("1.0.0-a,b", "1.0.0-a")
def test_a_pair_is_ordered_as_its_comparison_says(a: str, b: str) -> None:
    assert sign(version_order(a).encode(), version_order(b).encode()) == compare(a, b)


@given(st.lists(TEXTS, max_size=12))
def test_sorting_by_the_key_sorts_as_versions_sort(texts: list[str]) -> None:
    assert in_order(texts) == sorted(texts, key=cmp_to_key(compare))
