"""Games in progress of a run, from the HTTP port of one of its workers: the first that answers, until it is away.

Workers are found by the announce files of the run, or by the setting `worker_addresses` where they are on other machines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ui.catalogue import OpenRun
from zerofleet.contracts.games_in_progress import MOST_ANSWER_BYTES, GamesInProgress, games_path, read_games
from zerofleet.errors import InvalidRequest, PermissionRefused, Unavailable, ZerofleetError
from zerofleet.rpc.addresses import LAST_PORT
from zerofleet.supervisor.overview import live_services
from zerofleet.supervisor.probe_client import fetch

__all__ = ["WorkerAccess", "WorkerGames", "worker_address"]

TIMEOUT_S = 3.0


class _Address(NamedTuple):
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class WorkerAccess:
    """Where workers are, and what they require."""

    addresses: tuple[tuple[str, int], ...] = ()
    """Hosts and HTTP ports of workers that the files of a run do not name."""
    token: str | None = field(default=None, repr=False)
    is_elsewhere: bool = False
    """Whether the services of the runs are in other containers or on other machines."""


class WorkerGames:
    """Source of the games that a worker of a run shows for a seat."""

    def __init__(self, run: OpenRun, seat: int, access: WorkerAccess) -> None:
        self._run = run
        self._seat = seat
        self._access = access
        self._chosen: _Address | None = None

    async def look(self) -> GamesInProgress:
        """Return the games. Raises `Unavailable`, `PermissionRefused`, `InvalidRequest`. Cancellation: no effect."""
        known = await asyncio.to_thread(self._known)
        if not known:
            raise Unavailable(
                "The workers are in other containers or on other machines, where these pages do not find them: set"
                " worker_addresses and games_token"
                if self._access.is_elsewhere
                else "No worker of this run is alive on this machine"
            )
        faults: list[ZerofleetError] = []
        for address in sorted(known, key=lambda one: one != self._chosen):  # the chosen one first; the order is kept else
            try:
                found = await self._asked(address)
            except ZerofleetError as error:
                faults.append(error)
                continue
            self._chosen = address
            return found
        raise faults[0]

    def _known(self) -> Sequence[_Address]:
        if self._access.addresses:
            return [_Address(*one) for one in self._access.addresses]
        found = live_services(self._run.paths)
        workers = (one for one in found if one.name.startswith("worker-") and 1 <= one.metrics_port <= LAST_PORT)
        return [_Address("127.0.0.1", one.metrics_port) for one in workers]

    async def _asked(self, address: _Address) -> GamesInProgress:
        host, port = address
        path, token = games_path(self._seat), self._access.token
        try:
            reply = await fetch(host, port, path, token=token, most_bytes=MOST_ANSWER_BYTES, timeout_s=TIMEOUT_S)
        except TimeoutError as error:
            raise Unavailable(f"The worker at port {port} does not answer within {TIMEOUT_S:.0f} s") from error
        except (OSError, ValueError) as error:
            raise Unavailable(f"The worker at port {port} does not answer: {error}") from error
        if reply.status == 401:
            raise PermissionRefused("The worker refuses the token: give worker and pages the same games_token")
        if reply.status == 404:
            raise Unavailable("The worker shows no games in progress: it needs a games_token, or is of an older release")
        if reply.status != 200:
            raise Unavailable(f"The worker answers with status {reply.status}; its log has the details")
        found = read_games(reply.body)
        wanted = self._run.header.game
        if found.game != wanted:
            raise InvalidRequest(f"The worker at port {port} plays {found.game[:40]!r}, and this run {wanted}")
        players = self._run.game.spec().num_players
        if any(len(game.versions) != players for game in found.games):
            raise InvalidRequest(f"The worker at port {port} shows a game whose number of players is not {players}")
        return found

    async def aclose(self) -> None:
        """Release nothing: each look has a connection of its own."""


def worker_address(text: str) -> tuple[str, int]:
    """Return host and port of `host:port`, an IPv6 address in brackets. Raises `ValueError`."""
    host, _, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or "/" in host or not (port.isascii() and port.isdecimal() and 1 <= int(port) <= LAST_PORT):
        raise ValueError(f"worker_addresses: got {text.strip()!r}; give host:port")
    return host, int(port)
