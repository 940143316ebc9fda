"""What the tests of the jobs start from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb
import pytest

from tests.analytics.segments import EventFolder

FolderMaker = Callable[[], EventFolder]


@pytest.fixture(scope="session")
def writer() -> Iterator[duckdb.DuckDBPyConnection]:
    """Writes the segments of all folders; to make a connection takes longer than to write one."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@pytest.fixture(scope="session")
def new_folder(writer: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> FolderMaker:
    """Makes data directories without events, for tests that need many."""
    return lambda: EventFolder(tmp_path_factory.mktemp("events") / "data", writer)


@pytest.fixture
def folder(new_folder: FolderMaker) -> EventFolder:
    """A data directory without events."""
    return new_folder()
