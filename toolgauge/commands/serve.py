"""`toolgauge serve`: the service, as two supervised processes or one half of it."""

from __future__ import annotations

import sys
from dataclasses import fields
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sli.data_directory import DataDirectory
from toolgauge.exceptions import DemoOfAHalf
from toolgauge.options import Config, DataDir, note, settings_in_force

if TYPE_CHECKING:
    from ingest.configuration import IngestConfiguration
    from toolgauge.settings import Settings


class Half(StrEnum):
    """The two processes of the service."""

    INGEST = "ingest"
    QUERY = "query"


_BANNER = """\
Toolgauge is ready. Data in {data_dir}
  OTLP/gRPC  {grpc}
  OTLP/HTTP  {scheme}://{http}/v1/logs  (also /v1/traces, /v1/metrics; health at /healthz, /readyz, /metrics)
Point qwen-code at it:
  QWEN_TELEMETRY_ENABLED=true QWEN_TELEMETRY_OTLP_ENDPOINT={scheme}://{grpc} \\
  OTEL_RESOURCE_ATTRIBUTES=deployment.environment=internal,owner.id=$USER qwen
Read it:  {program} sli --data-dir {data_dir}
Stop it:  Ctrl-C"""


def serve(
    context: typer.Context,
    only: Annotated[Half | None, typer.Option(help="Run one half of the service in this process.")] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="First fill an empty data directory with a made-up fleet.")
    ] = False,
    data_dir: DataDir = None,
    config: Config = None,
    host: Annotated[
        str | None, typer.Option(help="IP address to listen on; beyond loopback with a token.")
    ] = None,
    grpc_port: Annotated[int | None, typer.Option(help="OTLP/gRPC; 0 picks a free port.")] = None,
    http_port: Annotated[int | None, typer.Option(help="OTLP/HTTP; 0 picks a free port.")] = None,
    sql_port: Annotated[int | None, typer.Option(help="Reserved: nothing listens there yet.")] = None,
    web_port: Annotated[int | None, typer.Option(help="Reserved: nothing listens there yet.")] = None,
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
    # No setting on purpose: nothing but the demo and tests may have another time than the system's.
    clock_file: Annotated[Path | None, typer.Option("--clock-file", hidden=True)] = None,
) -> None:
    """Receive telemetry, keep it, and compute the results, until told to stop.

    \b
    Examples:
      toolgauge serve
      toolgauge serve --data-dir /srv/toolgauge --grpc-port 14317 --http-port 14318
      toolgauge serve --only ingest
      toolgauge serve --demo --data-dir demo-data
    """
    loaded = settings_in_force(
        context,
        data_dir,
        config,
        host=host,
        grpc_port=grpc_port,
        http_port=http_port,
        sql_port=sql_port,
        web_port=web_port,
    )
    settings = loaded.settings
    from toolgauge.logs import configure_logs

    configure_logs(settings)
    if demo and (only is not None or clock_file is not None):
        raise DemoOfAHalf
    if not supervised and {"--sql-port", "--web-port"} & set(loaded.origins.values()):
        note("nothing listens on the SQL and web ports yet; they are reserved for a later release")
    if only is None:
        sys.exit(_serve_both(settings, clock_file, demo))
    _serve_half(only, settings, supervised, clock_file)


def _serve_both(settings: Settings, clock_file: Path | None, demo: bool) -> int:
    from ingest.exceptions import DataDirectoryUnusable
    from toolgauge.supervisor import Supervisor

    directory = DataDirectory(settings.data_dir.absolute())
    try:
        directory.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataDirectoryUnusable(directory.root, error.strerror or type(error).__name__) from error

    if demo:
        _load_demo(directory, settings)

    # As it was called, so that the line can be copied: the program need not be on the path.
    program = sys.argv[0] if sys.argv[0].endswith("toolgauge") else "toolgauge"

    scheme = "https" if settings.tls_certificate else "http"

    def say(addresses: dict[str, str]) -> None:
        print(
            _BANNER.format(program=program, data_dir=directory.root, scheme=scheme, **addresses),
            file=sys.stderr,
            flush=True,
        )

    return Supervisor(directory, settings.environment(), say, clock_file).run()


def _load_demo(directory: DataDirectory, settings: Settings) -> None:
    """See that the demo fleet is in the data directory.

    Raises:
        NotEmpty: there are events of others.
        DemoNotLoaded: it could not be loaded to its end.
    """
    from toolgauge.demo.fleet import Fleet
    from toolgauge.demo.loading import load, what_is_loaded
    from toolgauge.demo.tour import tour
    from toolgauge.progress import step_progress

    loaded = what_is_loaded(directory, Fleet(datetime.now(UTC).date()))
    if not loaded.finished:
        note(f"loading five weeks of a made-up fleet into {directory.root}, which takes about a minute")
        with step_progress() as show:
            load(directory, loaded, settings.retention_days, show)
    print(tour(loaded.fleet), file=sys.stderr, flush=True)


def _serve_half(half: Half, settings: Settings, supervised: bool, clock_file: Path | None) -> None:
    from toolgauge.supervisor import end_with_supervisor, tell_ready, write_endpoints

    directory = DataDirectory(settings.data_dir)

    def on_ready(addresses: dict[str, str]) -> None:
        if supervised:
            tell_ready(addresses)
        else:
            write_endpoints(directory, addresses)

    if supervised:
        end_with_supervisor()
    if half is Half.INGEST:
        from ingest.service import run

        run(ingest_configuration(settings), on_ready, supervised, clock_file)
    else:
        from toolgauge.jobs import run_jobs
        from toolgauge.settings import parse_order

        run_jobs(
            settings.data_dir,
            settings.refresh_interval_seconds,
            settings.report_schedule,
            parse_order(settings.rollout_after),
            on_ready,
        )


def ingest_configuration(settings: Settings) -> IngestConfiguration:
    """The part of the settings that ingest knows of."""
    from ingest.configuration import IngestConfiguration

    names = [field.name for field in fields(IngestConfiguration)]
    return IngestConfiguration(**{name: getattr(settings, name) for name in names})
