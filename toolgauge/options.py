"""The options that many commands have, and what they come to."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolgauge.output import OutputFormat, printable

if TYPE_CHECKING:
    from toolgauge.settings import LoadedSettings

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="Data directory.  [default: ./data]")
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings file.  [default: ./toolgauge.toml, if there]"),
]
Format = Annotated[OutputFormat, typer.Option("--format", help="How to write the rows.")]
NoWait = Annotated[
    bool,
    typer.Option("--no-wait", help="Show what is there: do not wait for the service, do not refresh."),
]


@dataclass(frozen=True, slots=True)
class GivenBefore:
    """What stood before the command's name."""

    data_dir: Path | None = None
    config: Path | None = None


def settings_in_force(
    context: typer.Context, data_dir: Path | None, config: Path | None, **flags: Any
) -> LoadedSettings:
    """The settings, given the options of a command; those before the command's name count as well.

    Args:
        flags: further settings that the command line may say; None stands for not said.

    Raises:
        WrongUsage: a name or a value cannot be.
    """
    from toolgauge.settings import load_settings

    before = context.find_root().obj
    if not isinstance(before, GivenBefore):
        before = GivenBefore()
    return load_settings({"data_dir": data_dir or before.data_dir, **flags}, config or before.config)


def note(text: str) -> None:
    """Say something beside the data, on standard error."""
    print(f"note: {printable(text)}", file=sys.stderr)
