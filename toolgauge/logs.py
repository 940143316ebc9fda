"""How the service logs: one event a line, on standard error; no values of telemetry, no local variables."""

from __future__ import annotations

import logging
import sys

import structlog

from toolgauge.settings import Settings


def configure_logs(settings: Settings) -> None:
    """Set up logging for a process of the service."""
    as_console = settings.log_format == "console" or (settings.log_format == "auto" and sys.stderr.isatty())
    renderer: structlog.typing.Processor
    if as_console:
        # The default exception formatter prints local variables, and those hold telemetry.
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    else:
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.log_level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
