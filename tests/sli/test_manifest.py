"""The manifest: what is written is what is read, and what cannot be read is refused by name."""

from __future__ import annotations

import json
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sli.manifest import Manifest, ManifestError, NewerManifestError, Segment, segment_path
from sli.schemas import EVENT_FORMAT

SEGMENTS = st.builds(
    Segment,
    dataset=st.sampled_from(["tool_calls", "guard_decisions"]),
    day=st.dates(),
    path=st.text(),
    rows=st.integers(0),
    bytes=st.integers(0),
    first_commit=st.integers(0),
    last_commit=st.integers(0),
)


TREE = Manifest("s", 1, ()).render()


def segment(dataset: str, day: str, first: int, last: int) -> Segment:
    path = segment_path(dataset, date.fromisoformat(day), first, last)
    return Segment(dataset, date.fromisoformat(day), path, 1, 100, first, last)


@settings(max_examples=30)
@given(st.builds(Manifest, st.text(), st.integers(0), st.lists(SEGMENTS, max_size=4).map(tuple)))
def test_what_is_rendered_is_parsed(manifest: Manifest) -> None:
    assert Manifest.parse(manifest.render()) == manifest


def test_segments_are_selected_by_dataset_day_and_commit() -> None:
    first = segment("tool_calls", "2026-11-01", 1, 4)
    second = segment("tool_calls", "2026-11-01", 5, 9)
    third = segment("tool_calls", "2026-11-02", 6, 9)
    other = segment("guard_decisions", "2026-11-01", 1, 9)
    manifest = Manifest("s", 9, (first, second, third, other))
    assert manifest.select("tool_calls") == [first, second, third]
    assert manifest.select("tool_calls", {date(2026, 11, 1)}) == [first, second]
    assert manifest.select("tool_calls", after=4) == [second, third]
    assert manifest.select("tool_calls", after=3) == [first, second, third]
    assert manifest.select("tool_calls", {date(2026, 11, 2)}, after=9) == []
    assert manifest.select("tool_calls", set()) == []
    assert manifest.select("guard_decisions", {date(2026, 11, 1)}, after=8) == [other]


def test_a_path_says_what_the_segment_holds_and_sorts_by_commit() -> None:
    day = date(2026, 11, 3)
    path = segment_path("tool_calls", day, 9, 12)
    assert path == "tool_calls/day=2026-11-03/000000000009-000000000012.parquet"
    assert path < segment_path("tool_calls", day, 13, 13) < segment_path("tool_calls", day, 100, 100)


def test_a_newer_format_is_refused_and_an_older_one_read() -> None:
    words = rf"format {EVENT_FORMAT + 1}, this version reads up to {EVENT_FORMAT}"
    with pytest.raises(NewerManifestError, match=words):
        Manifest.parse(json.dumps(json.loads(TREE) | {"format": EVENT_FORMAT + 1}))
    for older in range(1, EVENT_FORMAT):
        tree = json.loads(TREE) | {"format": older}
        del tree["crc32"]
        assert Manifest.parse(json.dumps(tree)) == Manifest("s", 1, ())


@pytest.mark.parametrize("found", ["2", 0, None, True, 1.5])
def test_a_format_that_is_no_number_is_damage(found: object) -> None:
    with pytest.raises(ManifestError, match="damaged"):
        Manifest.parse(json.dumps(json.loads(TREE) | {"format": found}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        Manifest("s", 1, (segment("tool_calls", "2026-11-01", 1, 4),)).render()[:-5],
        TREE.replace("[]", '[{"day":"2026-11-01"}]'),
        TREE.replace("[]", '[{"day":"x"}]'),
        TREE.replace("[]", "[7]"),
    ],
)
def test_damage_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="damaged"):
        Manifest.parse(text)
