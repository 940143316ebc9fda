"""What the tests of the readers start from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.analytics.segments import EventFolder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[EventFolder]:
    """A data directory without events."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield EventFolder(tmp_path / "data", connection)
