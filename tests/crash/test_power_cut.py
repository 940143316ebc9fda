"""A power cut at any moment: whatever the disk has then, every answered record is there once.

The real service runs with a recorder around its file system calls; from the recording, states of the disk
are made that a cut at some moment could have left, and the service's own start is run on each.

CRASH_POWER_CUTS sets how many (40 if not set). The recorder is compiled with `cc` (Debian: gcc).
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ingest.keep.owner_key import open_owner_key
from ingest.keep.publisher import Publisher
from ingest.keep.recovery import open_store
from sli.data_directory import DataDirectory
from sli.manifest import Manifest
from tests.crash.disk import Call, Disk, calls

CUTS = int(os.environ.get("CRASH_POWER_CUTS", "40"))
REQUESTS = 120
PER_REQUEST = 20

# The log is folded in often, and in the background of requests, so that cuts meet it.
_PROGRAM = (
    "import ingest.keep.database as database; database._CHECKPOINT_BYTES = '40KiB'; "
    "import ingest.keep.journal as journal; journal._FILE_BYTES = 60_000; "
    "from toolgauge.cli import main; main()"
)


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("POWER CUTS ARE NOT TESTED: no C compiler (Debian: gcc)")
    library = tmp_path_factory.mktemp("recorder") / "recorder.so"
    source = Path(__file__).with_name("recorder.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl", "-lpthread"], check=True
    )
    return library


@pytest.fixture(scope="module")
def recorded(
    otlp: Any, recorder: Path, service_class: type[Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Call], list[tuple[int, int]]]:
    """The folder, the calls, and at which place of the recording each request had been answered."""
    folder = tmp_path_factory.mktemp("recorded")
    data_dir, recording = folder / "data", folder / "recording"

    class Recorded(service_class):  # type: ignore[misc]
        def start(self) -> None:
            self.command: list[str] = [
                self.command[0],
                "-c",
                _PROGRAM,
                *self.command[self.command.index("serve") :],
            ]
            super().start()

    service = Recorded(
        data_dir,
        only="ingest",
        LD_PRELOAD=str(recorder),
        RECORDED_FOLDER=str(data_dir),
        RECORDED_LOG=str(recording),
        TOOLGAUGE_PUBLISH_INTERVAL_SECONDS="0.3",
    )
    answered: list[tuple[int, int]] = []
    numbers: Iterator[int] = iter(range(REQUESTS))
    lock = threading.Lock()

    def send(over_grpc: bool, until: int) -> None:
        while True:
            with lock:
                number = next(numbers, None) if len(answered) < until else None
            if number is None:
                return
            if over_grpc:
                service.export("logs", _body(otlp, number))
            else:
                assert service.post("logs", _body(otlp, number)).status_code == 200
            with lock:
                answered.append((recording.stat().st_size, number))

    try:
        for part in range(1, 4):
            senders = [
                threading.Thread(target=send, args=(n % 2 == 0, part * REQUESTS // 3)) for n in range(4)
            ]
            for sender in senders:
                sender.start()
            for sender in senders:
                sender.join()
            if part == 1:
                service.kill()
                service.start()
            elif part == 2:
                assert service.stop() == 0
                service.start()
        assert service.stop() == 0
    finally:
        if service.process.poll() is None:
            service.kill()
    assert len(answered) >= REQUESTS - 8
    return data_dir, list(calls(recording)), answered


def _body(otlp: Any, number: int) -> bytes:
    records = (
        otlp.log(
            otlp.tool_call | {"call_id": f"{number}-{n}"},
            time=otlp.noon + (number % 3) * 86_400 * 10**9 - 86_400 * 10**9 + number * 10**6 + n,
        )
        for n in range(PER_REQUEST)
    )
    made: bytes = otlp.logs(*records, resource=otlp.resource | {"owner.id": "someone"})
    return made


def test_the_recording_is_complete(recorded: tuple[Path, list[Call], list[tuple[int, int]]]) -> None:
    """Played to its end it gives the files that are there: no call went unseen."""
    data_dir, made, _ = recorded
    disk = Disk(data_dir)
    for call in made:
        disk.apply(call)
    there = {str(path): path.read_bytes() for path in data_dir.rglob("*") if path.is_file()}
    # Removed by the test's own start of the service, or by nobody: where it listens.
    there.pop(str(data_dir / "endpoints.json"), None)
    seen = disk.contents()
    seen.pop(str(data_dir / "endpoints.json"), None)
    assert {name: len(content) for name, content in seen.items()} == {
        name: len(content) for name, content in there.items()
    }
    assert seen == there
    # And there were things to record: logs folded in, journal files begun and dropped, segments merged.
    removed = Counter(Path(call.content.decode()).name.split(".", 1)[-1] for call in made if call.kind == "U")
    assert removed["duckdb.wal"] >= 3
    assert removed["journal"] >= 3


@pytest.mark.timeout(3600)
def test_every_answered_record_is_there_once_after_a_cut(
    recorded: tuple[Path, list[Call], list[tuple[int, int]]], tmp_path: Path
) -> None:
    data_dir, made, answered = recorded
    rng = random.Random(11)
    # Half of the cuts right behind an answer, the others anywhere.
    places = [rng.choice(answered)[0] if n % 2 else rng.choice(made).end for n in range(CUTS)]
    disk, done = Disk(data_dir), 0
    key = (data_dir / "owner.key").read_bytes()
    for number, place in enumerate(sorted(places)):
        while done < len(made) and made[done].end <= place:
            disk.apply(made[done])
            done += 1
        root = tmp_path / str(number)
        disk.write_after_a_cut(root, rng)
        wanted = {f"{n}-{k}" for at, n in answered if at <= place for k in range(PER_REQUEST)}
        found, shown, owners = _come_up(DataDirectory(root))
        assert set(found) >= wanted, (
            f"cut {number} at {place}: {len(wanted - set(found))} of {len(wanted)} gone"
        )
        assert set(found.values()) <= {1}, f"cut {number} at {place}"
        assert shown == found, f"cut {number} at {place}"
        if wanted:
            assert open_owner_key(DataDirectory(root)) == key
            assert len(owners) == 1
        shutil.rmtree(root)


def _come_up(directory: DataDirectory) -> tuple[Counter[str], Counter[str], set[str]]:
    open_owner_key(directory)
    store = open_store(directory)
    try:
        Publisher(store, directory).publish()
        rows = store.reader().execute("SELECT call_id, owner FROM tool_calls").fetchall()
    finally:
        store.close()
    shown: list[Any] = []
    if directory.manifest.exists():
        segments = Manifest.parse(directory.manifest.read_text()).select("tool_calls")
        files = [str(directory.events / segment.path) for segment in segments]
        if files:
            with duckdb.connect() as connection:
                shown = connection.execute("SELECT call_id FROM read_parquet(?)", [files]).fetchall()
    return (
        Counter(call_id for call_id, _ in rows),
        Counter(call_id for (call_id,) in shown),
        {owner for _, owner in rows},
    )
