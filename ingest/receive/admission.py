"""How much may be in memory at once: room is taken before a body is kept, and given back when it is answered.

A client of this producer that is refused over gRPC never sends the batch again, so a burst waits for room
first; only what has waited too long is refused.
"""

from __future__ import annotations

import asyncio
from collections import deque

from ingest.exceptions import Overloaded


class Admission:
    """A budget of bytes for the requests of one event loop, first come, first served."""

    def __init__(self, limit: int, wait_seconds: float) -> None:
        self.limit = limit
        self.taken = 0
        self._wait_seconds = wait_seconds
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        """Take room for `size` bytes, waiting for it if there is none. One request always fits.

        Raises:
            Overloaded: there was no room in time.
        """
        if not self._queue and self._fits(size):
            self.taken += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((size, turn))
        try:
            async with asyncio.timeout(self._wait_seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                # The room came in the same moment as the end of the wait.
                self.give_back(size)
            if isinstance(error, TimeoutError):
                raise Overloaded(self.limit) from error
            raise

    def give_back(self, size: int) -> None:
        """Give room back that was taken, and let in who waits for it."""
        self.taken -= size
        while self._queue:
            wanted, turn = self._queue[0]
            if turn.done():
                self._queue.popleft()
            elif self._fits(wanted):
                self._queue.popleft()
                self.taken += wanted
                turn.set_result(None)
            else:
                return

    def _fits(self, size: int) -> bool:
        return self.taken == 0 or self.taken + size <= self.limit
