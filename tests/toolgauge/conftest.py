"""What the tests of the program start from."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from tests.analytics.segments import EventFolder

ROOT = Path(__file__).parents[2]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def _only_our_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of whoever runs the tests reaches them."""
    for name in os.environ:
        if name.startswith("TOOLGAUGE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[EventFolder]:
    """A data directory without events."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield EventFolder(tmp_path / "data", connection)


@pytest.fixture
def toolgauge(tmp_path: Path) -> Run:
    """Runs the program as a process of its own, in a folder of its own."""

    def run(*arguments: str, stdin: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "toolgauge", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run
