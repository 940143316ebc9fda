"""A service in processes of its own, and a client in another."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def service(folder: Path, *arguments: str) -> Iterator[dict[str, str]]:
    """Start the ingest half on free ports; gives its addresses by name."""
    command = [sys.executable, "-m", "toolgauge", "serve", "--only", "ingest", "--data-dir", str(folder)]
    command += ["--grpc-port", "0", "--http-port", "0", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    endpoints = folder / "endpoints.json"
    try:
        while not endpoints.exists():
            if process.poll() is not None:
                raise RuntimeError("the service did not start; run the same command by hand to see why")
            time.sleep(0.05)
        yield json.loads(endpoints.read_text()) | {"pid": str(process.pid)}
    finally:
        process.terminate()
        process.wait()


def client(
    form: str,
    address: str,
    requests: int,
    per_request: int,
    connections: int,
    rate: float = 0.0,
    seed: int = 0,
    stream: bool = False,
    patient: bool = False,
) -> dict[str, float]:
    """Send requests from a process of its own; see `bench.client`."""
    arguments = [form, address, str(requests), str(per_request), str(connections)]
    arguments += ["--rate", str(rate), "--seed", str(seed)]
    arguments += ["--stream"] if stream else []
    arguments += ["--patient"] if patient else []
    done = subprocess.run(
        [sys.executable, "-m", "bench.client", *arguments], stdout=subprocess.PIPE, check=True, text=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def peak_memory_mib(process: int) -> float:
    """The highest resident memory that a process has had."""
    status = Path(f"/proc/{process}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024
