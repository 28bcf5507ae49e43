"""Which versions every replica of the inference server holds: a load goes to each address behind the name, not to one.

    appears       it is given the versions at the next `serve`; `ready` is false until it has them
    disappears    from the name: it is forgotten
    is silent     `serve` and `ready` are `Unavailable` for `absence_s`; then it is passed over, and asked again each time
    refuses       `CorruptModel`, and the version counts as served nowhere

So a version counts as served when every replica that is present has it, and one dead replica does not stop promotion for
longer than `absence_s`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import structlog

from zerofleet.errors import CorruptModel, Unavailable, ZerofleetError
from zerofleet.evaluators.addresses import resolve
from zerofleet.evaluators.control import ModelControl
from zerofleet.rpc.security.tls import PLAIN, Tls
from zerofleet.storage.model_store import ModelStore

__all__ = ["ABSENCE_S", "ReplicaControl"]

ABSENCE_S = 30.0
"""A pod that was moved is back, or gone from the name, by then."""
PROBE_S = 3.0  # how long a replica may take to say that it lives

Result = TypeVar("Result")

log = structlog.get_logger()


@dataclass(slots=True)
class _Replica:
    """One address. `answered_s` is when it last answered, or when it was first seen in the name."""

    control: ModelControl
    answered_s: float
    passed_over: bool = False


class ReplicaControl:
    """Controls every server behind `target` (see `addresses`) as `ModelControl` controls one. Close it as that one.

    token      an operator's, where the servers ask for one
    tls        whom this client trusts and who it is; the servers are known by the name in `target`
    store      the model store, which Triton's configuration is read from
    timeout_s  deadline of one load
    absence_s  for how long a silent replica is waited for
    """

    def __init__(
        self,
        target: str,
        *,
        token: str | None = None,
        tls: Tls = PLAIN,
        store: ModelStore | None = None,
        timeout_s: float = 120.0,
        absence_s: float = ABSENCE_S,
        addresses: Callable[[str], Awaitable[Sequence[str]]] = resolve,
    ) -> None:
        self.target = target
        self._token = token
        self._tls = tls
        self._store = store
        self._timeout_s = timeout_s
        self._absence_s = absence_s
        self._addresses = addresses
        self._replicas: dict[str, _Replica] = {}
        self._looking = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the channels to all replicas. Cancellation: some may stay open until they are collected."""
        while self._replicas:
            _, replica = self._replicas.popitem()
            await replica.control.aclose()

    async def serve(self, model: str, versions: Sequence[int]) -> None:
        """Make exactly these versions served at every replica; returns when all that are present have them.

        Raises what `ModelControl.serve` raises when one replica does, `CorruptModel` before others; those that could load
        the versions then have them all the same. `Unavailable` while a replica is silent or when none answers.
        Cancellation: each replica may or may not have changed; call again.
        """
        await self._at_each(lambda control: control.serve(model, versions))

    async def ready(self, model: str, version: int) -> bool:
        """Return whether that version answers at every replica that is present. Raises `Unavailable`.

        Cancellation: nothing happened.
        """
        return all(await self._at_each(lambda control: control.ready(model, version)))

    async def _at_each(self, call: Callable[[ModelControl], Awaitable[Result]]) -> list[Result]:
        """Return what the call returned at every present replica; raises its gravest error after all have ended."""
        present, silent = await self._present()
        answers = await _together([_outcome(call(replica.control)) for replica in present])
        errors = [answer for answer in answers if isinstance(answer, ZerofleetError)]
        if errors:
            raise min(errors, key=lambda error: not isinstance(error, CorruptModel))
        if silent:
            raise Unavailable(f"of {self.target}, {silent}; it is passed over after {self._absence_s:g} s")
        return [answer for answer in answers if not isinstance(answer, ZerofleetError)]

    async def _present(self) -> tuple[list[_Replica], str]:
        """Return the replicas that live, and what is to be said of silent ones that are still waited for."""
        async with self._looking:
            await self._look_up()
            known = list(self._replicas.items())
            lives = await _together([replica.control.live(timeout_s=PROBE_S) for _, replica in known])
        now_s = asyncio.get_running_loop().time()
        silent = []
        for (address, replica), alive in zip(known, lives, strict=True):
            if alive:
                replica.answered_s, replica.passed_over = now_s, False
            elif now_s - replica.answered_s <= self._absence_s:
                silent.append(address)
            elif not replica.passed_over:
                replica.passed_over = True
                log.warning("replica.passed_over", address=address, silent_s=round(now_s - replica.answered_s))
        if not any(lives):
            error = Unavailable(f"{self.target} does not answer at {', '.join(self._replicas)}; is it running?")
            raise await known[0][1].control.explained(error) if known else error
        present = [replica for (_, replica), alive in zip(known, lives, strict=True) if alive]
        return present, f"{', '.join(silent)} does not answer" if silent else ""

    async def _look_up(self) -> None:
        """Have one channel to each address that the name has now, and none to others."""
        addresses = await self._addresses(self.target)
        for address in set(self._replicas) - set(addresses):
            log.info("replica.gone", address=address)
            await self._replicas.pop(address).control.aclose()
        for address in addresses:
            if address not in self._replicas:
                log.info("replica.found", address=address)
                self._replicas[address] = _Replica(self._control(address), asyncio.get_running_loop().time())

    def _control(self, address: str) -> ModelControl:
        known_as = None if address == self.target or self.target.startswith(("ipv4:", "ipv6:")) else self.target
        return ModelControl(
            address, token=self._token, tls=self._tls, store=self._store, timeout_s=self._timeout_s, known_as=known_as
        )


async def _together(calls: Sequence[Coroutine[Any, Any, Result]]) -> list[Result]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call) for call in calls]
    return [task.result() for task in tasks]


async def _outcome(call: Awaitable[Result]) -> Result | ZerofleetError:
    try:
        return await call
    except ZerofleetError as error:
        return error
