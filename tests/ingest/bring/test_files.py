"""Which files hold telemetry, and what is said of the others."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from ingest.bring.files import FileRequest, find_files, read_file
from ingest.decode.wire import Signal
from ingest.exceptions import NotTelemetry
from ingest.keep.writer import Encoding

LOGS: dict[str, Any] = {"resourceLogs": [{"scopeLogs": [{"logRecords": []}]}]}


def _write(path: Path, content: bytes) -> Path:
    if path.suffix == ".gz":
        content = gzip.compress(content)
    if path.suffix == ".zst":
        content = zstandard.ZstdCompressor().compress(content)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize(
    ("name", "signal"),
    [
        ("001-logs.pb", Signal.LOGS),
        ("traces.pb", Signal.TRACES),
        ("my-spans.pb", Signal.TRACES),
        ("metrics-2.pb", Signal.METRICS),
    ],
)
def test_a_serialised_request_says_its_signal_by_name(
    tmp_path: Path, name: str, signal: Signal, suffix: str
) -> None:
    path = _write(tmp_path / (name + suffix), b"body")
    assert list(read_file(path, None)) == [FileRequest(path, None, signal, Encoding.PROTOBUF, b"body")]


def test_or_by_option(tmp_path: Path) -> None:
    path = _write(tmp_path / "x.pb", b"body")
    (found,) = read_file(path, Signal.TRACES)
    assert isinstance(found, FileRequest)
    assert found.signal is Signal.TRACES
    (refused,) = read_file(path, None)
    assert isinstance(refused, NotTelemetry)
    assert "say --signal logs, traces or metrics" in str(refused)


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("indent", [None, 2])
def test_one_json_document(tmp_path: Path, suffix: str, indent: int | None) -> None:
    path = _write(tmp_path / f"body.json{suffix}", json.dumps(LOGS, indent=indent).encode())
    (found,) = read_file(path, None)
    assert isinstance(found, FileRequest)
    assert (found.signal, found.line, json.loads(found.body)) == (Signal.LOGS, None, LOGS)


def test_json_lines_of_the_collectors_file_exporter(tmp_path: Path) -> None:
    lines = [
        json.dumps(LOGS),
        json.dumps({"resourceSpans": []}),
        "",
        '{"resourceLogs": broken',
        json.dumps({"a": 1}),
    ]
    path = _write(tmp_path / "telemetry.jsonl.zst", "\n".join(lines).encode())
    found = list(read_file(path, None))
    assert [(each.signal, each.line) for each in found if isinstance(each, FileRequest)] == [
        (Signal.LOGS, 1),
        (Signal.TRACES, 2),
    ]
    refused = [str(each) for each in found if isinstance(each, NotTelemetry)]
    assert ["line 4: neither JSON" in refused[0], "line 5: no OTLP" in refused[1]] == [True, True]


def test_a_damaged_first_line_costs_only_itself(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "telemetry.jsonl", f'gs": []}}\n{json.dumps(LOGS)}\n{json.dumps(LOGS)}\n'.encode()
    )
    found = list(read_file(path, None))
    assert [each.line for each in found if isinstance(each, FileRequest)] == [2, 3]
    assert [str(each) for each in found if isinstance(each, NotTelemetry)] == [
        f"{path}: line 1: neither JSON nor named .pb; a serialised request needs a name like 001-logs.pb"
    ]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("picture.json", b"\x89PNG\r\n", "neither JSON nor named .pb"),
        (
            "settings.json",
            b'{"a": 1}',
            "it should have one of resourceLogs, resourceSpans and resourceMetrics",
        ),
        ("list.json", b"[1, 2]", "it should have one of"),
        ("empty.json", b"", "neither JSON"),
        ("broken.json.gz", None, "cannot be read"),
        ("broken.json.zst", None, "cannot be read"),
    ],
)
def test_a_file_of_another_kind_is_named_with_what_it_should_be(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"not compressed" if content is None else content)
    (refused,) = read_file(path, None)
    assert isinstance(refused, NotTelemetry)
    assert str(refused).startswith(f"{path}: ")
    assert said in str(refused)


def test_folders_give_what_looks_like_telemetry_in_order(tmp_path: Path) -> None:
    for name in ("b.json", "a/2-logs.pb", "a/1-logs.pb.gz", "a/readme.txt", "c.jsonl.zst"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [str(path.relative_to(tmp_path)) for path in find_files([tmp_path])]
    assert found == ["a/1-logs.pb.gz", "a/2-logs.pb", "b.json", "c.jsonl.zst"]
    with pytest.raises(NotTelemetry, match="no such file or folder"):
        find_files([tmp_path / "missing"])


def test_importing_the_collectors_lines_stores_the_calls_once(
    otlp: Any, toolgauge: Any, tmp_path: Path
) -> None:
    attributes = [{"key": k, "value": {"stringValue": str(v)}} for k, v in otlp.tool_call.items()]
    record = {"timeUnixNano": str(otlp.noon), "attributes": attributes}
    line = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})
    path = _write(tmp_path / "lines.json.gz", f"{line}\n{line}\n".encode())
    done = toolgauge("import", str(path), "--data-dir", str(tmp_path / "data"), "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        {"files": 1, "requests": 2, "stored": 1, "duplicates": 1, "rejected": 0, "left_out": 0, "failed": 0}
    ]
