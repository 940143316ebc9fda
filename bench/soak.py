"""`make soak`: the service for many minutes at a share of its full rate; nothing may grow.

Prints a line a minute, and at the end what grew between the second quarter of the time and the last.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.service import client, service

_PER_REQUEST = 512
_SAMPLE_SECONDS = 5.0
_ROUND_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Round:
    """One minute of it.

    Attributes:
        memory_mib: highest resident memory of the receiver.
        journal_files, segments: highest number of files.
    """

    minute: int
    records_per_second: float
    p50_ms: float
    p99_ms: float
    memory_mib: float
    journal_files: int
    segments: int


def main() -> None:
    """Run it, and print the rounds."""
    parser = argparse.ArgumentParser(prog="bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=int, default=20)
    parser.add_argument("--share", type=float, default=0.8, help="of the full rate (default %(default)s)")
    parser.add_argument("--form", choices=("http", "grpc"), default="http")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as addresses:
        address = addresses["grpc" if options.form == "grpc" else "http"]
        client(options.form, address, 20, _PER_REQUEST, 8, seed=1, stream=True)
        # Long enough that merging and the store's checkpoints are part of it.
        full = client(options.form, address, 2500, _PER_REQUEST, 8, seed=2, stream=True)
        rate = options.share * full["requests"] / full["seconds"]
        print(f"full rate {full['records'] / full['seconds']:,.0f} records/s", flush=True)
        rounds = []
        for minute in range(1, options.minutes + 1):
            requests = int(rate * _ROUND_SECONDS)
            watch = _Watch(Path(folder), int(addresses["pid"]))
            sent = client(
                options.form, address, requests, _PER_REQUEST, 16, rate, seed=100 + minute, stream=True
            )
            memory, journal, segments = watch.stop()
            here = Round(
                minute,
                sent["records"] / sent["seconds"],
                sent["p50_ms"],
                sent["p99_ms"],
                memory,
                journal,
                segments,
            )
            rounds.append(here)
            print(json.dumps(asdict(here)), flush=True)
        _compare(rounds)


def _compare(rounds: list[Round]) -> None:
    quarter = max(len(rounds) // 4, 1)
    early, late = rounds[quarter : 2 * quarter] or rounds[:1], rounds[-quarter:]
    for what in ("p50_ms", "p99_ms", "memory_mib", "journal_files", "segments"):
        before = sum(getattr(each, what) for each in early) / len(early)
        after = sum(getattr(each, what) for each in late) / len(late)
        print(
            f"{what:<14} second quarter {before:10.1f}  last quarter {after:10.1f}  {after / before:5.2f} ×"
        )


class _Watch:
    """Looks at the service every few seconds until it is stopped."""

    def __init__(self, folder: Path, process: int) -> None:
        self._folder = folder
        self._process = process
        self._memory = 0.0
        self._journal = 0
        self._segments = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> tuple[float, int, int]:
        """Memory in MiB, journal files and segments: the highest that were seen."""
        self._stopping.set()
        self._thread.join()
        return self._memory, self._journal, self._segments

    def _run(self) -> None:
        while True:
            status = Path(f"/proc/{self._process}/status").read_text()
            resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
            self._memory = max(self._memory, int(resident.split()[1]) / 1024)
            self._journal = max(self._journal, sum(1 for _ in self._folder.glob("journal/*")))
            self._segments = max(self._segments, sum(1 for _ in self._folder.glob("events/**/*.parquet")))
            if self._stopping.wait(_SAMPLE_SECONDS):
                return


if __name__ == "__main__":
    started = time.monotonic()
    main()
    print(f"{(time.monotonic() - started) / 60:.0f} minutes")
