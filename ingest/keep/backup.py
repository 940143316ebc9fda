"""Backups: what is needed to come up again, beside a description with a checksum of every file.

A backup is a folder:

    backup.json                  what it holds; replaced as a whole, last of all
    owner.key                    mode 0600
    events/<dataset>/day=…/…     the segments, each under a name that its checksum is part of

So a backup is complete or it is the one before, whenever it is interrupted, and the next one into the
same folder copies only what is new. The store is not copied: it is built again from the segments. Nor
are the results, which are computed again, nor the settings, which may hold secrets.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ingest.exceptions import BackupFailed, BackupUnusable, NewerFile, NothingToBackUp, RestoreFailed
from ingest.keep.files import put_in_place, sync, write_whole
from sli.data_directory import DataDirectory
from sli.manifest import Manifest, ManifestError, NewerManifestError, Segment
from sli.schemas import EVENT_FORMAT

BACKUP_FORMAT = 1
"""Version of `backup.json` and of the layout; a backup of a newer one is refused."""

DESCRIPTION = "backup.json"
# Merges replace segments at most every few seconds, and what was copied once is not copied again.
_ATTEMPTS = 20
_PIECE_BYTES = 1024 * 1024
_KEY = "owner.key"

Progress = Callable[[str, int, int], None]
"""Called with what is being done, the bytes of it that are done, and all of them."""


@dataclass(frozen=True, slots=True)
class BackupFile:
    """A file of a backup.

    Attributes:
        path: within the backup, with forward slashes.
        restored_as: within the data directory.
        bytes: its size.
        sha256: of its bytes, in hex.
    """

    path: str
    restored_as: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup says of itself.

    Attributes:
        made_at: when, RFC 3339 in UTC.
        manifest: of the published events, as it is restored.
        files: all files but the description.
    """

    made_at: str
    manifest: Manifest
    files: tuple[BackupFile, ...]

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class BackupOutcome:
    """What a backup came to.

    Attributes:
        copied_bytes: of the files that an earlier backup in the same place did not have.
        noted: whether it could be noted in the data directory, for `toolgauge doctor`.
    """

    backup: Backup
    copied_bytes: int
    noted: bool


def back_up(
    directory: DataDirectory, target: Path, now: datetime, on_progress: Progress | None = None
) -> BackupOutcome:
    """Copy what is published, and the owners' key, into a folder; a running service is not disturbed.

    Args:
        target: a folder that does not exist, is empty, or holds an earlier backup of the same store.
        now: UTC.

    Raises:
        NothingToBackUp: nothing is published, or there is no key.
        BackupFailed: it cannot be made; an earlier backup in the same place is as it was.
        NewerFile: the events, or the earlier backup, were written by a newer version.
    """
    try:
        with _target_locked(directory, target) as earlier:
            backup, copied = _back_up(directory, target, earlier, now, on_progress)
    except OSError as error:
        raise BackupFailed(target, error.strerror or type(error).__name__) from error
    return BackupOutcome(backup, sum(file.bytes for file in copied), _note(directory, target, backup))


def read_backup(source: Path) -> Backup:
    """Read the description of a backup; its files are not looked at.

    Raises:
        BackupUnusable: there is none, or it is damaged.
        NewerFile: a newer version wrote it.
    """
    path = source / DESCRIPTION
    try:
        tree = json.loads(path.read_text("utf-8"))
        if tree["format"] > BACKUP_FORMAT:
            raise NewerFile(path, tree["format"], BACKUP_FORMAT)
        text = json.dumps(tree["manifest"])
        files = tuple(BackupFile(**entry) for entry in tree["files"])
        if any(_leaves(file.path) or _leaves(file.restored_as) for file in files):
            raise BackupUnusable(source, "backup.json names files outside of it")
        return Backup(tree["made_at"], Manifest.parse(text), files)
    except FileNotFoundError as error:
        raise BackupUnusable(
            source, "there is no backup.json, so it is no backup, or not finished"
        ) from error
    except NewerManifestError as error:
        raise NewerFile(path, error.found, EVENT_FORMAT) from error
    except OSError as error:
        raise BackupUnusable(source, error.strerror or type(error).__name__) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackupUnusable(source, f"backup.json is damaged ({type(error).__name__})") from error


def verify_backup(source: Path, backup: Backup, on_progress: Progress | None = None) -> None:
    """Read every file of a backup and compare it with its checksum.

    Raises:
        BackupUnusable: a file is missing or is not what was written; the sentence names the first.
    """
    wrong = _damage(source, backup.files, on_progress)
    restored = {file.restored_as for file in backup.files}
    needed = [_KEY, *(f"events/{segment.path}" for segment in backup.manifest.segments)]
    wrong += [f"{path} is not in it" for path in needed if path not in restored]
    if wrong:
        raise BackupUnusable(source, _first(wrong))


