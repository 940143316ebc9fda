"""`python -m bench.analytics`: what the results cost, beside a bare count over the same files.

Every part runs in a process of its own, so that its memory can be told.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import duckdb

from analytics.day import Day
from analytics.day_tables import DAY_TABLES
from analytics.prompt_partials import PromptPartials
from analytics.published import read_published
from analytics.refresh import refresh
from analytics.repeats import Repeats
from sli.data_directory import DataDirectory
from sli.manifest import Manifest, Segment, segment_path
from sli.schemas import MODEL_CALLS, PROMPT_EVENTS, RECEIVER_UPTIME, SLI_DAILY, TOOL_CALLS, Dataset

_FIRST = date(2026, 10, 1)
_SEGMENT_ROWS = 1_000_000
_CALLS_A_PROMPT = 8

_SHARED = {
    "event_id": "md5_number('{dataset}' || n::VARCHAR)::UUID",
    "time": "make_timestamptz({start} + n * {step})",
    "time_unix_nano": "({start} + n * {step}) * 1000",
    "time_source": "'record'",
    "day": "DATE '{day}'",
    "received_at": "make_timestamptz({start} + n * {step} + 2000000)",
    "environment": "['internal', 'staging', 'public_cloud'][1 + (hash(n // 400) % 3)::BIGINT]",
    "service_name": "'qwen-code'",
    "service_version": "['0.23.4', '0.24.4'][1 + (hash(n // 400) % 2)::BIGINT]",
    "owner": "md5((hash(n // 400) % 5000)::VARCHAR)",
    "session_id": "md5('s{day}' || (n // 400)::VARCHAR)",
    "prompt_id": "md5('s{day}' || (n // 400)::VARCHAR) || '########' || (n // 8 % 50 + 1)::VARCHAR",
    "trace_id": "md5('t{day}' || (n // 8)::VARCHAR)",
    "commit_number": "{commit}",
}
_CALLS = {
    "route": "'screen_or_cli'",
    "call_id": "'call_' || md5('c{day}' || n::VARCHAR)[:24]",
    "span_id": "md5('p{day}' || n::VARCHAR)[:16]",
    "function_name": "['run_shell_command', 'read_file', 'edit', 'grep_search', 'glob', 'write_file']"
    "[1 + (hash(n + 1) % 6)::BIGINT]",
    "tool_type": "'native'",
    "status": "if(hash(n + 7) % 100 < 12, 'error', 'success')",
    "execution_status": "CASE WHEN hash(n + 7) % 100 < 9 THEN 'error' "
    "WHEN hash(n + 7) % 100 < 12 THEN 'not_started' ELSE 'success' END",
    "error_type": "CASE WHEN hash(n + 7) % 100 < 12 THEN "
    "['file_not_found', 'shell_execute_error'][1 + (hash(n + 3) % 2)::BIGINT] END",
    "duration_ms": "(hash(n) % 5000)::DOUBLE",
    "content_length": "(hash(n) % 9000)::BIGINT",
    "contract_violation": "false",
}
_MODEL = {"outcome": "'response'", "by_subagent": "false", "total_tokens": "1000", "duration_ms": "900.0"}
_PROMPT = {
    "kind": "'interaction'",
    "message_type": "if(hash(n // 50) % 2 = 0, 'acp_prompt', 'userQuery')",
    "turn_status": "'ok'",
    "duration_ms": "(hash(n) % 60000)::DOUBLE",
}


def main() -> None:
    """Make the events, measure the parts, print a line of JSON each."""
    parser = argparse.ArgumentParser(prog="bench.analytics", description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--folder", type=Path, help="keep the events here, or use those that are there")
    parser.add_argument("--part", choices=tuple(_PARTS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(_measured(options.part, DataDirectory(options.folder))))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        directory = DataDirectory(folder)
        if not directory.manifest.exists():
            started = time.perf_counter()
            make_events(directory, options.calls, options.days)
            print(f"made {options.calls:,} calls in {time.perf_counter() - started:.0f} s", flush=True)
        found = {}
        for part in _PARTS:
            command = [sys.executable, "-m", "bench.analytics", "--part", part, "--folder", str(folder)]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
            found[part] = json.loads(done.stdout)
            print(json.dumps({"part": part, **found[part]}), flush=True)
        ratio = found["daily_sli"]["seconds"] / found["bare_group_by"]["seconds"]
        print(f"daily SLI against a bare group-by: {ratio:.2f} × (target ≤ 1.5)")


def make_events(directory: DataDirectory, calls: int, days: int) -> None:
    """Publish so many calls, evenly over days, with their prompts and answers."""
    a_day = calls // days
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        segments: list[Segment] = []
        for number in range(days):
            segments += _publish_day(
                connection, directory, _FIRST + timedelta(days=number), a_day, number + 1
            )
    _write_manifest(directory, segments, days)


def _publish_day(
    connection: duckdb.DuckDBPyConnection, directory: DataDirectory, day: date, calls: int, commit: int
) -> list[Segment]:
    found = []
    for dataset, columns, rows in (
        (TOOL_CALLS, _CALLS, calls),
        (MODEL_CALLS, _MODEL, calls // 2),
        (PROMPT_EVENTS, _PROMPT, calls // _CALLS_A_PROMPT),
    ):
        for first in range(0, rows, _SEGMENT_ROWS):
            last = min(first + _SEGMENT_ROWS, rows)
            found.append(_segment(connection, directory, dataset, columns, day, (first, last, rows), commit))
    uptime = {"since": "make_timestamptz({start})", "until": "make_timestamptz({start} + 86400000000)"}
    found.append(_segment(connection, directory, RECEIVER_UPTIME, uptime, day, (0, 1, 1), commit))
    return found


def _segment(
    connection: duckdb.DuckDBPyConnection,
    directory: DataDirectory,
    dataset: Dataset,
    own: dict[str, str],
    day: date,
    numbers: tuple[int, int, int],
    commit: int,
) -> Segment:
    first, last, of_day = numbers
    start = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1_000_000)
    facts = {"day": day, "start": start, "step": max(86_000_000_000 // of_day, 1), "commit": commit}
    # Prompts of all tables go by the same numbers: eight calls, four answers, one interaction.
    scale = {TOOL_CALLS.name: 1, MODEL_CALLS.name: 2}.get(dataset.name, _CALLS_A_PROMPT)
    expressions = {
        name: text.format(dataset=f"{dataset.name}{day}", **facts) for name, text in (_SHARED | own).items()
    }
    for name in ("environment", "service_version", "owner", "session_id", "prompt_id", "trace_id"):
        expressions[name] = expressions[name].replace("n //", f"(n * {scale}) //")
    columns = ", ".join(
        f"({expressions.get(column.name, 'NULL')})::{column.type} AS {column.name}"
        for column in dataset.columns
    )
    relative = segment_path(dataset.name, day, commit, commit).replace(".parquet", f"-{first}.parquet")
    path = directory.events / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    connection.execute(
        f"COPY (SELECT {columns} FROM range({first}, {last}) AS r(n)) TO '{path}' "
        "(FORMAT parquet, COMPRESSION zstd)"
    )
    content = path.read_bytes()
    return Segment(
        dataset.name, day, relative, last - first, len(content), commit, commit, zlib.crc32(content)
    )


def _write_manifest(directory: DataDirectory, segments: list[Segment], through: int) -> None:
    directory.manifest.write_text(Manifest("bench", through, tuple(segments)).render(), "utf-8")


def _measured(part: str, directory: DataDirectory) -> dict[str, float]:
    started = time.perf_counter()
    _PARTS[part](directory)
    return {
        "seconds": time.perf_counter() - started,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _bare_group_by(directory: DataDirectory) -> None:
    published = read_published(directory)
    assert published is not None
    rows = published.scan(TOOL_CALLS)
    rows.group_by("day", "environment", "service_version", "execution_status").len().collect(
        engine="streaming"
    )


def _daily_sli(directory: DataDirectory) -> None:
    published = read_published(directory)
    assert published is not None
    repeats = Repeats(published)
    partials = PromptPartials(published, repeats)
    table = next(table for table in DAY_TABLES if table.dataset is SLI_DAILY)
    for day in published.days(TOOL_CALLS):
        table.compute(Day(published, repeats, partials, day, datetime.now(UTC)))


def _rebuild(directory: DataDirectory) -> None:
    refresh(directory, rebuild=True)


def _refresh_after_10000(directory: DataDirectory) -> None:
    """New calls of the last day, of prompts of their own."""
    text = directory.manifest.read_text("utf-8")
    manifest = Manifest.parse(text)
    day = max(segment.day for segment in manifest.segments)
    commit = manifest.published_through + 1
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        numbers = (2_000_000_000, 2_000_010_000, 100_000_000)
        segment = _segment(connection, directory, TOOL_CALLS, _CALLS, day, numbers, commit)
    _write_manifest(directory, [*manifest.segments, segment], commit)
    started = time.perf_counter()
    outcome = refresh(directory)
    print(f"refresh alone {time.perf_counter() - started:.2f} s, {outcome.days} days", file=sys.stderr)


_PARTS = {
    "bare_group_by": _bare_group_by,
    "daily_sli": _daily_sli,
    "rebuild": _rebuild,
    "refresh_after_10000": _refresh_after_10000,
}


if __name__ == "__main__":
    main()
