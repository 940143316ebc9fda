"""What the program stands on: versions, the data directory, the key, the running service, the ports."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import stat
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ingest.keep.owner_key import with_digest
from sli.data_directory import DataDirectory
from toolgauge.doctor.findings import Finding, ok, problem, warning
from toolgauge.freshness import get_readiness, is_locked, read_certificate, read_endpoints
from toolgauge.settings import Settings

# What the files on the disk and the answers depend on, with the releases that this version is tested with.
_LIBRARIES = {"duckdb": "2.0.", "polars": "2.1.", "pyarrow": "", "grpcio": "", "protobuf": ""}
_LEAST_FREE_BYTES = 100 * 2**20
_LITTLE_FREE_BYTES = 2**30
_KEY_BYTES = 32
_CONNECT_SECONDS = 1.0


def versions() -> Iterator[Finding]:
    """Python and the libraries."""
    yield ok("python", platform.python_version())
    for library, tested in _LIBRARIES.items():
        try:
            found = version(library)
        except PackageNotFoundError:
            yield problem(
                "library", f"{library} is missing", "install toolgauge again, with what it requires"
            )
            continue
        if found.startswith(tested):
            yield ok("library", f"{library} {found}")
        else:
            yield warning(
                "library", f"{library} {found}, tested with {tested}x", f"install {library} {tested}x"
            )


def data_directory(directory: DataDirectory) -> Iterator[Finding]:
    """Whether it is there, can be written to, and has room."""
    root = directory.root
    if not root.is_dir():
        yield problem(
            "data directory",
            f"there is none at {root}",
            "start `toolgauge serve`, which makes it, or name another with --data-dir",
        )
        return
    unwritable = [path for path in (root, directory.events, directory.results_folder) if _unwritable(path)]
    if unwritable:
        yield problem(
            "data directory",
            f"{unwritable[0]} cannot be written to",
            "give the user that runs the service the right to write there",
        )
    else:
        yield ok("data directory", str(root))
    free = shutil.disk_usage(root).free
    if free < _LEAST_FREE_BYTES:
        yield problem("free space", _rounded(free), "make room: without it, nothing more is kept")
    elif free < _LITTLE_FREE_BYTES:
        yield warning("free space", _rounded(free), "make room soon")
    else:
        yield ok("free space", _rounded(free))


def owner_key(directory: DataDirectory) -> Iterator[Finding]:
    """The key of the owners' hashes: that it is there, whole, and nobody else's."""
    path = directory.owner_key
    try:
        found = path.stat()
    except FileNotFoundError:
        if directory.store.exists():
            yield problem(
                "owner key",
                f"{path} is missing",
                "put it back from a backup: with another key the same owners get other hashes",
            )
        else:
            yield ok("owner key", "made at the first start")
        return
    mode = stat.S_IMODE(found.st_mode)
    if mode != 0o600:
        yield problem("owner key", f"{path} has mode {mode:04o}", f"chmod 600 {path}")
    elif found.st_size != _KEY_BYTES:
        yield problem(
            "owner key",
            f"{path} holds {found.st_size} bytes, not {_KEY_BYTES}",
            "put it back from a backup",
        )
    elif not _is_copied(path.read_bytes(), directory.owner_key_copy):
        yield warning(
            "owner key",
            f"{directory.owner_key_copy} is not its copy",
            "restart the service: whichever of the two is right replaces the other",
        )
    else:
        yield ok("owner key", "there, mode 0600")


def _is_copied(key: bytes, copy: Path) -> bool:
    """Whether the copy is right, or not made yet; where it cannot be read, it tells nothing."""
    try:
        return copy.read_bytes() == with_digest(key)
    except FileNotFoundError:
        return True


def service(directory: DataDirectory, settings: Settings) -> Iterator[Finding]:
    """Whether it runs; if so whether it listens where it says, if not whether it could."""
    addresses = read_endpoints(directory)
    if not is_locked(directory.ingest_lock):
        yield ok("service", "not running")
        if directory.endpoints.exists():
            yield warning(
                "endpoints",
                "the addresses of a service that has gone are still written down",
                f"nothing, the next start replaces them; or remove {directory.endpoints}",
            )
        yield from _ports(settings)
        return
    yield ok("service", f"running, process {_holder(directory.ingest_lock)}")
    if not addresses:
        yield warning(
            "endpoints",
            "whoever writes to the data directory has written down no addresses",
            "wait: it is an import, or a service that is starting",
        )
    for name, address in addresses.items():
        if _answers(address):
            yield ok("endpoints", f"{name} answers at {address}")
        else:
            yield problem(
                "endpoints", f"{name} does not answer at {address}", "look into the service's log, restart it"
            )
    if "http" in addresses:
        yield from _readiness(addresses["http"], read_certificate(directory))


def _readiness(address: str, certificate: Path | None) -> Iterator[Finding]:
    try:
        state = get_readiness(address, certificate)
    except OSError as error:
        yield problem("readiness", f"no answer ({error})", "look into the service's log, restart it")
        return
    progress = f"commit {state.get('committed')}, published through {state.get('published')}"
    if not state.get("ready"):
        yield problem(
            "readiness",
            f"it takes no events; {progress}",
            "look into the service's log; check the free space",
        )
    elif state.get("publishing") is False:
        yield problem(
            "readiness", f"it cannot publish; {progress}", "look into the service's log; check the free space"
        )
    else:
        yield ok("readiness", progress)


def _ports(settings: Settings) -> Iterator[Finding]:
    for name, port in (("grpc_port", settings.grpc_port), ("http_port", settings.http_port)):
        if port == 0:
            yield ok("ports", f"{name}: a free one is picked at the start")
            continue
        reason = _taken(settings.host, port)
        if reason is None:
            yield ok("ports", f"{name} {port} is free")
        else:
            yield problem(
                "ports",
                f"{name} {port}: {reason}",
                f"stop what listens there, or choose another --{name.replace('_', '-')}",
            )


def _taken(host: str, port: int) -> str | None:
    """Why a port cannot be listened on; None if it can."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error.strerror or type(error).__name__
    return None


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


def _holder(lock: Path) -> str:
    try:
        return lock.read_text("utf-8").strip() or "unknown"
    except (OSError, UnicodeDecodeError):
        return "unknown"


def _unwritable(path: Path) -> bool:
    return path.exists() and not os.access(path, os.W_OK | os.X_OK)


def _rounded(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
