"""What the documents say is what the program does."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["tables", "commands"])
def test_a_page_is_what_its_script_makes(page: str) -> None:
    spec = importlib.util.spec_from_file_location(page, REPOSITORY / "scripts" / f"{page}.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert (REPOSITORY / "docs" / f"{page}.md").read_text() == script.render()


def test_every_command_of_the_documents_exists(toolgauge: Any) -> None:
    text = "".join((REPOSITORY / name).read_text() for name in ("README.md", "docs/upkeep.md"))
    named = set(re.findall(r"toolgauge ([a-z]+)\b", text)) - {"is", "receives"}
    assert {"serve", "import", "sli", "sql", "refresh", "doctor", "config"} <= named
    help_text = toolgauge("--help").stdout
    for command in named:
        assert re.search(rf"^  {command}\b", help_text, re.MULTILINE), command


@pytest.mark.parametrize(
    "line", ["toolgauge sli --by function --environment internal --since 7d", "toolgauge sli --format json"]
)
def test_examples_of_the_readme_run(toolgauge: Any, tmp_path: Path, line: str) -> None:
    assert line in (REPOSITORY / "README.md").read_text()
    done = toolgauge(*line.split()[1:], "--data-dir", str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_the_readmes_curl_posts_a_call_that_the_select_shows(toolgauge: Any, start_service: Any) -> None:
    import json
    import subprocess

    readme = (REPOSITORY / "README.md").read_text()
    example = readme[readme.index("    NOW=") : readme.index("    .venv/bin/toolgauge sql")]
    service = start_service()
    script = example.replace("http://127.0.0.1:4318", f"http://{service.endpoints['http']}")
    curl = script[script.index("    curl ") :]
    # Posted, and posted again a moment later, as the README says.
    twice = f"{script}\nsleep 1.1\n{curl}"
    done = subprocess.run(["bash", "-c", twice], capture_output=True, text=True, check=True)
    assert done.stdout == "{}{}"
    select = re.search(r'toolgauge sql "(SELECT time.*?)"', readme)
    assert select is not None
    shown = toolgauge("sql", select[1], "--data-dir", str(service.data_dir), "--format", "json")
    (row,) = json.loads(shown.stdout)
    assert (row["environment"], row["function_name"], row["status"], row["execution_status"]) == (
        "internal",
        "read_file",
        "error",
        "error",
    )


def test_the_page_of_access_names_settings_statuses_and_limits_as_they_are() -> None:
    from ingest.receive import access, connections, grpc, reading, statuses
    from toolgauge.settings import Settings

    page = (REPOSITORY / "docs" / "access.md").read_text()
    rows = re.findall(r"^\| (.*?) \| (.*?) \|", page, re.MULTILINE)
    named = {name for first, _ in rows for name in re.findall(r"`(\w+)`", first)}
    assert {name for name in Settings.model_fields if re.search("token|tls|client", name)} <= named
    assert named - {"grpc"} <= set(Settings.model_fields)
    for answer in statuses.ANSWERS.values():
        # These two say that nothing is to be found where it was looked for.
        assert answer.http in (404, 405) or f"{answer.http}" in page
    assert f"A token has {access._SHORTEST_TOKEN} characters or more" in page
    limits = dict(rows)
    assert limits["messages that are received at once over gRPC"].startswith(
        f"{grpc.READING_AT_ONCE}, each within {grpc._READING_SECONDS:g} s"
    )
    assert limits["calls at once over gRPC"] == (
        f"{grpc._MOST_CALLS}, and {grpc._MOST_CALLS_OF_A_CONNECTION} of a connection"
    )
    assert limits["connections over HTTP"] == f"{connections.MOST_CONNECTIONS}"
    assert limits["headers of a request"] == (
        f"{connections._MOST_HEADER_BYTES // 1024} KiB, within {connections.HEADER_SECONDS:g} s"
    )
    assert limits["a body over HTTP"] == (
        f"{reading._LONGEST_SECONDS:g} s in all, never {reading.SILENCE_SECONDS:g} s of silence, "
        f"after {reading._FREE_SECONDS:g} s at least {reading._LEAST_BYTES_PER_SECOND // 1024} KiB/s"
    )
