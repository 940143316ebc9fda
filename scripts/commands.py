"""Writes docs/commands.md from the commands' own help: `python scripts/commands.py > docs/commands.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import typer.main

from toolgauge.cli import app

_HEAD = """\
# Commands

What each command says of itself with `--help`. Exit 0 is success, 1 failure, 2 wrong usage; data go to
standard output, all else to standard error.

"""
_WIDTH = 100


def render() -> str:
    """The whole page."""
    group = typer.main.get_command(app)
    context = group.make_context("toolgauge", ["sli"], resilient_parsing=True)
    return (_HEAD + "".join(_sections(group, context, ""))).rstrip() + "\n"


def _sections(group: Any, context: Any, prefix: str) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = type(context)(command, parent=context, info_name=name, terminal_width=_WIDTH)
        if hasattr(command, "list_commands"):
            yield from _sections(command, inner, f"{prefix}{name} ")
        else:
            yield _section(prefix + name, command, inner)


def _section(name: str, command: Any, inner: Any) -> str:
    text = "\n".join(line.rstrip() for line in command.get_help(inner).splitlines())
    return f"## {name}\n\n```text\n{text}\n```\n\n"


if __name__ == "__main__":
    print(render(), end="")
