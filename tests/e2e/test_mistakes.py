"""What a person reads who gets something wrong: what, where, and what to do; and nothing is lost."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

AS_ROOT = os.geteuid() == 0


def _serve(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "toolgauge", "serve", "--data-dir", str(data_dir), "--grpc-port", "0"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60, check=False)


def _errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert "Traceback" not in done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("error: ")]


@pytest.mark.parametrize("option", ["--http-port", "--grpc-port"])
def test_a_taken_port_is_named_with_the_option(tmp_path: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        done = _serve(tmp_path / "data", "--http-port", "0", option, str(port))
    assert done.returncode == 1
    (error,) = _errors(done)
    assert f"cannot listen on 127.0.0.1:{port}" in error
    assert f"choose another {option} (0: any)" in error


@pytest.mark.skipif(
    not AS_ROOT, reason="only root can make a folder that root cannot write (a read-only mount)"
)
def test_a_data_directory_that_cannot_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        done = _serve(folder / "data", "--http-port", "0")
        imported = subprocess.run(
            [sys.executable, "-m", "toolgauge", "import", __file__, "--data-dir", str(folder / "data")],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        subprocess.run(["umount", str(folder)], check=True)
    for each in (done, imported):
        assert each.returncode == 1
        (error,) = _errors(each)
        assert f"cannot write {folder}" in error
        assert "make it writable for this user, or choose another --data-dir" in error


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    done = _serve(tmp_path / "data", "--http-port", "0")
    assert done.returncode == 1
    assert "choose another --data-dir" in _errors(done)[0]


def test_a_store_of_a_newer_version(tmp_path: Path) -> None:
    import duckdb

    from ingest.keep.owner_key import open_owner_key
    from ingest.keep.store import Store
    from sli.data_directory import DataDirectory
    from sli.schemas import EVENT_FORMAT

    open_owner_key(DataDirectory(tmp_path))
    Store(tmp_path / "events.duckdb").close()
    with duckdb.connect(str(tmp_path / "events.duckdb")) as connection:
        connection.execute("UPDATE store_info SET format = 999")
    done = _serve(tmp_path, "--http-port", "0")
    assert done.returncode == 1
    assert (
        f"has format 999, this version knows formats up to {EVENT_FORMAT}; install the version that wrote it"
        in _errors(done)[0]
    )


def test_files_that_hold_no_telemetry_do_not_stop_the_others(
    otlp: Any, toolgauge: Callable[..., Any], tmp_path: Path
) -> None:
    good = tmp_path / "logs.pb"
    good.write_bytes(otlp.logs(otlp.log(otlp.tool_call)))
    wrong = tmp_path / "settings.json"
    wrong.write_text('{"secret": "hunter2"}')
    malformed = tmp_path / "more-logs.pb"
    malformed.write_bytes(b"\xff\xff\xff")
    data = str(tmp_path / "data")
    done = toolgauge("import", *map(str, (wrong, malformed, good)), "--data-dir", data, "--format", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout)[0] | {"stored": 1, "failed": 2} == json.loads(done.stdout)[0]
    assert "hunter2" not in done.stderr + done.stdout
    errors = _errors(done)
    assert any(str(wrong) in error and "resourceLogs" in error for error in errors)
    assert any(str(malformed) in error and "not an OTLP export request of logs" in error for error in errors)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serve", "--grcp-port", "1"], "No such option: --grcp-port"),
        (["serve", "--http-port", "70000"], "http_port"),
        (["serve", "--host", "0.0.0.0"], "loopback"),
        (["serve", "--only", "both"], "both"),
        (["frobnicate"], "No such command"),
        (["sli", "--by", "week"], "week"),
        (["sli", "--format", "xml"], "xml"),
        (["sli", "--since", "yesterdayish"], "is no point in time"),
        (["import"], "PATH"),
        (["sql"], "QUERY"),
    ],
)
def test_wrong_usage_is_exit_2_and_says_what(
    toolgauge: Callable[..., Any], arguments: list[str], said: str
) -> None:
    done = toolgauge(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_variable_is_named_with_the_nearest(toolgauge: Callable[..., Any], tmp_path: Path) -> None:
    done = toolgauge("sli", "--data-dir", str(tmp_path), TOOLGAUGE_GRCP_PORT="1")
    assert done.returncode == 2
    assert "did you mean TOOLGAUGE_GRPC_PORT?" in done.stderr
    old = toolgauge("sli", "--data-dir", str(tmp_path / "missing"))
    assert old.returncode == 1
    assert f"no data directory at {tmp_path / 'missing'}" in old.stderr
