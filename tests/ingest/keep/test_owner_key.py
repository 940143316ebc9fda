"""The owners' key survives the damage of either file, and is never quietly made anew."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ingest.exceptions import OwnerKeyLost
from ingest.keep.owner_key import open_owner_key
from sli.data_directory import DataDirectory


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    return DataDirectory(tmp_path / "data")


def test_the_key_is_made_once_and_readable_by_nobody_else(directory: DataDirectory) -> None:
    key = open_owner_key(directory)
    assert len(key) == 32
    assert open_owner_key(directory) == key == directory.owner_key.read_bytes()
    for path in (directory.owner_key, directory.owner_key_copy):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {path.name for path in directory.root.iterdir()} == {"owner.key", "owner.key.copy"}


@pytest.mark.parametrize("name", ["owner_key", "owner_key_copy"])
@pytest.mark.parametrize("content", [None, b"", b"x" * 31, b"flipped"])
def test_either_file_is_put_back_from_the_other(
    directory: DataDirectory, name: str, content: bytes | None
) -> None:
    key = open_owner_key(directory)
    directory.store.touch()
    path: Path = getattr(directory, name)
    before = path.read_bytes()
    if content is None:
        path.unlink()
    else:
        content = bytes([before[0] ^ 1]) + before[1:] if content == b"flipped" else content
        path.write_bytes(content)
    assert open_owner_key(directory) == key
    assert path.read_bytes() == before
    aside = list(directory.root.glob(f"{path.name}.damaged-*"))
    assert [each.read_bytes() for each in aside] == ([] if content is None else [content])


def test_the_key_of_an_older_version_gets_its_copy(directory: DataDirectory) -> None:
    directory.root.mkdir()
    directory.owner_key.write_bytes(b"k" * 32)
    assert open_owner_key(directory) == b"k" * 32
    directory.owner_key.unlink()
    assert open_owner_key(directory) == b"k" * 32


@pytest.mark.parametrize("stored", ["store", "manifest"])
def test_with_events_stored_no_other_key_is_made(directory: DataDirectory, stored: str) -> None:
    open_owner_key(directory)
    path: Path = getattr(directory, stored)
    path.parent.mkdir(exist_ok=True)
    path.touch()
    directory.owner_key.write_bytes(b"short")
    directory.owner_key_copy.unlink()
    with pytest.raises(OwnerKeyLost, match="put it back from a backup"):
        open_owner_key(directory)
    assert directory.owner_key.read_bytes() == b"short"
    # As the sentence says, a person may decide otherwise.
    directory.owner_key.write_bytes(b"n" * 32)
    assert open_owner_key(directory) == b"n" * 32


def test_without_events_a_damaged_key_is_set_aside(directory: DataDirectory) -> None:
    directory.root.mkdir()
    directory.owner_key.write_bytes(b"short")
    assert len(open_owner_key(directory)) == 32
    (aside,) = directory.root.glob("owner.key.damaged-*")
    assert aside.read_bytes() == b"short"
