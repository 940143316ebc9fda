"""Something that looks like the running service to those who ask it."""

from __future__ import annotations

import fcntl
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from sli.data_directory import DataDirectory


@contextmanager
def service(directory: DataDirectory, readiness: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Hold the lock, listen, and answer /readyz with `readiness`, which may be changed meanwhile."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(readiness).encode() if self.path == "/readyz" else b"?"
            self.send_response(200 if readiness.get("ready") else 503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    directory.root.mkdir(parents=True, exist_ok=True)
    with directory.ingest_lock.open("a+") as lock, HTTPServer(("127.0.0.1", 0), Handler) as server:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock.write("4711")
        lock.flush()
        address = f"127.0.0.1:{server.server_port}"
        directory.endpoints.write_text(json.dumps({"http": address}))
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield readiness
        finally:
            server.shutdown()
            thread.join()
            directory.endpoints.unlink(missing_ok=True)
