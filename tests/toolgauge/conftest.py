"""What the tests of the program start from."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from tests.analytics.segments import EventFolder
from toolgauge.cli import main

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
def program(tmp_path: Path) -> Run:
    """Runs the program as a process of its own, in a folder of its own."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "toolgauge", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


@pytest.fixture
def toolgauge() -> Run:
    """Runs the program's `main` in this process, which saves the time that imports take."""

    def run(*arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2))
        status: object = 0
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {"argv": ["toolgauge", *arguments], "stdout": out, "stderr": err}.items():
                patch.setattr(sys, name, value)
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            for name, value in variables.items():
                patch.setenv(name, value)
            try:
                main()
            except SystemExit as end:
                status = end.code or 0
        texts = []
        for stream in (out, err):
            stream.flush()
            texts.append(stream.detach().getvalue().decode())
        assert isinstance(status, int)
        return subprocess.CompletedProcess(arguments, status, *texts)

    return run
