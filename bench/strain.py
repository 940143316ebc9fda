"""`python -m bench.strain`: how long an answer takes while others read, and what a flood of clients costs."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.service import client, peak_memory_mib, service

_PER_REQUEST = 512


def main() -> None:
    """Measure and print, one line of JSON a figure."""
    parser = argparse.ArgumentParser(prog="bench.strain", description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="of each part (default %(default)s)")
    parser.add_argument(
        "--rate", type=float, default=10.0, help="requests of 512 records a second (default %(default)s)"
    )
    parser.add_argument("--connections", type=int, default=400, help="of the flood (default %(default)s)")
    parser.add_argument(
        "--stored", type=int, default=2000, help="requests that are stored before (default %(default)s)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as addresses:
        address = addresses["http"]
        client("http", address, options.stored, _PER_REQUEST, 8, seed=1, stream=True)
        requests = int(options.seconds * options.rate)
        for turn in range(2):
            quiet = client(
                "http", address, requests, _PER_REQUEST, 8, options.rate, seed=10 + turn, stream=True
            )
            reading = subprocess.Popen([sys.executable, "-m", "bench.scan", folder], stdout=subprocess.PIPE)
            read = client(
                "http", address, requests, _PER_REQUEST, 8, options.rate, seed=20 + turn, stream=True
            )
            reading.terminate()
            scans = reading.communicate()[0].count(b"\n")
            print(
                json.dumps(
                    {
                        "what": "latency at a steady rate, alone and while all segments are scanned",
                        "p50_ms": [quiet["p50_ms"], read["p50_ms"]],
                        "p99_ms": [quiet["p99_ms"], read["p99_ms"]],
                        "p99_ratio": read["p99_ms"] / quiet["p99_ms"],
                        "scans": scans,
                    }
                ),
                flush=True,
            )
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as addresses:
        flood = client(
            "http",
            addresses["http"],
            options.connections * 8,
            _PER_REQUEST,
            options.connections,
            seed=3,
            patient=True,
        )
        memory = peak_memory_mib(int(addresses["pid"]))
        print(
            json.dumps(
                {
                    "what": f"{options.connections} clients, each with the next request as soon as it may",
                    "peak_mib": memory,
                    "refused": flood["refused"],
                    "records_per_second": flood["records"] / flood["seconds"],
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
