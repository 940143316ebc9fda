"""Writes docs/tables.md from the schemas: `python scripts/tables.py > docs/tables.md`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sli.schemas import EVENT_DATASETS, FILED_DATASETS, RESULT_DATASETS, Dataset

_HEAD = """\
# Tables

Names of tables and columns are public. Times are `timestamp with time zone`, in UTC; rates are null where
they are undefined. `toolgauge sql` reads all of them.

"""


def render() -> str:
    """The whole page."""
    events = map(_dataset, EVENT_DATASETS)
    results = map(_dataset, (*RESULT_DATASETS, *FILED_DATASETS))
    parts = [_HEAD, "## Events\n\n", *events, "## Results\n\n", *results]
    return "".join(parts).rstrip() + "\n"


def _dataset(dataset: Dataset) -> str:
    rows = "".join(
        f"| `{column.name}` | `{column.type}` | {column.meaning} |\n" for column in dataset.columns
    )
    return f"### {dataset.name}\n\n| column | type | holds |\n| --- | --- | --- |\n{rows}\n"


if __name__ == "__main__":
    print(render(), end="")
