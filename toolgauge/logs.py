"""How the service logs: one event a line, on standard error; no values of telemetry, no local variables."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

import structlog

from ingest.exceptions import whereabouts
from toolgauge.settings import Settings


class _Libraries(logging.Handler):
    """What libraries log through the standard module: by name and place, never with values.

    Their messages and tracebacks may quote requests.
    """

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        error = record.exc_info[1] if record.exc_info else None
        where = whereabouts(error) if error else f"{record.filename}:{record.lineno} {record.funcName}"
        log.log(record.levelno, "library_message", message=str(record.msg).splitlines()[0][:200], where=where)


class _StandardError:
    """A logger that writes lines to standard error, for as long as anybody reads it.

    A terminal that was closed, or a pipe whose reader has ended, must not end what the service does; there is
    nobody left to tell of it either.
    """

    def __init__(self, *_: object) -> None:
        self._stream = sys.stderr

    def msg(self, message: str) -> None:
        """Write a line."""
        with suppress(OSError, ValueError):
            # In one piece, so that the lines of several processes do not mix.
            self._stream.write(message + "\n")
            self._stream.flush()

    log = debug = info = warn = warning = msg
    error = critical = exception = fatal = failure = msg


def configure_logs(settings: Settings) -> None:
    """Set up logging for a process of the service."""
    as_console = settings.log_format == "console" or (settings.log_format == "auto" and sys.stderr.isatty())
    renderer: structlog.typing.Processor
    if as_console:
        # The default exception formatter prints local variables, and those hold telemetry.
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    else:
        renderer = structlog.processors.JSONRenderer()
    logging.basicConfig(handlers=[_Libraries()], level=logging.WARNING, force=True)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.log_level.upper())),
        logger_factory=_StandardError,
        cache_logger_on_first_use=True,
    )
