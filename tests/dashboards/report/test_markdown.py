"""The report in Markdown: what it says, and that a name in it stays a name."""

from __future__ import annotations

from typing import Any

import pytest

from dashboards.report.markdown import markdown

SLI: dict[str, Any] = {
    "total": 1200,
    "executed": 1000,
    "error": 82,
    "failure_rate": 0.082,
    "failure_rate_low": 0.0665,
    "failure_rate_high": 0.1006,
    "clustered_low": None,
    "clustered_high": None,
    "unknown_ratio": 0.0,
    "contract_violations": 0,
}
QUALITY: dict[str, Any] = {
    "contract_bearing": True,
    "completeness": None,
    "call_conflicts": 0,
    "rejected": 0,
    "late_after_close": 0,
}
VERSION: dict[str, Any] = {
    "service_version": "0.24.4",
    "sli": SLI,
    "before": None,
    "change": None,
    "quality": QUALITY,
    "failure_classes": [],
    "top_errors": [],
    "shadow": [],
    "baseline": None,
}
SHADOW: dict[str, Any] = {
    "mode": "shadow",
    "supported_host": True,
    "prompts": 1,
    "prompts_would_warn": 1,
    "prompts_warned": 0,
    "prompts_would_stop": 1,
    "prompts_stopped": 0,
}


def report(*versions: dict[str, Any], environment: str = "internal", **columns: Any) -> str:
    made = {
        "day": "2026-11-30",
        "receiver": {"seconds_not_accepting": 0.0, "gaps": 0},
        "lost_segments": [],
        "environments": [{"environment": environment, "versions": list(versions)}] if versions else [],
        "revised": [],
    }
    return markdown(made | columns)


def test_a_quiet_day() -> None:
    assert report() == (
        "# Tool calls on 2026-11-30\n\nThe receiver accepted all day.\n\n"
        "No tool calls and no prompts on this day or the day before.\n"
    )


def test_a_day_in_full() -> None:
    version = VERSION | {
        "before": SLI | {"failure_rate": 0.08},
        "change": 0.002,
        "failure_classes": [
            {"class": "execution_failure", "error_type": "file_not_found", "calls": 1082},
            {"class": "cancelled", "error_type": None, "calls": 3},
        ],
        "top_errors": [{"function_name": "read_file", "error_type": "file_not_found", "calls": 1082}],
        "shadow": [SHADOW],
    }
    assert report(version).splitlines()[4:] == [
        "## internal",
        "",
        "| version | calls | executed | failed | rate | 95 % (calls) | 95 % (owners) | day before |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| 0.24.4 | 1,200 | 1,000 | 82 | 8.20% | 6.65% to 10.06% |  | 8.00% (+0.20 pp) |",
        "",
        "**Failures**",
        "",
        "- 0.24.4: cancelled 3, execution failure 1,082. Most: read_file file_not_found 1,082",
        "",
        "**Guard**",
        "",
        "- 0.24.4, shadow: 1 prompt, 1 would be warned, 1 would be stopped. Volume only.",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sli": None, "before": SLI}, "0.24.4: no calls on this day, after 1,200 the day before."),
        ({"quality": QUALITY | {"contract_bearing": False}}, "is not contract-bearing"),
        ({"sli": SLI | {"unknown_ratio": 0.002}}, "0.20% of calls do not say"),
        ({"sli": SLI | {"contract_violations": 3}}, "3 calls break the contract."),
        ({"quality": QUALITY | {"completeness": 0.98}}, "2.00% of what the agents counted never arrived."),
        ({"quality": QUALITY | {"call_conflicts": 2}}, "2 calls have two different outcomes."),
        ({"quality": QUALITY | {"late_after_close": 1500}}, "1,500 calls came after the day had closed."),
        ({"sli": SLI | {"error": 0, "failure_rate": 0.0}}, "0.00% (no failure seen)"),
        ({"sli": SLI | {"executed": 0, "error": 0, "failure_rate": None}}, "no executed calls"),
        ({"shadow": [SHADOW | {"supported_host": False}]}, "unsupported host (in no conclusion)"),
        (
            {"baseline": {"status": "refused", "reason": "0 of 7 complete days", "revision": 0}},
            "0.24.4: none. 0 of 7 complete days.",
        ),
    ],
)
def test_what_an_operator_has_to_know(changes: dict[str, Any], words: str) -> None:
    assert words in report(VERSION | changes)


