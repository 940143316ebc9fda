"""The nightly report in Markdown: for two minutes in the morning.

What comes from telemetry is escaped, so that a name stays a name wherever it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

# An underscore between letters stands for itself, as it does in most names. Addresses become links; what a
# line begins with may make it a list, and blanks a block of code.
_SIGNS = re.compile(
    r"[\\`*\[\]<>|~#!&@]|:(?=//)|(?<=www)\.|(?<![0-9A-Za-z_])_+|_+(?![0-9A-Za-z_])|^[-+](?= |$)",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"^([0-9]{1,9})([.)])(?= |$)")
_BLANKS = re.compile(r"^ +| +$")
# More than this of a day's calls without a status, and the rate cannot be believed.
_UNKNOWN_BOUND = 0.001
_COMPLETE_FROM = 0.999
_MOST_SECONDS = 60.0

Row = Mapping[str, Any]


def markdown(report: Row) -> str:
    """The whole report.

    Args:
        report: what `report_data` of the jobs gives, as values of JSON.
    """
    lines = [f"# Tool calls on {report['day']}", "", *_receiver(report["receiver"])]
    if report["lost_segments"]:
        names = ", ".join(f"`{path}`" for path in report["lost_segments"])
        lines += ["", f"**Stored events of this day or those beside it cannot be read**: {names}."]
    if not report["environments"]:
        lines += ["", "No tool calls and no prompts on this day or the day before."]
    for environment in report["environments"]:
        lines += _environment(environment)
    lines += _revised(report["revised"], report["day"])
    return "\n".join(lines) + "\n"


def _receiver(receiver: Row | None) -> Iterator[str]:
    if receiver is None:
        yield "**The receiver left no record of this day**: what is missing below may never have arrived."
    elif receiver["seconds_not_accepting"] > _MOST_SECONDS:
        seconds, gaps = receiver["seconds_not_accepting"], receiver["gaps"]
        yield (
            f"**The receiver did not accept for {_duration(seconds)}** ({gaps} {_plural('gap', gaps)}): "
            "the day is not complete."
        )
    else:
        yield "The receiver accepted all day."


def _environment(environment: Row) -> Iterator[str]:
    yield ""
    yield f"## {_text(environment['environment'])}"
    yield ""
    yield from _table(
        ("version", "calls", "executed", "failed", "rate", "95 % (calls)", "95 % (owners)", "day before"),
        [_sli(version) for version in environment["versions"]],
    )
    for title, found in (
        ("Look at", [line for v in environment["versions"] for line in _doubts(v)]),
        ("Failures", [line for v in environment["versions"] for line in _errors(v)]),
        ("Guard", [line for v in environment["versions"] for line in _guard(v)]),
        ("Baselines", [line for v in environment["versions"] for line in _baseline(v)]),
    ):
        if found:
            yield ""
            yield f"**{title}**"
            yield ""
            yield from (f"- {line}" for line in found)


def _sli(version: Row) -> Sequence[str]:
    sli, before = version["sli"], version["before"]
    name = _text(version["service_version"])
    was = "no data" if before is None else _rate(before["failure_rate"])
    if sli is None:
        return (name, "no data", "", "", "", "", "", was)
    change = "" if version["change"] is None else f" ({version['change'] * 100:+.2f} pp)"
    return (
        name,
        f"{sli['total']:,}",
        f"{sli['executed']:,}",
        f"{sli['error']:,}",
        _rate(sli["failure_rate"]) + (" (no failure seen)" if sli["executed"] and not sli["error"] else ""),
        _interval(sli["failure_rate_low"], sli["failure_rate_high"]),
        _interval(sli["clustered_low"], sli["clustered_high"]),
        was + change,
    )


def _doubts(version: Row) -> Iterator[str]:
    """What keeps the numbers of a version from being believed."""
    name, sli, quality = _text(version["service_version"]), version["sli"], version["quality"]
    if sli is None:
        if version["before"] is not None:
            yield f"{name}: no calls on this day, after {version['before']['total']:,} the day before."
        return
    if quality is not None and not quality["contract_bearing"]:
        yield f"{name} is not contract-bearing: its rate cannot be judged."
    elif sli["unknown_ratio"] is not None and sli["unknown_ratio"] > _UNKNOWN_BOUND:
        yield f"{name}: {sli['unknown_ratio']:.2%} of calls do not say what became of their execution."
    if sli["contract_violations"]:
        yield f"{name}: {sli['contract_violations']:,} calls break the contract."
    if quality is None:
        return
    if quality["completeness"] is not None and quality["completeness"] < _COMPLETE_FROM:
        yield f"{name}: {1 - quality['completeness']:.2%} of what the agents counted never arrived."
    for key, words in (
        ("call_conflicts", "calls have two different outcomes"),
        ("rejected", "records could not be kept"),
        ("late_after_close", "calls came after the day had closed"),
    ):
        if quality[key]:
            yield f"{name}: {quality[key]:,} {words}."


def _errors(version: Row) -> Iterator[str]:
    classes: dict[str, int] = {}
    for row in version["failure_classes"]:
        classes[row["class"]] = classes.get(row["class"], 0) + row["calls"]
    if not classes:
        return
    counted = ", ".join(f"{name.replace('_', ' ')} {calls:,}" for name, calls in sorted(classes.items()))
    top = "; ".join(
        f"{_text(row['function_name'])} {_text(row['error_type'])} {row['calls']:,}"
        for row in version["top_errors"]
    )
    yield f"{_text(version['service_version'])}: {counted}" + (f". Most: {top}" if top else "")


def _guard(version: Row) -> Iterator[str]:
    for row in version["shadow"]:
        host = "" if row["supported_host"] else ", unsupported host (in no conclusion)"
        warned = row["prompts_would_warn"] + row["prompts_warned"]
        stopped = row["prompts_would_stop"] + row["prompts_stopped"]
        words = "would be warned" if row["mode"] == "shadow" else "warned"
        ends = "would be stopped" if row["mode"] != "enforce" else "stopped or would be"
        volume = " Volume only." if row["mode"] == "shadow" else ""
        yield (
            f"{_text(version['service_version'])}, {_text(row['mode'])}{host}: {row['prompts']:,} "
            f"{_plural('prompt', row['prompts'])}, "
            f"{warned:,} {words}, {stopped:,} {ends}.{volume}"
        )


def _baseline(version: Row) -> Iterator[str]:
    baseline, name = version["baseline"], _text(version["service_version"])
    if baseline is None:
        return
    if baseline["status"] != "ok":
        reason = _text(baseline["reason"])
        yield f"{name}: none. {reason[:1].upper()}{reason[1:]}."
        return
    revised = f", revision {baseline['revision']}" if baseline["revision"] else ""
    yield (
        f"{name}: {_rate(baseline['failure_rate'])} "
        f"{_interval(baseline['failure_rate_low'], baseline['failure_rate_high'])} over "
        f"{baseline['complete_days']} complete days to {baseline['window_end']}{revised}."
    )


def _revised(rows: Sequence[Row], day: str) -> Iterator[str]:
    earlier = [row for row in rows if row["day"] != day]
    if not earlier:
        return
    yield ""
    yield "## Revised days"
    yield ""
    yield from _table(
        ("day", "environment", "version", "late calls", "revision"),
        [
            (
                row["day"],
                _text(row["environment"]),
                _text(row["service_version"]),
                f"{row['late_after_close']:,}",
                str(row["revision"]),
            )
            for row in earlier
        ],
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' for _ in head)} |"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _rate(rate: float | None) -> str:
    return "no executed calls" if rate is None else f"{rate:.2%}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.2%} to {high:.2%}"


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.0f} minutes"


def _plural(noun: str, number: int) -> str:
    return noun if number == 1 else f"{noun}s"


def _text(text: str) -> str:
    shown = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
    escaped = _SIGNS.sub(lambda signs: "".join(f"\\{sign}" for sign in signs[0]), shown)
    escaped = _NUMBERED.sub(r"\1\\\2", escaped)
    return _BLANKS.sub(lambda blanks: "&#32;" * len(blanks[0]), escaped)
