"""Endpoints of the champion: its state, the promotion of a version, and the return to the champion before.

Both changes go through the gatekeeper as those of `zerofleet models promote` and `rollback` do, one at a time. Only an operator
may order them, after a confirmation that names the present champion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import datetime

import structlog
from pydantic import BaseModel, Field
from starlette.requests import Request

from ui.catalogue import Catalogue, OpenRun
from ui.endpoints import Endpoint, StrictValue, read_body
from ui.operators import Operators
from zerofleet.contracts.lineage import previous_version
from zerofleet.contracts.naming import MAX_VERSION
from zerofleet.contracts.promotions import Champion
from zerofleet.errors import ConfigurationError, InvalidRequest, ModelNotFound, Overloaded, PermissionRefused, Unavailable
from zerofleet.library.promotion import promote_version, roll_back
from zerofleet.library.times import time_of
from zerofleet.supervisor.borrowed import live_address

__all__ = ["PromotionEndpoints", "Promotions"]

LONGEST_REASON = 500  # characters; the gatekeeper cuts longer ones

log = structlog.get_logger()


class ChampionState(StrictValue):
    """Champion of a run, and what a change of it would need."""

    champion: int | None
    """None before the first promotion."""
    epoch: int
    """Number of the promotion; 0 before the first."""
    promoted_at: datetime | None
    reason: str
    rollback_to: int | None
    """Champion before, which a rollback restores; None where there is none."""
    has_gatekeeper: bool
    """Whether the run's own gatekeeper is alive; otherwise one is started for a change."""
    refusal: str
    """Reason why the champion cannot be changed from here; empty where it can."""


class Promote(StrictValue):
    """Order to promote a version regardless of its match."""

    version: int = Field(ge=1, le=MAX_VERSION)
    champion: int | None
    """Present champion that was shown and confirmed, None for none; where another one plays by now, nothing is changed."""
    reason: str = Field(default="by hand", max_length=LONGEST_REASON)
    """Reason, recorded in the history."""
    without_self_test: bool = False
    """Whether to promote a version that no inference server can load, at the risk that the whole run stops."""


class Rollback(StrictValue):
    """Order to restore the champion before."""

    champion: int
    """Present champion that was shown and confirmed."""
    to: int
    """Champion before, likewise."""
    reason: str = Field(default="by hand", max_length=LONGEST_REASON)
    """Reason, recorded in the history."""


class Promotions:
    """Change of a champion in progress: one at a time, ended with the application. Used in one event loop."""

    def __init__(self) -> None:
        self._run = ""
        self._task: asyncio.Task[Champion] | None = None

    async def carry_out(self, run: str, change: Coroutine[None, None, Champion]) -> Champion:
        """Return the champion after a change of a run's. Raises `Overloaded` while another is in progress, and its errors.

        Cancellation: the change goes on until the application closes.
        """
        if self._task is not None and not self._task.done():
            change.close()
            raise Overloaded(f"the champion of {self._run} is being changed; try again when that has ended")
        self._run, self._task = run, (task := asyncio.create_task(change))
        task.add_done_callback(lambda done: _log_end(run, done))  # although the browser may have left by then
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise Unavailable("zerofleet ui ended during the change: look which version is champion") from None
            raise

    async def aclose(self) -> None:
        """End the change in progress, if there is one. Cancellation: it ends nevertheless."""
        if self._task is None or self._task.done():
            return
        if not self._task.cancelling():  # a second cancellation would end the wait for the services that are ending
            self._task.cancel()
        await asyncio.wait({self._task})


