"""`toolgauge rollout`: where each environment stands, its gate, and the acts that people put on record."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sli.rollout.phase import Phase
from sli.schemas import ACTS, GATES, ROLLOUT
from toolgauge.filters import Environments, Filters, Since, Until, select, show
from toolgauge.options import Config, DataDir, Format, NoWait, note, settings_in_force
from toolgauge.output import OutputFormat, write_rows

if TYPE_CHECKING:
    from sli.rollout.act import Act
    from sli.statistics.verdict import Verdict
    from toolgauge.rollout.deciding import Deciding
    from toolgauge.rollout.sample import Sample
    from toolgauge.settings import Settings

rollout = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Roll the guard out: where each environment stands, its gates, and the record of acts.",
)

Environment = Annotated[str, typer.Argument(metavar="ENVIRONMENT", help="The environment.")]
By = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Who decides.  [default: who runs this]")
]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for the record.")]

_SHOWN_GATE = ("criterion", "verdict", "estimate", "low", "high", "margin", "forecast", "waived", "detail")


@rollout.command("status")
def status(
    context: typer.Context,
    acts: Annotated[bool, typer.Option("--acts", help="The acts on record, and not where they led.")] = False,
    history: Annotated[
        bool, typer.Option("--history", help="Where each environment stood before, as well.")
    ] = False,
    environment: Environments = None,
    since: Since = None,
    until: Until = None,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
    no_wait: NoWait = False,
) -> None:
    """Where each environment stands, since when, and why; an environment that no act names is in contract.

    \b
    Examples:
      toolgauge rollout status
      toolgauge rollout status --acts --environment internal --format json
    """
    settings = settings_in_force(context, data_dir, config).settings
    filters = Filters.of(environment, None, since, until)
    if acts:
        query, parameters = select(ACTS, filters, ["sequence"])
    else:
        query, parameters = select(ROLLOUT, filters, ["environment", "since"], time="since")
        if not history:
            latest = "QUALIFY row_number() OVER (PARTITION BY environment ORDER BY since DESC) = 1"
            query = query.replace(" ORDER BY environment, since", f" {latest} ORDER BY environment")
    from toolgauge.reading import read

    rows = read(settings, query, parameters, wait=not no_wait)
    if not len(rows):
        note("no act is on record: every environment stands in contract, and agents are told shadow")
    write_rows(rows, format)


@rollout.command("gate")
def gate(
    context: typer.Context,
    environment: Environment,
    version: Annotated[
        str | None, typer.Option("--version", metavar="VERSION", help="Release to pin; in contract alone.")
    ] = None,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """The next gate of an environment: each criterion with its verdict, and all of them together first.

    Exit 0: pass, 3: fail, 4: undecided, 5: blocked. Promote only through a gate that passes.

    \b
    Examples:
      toolgauge rollout gate internal
      toolgauge rollout gate internal --version 0.24.4 --format json
    """
    settings, deciding = _deciding(context, data_dir, config, None)
    _known(settings, environment)
    found = deciding.gate(environment, version)
    rows = found.rows().to_arrow()
    if format in (OutputFormat.TABLE, OutputFormat.MD):
        note(f"{environment}: {found.name}, {found.version or 'no version'}")
        rows = rows.select(list(_SHOWN_GATE))
    write_rows(rows, format)
    sys.exit(_exit_status(found.verdict))


@rollout.command("promote")
def promote(
    context: typer.Context,
    environment: Environment,
    version: Annotated[
        str | None,
        typer.Option("--version", metavar="VERSION", help="Release to pin; the latest if not given."),
    ] = None,
    share: Annotated[
        float | None, typer.Option("--share", help="Share of owners to enforce, to and within enforce.")
    ] = None,
    holdout: Annotated[
        float | None, typer.Option("--holdout", help="Share of owners never to treat, with wave 1.")
    ] = None,
    salt: Annotated[
        str | None, typer.Option("--salt", metavar="ID", help="Salt of the assignment, with wave 1.")
    ] = None,
    why: Why = "its gate passed",
    by: By = None,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Move an environment to its next phase or wave, if its gate passes; the gate is kept as evidence.

    \b
    Examples:
      toolgauge rollout promote internal --version 0.24.4
      toolgauge rollout promote internal --share 0.05 --holdout 0.1
    """
    from toolgauge.rollout.deciding import Step

    settings, deciding = _deciding(context, data_dir, config, by)
    _known(settings, environment)
    _write(deciding.promote(environment, Step(version, share, holdout, salt), why), format)


