"""Where things lie in the data directory: names only, nothing is opened here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The layout of a data directory.

    Only ingest writes the store, the key, the segments and the manifest; only the jobs write the
    results. Whoever reads, reads the manifest, the segments it lists, and the results.
    """

    root: Path

    @property
    def store(self) -> Path:
        """The live DuckDB file; opened by the ingest process alone."""
        return self.root / "events.duckdb"

    @property
    def store_log(self) -> Path:
        """The store's log; there while the store is open, or after a kill."""
        return self.root / "events.duckdb.wal"

    @property
    def journal(self) -> Path:
        """The folder of the journal: what is stored and not published yet, a second time."""
        return self.root / "journal"

    @property
    def owner_key(self) -> Path:
        """The key of the owners' hashes, mode 0600."""
        return self.root / "owner.key"

    @property
    def owner_key_copy(self) -> Path:
        """The same key and its SHA-256, mode 0600; used where the other file is damaged."""
        return self.root / "owner.key.copy"

    @property
    def ingest_lock(self) -> Path:
        """Locked by the process that owns the store, for as long as it lives."""
        return self.root / "ingest.lock"

    @property
    def moved_clock(self) -> Path:
        """There if events came in while the clock was moved: what is stored was made up."""
        return self.root / "moved-clock"

    @property
    def demo(self) -> Path:
        """How far the demo fleet has been loaded; not there where none was asked for."""
        return self.root / "demo.json"

    @property
    def events(self) -> Path:
        """The folder of the published Parquet segments."""
        return self.root / "events"

    @property
    def manifest(self) -> Path:
        """The list of the segments that are published."""
        return self.events / "manifest.json"

    @property
    def results_folder(self) -> Path:
        """The folder of the results, apart so that readers can be confined to it."""
        return self.root / "results"

    @property
    def results(self) -> Path:
        """The results database; replaced as a whole."""
        return self.results_folder / "results.duckdb"

    @property
    def results_lock(self) -> Path:
        """Locked while the results are being replaced."""
        return self.results_folder / "results.lock"

    @property
    def reports(self) -> Path:
        """The folder of the nightly reports, a folder a day."""
        return self.root / "reports"

    @property
    def acts(self) -> Path:
        """The record of a rollout's acts, mode 0600; only ever added to."""
        return self.root / "rollout" / "acts.jsonl"

    @property
    def last_backup(self) -> Path:
        """When and where to the last backup was made."""
        return self.root / "last_backup.json"

    @property
    def endpoints(self) -> Path:
        """The addresses of a running service."""
        return self.root / "endpoints.json"
