"""Endpoints of the page of the cluster: the plan of a fleet beside the measurements of a run, at once and every second."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from ui.catalogue import Catalogue, OpenRun
from ui.endpoints import Endpoint, Parameter
from ui.event_stream import Events, streamed
from ui.live import LiveRuns, Look
from ui.numbers import number_of
from zerofleet.library.cluster import Cluster, cluster_of
from zerofleet.supervisor.readings import Readings

__all__ = ["ClusterEndpoints"]

MOST = 100_000  # devices or workers
RETRY_MS = 3000


@dataclass(frozen=True, slots=True)
class _Fleet:
    """Fleet to plan for; None for that of the run."""

    gpus: int | None
    workers: int | None


class ClusterEndpoints:
    """Handlers over the runs of a catalogue."""

    def __init__(self, catalogue: Catalogue, live: LiveRuns, costs: Path | None = None) -> None:
        """Create it; `costs` is a cost file of `zerofleet bench --save`, None for the shipped example."""
        self._catalogue = catalogue
        self._live = live
        self._costs = costs

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        fleet = (
            Parameter("gpus", "integer", "Devices to plan for, by default 1."),
            Parameter("workers", "integer", "Self-play workers to plan for, by default those that are alive."),
        )
        events = "/runs/{run}/cluster/events"
        return (
            Endpoint("/runs/{run}/cluster", self.cluster, "Plan of a fleet beside the run's files", Cluster, query=fleet),
            Endpoint(events, self.follow, "Plan beside the services every second", "text/event-stream", query=fleet),
        )

    async def cluster(self, request: Request) -> BaseModel:
        """Return the plan beside the figures of a run's files."""
        run, fleet = await self._run(request), _fleet(request)
        readings, at = await asyncio.to_thread(run.recorded)
        return await asyncio.to_thread(self._cluster, run, fleet, readings, at, is_live=False)

    async def follow(self, request: Request) -> Response:
        """Stream the plan beside the figures of a run's services."""
        run, fleet = await self._run(request), _fleet(request)
        return streamed(self._events(run, fleet, self._live.follow(run)), retry_ms=RETRY_MS)

    async def _events(self, run: OpenRun, fleet: _Fleet, looks: AsyncGenerator[Look]) -> Events:
        async with contextlib.aclosing(looks):
            async for look in looks:
                found = await asyncio.to_thread(self._cluster, run, fleet, look.readings, look.at, is_live=look.is_live)
                yield "cluster", found

    def _cluster(self, run: OpenRun, fleet: _Fleet, readings: Readings, at: datetime | None, *, is_live: bool) -> Cluster:
        return cluster_of(
            *(readings, run.game, self._costs),
            preset_name=run.header.preset,
            at=at,
            is_live=is_live,
            gpus=fleet.gpus,
            workers=fleet.workers,
        )

    async def _run(self, request: Request) -> OpenRun:
        return await asyncio.to_thread(self._catalogue.get, request.path_params["run"])


def _fleet(request: Request) -> _Fleet:
    """Return the fleet that a request asks for. Raises `InvalidRequest`."""
    gpus, workers = (
        number_of(request, name, 1, 1, MOST) if name in request.query_params else None for name in ("gpus", "workers")
    )
    return _Fleet(gpus, workers)