class PromotionEndpoints:
    """Handlers over the runs of a catalogue."""

    def __init__(self, catalogue: Catalogue, promotions: Promotions, operators: Operators, *, is_elsewhere: bool) -> None:
        self._catalogue = catalogue
        self._promotions = promotions
        self._operators = operators
        self._is_elsewhere = is_elsewhere

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        home = "/runs/{run}/champion"
        back = "Restore the champion before"
        return (
            Endpoint(home, self.champion, "Champion, and what a change of it would need", ChampionState),
            Endpoint(home, self.promote, "Promote a version", ChampionState, method="POST", body=Promote),
            Endpoint(f"{home}/rollback", self.rollback, back, ChampionState, method="POST", body=Rollback),
        )

    async def champion(self, request: Request) -> BaseModel:
        """Return the champion of a run."""
        return await self._state(await self._run(request))

    async def promote(self, request: Request) -> BaseModel:
        """Promote a version of a run; answer when the gatekeeper has noted it."""
        self._operators.require(request)
        run, wish = await self._run(request), await read_body(request, Promote)
        return await self._carried_out(run, self._promoted(run, wish))

    async def rollback(self, request: Request) -> BaseModel:
        """Restore the champion before; answer when the gatekeeper has noted it."""
        self._operators.require(request)
        run, wish = await self._run(request), await read_body(request, Rollback)
        return await self._carried_out(run, self._rolled_back(run, wish))

    async def _promoted(self, run: OpenRun, wish: Promote) -> Champion:
        await self._require_confirmed(run, wish.champion)
        return await promote_version(
            run.paths, run.game, wish.version, reason=wish.reason, without_self_test=wish.without_self_test
        )

    async def _rolled_back(self, run: OpenRun, wish: Rollback) -> Champion:
        now = await self._require_confirmed(run, wish.champion)
        if now.rollback_to is None:
            raise ModelNotFound("there is no earlier champion to go back to; promote a version by its number instead")
        if now.rollback_to != wish.to:
            raise InvalidRequest(f"a rollback restores version {now.rollback_to}, {wish.to} was confirmed: confirm again")
        return await roll_back(run.paths, run.game, reason=wish.reason)

    async def _carried_out(self, run: OpenRun, change: Coroutine[None, None, Champion]) -> ChampionState:
        """Carry out a change, which compares the champion with the confirmed one itself: no other order comes between."""
        try:
            await self._promotions.carry_out(run.name, change)
        except PermissionRefused as error:  # otherwise it reads as a refusal of the page's own
            raise ConfigurationError(
                f"the gatekeeper refused: {error}; give zerofleet ui an operator's token of the cluster (ZEROFLEET_TOKEN_FILE)"
            ) from error
        except Unavailable as error:
            raise Unavailable(_in_one_line(str(error))) from error
        return await self._state(run)

    async def _require_confirmed(self, run: OpenRun, champion: int | None) -> ChampionState:
        """Return the state of a run. Raises `InvalidRequest` where it does not allow the change that was confirmed."""
        now = await self._state(run)
        if now.refusal:
            raise InvalidRequest(now.refusal)
        if now.champion != champion:
            raise InvalidRequest(f"{_named(now.champion)} is champion by now, {_named(champion)} was confirmed: confirm again")
        return now

    async def _state(self, run: OpenRun) -> ChampionState:
        return await asyncio.to_thread(_state, run, is_elsewhere=self._is_elsewhere)

    async def _run(self, request: Request) -> OpenRun:
        return await asyncio.to_thread(self._catalogue.get, request.path_params["run"])


def _log_end(run: str, change: asyncio.Task[Champion]) -> None:
    if change.cancelled():
        log.warning("champion.change_cancelled", run=run)
    elif error := change.exception():
        log.warning("champion.not_changed", run=run, error=str(error))
    else:
        log.info("champion.changed_by_hand", run=run, version=change.result().version, reason=change.result().reason)


def _state(run: OpenRun, *, is_elsewhere: bool) -> ChampionState:
    history = run.history()
    now = history[-1] if history else None
    try:
        back = previous_version(history)
    except ModelNotFound:
        back = None
    refusal = "the services of this run are elsewhere: use zerofleet models promote and rollback there" if is_elsewhere else ""
    return ChampionState(
        champion=None if now is None else now.version,
        epoch=0 if now is None else now.epoch,
        promoted_at=None if now is None else time_of(now.promoted_at_ms),
        reason="" if now is None else now.reason,
        rollback_to=back,
        has_gatekeeper=live_address(run.paths, "gatekeeper") is not None,
        refusal=refusal,
    )


def _named(version: int | None) -> str:
    return "no version" if version is None else f"version {version}"


def _in_one_line(text: str) -> str:
    """Return an error without the log of a service that could not be started: with the reason in it, where there is one."""
    first, *lines = text.splitlines()
    if not lines:
        return text
    service = first.partition(" ")[0]
    reason = next((line.removeprefix(f"{service}: ") for line in lines if line.startswith(f"{service}: ")), "")
    return f"{service} could not be started: {reason}" if reason else f"{first}; the log of zerofleet ui has the reason"