@rollout.command("override")
def override(
    context: typer.Context,
    environment: Environment,
    why: Why,
    version: Annotated[
        str | None,
        typer.Option("--version", metavar="VERSION", help="Release to pin; the latest if not given."),
    ] = None,
    share: Annotated[
        float | None, typer.Option("--share", help="Share of owners to enforce, to and within enforce.")
    ] = None,
    holdout: Annotated[
        float | None, typer.Option("--holdout", help="Share of owners never to treat, with wave 1.")
    ] = None,
    salt: Annotated[
        str | None, typer.Option("--salt", metavar="ID", help="Salt of the assignment, with wave 1.")
    ] = None,
    by: By = None,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Move an environment on although its gate does not pass; reason and gate stay on record for ever.

    Neither a share beyond the capacity on record, nor what rollout_after holds back, can be overridden.

    \b
    Examples:
      toolgauge rollout override internal --why "staging only, agreed with the owners"
    """
    from toolgauge.rollout.deciding import Step

    settings, deciding = _deciding(context, data_dir, config, by)
    _known(settings, environment)
    step = Step(version, share, holdout, salt)
    _write(deciding.promote(environment, step, why, override=True), format)


@rollout.command("demote")
def demote(
    context: typer.Context,
    environment: Environment,
    why: Why,
    to: Annotated[Phase, typer.Option("--to", help="The phase to go back to.")] = Phase.SHADOW,
    by: By = None,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Move an environment back. Its days begin anew; back in contract another version can be pinned.

    \b
    Examples:
      toolgauge rollout demote internal --why "reports of stopped work"
      toolgauge rollout demote internal --to contract --why "0.24.5 is out"
    """
    _, deciding = _deciding(context, data_dir, config, by, wait=False)
    _write(deciding.demote(environment, to, why), format)


@rollout.command("waive")
def waive(
    context: typer.Context,
    environment: Environment,
    criterion: Annotated[str, typer.Option("--criterion", metavar="NAME", help="As the gate shows it.")],
    why: Why,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Withdraw the waiver.")] = False,
    by: By = None,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Let a criterion pass undecided, where its source is not to be had; it shows on every verdict.

    \b
    Examples:
      toolgauge rollout waive internal --criterion disconnect_or_retry --why "plain ACP sends neither"
    """
    settings, deciding = _deciding(context, data_dir, config, by)
    _known(settings, environment)
    _write(deciding.waive(environment, criterion, why, withdraw=withdraw), format)


@rollout.command("review")
def review(
    context: typer.Context,
    environment: Environment,
    verdicts: Annotated[
        Path | None,
        typer.Option(
            "--verdicts",
            metavar="FILE",
            help="Record a review: a prompt id and its verdict on each line (useful_progress, none, "
            "cannot_tell); - reads standard input.",
        ),
    ] = None,
    size: Annotated[int, typer.Option("--size", min=1, max=1000, help="Most prompts in the sample.")] = 20,
    seed: Annotated[int, typer.Option("--seed", help="Of the sample.")] = 1,
    veto_share: Annotated[
        float, typer.Option("--veto-share", help="Share with useful progress from which it is a veto.")
    ] = 0.1,
    why: Why = "reviewed",
    by: By = None,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """The sample of prompts to review, ids alone; or, with --verdicts, what people saw in them.

    In shadow these are prompts that would have been stopped, in warn prompts that failed again after a real
    reminder. A review can veto; it cannot approve.

    \b
    Examples:
      toolgauge rollout review internal --size 20 --seed 7 --format csv
      toolgauge rollout review internal --size 20 --seed 7 --verdicts seen.txt --why "looked at 20"
    """
    import pyarrow as pa

    settings, deciding = _deciding(context, data_dir, config, by)
    _known(settings, environment)
    sample = _sample(settings, environment, size, seed)
    if verdicts is not None:
        text = sys.stdin.read() if str(verdicts) == "-" else _content(environment, verdicts)
        _write(deciding.review(environment, sample, _pairs(environment, text), veto_share, why), format)
        return
    if not sample.prompt_ids:
        note(f"there is no {sample.subject} prompt to review yet")
    write_rows(pa.table({"prompt_id": pa.array(sample.prompt_ids, pa.string())}), format)


@rollout.command("capacity")
def capacity(
    context: typer.Context,
    environment: Environment,
    share: Annotated[float, typer.Option("--share", help="The largest share that was checked.")],
    why: Why,
    by: By = None,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Record a capacity check: beyond 5 % of owners nothing is enforced without one, whatever the override.

    \b
    Examples:
      toolgauge rollout capacity internal --share 0.2 --why "support and tool servers checked with 20 %"
    """
    _, deciding = _deciding(context, data_dir, config, by, wait=False)
    _write(deciding.capacity(environment, share, why), format)


def _deciding(
    context: typer.Context, data_dir: DataDir, config: Config, by: str | None, *, wait: bool = True
) -> tuple[Settings, Deciding]:
    from sli.data_directory import DataDirectory
    from toolgauge.freshness import bring_up_to_date, require
    from toolgauge.rollout.deciding import Deciding
    from toolgauge.settings import parse_order

    settings = settings_in_force(context, data_dir, config).settings
    directory, after = DataDirectory(settings.data_dir), parse_order(settings.rollout_after)
    if wait:
        bring_up_to_date(directory, note, after)
    else:
        require(directory)
    return settings, Deciding(directory, after, by or getpass.getuser())


def _known(settings: Settings, environment: str) -> None:
    """See that events named the environment, so that no act is about a name that was mistyped."""
    show(settings, f"SELECT 1 FROM {GATES.name} LIMIT 1", [], Filters([environment]), wait=False, again=True)


def _sample(settings: Settings, environment: str, size: int, seed: int) -> Sample:
    from sli.data_directory import DataDirectory
    from sli.rollout.standing import environment_records, no_record
    from toolgauge.reading import read
    from toolgauge.rollout.record import recorded_acts
    from toolgauge.rollout.sample import review_sample

    records = environment_records(recorded_acts(DataDirectory(settings.data_dir)))
    standing = (records.get(environment) or no_record(environment)).standing

    def ask(query: str, parameters: list[Any]) -> Any:
        return read(settings, query, parameters, again=True)

    return review_sample(ask, standing, size, seed)


def _content(environment: str, path: Path) -> str:
    from toolgauge.exceptions import ActRefused

    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ActRefused(environment, f"{path} cannot be read: {error}") from error


def _pairs(environment: str, text: str) -> dict[str, str]:
    from toolgauge.exceptions import ActRefused

    pairs: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        parts = line.replace(",", " ").split()
        if not parts or parts == ["prompt_id", "verdict"]:
            continue
        if len(parts) != 2 or parts[0] in pairs:
            raise ActRefused(
                environment, f"line {number} of the verdicts is no prompt id and verdict, or one twice"
            )
        pairs[parts[0]] = parts[1]
    return pairs


def _write(act: Act, format: OutputFormat) -> None:
    import json

    import pyarrow as pa

    row = {
        "environment": act.environment,
        "number": act.number,
        "time": act.time,
        "act": str(act.act),
        "by": act.by,
        "why": act.why,
        "terms": json.dumps(act.terms, sort_keys=True),
        "hash": act.hash,
    }
    write_rows(pa.Table.from_pylist([row]), format)


def _exit_status(verdict: Verdict) -> int:
    return {"pass": 0, "fail": 3, "undecided": 4, "blocked": 5}[verdict]
