"""What is written down can be read again, whatever the file's end looks like; what is published goes."""

from __future__ import annotations

import random
import resource
import signal
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.keep.journal import Frame, Journal, Part, damage_of


def _part(number: int, rows: int = 3) -> Part:
    table = pa.table({"event_id": [f"{number}-{n}" for n in range(rows)], "day": list(range(rows))})
    return Part("tool_calls", table, number % 2 == 0, number, number + 10)


def _written(folder: Path, commits: int) -> Journal:
    journal = Journal(folder)
    for number in range(1, commits + 1):
        journal.append(number, _part(number))
        journal.sync().result()
    return journal


def test_frames_come_back_as_they_were(tmp_path: Path) -> None:
    _written(tmp_path / "journal", 3).close()
    assert list(Journal(tmp_path / "journal").frames()) == [Frame(n, _part(n)) for n in (1, 2, 3)]


def test_the_bytes_of_a_frame(tmp_path: Path) -> None:
    """Pinned: a later version must be able to read what this one wrote."""
    _written(tmp_path / "journal", 1).close()
    (path,) = (tmp_path / "journal").iterdir()
    content = path.read_bytes()
    assert path.name == "000000000001.journal"
    assert content[:8] == b"\x93TGJ\r\n\x1a\x01"
    assert int.from_bytes(content[8:16], "little") == 1
    assert int.from_bytes(content[16:24], "little") == len(content) - 28
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_frame_that_was_cut_off_is_no_damage(tmp_path: Path) -> None:
    _written(tmp_path / "journal", 2).close()
    (path,) = (tmp_path / "journal").iterdir()
    content = path.read_bytes()
    second = content.index(content[:8], 1)
    for end in (*range(second, len(content), 37), second + 1, second + 27, len(content) - 1):
        path.write_bytes(content[:end])
        assert damage_of(path) is None
        assert [frame.commit for frame in Journal(tmp_path / "journal").frames()] == [1]


def test_behind_a_damaged_place_reading_goes_on(tmp_path: Path) -> None:
    _written(tmp_path / "journal", 4).close()
    (path,) = (tmp_path / "journal").iterdir()
    content = path.read_bytes()
    starts = [0]
    while (following := content.find(content[:8], starts[-1] + 1)) != -1:
        starts.append(following)
    rng = random.Random(3)
    for _ in range(50):
        at = rng.randrange(starts[1], starts[2])
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :])
        assert [frame.commit for frame in Journal(tmp_path / "journal").frames()] == [1, 3, 4]
        assert damage_of(path) is not None


def test_a_file_goes_once_all_of_it_is_published(tmp_path: Path) -> None:
    journal = _written(tmp_path / "journal", 3)
    journal.forget(2)
    assert len(journal.files) == 1
    journal.forget(3)
    assert list((tmp_path / "journal").iterdir()) == journal.files == []
    journal.append(4, _part(4))
    journal.sync().result()
    assert [path.name for path in journal.files] == ["000000000002.journal"]
    journal.close()


def test_a_damaged_file_is_set_aside_when_it_is_not_needed_any_more(tmp_path: Path) -> None:
    _written(tmp_path / "journal", 2).close()
    (path,) = (tmp_path / "journal").iterdir()
    content = path.read_bytes()
    path.write_bytes(b"?" + content[1:])
    journal = Journal(tmp_path / "journal")
    assert [frame.commit for frame in journal.frames()] == [2]
    journal.all_is_stored(7)
    journal.forget(6)
    assert path.exists()
    journal.forget(7)
    (aside,) = (tmp_path / "journal").iterdir()
    assert aside.name.startswith("000000000001.journal.damaged-")
    assert aside.read_bytes() == b"?" + content[1:]


def test_what_cannot_be_written_down_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    journal = _written(tmp_path / "journal", 1)
    (path,) = journal.files
    before = path.read_bytes()
    # The file may grow by half a frame only.

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
    try:
        journal.append(2, _part(2))
        with pytest.raises(OSError, match="too large"):
            journal.sync().result()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before
    journal.append(2, _part(2))
    journal.sync().result()
    assert [frame.commit for frame in journal.frames()] == [1, 2]
    journal.close()
