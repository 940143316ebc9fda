"""What the fleet exports on one day, and when the receiver is down.

Each day is made by itself, whatever came before, so that a filling that was cut off goes on with the day
that it had reached. Agents work in the quarter of an hour before each export, so that nothing is older
than minutes when it arrives, except where it is meant to be late.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from random import Random

from toolgauge.demo.agent import ACP, SCREEN, SCRIPT, Agent, Batch, Call
from toolgauge.demo.fleet import CALLS, DAYS, ENVIRONMENTS, LOSSES, OUTAGE, Environment, Fleet, Owner
from toolgauge.demo.prompt import Prompt
from toolgauge.demo.requests import Request, requests_of
from toolgauge.demo.versions import Version

_HOUR = 3_600_000
# How busy the hours of a day are, UTC.
_HOURS = (0, 0, 2, 0, 0, 4, 5, 8, 12, 14, 13, 11, 9, 12, 14, 13, 11, 8, 6, 5, 4, 3, 0, 0)
_WEEKEND = 0.25
_CALLS_OF_A_PROMPT = 8.6
_PROMPTS_OF_A_SESSION = 3.2

_DOWN_SINCE, _DOWN_UNTIL = 9 * _HOUR + 600_000, 14 * _HOUR + 1_200_000
# A laptop without network: once in so many days of an environment with a queue, for one to four days.
_OFFLINE, _LONGEST_OFFLINE = 0.3, 4
_ANSWER_LOST = 0.06


@dataclass
class Export:
    """Requests that arrive together.

    Attributes:
        unix_nano: when.
        calls, decisions: the tool calls and guard decisions that they bring, each counted the first time.
    """

    unix_nano: int
    requests: list[Request] = field(default_factory=list)
    calls: Counter[Call] = field(default_factory=Counter)
    decisions: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Outage:
    """The receiver is down from the one time to the other, nanoseconds since 1970."""

    since_unix_nano: int
    until_unix_nano: int


def day_of(fleet: Fleet, ago: int) -> Iterator[Export | Outage]:
    """What happens on the day so many days before the last one, in order."""
    return _Day(fleet, ago).run()


class _Day:
    def __init__(self, fleet: Fleet, ago: int) -> None:
        self._fleet = fleet
        self._ago = ago
        self._rng = fleet.random("day", ago)
        self._start = int(datetime.combine(fleet.day(ago), time(), UTC).timestamp()) * 1000
        self._starting = self._schedule()
        self._going: list[tuple[Agent, int]] = []
        # What arrives with the next export: kept by a queue, or sent again for want of an answer.
        self._queued: dict[Environment, list[Batch]] = defaultdict(list)
        self._again: list[Request] = []

    def run(self) -> Iterator[Export | Outage]:
        late = self._late()
        down = False
        for hour in filter(_HOURS.__getitem__, range(24)):
            base = self._start + hour * _HOUR + 40 * 60_000
            batches = self._work(hour, base)
            end = base + 18 * 60_000
            if self._is_down(base, end):
                self._lose(batches)
                if not down:
                    down = True
                    yield Outage(*((self._start + at) * 1_000_000 for at in (_DOWN_SINCE, _DOWN_UNTIL)))
                continue
            for environment, of_late in late.items():
                batches[environment] += of_late
            late = {}
            if export := self._export(end, batches):
                yield export

    def _is_down(self, since: int, until: int) -> bool:
        down = self._start + _DOWN_SINCE, self._start + _DOWN_UNTIL
        return self._ago == OUTAGE and since < down[1] and until > down[0]

    def _schedule(self) -> dict[int, list[Agent]]:
        """The processes that start, by hour."""
        starting: dict[int, list[Agent]] = defaultdict(list)
        for environment in ENVIRONMENTS:
            calls = self._fleet.size * CALLS / DAYS * environment.share * 7 / (5 + 2 * _WEEKEND)
            if self._fleet.day(self._ago).weekday() >= 5:
                calls *= _WEEKEND
            # A little different each day, and never a fraction.
            sessions = calls / _CALLS_OF_A_PROMPT / _PROMPTS_OF_A_SESSION * self._rng.uniform(0.9, 1.1)
            for _ in range(int(sessions + self._rng.random())):
                agent = self._agent(environment, self._rng)
                if agent is not None:
                    starting[self._rng.choices(range(24), _HOURS)[0]].append(agent)
        return starting

    def _agent(self, environment: Environment, rng: Random, ago: int | None = None) -> Agent | None:
        """A process of somebody's; None if they export nothing (any more)."""
        ago = self._ago if ago is None else ago
        owner: Owner = self._fleet.pick_owner(environment, rng)
        version: Version | None = environment.version(owner.place, ago, self._fleet.last_day)
        if version is None:
            return None
        chance = rng.random()
        front_end = ACP if chance < environment.acp else SCREEN if chance < 0.93 else SCRIPT
        if front_end == ACP and not version.by_contract:
            front_end = SCREEN
        mode = environment.mode(owner.place, ago)
        return Agent(rng, environment, owner, version, mode, front_end)

    def _work(self, hour: int, base: int) -> dict[Environment, list[Batch]]:
        """What all processes that run in an hour do in it, and export at its end."""
        for agent in self._starting[hour]:
            wanted = 1 + int(self._rng.expovariate(1 / (_PROMPTS_OF_A_SESSION - 0.5)))
            self._going.append((agent, 1 if agent.front_end == SCRIPT else wanted))
        batches: dict[Environment, list[Batch]] = defaultdict(list)
        going: list[tuple[Agent, int]] = []
        for agent, left in self._going:
            left -= _prompts(agent, left, base + self._rng.randrange(8 * 60_000), base + 14 * 60_000)
            ended = left <= 0 or agent.dead or not _HOURS[(hour + 1) % 24]
            batches[agent.environment].append(_batch(agent, ended, base + 17 * 60_000))
            if not ended:
                going.append((agent, left))
        self._going = going
        return batches

    def _late(self) -> dict[Environment, list[Batch]]:
        """What laptops worked without a network on days before, and send now."""
        batches: dict[Environment, list[Batch]] = defaultdict(list)
        for environment in ENVIRONMENTS:
            if not environment.queued:
                continue
            for days in range(1, _LONGEST_OFFLINE + 1):
                ago = self._ago + days
                rng = self._fleet.random("offline", environment.name, ago, days)
                if ago >= self._fleet.days or rng.random() > _OFFLINE * self._fleet.size:
                    continue
                agent = self._agent(environment, rng, ago)
                if agent is not None:
                    base = self._start - days * 24 * _HOUR + rng.randrange(8, 18) * _HOUR
                    _prompts(agent, 6, base, base + _HOUR // 2)
                    batches[environment].append(_batch(agent, True, base + _HOUR * 3 // 4))
        return batches

    def _lose(self, batches: dict[Environment, list[Batch]]) -> None:
        """Nobody receives: a queue keeps it, else it is gone, and only the counters go on."""
        for environment, of_environment in batches.items():
            if environment.queued:
                self._queued[environment] += of_environment

    def _export(self, end: int, batches: dict[Environment, list[Batch]]) -> Export | None:
        export = Export(end * 1_000_000, self._again)
        self._again = []
        for over_http in (False, True):
            logged, sent = [], []
            for environment in ENVIRONMENTS:
                if environment.over_http == over_http:
                    of_environment = self._queued.pop(environment, []) + batches[environment]
                    sent += of_environment
                    logged += [batch for batch in of_environment if not self._is_lost(environment)]
            for batch in logged:
                export.calls += batch.calls
                export.decisions += batch.decisions
            requests = requests_of(logged, sent, over_http)
            export.requests += requests
            if over_http and self._rng.random() < _ANSWER_LOST:
                self._again += requests
        return export if export.requests else None

    def _is_lost(self, environment: Environment) -> bool:
        share = LOSSES.get(self._ago, 0.0) if environment.name == "public_cloud" else 0.0
        return share > 0 and self._rng.random() < share


def _prompts(agent: Agent, most: int, start: int, until: int) -> int:
    """Let an agent work on some prompts; returns how many."""
    now, done = start, 0
    if agent.prompts == 0:
        agent.event(now, "session.start")
    for _ in range(min(most, agent.rng.randrange(1, 4))):
        if now > until or agent.dead:
            break
        now = Prompt(agent, now + agent.rng.randrange(2_000, 30_000)).run()
        done += 1
    return max(done, 1)


def _batch(agent: Agent, ended: bool, latest: int) -> Batch:
    if ended and not agent.dead:
        agent.event(latest, "session.end")
    return agent.export(latest)
