"""What the documents say is what the program does."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]


def test_the_page_of_tables_is_made_from_the_schemas() -> None:
    spec = importlib.util.spec_from_file_location("tables", REPOSITORY / "scripts" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    assert (REPOSITORY / "docs" / "tables.md").read_text() == tables.render()


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
