"""Room in memory: bounded, in turn, and never held by all against all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.exceptions import Overloaded
from ingest.receive.admission import Admission


def test_what_fits_is_let_in_and_given_back() -> None:
    async def scenario() -> None:
        admission = Admission(100, wait_seconds=0.01)
        with admission.room() as first, admission.room() as second:
            await first.grow(60)
            await second.grow(40)
            assert admission.taken == 100
            with admission.room() as third, pytest.raises(Overloaded) as caught:
                await third.grow(1)
            assert caught.value.limit == 100
        assert admission.taken == 0

    asyncio.run(scenario())


def test_one_request_always_fits() -> None:
    async def scenario() -> None:
        admission = Admission(10, wait_seconds=0.01)
        with admission.room() as room:
            await room.grow(9)
            await room.grow(500)
            assert admission.taken == 509

    asyncio.run(scenario())


def test_who_waits_is_let_in_in_turn() -> None:
    async def scenario() -> list[str]:
        admission = Admission(10, wait_seconds=5)
        order: list[str] = []

        async def request(name: str, size: int) -> None:
            with admission.room() as room:
                await room.grow(size)
                order.append(name)
                await asyncio.sleep(0.001)

        # The small one that came last does not overtake the large one before it.
        await asyncio.gather(request("a", 10), request("b", 8), request("c", 1), request("d", 9))
        assert admission.taken == 0
        return order

    assert asyncio.run(scenario()) == ["a", "b", "c", "d"]


def test_a_request_that_is_cancelled_gives_its_place_up() -> None:
    async def scenario() -> None:
        admission = Admission(10, wait_seconds=5)

        async def waits(size: int) -> None:
            with admission.room() as room:
                await room.grow(size)

        with admission.room() as first:
            await first.grow(10)
            cancelled, patient = asyncio.create_task(waits(8)), asyncio.create_task(waits(3))
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.sleep(0)
        await patient
        assert admission.taken == 0

    asyncio.run(scenario())


@given(
    limit=st.integers(1, 50),
    requests=st.lists(st.lists(st.integers(1, 20), min_size=1, max_size=5), min_size=1, max_size=12),
)
def test_requests_that_grow_all_end_and_stay_within_the_bound(limit: int, requests: list[list[int]]) -> None:
    async def scenario() -> None:
        admission = Admission(limit, wait_seconds=10)
        largest = max(sum(steps) for steps in requests)
        peak = 0

        async def request(steps: list[int]) -> None:
            nonlocal peak
            with admission.room() as room:
                for step in steps:
                    await room.grow(step)
                    peak = max(peak, admission.taken)
                    await asyncio.sleep(0)

        await asyncio.gather(*map(request, requests))
        assert admission.taken == 0
        assert peak <= limit + largest

    asyncio.run(scenario())


def test_room_of_a_request_whose_client_is_gone_comes_back_with_its_answer() -> None:
    async def scenario() -> None:
        admission = Admission(10, wait_seconds=0.01)
        with admission.room() as room:
            await room.grow(8)
            room.keep_until_given_back()
        assert admission.taken == 8
        room.give_back()
        room.give_back()
        assert admission.taken == 0

    asyncio.run(scenario())


def test_a_burst_that_is_larger_than_the_queue_is_absorbed(
    otlp: Any, start_service: Any, tmp_path: Any
) -> None:
    """Twelve bodies of 2 MiB, half of them in chunks, through a queue of 5 MiB: none is refused."""
    from concurrent.futures import ThreadPoolExecutor

    service = start_service(only="ingest", TOOLGAUGE_QUEUE_BYTES="5MiB")

    def send(number: int) -> int:
        call = otlp.tool_call | {"call_id": f"c{number}", "function_args": "x" * 2 * 1024 * 1024}
        body = otlp.logs(otlp.log(call))
        pieces = (body[start : start + 65536] for start in range(0, len(body), 65536))
        response = service.post("logs", pieces if number % 2 else body)
        return int(response.headers["toolgauge-stored"]) if response.status_code == 200 else 0

    with ThreadPoolExecutor(12) as pool:
        assert sum(pool.map(send, range(12))) == 12
