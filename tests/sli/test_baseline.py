"""Which days a baseline stands on, and what speaks against it."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from sli.baseline import Window, WindowDay, choose_window

END = date(2026, 11, 20)


def day(back: int, calls: int = 100, **facts: Any) -> WindowDay:
    known: dict[str, Any] = {"seconds_not_accepting": 0.0, "completeness": None, "unknown": 0} | facts
    return WindowDay(END - timedelta(days=back), calls=calls, **known)


def chosen(*days: WindowDay, **facts: Any) -> Window:
    given: dict[str, Any] = {
        "environment": "internal",
        "version": "0.24.4",
        "has_contract": True,
        "mixed": 0.0,
    }
    return choose_window(end=END, known=days, **given | facts)


def test_the_latest_seven_complete_days() -> None:
    window = chosen(*[day(back) for back in range(10)])
    assert (window.start, window.end, len(window.days)) == (date(2026, 11, 14), END, 7)
    assert (window.quiet_days, window.reasons) == (0, ())


def test_days_that_are_not_complete_are_passed_over_within_ten() -> None:
    down = {1: day(1, seconds_not_accepting=60.5), 4: day(4, seconds_not_accepting=None)}
    lossy = {6: day(6, completeness=0.9989)}
    window = chosen(*[(down | lossy).get(back, day(back)) for back in range(10)])
    assert (window.start, len(window.days), window.reasons) == (date(2026, 11, 11), 7, ())


@pytest.mark.parametrize(
    ("facts", "complete"),
    [
        ({"seconds_not_accepting": 60.0}, True),
        ({"seconds_not_accepting": 60.1}, False),
        ({"seconds_not_accepting": None}, False),
        ({"completeness": 0.999}, True),
        ({"completeness": 0.99899}, False),
        ({"completeness": 1.2}, True),
        ({"completeness": None}, True),
    ],
)
def test_what_makes_a_day_complete(facts: dict[str, Any], complete: bool) -> None:
    assert day(0, **facts).is_complete is complete


def test_an_outage_is_said_and_not_filled_in() -> None:
    days = [
        day(back, seconds_not_accepting=3600.0) if back in (1, 2, 3, 4) else day(back) for back in range(10)
    ]
    window = chosen(*days)
    assert len(window.days) == 6
    assert window.reasons == (
        "6 of 7 complete days from 2026-11-11 to 2026-11-20: "
        "the receiver did not accept all the time on 11-16, 11-17, 11-18, 11-19",
    )


def test_quiet_days_are_complete_but_five_must_have_events() -> None:
    quiet = [day(back, calls=0 if back < 2 else 100) for back in range(10)]
    window = chosen(*quiet)
    assert (len(window.days), window.quiet_days, window.reasons) == (7, 2, ())
    (reason,) = chosen(*[day(back, calls=0 if back < 3 else 100) for back in range(10)]).reasons
    assert reason == "4 of 7 complete days have events, at least 5 must"


def test_a_version_that_is_new_says_how_far_it_has_come() -> None:
    (missing, events) = chosen(day(0), day(1), day(2)).reasons
    assert missing == (
        "3 of 7 complete days from 2026-11-11 to 2026-11-20: the events do not reach back further"
    )
    assert events == "3 of 3 complete days have events, at least 5 must"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"environment": "unset"}, "the environment is not set"),
        ({"version": "unknown"}, "service.version is missing"),
        ({"has_contract": False}, "no release from 0.21.10 on"),
        ({"mixed": 0.0101}, "1.0% of its owners' prompts ran another version, at most 1% may"),
    ],
)
def test_what_is_never_a_baseline(facts: dict[str, Any], words: str) -> None:
    (reason,) = chosen(*[day(back) for back in range(10)], **facts).reasons
    assert words in reason


def test_one_in_a_hundred_on_another_version_is_not_mixed() -> None:
    assert chosen(*[day(back) for back in range(10)], mixed=0.01).reasons == ()


def test_calls_that_do_not_say_are_bounded_over_the_whole_window() -> None:
    days = [day(back, calls=1000) for back in range(1, 10)]
    assert chosen(day(0, calls=1000, unknown=7), *days).reasons == ()
    (reason,) = chosen(day(0, calls=1000, unknown=8), *days).reasons
    assert reason == "8 of 7000 calls do not say what became of their execution, at most 0.1% may"
    (reason,) = chosen(*[day(back, calls=10, unknown=10) for back in range(10)]).reasons
    assert reason == "no call says what became of its execution"
