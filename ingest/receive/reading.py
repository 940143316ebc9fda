"""Reading a body from the network: how long it may take, and how many are read at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ingest.exceptions import Overloaded, TooSlow

# A client that says nothing for so long in the middle of a body holds room that others wait for.
SILENCE_SECONDS = 5.0
# What drips in would hold its room for ever: after the first seconds the average must reach this, which is
# that of a telephone modem; and however fast it comes, a body is over after the longest time.
_FREE_SECONDS = 5.0
_LEAST_BYTES_PER_SECOND = 8 * 1024
_LONGEST_SECONDS = 60.0


class Pace:
    """How fast one body comes; time in which nobody listened to the client does not count."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._bytes = 0

    def patience(self) -> float:
        """How long the next piece may take, in seconds."""
        return min(SILENCE_SECONDS, max(_LONGEST_SECONDS - self._seconds, 0.0))

    def missed(self) -> TooSlow:
        """The error for a piece that did not come in time."""
        if self._seconds + SILENCE_SECONDS >= _LONGEST_SECONDS:
            return TooSlow(_LONGEST_SECONDS, "the body did not come within")
        return TooSlow(SILENCE_SECONDS, "nothing of the body came for")

    def came(self, size: int, seconds: float) -> None:
        """Count a piece of `size` bytes that took so long.

        Raises:
            TooSlow: all pieces together are slower than is borne.
        """
        self._seconds += seconds
        self._bytes += size
        if self._bytes < _LEAST_BYTES_PER_SECOND * (self._seconds - _FREE_SECONDS):
            raise TooSlow(
                round(self._seconds),
                f"it came at less than {_LEAST_BYTES_PER_SECOND} bytes a second for",
            )


class Turns:
    """Lets a few bodies of unknown size be read at a time; the others wait on the client's side."""

    def __init__(self, at_once: int, wait_seconds: float, limit: int) -> None:
        """`limit`, in bytes, is only for the sentence of the error."""
        self._turns = asyncio.Semaphore(at_once)
        self._wait_seconds = wait_seconds
        self._limit = limit

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, and hold it.

        Raises:
            Overloaded: it did not come in time.
        """
        if self._turns.locked():
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await self._turns.acquire()
            except TimeoutError as error:
                raise Overloaded(self._limit) from error
        else:
            # The usual case, at once and without a timer.
            await self._turns.acquire()
        try:
            yield
        finally:
            self._turns.release()
