"""The real producer's exports, sent as they were sent, give exactly the counts that they hold."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sli.schemas import EVENT_DATASETS

REPOSITORY = Path(__file__).parents[2]
# The same exports with their long texts, too large for the repository, where somebody has put them.
CAPTURES = Path(os.environ.get("CAPTURES", REPOSITORY.parent / "shared" / "captures"))
ACCEPTED = ("ok", "drop", "hang")
# Names in expected.json that a model made up, as they are in the bytes.
INVENTED = {
    "no_such_tool",
    "Bash",
    "READ_FILE",
    "ReadFile",
    "CANARY-NAME-7f3a",
    "werkzeug_工具 <b>",
    "x" * 170,
}
# Old releases have no tool of this name; the script calls it all the same.
INVENTED_BEFORE_0_24 = {"tool_call"}


@dataclass(frozen=True)
class Export:
    run: str
    signal: str
    transport: str
    path: str
    content_type: str
    body: Path


def _exports(root: Path) -> list[Export]:
    exports = []
    for sidecar in sorted(root.glob("*/[0-9]*-*.json")):
        if sidecar.name.endswith(".body.json"):
            continue
        said = json.loads(sidecar.read_text())
        if said["reply"] in ACCEPTED and said["signal"] in ("logs", "traces", "metrics"):
            body = sidecar.parent / said["body_file"]
            exports.append(
                Export(
                    sidecar.parent.name,
                    said["signal"],
                    said["transport"],
                    said["path"],
                    said["content_type"],
                    body,
                )
            )
    return exports


def _expected(root: Path, runs: set[str]) -> tuple[Counter[tuple[Any, ...]], Counter[tuple[Any, ...]]]:
    calls: Counter[tuple[Any, ...]] = Counter()
    guards: Counter[tuple[Any, ...]] = Counter()
    for run, said in json.loads((root / "expected.json").read_text()).items():
        if run not in runs:
            continue
        where = (said["deployment_environment"] or "unset", said["service_version"])
        for status, execution_status, tool_type, name, count in said["tool_calls"]:
            old = said["service_version"] < "0.24"
            if name in INVENTED or name[:100] == "x" * 100 or (old and name in INVENTED_BEFORE_0_24):
                name = "unregistered_tool"
            calls[(*where, status, execution_status or "unknown", tool_type, name)] += count
        for mode, decision, reason, count in said["guard"]:
            guards[(*where, mode, decision, reason or None)] += count
    return calls, guards


def _found(toolgauge: Any, data_dir: Path) -> tuple[Counter[tuple[Any, ...]], Counter[tuple[Any, ...]]]:
    def count(columns: str, table: str) -> Counter[tuple[Any, ...]]:
        query = f"SELECT {columns}, count(*) AS n FROM {table} GROUP BY ALL"
        done = toolgauge("sql", query, "--data-dir", str(data_dir), "--format", "json")
        assert done.returncode == 0, done.stderr
        rows = [tuple(row.values()) for row in json.loads(done.stdout)]
        return Counter({row[:-1]: row[-1] for row in rows})

    where = "environment, service_version"
    return (
        count(f"{where}, status, execution_status, tool_type, function_name", "tool_calls"),
        count(f"{where}, mode, decision, reset_reason", "guard_decisions"),
    )


def _send(service: Any, exports: list[Export]) -> None:
    for export in exports:
        body = export.body.read_bytes()
        if export.transport == "grpc":
            service.export(export.signal, body)
            continue
        response = service.post(
            export.signal, _in_chunks(body), export.content_type, path=f"/some/prefix{export.path}"
        )
        assert response.status_code == 200, response.text


def _in_chunks(body: bytes) -> Iterator[bytes]:
    """As the producer sends it: chunked, without a Content-Length."""
    for start in range(0, len(body), 4096):
        yield body[start : start + 4096]


ROOTS = [
    pytest.param(REPOSITORY / "tests" / "fixtures", id="fixtures"),
    pytest.param(
        CAPTURES,
        id="captures",
        marks=pytest.mark.skipif(not CAPTURES.is_dir(), reason=f"no captures at {CAPTURES}"),
    ),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("root", ROOTS)
def test_over_their_own_transport_then_again_shuffled_after_a_kill_and_by_import(
    start_service: Callable[..., Any], toolgauge: Any, root: Path
) -> None:
    exports = _exports(root)
    assert len(exports) > 200
    expected = _expected(root, {export.run for export in exports})
    service = start_service()
    _send(service, exports)
    assert _found(toolgauge, service.data_dir) == expected

    random.Random(7).shuffle(exports)
    _send(service, exports[:100])
    service.kill()
    service.start()
    _send(service, exports[100:])
    assert _found(toolgauge, service.data_dir) == expected

    files = [str(export.body) for export in exports]
    through_the_service = toolgauge("import", *files, "--data-dir", str(service.data_dir), "--format", "json")
    assert through_the_service.returncode == 0, through_the_service.stderr
    (tally,) = json.loads(through_the_service.stdout)
    assert (tally["stored"], tally["rejected"], tally["failed"]) == (0, 0, 0)
    assert tally["duplicates"] > 300
    assert service.stop() == 0
    assert _found(toolgauge, service.data_dir) == expected


@pytest.mark.parametrize("root", ROOTS)
def test_by_import_alone(toolgauge: Any, root: Path, tmp_path: Path) -> None:
    exports = _exports(root)
    expected = _expected(root, {export.run for export in exports})
    random.Random(3).shuffle(exports)
    data_dir = tmp_path / "data"
    for part in (exports[::2], exports[1::2], exports[::3]):
        done = toolgauge("import", *(str(export.body) for export in part), "--data-dir", str(data_dir))
        assert done.returncode == 0, done.stderr
    assert _found(toolgauge, data_dir) == expected


@pytest.mark.parametrize("root", ROOTS)
def test_no_canary_is_anywhere(
    start_service: Callable[..., Any], toolgauge: Any, root: Path, tmp_path: Path
) -> None:
    exports = [export for export in _exports(root) if "canary" in export.run]
    assert any(b"CANARY-" in export.body.read_bytes() for export in exports)
    service = start_service()
    answers = []
    for export in exports:
        answers.append(service.export(export.signal, export.body.read_bytes()))
        # What cannot be kept, or is damaged, is not quoted either.
        broken = export.body.read_bytes()[:-7]
        response = service.post(export.signal, broken)
        assert response.status_code == 400
        answers.append(response.content + repr(response.headers).encode())
    answers += [service.http.get(page).content for page in ("/metrics", "/readyz", "/healthz")]
    for table in EVENT_DATASETS:
        done = toolgauge("sql", f"FROM {table.name}", "--data-dir", str(service.data_dir), "--format", "json")
        assert done.returncode == 0, done.stderr
        # Through SQL every value of every column is seen, whatever compression is on disk.
        answers.append((done.stdout + done.stderr).encode())
    assert b"unregistered_tool" in b"".join(answers)
    service.kill()
    on_disk = [path.read_bytes() for path in [*service.data_dir.rglob("*"), service.log] if path.is_file()]
    assert len(on_disk) > 4
    for found in answers + on_disk:
        assert b"CANARY-" not in found
