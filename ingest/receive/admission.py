"""How much may be in memory at once: room is taken before a body is kept, and given back when it is answered.

A client of this producer that is refused over gRPC never sends the batch again, so a burst waits for room
first; only what has waited too long is refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType

from ingest.exceptions import Overloaded


class Admission:
    """A budget of bytes for the requests of one event loop, first come, first served.

    A request whose length is not known beforehand takes room as it grows. Many of them could hold all the
    room together and each wait for more; so one at a time may go beyond the limit, and is over with first.
    The most that is ever taken is the limit and one largest request.
    """

    def __init__(self, limit: int, wait_seconds: float) -> None:
        self.limit = limit
        self.taken = 0
        self._wait_seconds = wait_seconds
        self._waiting: deque[tuple[Room, int, asyncio.Future[None]]] = deque()
        self._beyond: Room | None = None

    def room(self) -> Room:
        """Room for one request, empty at first; to be used in a `with`, which gives it back."""
        return Room(self)

    async def _grow(self, room: Room, size: int) -> None:
        if room is self._beyond or (not self._waiting and self._admits(room, size)):
            self._grant(room, size)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((room, size, turn))
        self._let_in()
        try:
            async with asyncio.timeout(self._wait_seconds):
                await turn
        except TimeoutError as error:
            # What was granted in the same moment belongs to the room, and goes back with it.
            raise Overloaded(self.limit) from error
        finally:
            if not turn.done():
                turn.cancel()

    def _give_back(self, room: Room) -> None:
        self.taken -= room.size
        room.size = 0
        if room is self._beyond:
            self._beyond = None
        self._let_in()

    def _let_in(self) -> None:
        """Grant what can be granted, in the order of waiting; then let one go beyond the limit."""
        while self._waiting:
            room, size, turn = self._waiting[0]
            if not turn.done():
                if not self._admits(room, size):
                    break
                self._grant(room, size)
                turn.set_result(None)
            self._waiting.popleft()
        if self._beyond is None:
            for room, size, turn in self._waiting:
                if room.size and not turn.done():
                    self._beyond = room
                    self._grant(room, size)
                    turn.set_result(None)
                    return

    def _admits(self, room: Room, size: int) -> bool:
        return self.taken + size <= self.limit or self.taken == room.size

    def _grant(self, room: Room, size: int) -> None:
        self.taken += size
        room.size += size


class Room:
    """What one request has taken.

    Attributes:
        size: in bytes.
    """

    def __init__(self, admission: Admission) -> None:
        self.size = 0
        self._admission = admission
        self._outlives_block = False

    async def grow(self, size: int) -> None:
        """Take `size` bytes more, waiting for them if there is no room.

        Raises:
            Overloaded: there was none in time.
        """
        await self._admission._grow(self, size)

    def keep_until_given_back(self) -> None:
        """Keep the room beyond the end of the `with`, until `give_back`."""
        self._outlives_block = True

    def give_back(self) -> None:
        """Give all of it back."""
        self._admission._give_back(self)

    def __enter__(self) -> Room:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._outlives_block:
            self.give_back()
