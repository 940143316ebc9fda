"""One prompt of an agent, from what was asked to how it ended. Times are milliseconds since 1970."""

from __future__ import annotations

from bisect import bisect
from itertools import accumulate

from toolgauge.demo import logs, spans
from toolgauge.demo.agent import ACP, SCREEN, SCRIPT, Agent
from toolgauge.demo.guard import Guard
from toolgauge.demo.logs import MODEL, Ids
from toolgauge.demo.tools import AGENT, Outcome, call, pick_stuck, pick_tool

_OK, _CANCELLED, _ERROR, _KILLED = "ok", "cancelled", "error", "killed"
_ENDINGS = (_OK, _CANCELLED, _ERROR, _KILLED)
_ENDING_BOUNDS = list(accumulate((0.94, 0.04, 0.014, 0.006)))

_STUCK = 0.03
_GIVES_IN = 0.45
_SUBAGENT = 0.04
_AUTOMATIC = 0.02
_ASKED = 0.12
_LOOP = "repeated_tool_execution_failure"


class Prompt:
    """What happens in one prompt, and in the work of others that it starts."""

    def __init__(self, agent: Agent, time: int) -> None:
        """Begin at `time`."""
        rng, number = agent.rng, agent.prompts
        agent.prompts += 1
        self._agent, self._rng = agent, rng
        self._sequence = number + 1
        if not agent.version.by_contract:
            prompt_id = f"{rng.getrandbits(52):013x}"
        else:
            # An editor counts from 1, the others from 0.
            prompt_id = f"{agent.session_id}########{number + (agent.front_end == ACP)}"
        self._ids = Ids(agent.session_id, prompt_id, rng.randbytes(16), rng.randbytes(8))
        self._start = self._time = time
        self._ending = _ENDINGS[min(bisect(_ENDING_BOUNDS, rng.random()), 3)]
        self._rounds = min(1 + int(rng.expovariate(0.22)), 16)
        self._stuck = pick_stuck(rng, agent.version) if rng.random() < _STUCK else None
        self._stuck_batches = min(2 + int(rng.expovariate(0.3)), 12) if self._stuck else 0
        self._answers = 0
        self._guard = None
        if agent.front_end == ACP and agent.mode != "off" and agent.version.by_contract:
            self._guard = Guard(agent.mode)

    def run(self) -> int:
        """Let it happen; returns when it ended."""
        agent, ids = self._agent, self._ids
        agent.logs.append(logs.user_prompt(ids, self._time))
        if agent.front_end == SCREEN and self._rng.random() < 0.02:
            agent.logs.append(logs.user_retry(ids, self._time + 1))
        done = 0
        while self._ending != _ERROR or done < self._rounds:
            response = self._answer(ids, None)
            self._answers += 1
            is_last = done + 1 >= self._rounds
            if done >= self._rounds and not self._stuck_batches:
                break
            stops = self._batch(response, cancelled=is_last and self._ending == _CANCELLED)
            if stops:
                break
            done += 1
        else:
            self._time += self._rng.randrange(2000, 9000)
            agent.logs.append(logs.api_error(ids, self._time, self._rng.randbytes(8), 1500))
        return self._end()

    def _answer(self, ids: Ids, subagent: str | None) -> str:
        """The model answers; returns the id of its answer."""
        rng, agent = self._rng, self._agent
        duration = 700 + int(rng.expovariate(1 / 2500))
        self._time += duration
        question = 3000 + 450 * self._answers + rng.randrange(2000)
        tokens = (question, 40 + int(rng.expovariate(1 / 180)), question // 2, rng.randrange(60))
        response = f"chatcmpl-{rng.getrandbits(96):024x}"
        agent.logs.append(
            logs.api_response(ids, self._time, response, rng.randbytes(8), duration, tokens, subagent)
        )
        for kind, amount in zip(("input", "output", "cache", "thought"), tokens, strict=True):
            agent.counters.add(
                "qwen-code.token.usage", (("model", MODEL), ("type", kind)), amount, self._time
            )
        return response

    def _batch(self, response: str, cancelled: bool) -> bool:
        """All calls of one answer; returns whether the prompt ends with them."""
        rng = self._rng
        if self._stuck is not None and self._stuck_batches and not cancelled:
            self._stuck_batches -= 1
            batch = [self._stuck] * rng.choice((1, 2, 3, 3, 4))
        else:
            calls = min(1 + int(rng.expovariate(0.9)), 6)
            batch = [call(rng, self._agent.version) for _ in range(calls)]
        if cancelled:
            began = self._agent.front_end != SCREEN and rng.random() < 0.6
            batch[-1] = Outcome(pick_tool(rng), "cancelled", "cancelled" if began else "not_started")
        delegates = self._agent.version.by_contract and not cancelled and rng.random() < _SUBAGENT / 4
        if delegates:
            batch.append(Outcome(AGENT, "success", "success"))
        scheduled = self._agent.front_end != ACP
        for outcome in batch:
            call_id = self._call(self._ids, outcome, response, scheduled)
        stops = self._guarded(batch)
        if delegates and not stops:
            self._delegate(call_id)
        return stops or cancelled

    def _call(self, ids: Ids, outcome: Outcome, response: str, by_scheduler: bool) -> str:
        """One call; returns its id."""
        rng, agent, tool = self._rng, self._agent, outcome.tool
        call_id = f"call_{rng.getrandbits(96):024x}"
        span_id = rng.randbytes(8)
        start = self._time + rng.randrange(1, 12)
        waits = 0
        at_screen = by_scheduler and ids is self._ids and agent.front_end == SCREEN
        decision: str | None = "auto_accept"
        if outcome.status == "cancelled" and at_screen:
            decision = "reject"
        elif outcome.execution_status == "not_started":
            decision = None
        elif tool.asks and at_screen and rng.random() < _ASKED:
            decision = "accept"
        if decision in ("accept", "reject"):
            waits = 1200 + int(min(rng.expovariate(1 / 5000), 30_000))
        runs = 0
        if outcome.began or outcome.execution_status is None:
            runs = 1 + int(tool.median_ms * min(rng.lognormvariate(0, 0.7), 8))
        end = start + waits + runs + 2
        if agent.version.by_contract:
            if waits:
                agent.spans.append(
                    spans.blocked_on_user(
                        ids, rng.randbytes(8), span_id, call_id, outcome, start, start + waits
                    )
                )
            if outcome.began:
                begun = start + waits + 1
                agent.spans.append(
                    spans.execution(ids, rng.randbytes(8), span_id, call_id, outcome, begun, begun + runs)
                )
            agent.spans.append(spans.tool(ids, span_id, call_id, outcome, start, end))
        self._time = end
        agent.logs.append(
            logs.tool_call(
                ids,
                end,
                outcome,
                call_id,
                span_id,
                end - start,
                response,
                decision,
                by_scheduler,
                agent.version.by_contract,
            )
        )
        self._count(outcome, decision if by_scheduler else None)
        return call_id

    def _count(self, outcome: Outcome, decision: str | None) -> None:
        agent, tool = self._agent, outcome.tool
        status = outcome.execution_status or "unknown"
        name, succeeded = ("function_name", tool.name), ("success", outcome.status == "success")
        rest = (succeeded, ("decision", decision), ("tool_type", tool.type))
        if agent.version.by_contract:
            labels = (name, ("status", outcome.status), *rest)
            agent.counters.add("qwen-code.tool.call.count", labels, 1, self._time)
            of_execution = (("execution_status", status), ("tool_type", tool.type))
            agent.counters.add("qwen-code.tool.execution.count", of_execution, 1, self._time)
        else:
            status = "unknown"
            session = ("session.id", agent.session_id)
            agent.counters.add("qwen-code.tool.call.count", (session, name, *rest), 1, self._time)
        agent.calls[agent.stored_environment, agent.version.name, status] += 1

    def _guarded(self, batch: list[Outcome]) -> bool:
        """What the guard says to a batch; returns whether it stops the prompt."""
        if self._guard is None:
            return False
        agent, rng = self._agent, self._rng
        input_reset = None
        if agent.owner.unreliable:
            input_reset = "unreliable_input"
        elif self._guard.phase != "idle" and rng.random() < 0.04:
            input_reset = "external_input" if rng.random() < 0.7 else "queued_prompt"
        said = self._guard.reduce(batch, input_reset)
        if said is None:
            return False
        self._time += 2
        agent.logs.append(logs.guard_decision(self._ids, self._time, said))
        labels = tuple(
            (k, v) for k, v in said.items() if k not in ("candidate_ordinal", "execution_error_type")
        )
        agent.counters.add("qwen-code.repeated_tool_failure_guard.count", labels, 1, self._time)
        decision = str(said["decision"])
        agent.decisions[decision] += 1
        if decision == "warned" and rng.random() < _GIVES_IN:
            # The model has read the reminder.
            self._stuck_batches = 0
        if decision != "stopped":
            return False
        agent.logs.append(logs.loop_detected(self._ids, self._time, _LOOP))
        self._ending = _ERROR
        return True

    def _delegate(self, call_id: str) -> None:
        """A subagent works, in a trace of its own."""
        rng, session_id = self._rng, self._agent.session_id
        trace_id, span_id = rng.randbytes(16), rng.randbytes(8)
        for turn in range(rng.randrange(2, 6)):
            prompt_id = f"{session_id}#general-purpose-{call_id}#{turn}"
            ids = Ids(session_id, prompt_id, trace_id, span_id)
            response = self._answer(ids, "general-purpose")
            for _ in range(rng.randrange(1, 3)):
                self._call(ids, call(rng, self._agent.version), response, by_scheduler=True)

    def _end(self) -> int:
        agent, ids, rng = self._agent, self._ids, self._rng
        if self._ending == _KILLED:
            agent.dead = True
            return self._time
        self._time += 3
        if agent.front_end == ACP:
            turns = self._answers + (self._ending == _ERROR and self._guard_is_silent())
            agent.logs.append(logs.conversation_finished(ids, self._time, turns))
        if agent.version.by_contract:
            error_type = None
            if self._ending == _ERROR:
                error_type = "api_error" if self._guard_is_silent() else "RequestError"
            agent.spans.append(
                spans.interaction(
                    ids,
                    self._start,
                    self._time + 1,
                    "acp_prompt" if agent.front_end == ACP else "userQuery",
                    self._sequence,
                    self._ending,
                    error_type,
                )
            )
        end = self._time
        if agent.front_end != SCRIPT and agent.version.by_contract and rng.random() < _AUTOMATIC:
            self._automatic()
        return max(end, self._time)

    def _guard_is_silent(self) -> bool:
        """Whether it was not the guard that ended the prompt."""
        return self._guard is None or self._guard.phase != "latched" or self._guard.mode != "enforce"

    def _automatic(self) -> None:
        """The agent goes on by itself, as scheduled work and notifications have it."""
        rng, agent = self._rng, self._agent
        ids = Ids(
            agent.session_id,
            f"{self._ids.prompt_id}/automatic/{rng.randrange(1, 3)}",
            rng.randbytes(16),
            rng.randbytes(8),
        )
        response = self._answer(ids, None)
        self._call(ids, call(rng, agent.version), response, by_scheduler=agent.front_end != ACP)
