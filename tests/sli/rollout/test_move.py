"""The steps between the phases, and what the acts on record come to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sli.rollout.act import Act, ActName, next_act
from sli.rollout.move import (
    MoveRefusedError,
    Target,
    demotion,
    gate_name,
    held_back_by,
    promotion,
)
from sli.rollout.phase import Phase
from sli.rollout.standing import EnvironmentRecord, environment_records, no_record

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Story:
    """Acts of one or more environments, an hour apart."""

    def __init__(self) -> None:
        self.acts: list[Act] = []

    def record(self, environment: str = "internal") -> EnvironmentRecord:
        return environment_records(self.acts).get(environment) or no_record(environment)

    def act(self, act: ActName, terms: Any, environment: str = "internal") -> None:
        time = NOON + timedelta(hours=len(self.acts))
        self.acts.append(next_act(self.acts, environment, time, act, by="Ann", why="so", terms=terms))

    def promote(self, environment: str = "internal", act: ActName = ActName.PROMOTE, **terms: Any) -> Target:
        target = promotion(self.record(environment), **terms)
        self.act(act, target.terms(), environment)
        return target

    def demote(self, to: Phase) -> None:
        self.act(ActName.DEMOTE, demotion(self.record(), to).terms())


def in_warn(environment: str = "internal") -> Story:
    story = Story()
    story.promote(environment, version="0.24.4")
    story.promote(environment)
    return story


def test_an_environment_that_no_act_names_stands_in_contract() -> None:
    standing = no_record("internal").standing
    assert (standing.phase, standing.wave, standing.pinned_version) == (Phase.CONTRACT, 0, None)
    assert standing.since == datetime(1970, 1, 1, tzinfo=UTC)


def test_the_whole_way() -> None:
    story = Story()
    gates = [gate_name(story.record().standing)]
    for terms in (
        {"version": "0.24.4"},
        {},
        {"share": 0.01, "holdout": 0.1, "salt": "2"},
        {"share": 0.05},
    ):
        story.promote(**terms)
        gates.append(gate_name(story.record().standing))
    history = story.record().history
    assert gates == [
        "contract -> shadow",
        "shadow -> warn",
        "warn -> enforce 1",
        "enforce 1 -> enforce 2",
        "enforce 2 -> enforce 3",
    ]
    assert [(s.phase, s.wave, s.cohort_share, s.holdout_share, s.salt_id) for s in history] == [
        (Phase.CONTRACT, 0, 0.0, 0.0, "1"),
        (Phase.SHADOW, 0, 0.0, 0.0, "1"),
        (Phase.WARN, 0, 0.0, 0.0, "1"),
        (Phase.ENFORCE, 1, 0.01, 0.1, "2"),
        (Phase.ENFORCE, 2, 0.05, 0.1, "2"),
    ]
    assert {s.pinned_version for s in history[1:]} == {"0.24.4"}
    assert [s.since for s in history[1:]] == [NOON + timedelta(hours=h) for h in range(4)]


@pytest.mark.parametrize(
    ("steps", "terms", "words"),
    [
        ([], {}, "name the version"),
        ([{"version": "1.0.0"}], {"version": "1.1.0"}, "1.0.0 is pinned"),
        ([{"version": "1.0.0"}], {"share": 0.05}, "for enforce"),
        ([{"version": "1.0.0"}, {}], {}, "--share"),
        ([{"version": "1.0.0"}, {}], {"share": 0.0}, "in .0, 1."),
        ([{"version": "1.0.0"}, {}], {"share": 0.051}, "more than 0.05.*no override replaces it"),
        ([{"version": "1.0.0"}, {}], {"share": 0.05, "holdout": 1.0}, "holdout in"),
        ([{"version": "1.0.0"}, {}, {"share": 0.04}], {"share": 0.03}, "less than the 0.04"),
        ([{"version": "1.0.0"}, {}, {"share": 0.04}], {"share": 0.05, "holdout": 0.1}, "change arms"),
        ([{"version": "1.0.0"}, {}, {"share": 0.04}], {"share": 0.05, "salt": "9"}, "change arms"),
    ],
)
def test_steps_that_are_none(steps: list[Any], terms: Any, words: str) -> None:
    story = Story()
    for step in steps:
        story.promote(**step)
    with pytest.raises(MoveRefusedError, match=words):
        promotion(story.record(), **terms)


def test_beyond_five_percent_only_with_a_capacity_check_and_as_far_as_it_goes() -> None:
    story = in_warn()
    story.promote(share=0.05)
    story.act(ActName.CAPACITY, {"share": 0.2})
    with pytest.raises(MoveRefusedError, match=r"0.21 is more than 0.2, .*rollout capacity internal"):
        promotion(story.record(), share=0.21)
    assert promotion(story.record(), share=0.2).wave == 2


def test_stepping_back_restarts_the_window_and_contract_forgets_the_version() -> None:
    story = in_warn()
    story.promote(share=0.05)
    story.demote(Phase.SHADOW)
    standing = story.record().standing
    assert (standing.phase, standing.wave, standing.cohort_share) == (Phase.SHADOW, 0, 0.0)
    assert (standing.pinned_version, standing.since) == ("0.24.4", story.acts[-1].time)
    story.demote(Phase.CONTRACT)
    assert story.record().standing.pinned_version is None
    for phase in Phase:
        with pytest.raises(MoveRefusedError, match="no step back"):
            demotion(story.record(), phase)


def test_where_it_stood_at_a_moment() -> None:
    record = in_warn().record()
    moments = (NOON - timedelta(days=9), NOON, NOON + timedelta(minutes=59), NOON + timedelta(hours=1))
    assert [record.at(moment).phase for moment in moments] == ["contract", "shadow", "shadow", "warn"]


def test_a_waiver_holds_until_withdrawn_or_the_version_changes() -> None:
    story = in_warn()
    story.act(ActName.WAIVE, {"criterion": "tokens", "withdrawn": False})
    story.act(ActName.WAIVE, {"criterion": "rounds", "withdrawn": False})
    assert set(story.record().waivers) == {"tokens", "rounds"}
    story.act(ActName.WAIVE, {"criterion": "rounds", "withdrawn": True})
    story.promote(share=0.01)
    assert set(story.record().waivers) == {"tokens"}
    story.demote(Phase.CONTRACT)
    assert not story.record().waivers


def test_a_review_can_veto_and_counts_for_the_phase_in_which_it_was_made() -> None:
    story = Story()
    story.promote(version="0.24.4")
    terms = {
        "subject": "would_stop",
        "service_version": "0.24.4",
        "seed": 1,
        "veto_share": 0.2,
        "prompts": {"a": "none", "b": "useful_progress", "c": "cannot_tell", "d": "none", "e": "none"},
    }
    assert story.record().review_of("would_stop") is None
    story.act(ActName.REVIEW, terms | {"veto_share": 0.21})
    review = story.record().review_of("would_stop")
    assert review is not None
    assert (review.vetoed, dict(review.verdicts)) == (
        False,
        {"none": 3, "useful_progress": 1, "cannot_tell": 1},
    )
    story.act(ActName.REVIEW, terms)
    review = story.record().review_of("would_stop")
    assert review is not None
    assert review.vetoed
    assert story.record().review_of("repeated_after_warning") is None
    story.promote()
    assert story.record().review_of("would_stop") is None


def test_an_environment_is_held_back_until_the_other_has_passed() -> None:
    story = in_warn("internal")
    to_warn = Target(Phase.WARN, 0, "0.24.4", 0.0, 0.0, "1")
    to_enforce = Target(Phase.ENFORCE, 1, "0.24.4", 0.05, 0.0, "1")
    records = environment_records(story.acts)
    assert held_back_by(to_warn, None, records) is None
    assert held_back_by(to_warn, "internal", records) is None
    assert "internal stands in warn and has to be in enforce wave 1 first" in str(
        held_back_by(to_enforce, "internal", records)
    )
    assert "nowhere stands in contract" in str(held_back_by(to_warn, "nowhere", records))
    story.promote(act=ActName.OVERRIDE, share=0.05)
    assert "by an override" in str(held_back_by(to_enforce, "internal", environment_records(story.acts)))