def _damage(source: Path, files: Sequence[BackupFile], on_progress: Progress | None) -> list[str]:
    """What is wrong with the files; they are read whole."""
    done, total = 0, sum(file.bytes for file in files)
    wrong: list[str] = []
    for file in files:
        if on_progress:
            on_progress("verifying", done, total)
        path = source / file.path
        try:
            if not path.is_file():
                wrong.append(f"{file.path} is missing")
            elif path.stat().st_size != file.bytes or _digest(path) != file.sha256:
                wrong.append(f"{file.path} is not what was written")
        except OSError as error:
            wrong.append(f"{file.path} cannot be read ({error.strerror or type(error).__name__})")
        done += file.bytes
    return wrong


def _first(wrong: Sequence[str]) -> str:
    return wrong[0] + (f", and {len(wrong) - 1} more files" if len(wrong) > 1 else "")


def restore(source: Path, directory: DataDirectory, on_progress: Progress | None = None) -> Backup:
    """Make a data directory from a backup; the next start of the service builds its store.

    The files are put beside the data directory first, and moved as a whole when all are there and synced.

    Args:
        directory: must not exist, or be empty.

    Raises:
        BackupUnusable: the backup is incomplete or damaged; nothing was restored.
        NewerFile: a newer version made it.
        RestoreFailed: the data directory is not empty, or cannot be written.
    """
    backup = read_backup(source)
    root = directory.root
    try:
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise RestoreFailed(root, "it is not empty; name another --data-dir, or move what is there away")
        verify_backup(source, backup, on_progress)
        root.parent.mkdir(parents=True, exist_ok=True)
        building = DataDirectory(root.with_name(f".{root.name}.restoring-{os.getpid()}"))
        try:
            _lay_out(source, backup, building, on_progress)
            os.replace(building.root, root)
            sync(root.parent)
        finally:
            shutil.rmtree(building.root, ignore_errors=True)
    except OSError as error:
        raise RestoreFailed(root, error.strerror or type(error).__name__) from error
    return backup


