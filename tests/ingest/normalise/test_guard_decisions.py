"""Each rule of a guard decision."""

from __future__ import annotations

from typing import Any


def _row(otlp: Any, **attributes: Any) -> dict[str, Any]:
    (row,) = otlp.rows(otlp.logs(otlp.log(otlp.guard | attributes)), dataset="guard_decisions")
    return row


def test_its_fields_are_kept_and_the_session_comes_from_the_prompt(otlp: Any) -> None:
    row = _row(otlp)
    kept = {k: v for k, v in otlp.guard.items() if not k.startswith("event.")}
    assert {name: row[name] for name in kept} == kept
    assert (row["session_id"], row["reset_reason"], row["unlisted_attributes"]) == ("s-1", None, [])
    assert (row["environment"], row["service_version"]) == ("internal", "0.24.4")


def test_a_prompt_without_a_separator_has_no_session(otlp: Any) -> None:
    for prompt in ("bea89ddbc7bff", "a#b-c#1", "########1"):
        assert _row(otlp, prompt_id=prompt)["session_id"] is None


def test_a_reset_keeps_its_reason(otlp: Any) -> None:
    assert _row(otlp, decision="reset", reset_reason="mixed")["reset_reason"] == "mixed"


def test_unlisted_attributes_are_kept_by_name_only(otlp: Any) -> None:
    row = _row(otlp, function_name="secret-tool", zeta="secret-z", **{"log.bridge": True})
    assert row.pop("unlisted_attributes") == ["function_name", "zeta"]
    row.pop("identity")
    assert "secret" not in str(row)


def test_unlisted_names_are_bounded(otlp: Any) -> None:
    row = _row(otlp, **{f"{n:03d}" + "x" * 500: 1 for n in range(100)})
    assert len(row["unlisted_attributes"]) == 32
    assert max(map(len, row["unlisted_attributes"])) == 128


def test_the_whole_record_is_the_identity(otlp: Any) -> None:
    same = _row(otlp)["identity"]
    assert _row(otlp, candidate_ordinal=2)["identity"] != same
    assert _row(otlp, decision="reset")["identity"] != same
    shuffled = list(reversed(otlp.guard.items()))
    (row,) = otlp.rows(otlp.logs(otlp.log(shuffled, observed_time_unix_nano=9)), dataset="guard_decisions")
    assert row["identity"] == same


def test_a_wrongly_typed_prompt_is_rejected(otlp: Any) -> None:
    events = otlp.normalised(otlp.logs(otlp.log(otlp.guard | {"prompt_id": 1}), otlp.log(otlp.guard)))
    assert events.rejected["wrong_type"].tolist() == [1]
    assert {rows.dataset: len(rows.table) for rows in events.rows} == {"guard_decisions": 1, "rejected": 1}
