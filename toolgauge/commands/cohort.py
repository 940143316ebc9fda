"""`toolgauge cohort`: in which arm of a rollout owners are."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated

import typer

from toolgauge.options import Config, DataDir, Format, settings_in_force
from toolgauge.output import OutputFormat, write_rows


def cohort(
    context: typer.Context,
    environment: Annotated[
        str, typer.Option("--environment", metavar="NAME", help="Environment of the rollout.")
    ],
    owners: Annotated[
        list[str] | None,
        typer.Argument(metavar="OWNER...", help="The owners; read from standard input if none is given."),
    ] = None,
    hashed: Annotated[
        bool, typer.Option("--hashed", help="They are hashes, as in the column owner.")
    ] = False,
    share: Annotated[
        float | None,
        typer.Option("--share", min=0, max=1, help="Cohort share, for the one in force."),
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option("--holdout", min=0, max=1, help="Holdout share, for that in force."),
    ] = None,
    salt: Annotated[
        str | None, typer.Option("--salt", metavar="ID", help="Salt, for the one in force.")
    ] = None,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """The number u and the arm of owners, as the control plane is answered and the gates count them.

    An owner is enforced where u is below the cohort share, and never treated where u is at least 1 less the
    holdout share. The hash of each owner is shown, never its name. A name given as an argument is seen by
    whoever lists processes; standard input, one owner a line, is not.

    \b
    Examples:
      toolgauge cohort --environment internal < owners.txt
      toolgauge cohort --environment internal --share 0.05 --format json alice bob
    """
    import pyarrow as pa

    from sli.data_directory import DataDirectory
    from sli.rollout.standing import environment_records, no_record
    from toolgauge.freshness import require
    from toolgauge.rollout.cohort import checked_hashes, owner_hashes
    from toolgauge.rollout.cohort import cohort as assigned
    from toolgauge.rollout.record import recorded_acts

    directory = DataDirectory(settings_in_force(context, data_dir, config).settings.data_dir)
    require(directory)
    given = owners or [line for line in (line.strip() for line in sys.stdin) if line]
    records = environment_records(recorded_acts(directory))
    standing = (records.get(environment) or no_record(environment)).standing
    standing = replace(
        standing,
        cohort_share=standing.cohort_share if share is None else share,
        holdout_share=standing.holdout_share if holdout is None else holdout,
        salt_id=salt or standing.salt_id,
    )
    hashes = checked_hashes(given) if hashed else owner_hashes(directory, given)
    rows = assigned(standing, hashes)
    columns = {
        "environment": pa.array([row.environment for row in rows], pa.string()),
        "owner": pa.array([row.owner for row in rows], pa.string()),
        "u": pa.array([row.number for row in rows], pa.float64()),
        "arm": pa.array([str(row.arm) for row in rows], pa.string()),
    }
    write_rows(pa.table(columns), format)
