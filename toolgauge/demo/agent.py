"""One agent process: whose it is, what it has logged and not exported yet, and its counters."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from toolgauge.demo import logs
from toolgauge.demo.counters import Counters
from toolgauge.demo.fleet import Environment, Owner
from toolgauge.demo.versions import Version
from toolgauge.demo.wire import Value, attributes, message

Call = tuple[str, str, str]
"""What the truth is counted by: environment, version and execution status, as they are to be stored."""

ACP, SCREEN, SCRIPT = "acp", "screen", "script"


@dataclass(frozen=True, slots=True)
class Batch:
    """What one process exports at one time; the records of a signal are exported, and get lost, together."""

    resource: bytes
    logs: list[bytes]
    spans: list[bytes]
    metrics: list[bytes]
    calls: Counter[Call]
    decisions: Counter[str]


class Agent:
    """A process with one session.

    Attributes:
        front_end: an editor (`acp`), a screen, or a script.
        mode: its guard's.
        logs, spans: what is to be exported.
        calls, decisions: how many calls and decisions of the guard are among these.
        prompts: how many there were.
        dead: it was killed, and says nothing more.
    """

    def __init__(
        self,
        rng: Random,
        environment: Environment,
        owner: Owner,
        version: Version,
        mode: str,
        front_end: str,
    ) -> None:
        self.rng = rng
        self.environment = environment
        self.owner = owner
        self.version = version
        self.mode = mode
        self.front_end = front_end
        self.session_id = _uuid(rng)
        self.counters = Counters()
        self.logs: list[bytes] = []
        self.spans: list[bytes] = []
        self.calls: Counter[Call] = Counter()
        self.decisions: Counter[str] = Counter()
        self.prompts = 0
        self.dead = False

    @property
    def stored_environment(self) -> str:
        """Where its calls are counted: releases before the contract cannot name their environment."""
        return self.environment.name if self.version.by_contract else "unset"

    def event(self, time: int, name: str, *said: tuple[str, Value]) -> None:
        """Log an event of the session."""
        self.logs.append(logs.session_event(self.session_id, time, name, said))

    def export(self, time: int) -> Batch:
        """All that was logged since the last time, and the counters as of now."""
        batch = Batch(
            self._resource(),
            self.logs,
            self.spans,
            self.counters.metrics(time),
            self.calls,
            self.decisions,
        )
        self.logs, self.spans, self.calls, self.decisions = [], [], Counter(), Counter()
        return batch

    def _resource(self) -> bytes:
        if self.version.by_contract:
            return _resource(self.version.name, self.environment.name, self.owner.name)
        return _ancient_resource(self.version.name, self.session_id)


@lru_cache(maxsize=4096)
def _resource(version: str, environment: str, owner: str) -> bytes:
    said = (
        ("deployment.environment", environment),
        ("owner.id", owner),
        ("service.name", "qwen-code"),
        ("service.version", version),
    )
    return message(1, attributes(1, said))


def _ancient_resource(version: str, session_id: str) -> bytes:
    said = (("service.name", "qwen-code"), ("service.version", version), ("session.id", session_id))
    return message(1, attributes(1, said))


def _uuid(rng: Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
