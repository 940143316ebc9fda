"""A disk without room, or that cannot be written: whole requests are refused, and it ends by itself.

The small file system is a tmpfs, which only root can mount; without that right those tests are skipped, and
say so.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import grpc
import httpx
import pytest

PER_REQUEST = 100


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("A FULL DISK IS NOT TESTED: only root can mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def _body(otlp: Any, number: int) -> bytes:
    made: bytes = otlp.logs(
        *(
            otlp.log(
                otlp.tool_call | {"call_id": f"{number}-{n}-{os.urandom(24).hex()}"},
                time=otlp.noon + number * 10**9 + n,
            )
            for n in range(PER_REQUEST)
        )
    )
    return made


def _fill(folder: Path) -> Path:
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(65536)):
                pass
        except OSError:
            return filler
    return filler


def _until_it_takes(service: Any, body: bytes) -> httpx.Response:
    until = time.monotonic() + 60
    while (answer := service.post("logs", body)).status_code != 200:
        assert time.monotonic() < until, answer.text
        time.sleep(0.05)
    return answer


def _calls(directory: Path) -> Counter[str]:
    with duckdb.connect(str(directory / "events.duckdb"), read_only=True) as connection:
        rows = connection.execute("SELECT split_part(call_id, '-', 1) FROM tool_calls").fetchall()
    return Counter(number for (number,) in rows)


def test_a_full_disk_refuses_whole_requests_and_recovers_by_itself(
    otlp: Any, start_service: Callable[..., Any], small_disk: Path
) -> None:
    service = start_service(
        only="ingest", data_dir=small_disk / "data", TOOLGAUGE_PUBLISH_INTERVAL_SECONDS="0.2"
    )
    bodies = [_body(otlp, number) for number in range(200)]
    answered: set[int] = set()
    for number in range(10):
        assert service.post("logs", bodies[number]).status_code == 200
        answered.add(number)
    filler = _fill(small_disk)
    refused: set[int] = set()
    for number in range(10, 40):
        answer = service.post("logs", bodies[number])
        assert answer.status_code in (200, 503)
        (answered if answer.status_code == 200 else refused).add(number)
        if answer.status_code == 503:
            assert answer.headers["retry-after"]
    assert refused
    with pytest.raises(grpc.RpcError) as failure:
        service.export("logs", bodies[min(refused)])
    assert failure.value.code() == grpc.StatusCode.UNAVAILABLE
    filler.unlink()
    for number in sorted(refused):
        _until_it_takes(service, bodies[number])
        answered.add(number)
    # And again, with the service killed while nothing can be written.
    filler = _fill(small_disk)
    service.post("logs", bodies[100])
    service.kill()
    filler.unlink()
    service.start()
    _until_it_takes(service, bodies[100])
    # Whatever was sent is there already.
    for number in sorted(answered)[:5]:
        assert service.post("logs", bodies[number]).headers["toolgauge-duplicates"] == str(PER_REQUEST)
    assert service.stop() == 0
    assert _calls(small_disk / "data") == Counter({str(n): PER_REQUEST for n in answered | {100}})


def test_a_journal_that_cannot_be_written_refuses_and_recovers(
    otlp: Any, start_service: Callable[..., Any], tmp_path: Path
) -> None:
    """Its folder is gone: no new file can be begun. What is not written down there is not answered."""
    service = start_service(only="ingest", TOOLGAUGE_PUBLISH_INTERVAL_SECONDS="0.1")
    bodies = [_body(otlp, number) for number in range(2)]
    assert service.post("logs", bodies[0]).status_code == 200
    journal = service.data_dir / "journal"
    until = time.monotonic() + 30
    while list(journal.iterdir()):
        # Published, and dropped.
        assert time.monotonic() < until
        time.sleep(0.05)
    journal.rmdir()
    assert service.post("logs", bodies[1]).status_code == 503
    journal.mkdir()
    assert service.post("logs", bodies[1]).status_code == 200
    assert service.stop() == 0
    assert _calls(service.data_dir) == Counter({"0": PER_REQUEST, "1": PER_REQUEST})


def test_a_file_system_that_turns_read_only_refuses_and_recovers(
    otlp: Any, start_service: Callable[..., Any], small_disk: Path
) -> None:
    service = start_service(
        only="ingest", data_dir=small_disk / "data", TOOLGAUGE_PUBLISH_INTERVAL_SECONDS="0.2"
    )
    bodies = [_body(otlp, number) for number in range(2)]
    assert service.post("logs", bodies[0]).status_code == 200
    journal = service.data_dir / "journal"
    until = time.monotonic() + 30
    while list(journal.iterdir()):
        assert time.monotonic() < until
        time.sleep(0.05)
    # Files that are open for writing keep a file system from being turned; an immutable folder does as well.
    done = subprocess.run(["chattr", "+i", str(journal)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("A READ-ONLY FOLDER IS NOT TESTED: the file system knows no immutable folders")
    try:
        assert service.post("logs", bodies[1]).status_code == 503
    finally:
        subprocess.run(["chattr", "-i", str(journal)], check=True)
    assert service.post("logs", bodies[1]).status_code == 200
    assert service.stop() == 0
    assert _calls(service.data_dir) == Counter({"0": PER_REQUEST, "1": PER_REQUEST})


def test_a_data_directory_that_cannot_be_written_is_named_at_the_start(
    toolgauge: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = toolgauge("serve", "--only", "ingest", "--data-dir", str(tmp_path / "file" / "data"))
    assert done.returncode != 0
    assert f"cannot write {tmp_path / 'file' / 'data'}" in done.stderr