def _back_up(
    directory: DataDirectory,
    target: Path,
    earlier: Backup | None,
    now: datetime,
    on_progress: Progress | None,
) -> tuple[Backup, list[BackupFile]]:
    """Make a backup; it, and which of its files were copied now."""
    copied: list[BackupFile] = []

    def copy(original: Path, restored_as: str) -> BackupFile:
        file, is_new = _copy(original, target, restored_as)
        if is_new:
            copied.append(file)
        return file

    if earlier is not None:
        _require_same_key(directory, target, earlier)
    key = copy(directory.owner_key, _KEY)
    found: dict[str, BackupFile] = {}
    for _ in range(_ATTEMPTS):
        manifest = _read_manifest(directory)
        if earlier is not None and earlier.manifest.store != manifest.store:
            raise BackupFailed(target, "it holds a backup of another store; name another folder")
        try:
            done = 0
            for segment in manifest.segments:
                if on_progress:
                    on_progress("copying", done, sum(each.bytes for each in manifest.segments))
                if segment.path not in found:
                    found[segment.path] = _copy_segment(copy, directory, segment)
                done += segment.bytes
            break
        except FileNotFoundError as error:
            # Merged since the manifest was read: what holds its rows now is in the newest one.
            if _read_manifest(directory) == manifest:
                raise BackupFailed(
                    target, f"a published segment is missing ({error.filename}); run `toolgauge doctor`"
                ) from error
    else:
        raise BackupFailed(target, "segments were merged at every attempt; try again")
    files = (key, *(found[segment.path] for segment in manifest.segments))
    backup = Backup(f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", manifest, files)
    _sync_folders(target)
    # Before it is called a backup, it is read as it lies there; what lay there before has been read already.
    wrong = _damage(target, copied, on_progress)
    if wrong:
        raise BackupFailed(target, _first(wrong))
    write_whole(target / DESCRIPTION, _render(backup))
    _remove_others(target, backup)
    return backup, copied


def _require_same_key(directory: DataDirectory, target: Path, earlier: Backup) -> None:
    key = next((file for file in earlier.files if file.restored_as == _KEY), None)
    if key is not None and key.sha256 != _digest(directory.owner_key):
        raise BackupFailed(
            target,
            "its owner.key is another one, which the owners in it were hashed with; put that one back into "
            "the data directory, or name another folder",
        )


def _note(directory: DataDirectory, target: Path, backup: Backup) -> bool:
    """Note a backup in the data directory; whoever may only read there cannot."""
    noted = {
        "made_at": backup.made_at,
        "target": str(target.resolve()),
        "published_through": backup.manifest.published_through,
    }
    try:
        write_whole(directory.last_backup, json.dumps(noted))
    except OSError:
        return False
    return True


def _copy_segment(
    copy: Callable[[Path, str], BackupFile], directory: DataDirectory, segment: Segment
) -> BackupFile:
    original = directory.events / segment.path
    file = copy(original, f"events/{segment.path}")
    if file.bytes != segment.bytes:
        raise BackupFailed(
            original, f"it has {file.bytes} bytes, not {segment.bytes}; run `toolgauge doctor`"
        )
    return file


def _copy(original: Path, target: Path, restored_as: str) -> tuple[BackupFile, bool]:
    """Copy a file under a name with its checksum in it; whether it was not there already."""
    digest = _digest(original)
    file = BackupFile(_name(restored_as, digest), restored_as, original.stat().st_size, digest)
    final = target / file.path
    final.parent.mkdir(parents=True, exist_ok=True)
    if final.is_file() and final.stat().st_size == file.bytes and _digest(final) == digest:
        return file, False
    temporary = final.with_name(f"{final.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as out, original.open("rb") as source:
        shutil.copyfileobj(source, out, _PIECE_BYTES)
    put_in_place(temporary, final)
    return file, True


def _name(restored_as: str, digest: str) -> str:
    if restored_as == _KEY:
        return _KEY
    path = Path(restored_as)
    return str(path.with_name(f"{path.stem}.{digest[:16]}{path.suffix}"))


def _lay_out(source: Path, backup: Backup, building: DataDirectory, on_progress: Progress | None) -> None:
    building.root.mkdir(mode=0o700)
    building.events.mkdir()
    done = 0
    for file in backup.files:
        if on_progress:
            on_progress("restoring", done, backup.bytes)
        final = building.root / file.restored_as
        final.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o600 if file.restored_as == _KEY else 0o644
        descriptor = os.open(final, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as out, (source / file.path).open("rb") as original:
            shutil.copyfileobj(original, out, _PIECE_BYTES)
        sync(final)
        if _digest(final) != file.sha256:
            raise BackupUnusable(source, f"{file.path} changed while it was read")
        done += file.bytes
    write_whole(building.manifest, backup.manifest.render())
    _sync_folders(building.root)
    building.root.chmod(0o755)


def _read_manifest(directory: DataDirectory) -> Manifest:
    try:
        return Manifest.parse(directory.manifest.read_text("utf-8"))
    except FileNotFoundError as error:
        raise NothingToBackUp(directory.root) from error
    except NewerManifestError as error:
        raise NewerFile(directory.manifest, error.found, EVENT_FORMAT) from error
    except (ManifestError, UnicodeDecodeError) as error:
        raise BackupFailed(
            directory.manifest, f"{error}; restart the service, which writes it again"
        ) from error


@contextmanager
def _target_locked(directory: DataDirectory, target: Path) -> Iterator[Backup | None]:
    """The target for this process alone, with the backup that it holds already, if any.

    Raises:
        BackupFailed: it is no place for a backup.
    """
    if not directory.manifest.exists() or not directory.owner_key.exists():
        raise NothingToBackUp(directory.root)
    if target.resolve().is_relative_to(directory.root.resolve()):
        raise BackupFailed(target, "it lies within the data directory; a backup belongs elsewhere")
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Of a backup that was interrupted, no more than these is there.
    ours = {DESCRIPTION, _KEY, "events", "backup.lock"}
    foreign = [path.name for path in target.iterdir() if path.name not in ours and path.suffix != ".tmp"]
    if foreign:
        raise BackupFailed(target, f"it holds other files, such as {foreign[0]}; name another folder")
    with (target / "backup.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupFailed(target, "another backup into it is under way") from error
        earlier = None
        if (target / DESCRIPTION).exists():
            try:
                earlier = read_backup(target)
            except BackupUnusable as error:
                raise BackupFailed(target, f"the backup in it is damaged ({error.reason})") from error
        yield earlier


def _remove_others(target: Path, backup: Backup) -> None:
    """Remove what an earlier backup held and this one does not, and what was left half copied."""
    listed = {target / file.path for file in backup.files}
    for path in target.glob("*.tmp"):
        path.unlink()
    for path in sorted(target.glob("events/**/*"), reverse=True):
        if path.is_file() and path not in listed:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _sync_folders(root: Path) -> None:
    for folder in (*(path for path in root.rglob("*") if path.is_dir()), root, root.parent):
        sync(folder)


def _render(backup: Backup) -> str:
    tree = {
        "format": BACKUP_FORMAT,
        "made_at": backup.made_at,
        "manifest": json.loads(backup.manifest.render()),
        "files": [asdict(file) for file in backup.files],
    }
    return json.dumps(tree, indent=1)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _leaves(path: str) -> bool:
    """Whether a path leads out of the folder that it is relative to."""
    return Path(path).is_absolute() or ".." in Path(path).parts
