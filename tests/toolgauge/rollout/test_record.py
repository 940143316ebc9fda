"""The record of acts on disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analytics.refresh import refresh
from sli.data_directory import DataDirectory
from sli.rollout.act import Act, ActName, next_act
from sli.rollout.move import promotion
from sli.rollout.standing import no_record
from tests.analytics.segments import EventFolder
from toolgauge.exceptions import RecordDamaged
from toolgauge.rollout.record import acts_for_results, record_act, recorded_acts

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def capacity(acts: Sequence[Act], now: datetime) -> Act:
    return next_act(acts, "internal", now, ActName.CAPACITY, by="Ann", why="measured", terms={"share": 0.2})


def pin(acts: Sequence[Act], now: datetime) -> Act:
    terms = promotion(no_record("internal"), version="0.24.4").terms()
    return next_act(acts, "internal", now, ActName.PROMOTE, by="Ann", why="it passed", terms=terms)


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    return DataDirectory(tmp_path / "data")


def test_nothing_is_on_record_at_first(directory: DataDirectory) -> None:
    assert recorded_acts(directory) == ()
    assert not directory.root.exists()


def test_acts_are_added_and_read_by_their_owner_alone(directory: DataDirectory) -> None:
    written = tuple(record_act(directory, capacity) for _ in range(3))
    assert recorded_acts(directory) == written
    assert os.stat(directory.acts).st_mode & 0o777 == 0o600


def test_acts_of_many_at_once_are_one_chain(directory: DataDirectory) -> None:
    threads = [threading.Thread(target=record_act, args=(directory, capacity)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [act.sequence for act in recorded_acts(directory)] == list(range(1, 9))


@pytest.mark.parametrize("cut", [1, 2, 40, 200])
def test_what_a_power_cut_left_of_an_act_is_none(directory: DataDirectory, cut: int) -> None:
    first = record_act(directory, capacity)
    record_act(directory, capacity)
    content = directory.acts.read_bytes()
    directory.acts.write_bytes(content[:-cut])
    assert recorded_acts(directory) == (first,)
    second = record_act(directory, pin)
    assert recorded_acts(directory) == (first, second)


def test_a_decision_that_fails_records_nothing(directory: DataDirectory) -> None:
    record_act(directory, capacity)

    def refuse(acts: Sequence[Act], now: datetime) -> Act:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        record_act(directory, refuse)
    assert len(recorded_acts(directory)) == 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [(b"Ann", b"Bob", "act 1 .*was changed"), (b"measured", b"\xff\xfe", "act 1 .*no text")],
)
def test_a_changed_record_is_refused_and_left_alone(
    directory: DataDirectory, old: bytes, new: bytes, words: str
) -> None:
    record_act(directory, capacity)
    record_act(directory, capacity)
    damaged = directory.acts.read_bytes().replace(old, new, 1)
    directory.acts.write_bytes(damaged)
    for attempt in (lambda: recorded_acts(directory), lambda: record_act(directory, capacity)):
        with pytest.raises(RecordDamaged, match=words):
            attempt()
    assert directory.acts.read_bytes() == damaged
    said: list[str] = []
    assert acts_for_results(directory, said.append) is None
    assert "answered `shadow`" in said[0]


def test_the_results_show_the_acts_and_what_they_come_to(folder: EventFolder) -> None:
    folder.publish(folder.call("2026-11-03T10:00"))
    assert not refresh(folder.directory, acts=()).up_to_date
    assert refresh(folder.directory, acts=()).up_to_date
    acts = (record_act(folder.directory, pin, lambda: NOON), record_act(folder.directory, capacity))
    # An act is news by itself; who knows of no acts leaves them as they are, also when all is built anew.
    assert not refresh(folder.directory, acts=acts).up_to_date
    assert refresh(folder.directory, acts=acts).up_to_date
    assert refresh(folder.directory).up_to_date
    refresh(folder.directory, rebuild=True)
    assert [(row["number"], row["act"], row["hash"]) for row in folder.table("acts")] == [
        (1, "promote", acts[0].hash),
        (2, "capacity", acts[1].hash),
    ]
    (row,) = folder.table("rollout")
    names = ("environment", "phase", "desired_mode", "pinned_version", "reason")
    assert [row[name] for name in names] == ["internal", "shadow", "shadow", "0.24.4", "it passed"]
    assert refresh(folder.directory, acts=acts).up_to_date
