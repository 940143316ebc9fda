"""Progress of what takes a while, on standard error, and only where somebody looks at it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Show = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much it has."""


@contextmanager
def byte_progress() -> Iterator[Show]:
    """Shows bytes."""
    from rich.progress import DownloadColumn

    with _progress(DownloadColumn()) as show:
        yield show


@contextmanager
def step_progress() -> Iterator[Show]:
    """Shows steps: days, files."""
    from rich.progress import MofNCompleteColumn

    with _progress(MofNCompleteColumn()) as show:
        yield show


@contextmanager
def _progress(column: object) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

    assert isinstance(column, ProgressColumn)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        column,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as progress:
        task = progress.add_task("", total=None)

        def show(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        yield show
