"""`python -m bench.scan DATA_DIR`: reads every column of every segment again and again, a line a round."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import polars as pl

from analytics.published import Published, on_published
from sli.data_directory import DataDirectory
from sli.schemas import EVENT_DATASETS


def main() -> None:
    """Read until killed, at the priority that the service's own readers have."""
    os.nice(10)
    directory = DataDirectory(Path(sys.argv[1]))
    while True:
        on_published(directory, _read_all)
        print("scanned", flush=True)


def _read_all(published: Published) -> None:
    for dataset in EVENT_DATASETS:
        # The number of values of each column cannot be had without decoding it.
        published.scan(dataset).select(pl.all().n_unique()).collect(engine="streaming")


if __name__ == "__main__":
    main()
