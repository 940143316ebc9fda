"""Writes docs/commands.md from the commands' own help: `python scripts/commands.py > docs/commands.md`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import typer.main

from toolgauge.cli import COMMANDS, app

_HEAD = """\
# Commands

What each command says of itself with `--help`. Exit 0 is success, 1 failure, 2 wrong usage; data go to
standard output, all else to standard error.

"""
_WIDTH = 100


def render() -> str:
    """The whole page."""
    return (_HEAD + "".join(map(_section, COMMANDS))).rstrip() + "\n"


def _section(name: str) -> str:
    group = typer.main.get_command(app)
    context = group.make_context("toolgauge", [name], resilient_parsing=True)
    command = group.get_command(context, name)  # type: ignore[attr-defined]
    inner = type(context)(command, parent=context, info_name=name, terminal_width=_WIDTH)
    text = "\n".join(line.rstrip() for line in command.get_help(inner).splitlines())
    return f"## {name}\n\n```text\n{text}\n```\n\n"


if __name__ == "__main__":
    print(render(), end="")
