"""The record of acts: each chained to the one before it; whatever is changed is found."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sli.rollout.act import FIRST_HASH, Act, ActName, RecordDamagedError, next_act, read_acts

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def record() -> tuple[Act, ...]:
    acts: list[Act] = []
    for step, environment in enumerate(["internal", "public", "internal", "internal"]):
        acts.append(
            next_act(
                acts,
                environment,
                NOON + timedelta(hours=step),
                ActName.WAIVE,
                by="Ann",
                why="plain ACP sends neither",
                terms={"criterion": "disconnect_or_retry", "withdrawn": False},
                evidence=[{"criterion": "tokens", "estimate": 1.02}],
            )
        )
    return tuple(acts)


def test_acts_are_numbered_by_environment_and_chained_over_all() -> None:
    acts = record()
    assert [(act.sequence, act.environment, act.number) for act in acts] == [
        (1, "internal", 1),
        (2, "public", 1),
        (3, "internal", 2),
        (4, "internal", 3),
    ]
    assert [act.previous_hash for act in acts] == [FIRST_HASH, *[act.hash for act in acts[:-1]]]


def test_a_record_is_read_as_it_was_written() -> None:
    acts = record()
    assert read_acts(act.line() for act in acts) == acts


def test_the_hash_is_that_of_the_content() -> None:
    """By hand: `printf '%s' CONTENT | sha256sum` over the sorted JSON of all fields but the hash."""
    act = next_act([], "internal", NOON, ActName.CAPACITY, by="Ann", why="checked", terms={"share": 0.2})
    assert act.line() == (
        '{"act":"capacity","by":"Ann","environment":"internal","evidence":[],'
        f'"hash":"{act.hash}","number":1,"previous_hash":"{FIRST_HASH}","sequence":1,'
        '"terms":{"share":0.2},"time":"2026-11-01T12:00:00.000000+00:00","why":"checked"}'
    )
    assert act.hash == "419727e0a4c5c97a2a9941d1fe3d6c0aa234993137e105a625e3e6af42af02de"


def test_a_clock_that_went_back_does_not_put_an_act_before_another() -> None:
    acts = record()
    late = next_act(acts, "internal", NOON, ActName.CAPACITY, by="Ann", why="x", terms={"share": 0.1})
    assert late.time == acts[-1].time


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("by", "Bob"),
        ("why", ""),
        ("time", "2026-11-02T12:00:00.000000+00:00"),
        ("act", "capacity"),
        ("environment", "public"),
        ("terms", {}),
        ("evidence", []),
        ("number", 9),
        ("sequence", 9),
        ("previous_hash", FIRST_HASH),
        ("hash", FIRST_HASH),
    ],
)
def test_a_changed_field_is_found(field: str, value: Any) -> None:
    lines = [act.line() for act in record()]
    lines[2] = json.dumps(json.loads(lines[2]) | {field: value})
    with pytest.raises(RecordDamagedError) as caught:
        read_acts(lines)
    assert caught.value.line == 3


def test_a_field_changed_together_with_its_hash_breaks_the_next() -> None:
    acts = list(record())
    content = {name: getattr(acts[1], name) for name in Act.__slots__} | {"by": "Bob"}
    forged = Act(**content)
    forged = Act(**content | {"hash": forged.true_hash()})
    lines = [acts[0].line(), forged.line(), acts[2].line(), acts[3].line()]
    with pytest.raises(RecordDamagedError, match=r"act 3 .* does not follow"):
        read_acts(lines)


@pytest.mark.parametrize("removed", [0, 1, 2])
def test_a_removed_act_is_found(removed: int) -> None:
    lines = [act.line() for act in record()]
    del lines[removed]
    with pytest.raises(RecordDamagedError):
        read_acts(lines)


def test_acts_in_another_order_are_found() -> None:
    first, second, *rest = [act.line() for act in record()]
    with pytest.raises(RecordDamagedError):
        read_acts([second, first, *rest])


@pytest.mark.parametrize("line", ["", "{", "[]", "{}", "null", '{"time": 3}'])
def test_a_line_that_is_no_act_is_named(line: str) -> None:
    with pytest.raises(RecordDamagedError, match=r"act 5 .* is no act"):
        read_acts([*[act.line() for act in record()], line])
