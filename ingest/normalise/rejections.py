"""Records that can never be kept: counted for the answer, and each a row of `rejected`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.decode.vectors import arrow, constant
from ingest.normalise.arrivals import Arrivals, Counts
from ingest.normalise.columns import Rows
from sli.vocabulary import Rejection


@dataclass(slots=True)
class Rejections:
    """What was found of them.

    Attributes:
        arrivals: the groups that they are counted in.
        rows: for each reason, the records.
        records: the same, how many records each of them stands for.
    """

    arrivals: Arrivals
    rows: list[tuple[Rejection, Rows]] = field(default_factory=list)
    records: list[Counts] = field(default_factory=list)

    def refuse(
        self, reason: Rejection, rows: Rows, bad: npt.NDArray[np.bool_], weight: Counts | None = None
    ) -> Rows:
        """Take the bad ones out of `rows`, note them, and give the others.

        Args:
            weight: for each of `rows`, how many records it stands for; one if not given.
        """
        if not bad.any():
            return rows
        refused = rows[bad]
        records = np.ones(len(refused), dtype=np.int64) if weight is None else weight[bad]
        self.rows.append((reason, refused))
        self.records.append(records)
        np.add.at(self.arrivals.rejected, self.arrivals.of_record[refused], records)
        return rows[~bad]

    def by_request(self, requests: int) -> dict[Rejection, npt.NDArray[np.int64]]:
        """For each reason, how many records of each request."""
        counts = {reason: np.zeros(requests, dtype=np.int64) for reason in Rejection}
        for (reason, rows), records in zip(self.rows, self.records, strict=True):
            np.add.at(counts[reason], self.arrivals.request[self.arrivals.of_record[rows]], records)
        return counts

    def all_rows(self) -> Rows:
        """All of them, reason by reason."""
        return np.concatenate([rows for _, rows in self.rows]) if self.rows else np.zeros(0, dtype=np.int64)

    def columns(self) -> dict[str, pa.Array]:
        """The columns of `rejected` beside the shared ones and the identity."""
        groups = arrow(self.arrivals.of_record[self.all_rows()])
        reasons = [pa.repeat(constant(reason.value), len(rows)) for reason, rows in self.rows]
        return {
            "signal": pa.repeat(constant(self.arrivals.signal.value), len(groups)),
            "name": self.arrivals.name.take(groups),
            "reason": pa.concat_arrays(reasons),
            "records": arrow(np.concatenate(self.records)),
        }
