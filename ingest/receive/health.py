"""The gRPC health service (grpc.health.v1), as load balancers and container platforms ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio

_LOOK_EVERY_SECONDS = 0.5


class Health:
    """Tells of each service, and of the whole (the empty name), whether it takes requests."""

    def __init__(
        self, server: grpc.aio.Server, services: Iterable[str], is_healthy: Callable[[], bool]
    ) -> None:
        """Add the health service to a server that is not started yet.

        Args:
            is_healthy: whether requests can be kept now.
        """
        self._names = ("", *services)
        self._is_healthy = is_healthy
        self._servicer = aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def watch(self) -> None:
        """Keep the answers true until cancelled; then say that nothing is served any more."""
        said: bool | None = None
        try:
            while True:
                healthy = self._is_healthy()
                if healthy is not said:
                    said = healthy
                    await self._say(healthy)
                await asyncio.sleep(_LOOK_EVERY_SECONDS)
        finally:
            await self._servicer.enter_graceful_shutdown()

    async def _say(self, healthy: bool) -> None:
        statuses = health_pb2.HealthCheckResponse
        for name in self._names:
            await self._servicer.set(name, statuses.SERVING if healthy else statuses.NOT_SERVING)
