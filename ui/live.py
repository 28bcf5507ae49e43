"""Live overview of a run: one poll a second of its services for any number of browsers, none while no browser looks."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ui.catalogue import OpenRun, require_present
from ui.shared_poll import SharedPolls
from zerofleet.errors import ZerofleetError
from zerofleet.library.overview import EVENTS_SHOWN, Event, Numbers, Overview, describe
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.rpc.security.credentials import client_tls, client_token
from zerofleet.supervisor.attached import AttachedService, attach
from zerofleet.supervisor.borrowed import as_reached
from zerofleet.supervisor.observer import Observer
from zerofleet.supervisor.overview import ServiceFile, latest_numbers, live_services
from zerofleet.supervisor.readings import Readings

__all__ = ["LiveRuns", "Look"]

LOOK_EVERY_S = 1.0
ASK_TIMEOUT_S = 2.0
_PROMOTED = re.compile(r"^candidate (\d+ promoted)(?: against \d+)?:")  # as the observer notes a verdict


@dataclass(frozen=True, slots=True)
class Look:
    """State of a run at one time."""

    readings: Readings
    at: datetime | None
    """Time of the figures; None for a run without any."""
    is_live: bool
    """Whether the figures are those of the services; else they are those of the newest rows of the files."""
    events: tuple[Event, ...]
    since: Mapping[int, datetime]
    """Times of the promotion or export of versions."""
    numbers: Numbers | None = None
    """Figures by name; None for those of the readings."""

    def overview(self) -> Overview:
        """Return the state as the values of the overview."""
        return describe(
            self.readings,
            at=self.at,
            is_live=self.is_live,
            events=self.events,
            since=self.since,
            numbers=self.numbers,
        )


class LiveRuns:
    """Pollers of the runs that browsers look at."""

    def __init__(self, *, every_s: float = LOOK_EVERY_S) -> None:
        self._polls: SharedPolls[Look] = SharedPolls(every_s)

    def follow(self, run: OpenRun) -> AsyncGenerator[Look]:
        """Yield the state at once and then every second, from the services or else from the files.

        Raises nothing but what the files raise, and `UnknownRun` once the run was removed or made again. Cancellation: the last
        browser that leaves ends the poll.
        """
        return self._polls.follow((run.name, run.signature), lambda: _Services(run))


class _Services:
    """Services of one run as they are seen."""

    def __init__(self, run: OpenRun) -> None:
        self._run = run
        self._events: deque[Event] = deque(maxlen=EVENTS_SHOWN)
        self._services: list[AttachedService] = []
        self._observer: Observer | None = None
        self._address = ""
        self._gatekeeper = contextlib.AsyncExitStack()

    async def aclose(self) -> None:
        """Close the connection to the gatekeeper."""
        await self._gatekeeper.aclose()

    async def look(self) -> Look:
        """Return the state of the run. Raises `UnknownRun` once it is gone. Cancellation: nothing is lost."""
        await asyncio.to_thread(require_present, self._run)
        found = await asyncio.to_thread(live_services, self._run.paths)
        if not found:
            await self._forget()
            return await asyncio.to_thread(_recorded, self._run)
        observer = await self._observing(found)
        try:
            readings = await observer.look(None)
        except ZerofleetError:  # the services went away between two looks
            return await asyncio.to_thread(_recorded, self._run)
        promotions = await asyncio.to_thread(self._run.promotions)
        since = await asyncio.to_thread(self._run.since, readings.candidates)
        events = (*promotions, *_news(self._events, promotions))
        return Look(readings, datetime.now(UTC), is_live=True, events=events, since=since)

    async def _observing(self, found: Sequence[ServiceFile]) -> Observer:
        """Return the observer of the services; a new one where a service, or an address of the gatekeeper, is new."""
        known = {service.name for service in self._services}
        gatekeeper = next((one.address for one in found if one.name == "gatekeeper"), self._address)
        if self._observer is not None and gatekeeper == self._address and all(one.name in known for one in found):
            return self._observer
        attach(self._services, self._run.paths, found)
        self._address = gatekeeper
        await self._gatekeeper.aclose()
        client = GatekeeperClient(
            as_reached(gatekeeper or self._run.paths.gatekeeper_address),
            token=client_token(),
            tls=client_tls(),
            timeout_s=ASK_TIMEOUT_S,
        )
        self._observer = Observer(
            self._services,
            await self._gatekeeper.enter_async_context(client),
            self._run.model,
            self._note,
            directory=self._run.paths.root,
            began_at_s=min(one.started_at_s for one in found),
        )
        return self._observer

    async def _forget(self) -> None:
        """Forget the services of a session that has ended."""
        self._observer, self._services, self._address = None, [], ""
        await self._gatekeeper.aclose()

    def _note(self, text: str) -> None:
        self._events.append(Event(at=datetime.now(UTC), text=text))


def _news(notes: Iterable[Event], promotions: Iterable[Event]) -> list[Event]:
    """Return the notes of an observer without the verdicts that `promotions` has with the same reason."""
    told = {one.text for one in promotions}
    return [one for one in notes if _PROMOTED.sub(r"version \1:", one.text) not in told]


def _recorded(run: OpenRun) -> Look:
    readings, at = run.recorded()
    since, numbers = run.since(readings.candidates), latest_numbers(run.paths)
    return Look(readings, at, is_live=False, events=tuple(run.promotions()), since=since, numbers=numbers)
