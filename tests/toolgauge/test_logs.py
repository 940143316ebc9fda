"""Logging is for whoever reads it; that nobody does is no reason to stop."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import pytest
import structlog

from toolgauge.logs import configure_logs
from toolgauge.settings import Settings


def test_a_stream_that_is_closed_does_not_end_what_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    stream = os.fdopen(write, "w")
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logs(Settings(log_format="json"))
    log = structlog.get_logger("test")
    log.warning("first")
    assert b'"event": "first"' in os.read(read, 4096)
    os.close(read)
    log.error("nobody reads this")
    with suppress(OSError):
        stream.close()
    log.error("nor this, to a stream that is closed")