def test_a_version_with_prompts_and_no_calls_at_all() -> None:
    text = report(VERSION | {"sli": None, "quality": None, "shadow": [SHADOW]})
    assert "| 0.24.4 | no data |" in text
    assert "1 prompt" in text


@pytest.mark.parametrize(
    ("receiver", "words"),
    [
        (None, "**The receiver left no record of this day**"),
        ({"seconds_not_accepting": 10_800.0, "gaps": 1}, "did not accept for 3.0 hours** (1 gap)"),
        ({"seconds_not_accepting": 120.0, "gaps": 2}, "did not accept for 2 minutes** (2 gaps)"),
        ({"seconds_not_accepting": 60.0, "gaps": 1}, "The receiver accepted all day."),
    ],
)
def test_how_the_receiver_was(receiver: dict[str, Any] | None, words: str) -> None:
    assert words in report(receiver=receiver)


def test_lost_segments_and_revised_days_are_named() -> None:
    revised = {"environment": "internal", "service_version": "0.24.4", "revision": 1, "late_after_close": 5}
    rows = [revised | {"day": "2026-11-28"}, revised | {"day": "2026-11-30"}]
    text = report(lost_segments=["tool_calls/day=2026-11-30/1-2.parquet"], revised=rows)
    assert "cannot be read**: `tool_calls/day=2026-11-30/1-2.parquet`." in text
    assert "| 2026-11-28 | internal | 0.24.4 | 5 | 1 |" in text
    assert "| 2026-11-30 |" not in text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("mcp__demo__reads", "mcp__demo__reads"),
        ("__init__", r"\_\_init\_\_"),
        ("a|b", r"a\|b"),
        ("*bold* `code` ~~gone~~", r"\*bold\* \`code\` \~\~gone\~\~"),
        ("[a](https://example.org)", r"\[a\](https\://example.org)"),
        ("WWW.example.org a@b.c", r"WWW\.example.org a\@b.c"),
        ("<img src=x> &amp;", r"\<img src=x\> \&amp;"),
        ("# head", r"\# head"),
        ("- item", r"\- item"),
        ("12. item", r"12\. item"),
        ("-1.5", "-1.5"),
        ("     code", "&#32;&#32;&#32;&#32;&#32;code"),
        ("a\nb\r\tc\x1b[31m\x9b", "a�b��c�\\[31m�"),
        ("a\u202eb\u061cc\u200bd\ufeff", "a�b�c�d�"),
        ("読む", "読む"),
    ],
)
def test_a_name_stays_a_name(name: str, shown: str) -> None:
    text = report(
        VERSION
        | {
            "service_version": name,
            "failure_classes": [{"class": "execution_failure", "error_type": name, "calls": 1}],
            "top_errors": [{"function_name": name, "error_type": name, "calls": 1}],
            "baseline": {"status": "refused", "reason": f"x {name}", "revision": 0},
        },
        environment=name,
    )
    lines = text.splitlines()
    assert f"## {shown}" in lines
    assert any(line.startswith(f"| {shown} |") for line in lines)
    assert any(line.startswith(f"- {shown}: execution failure 1. Most: {shown} {shown} 1") for line in lines)
    assert all(sign == "\n" or sign.isprintable() for sign in text)
    widths = {line.replace(r"\|", "").count("|") for line in lines if line.startswith("|")}
    assert widths == {9}
