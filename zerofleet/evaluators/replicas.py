"""Model control of all replicas of the inference server: a load goes to every address behind the name.

    new replica       loads the versions at the next `serve`; `ready` is false until then
    removed replica   (no longer in the name) is dropped
    silent replica    `serve` and `ready` raise `Unavailable` for `absence_s`; then it is skipped, and probed each time
    failed load       `CorruptModel`, and the version does not count as served

So a version counts as served when every present replica has it, and a dead replica delays promotion by at most
`absence_s`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import structlog

from zerofleet.errors import CorruptModel, Unavailable, ZerofleetError
from zerofleet.evaluators.addresses import resolve
from zerofleet.evaluators.control import ModelControl
from zerofleet.rpc.calls import all_of
from zerofleet.rpc.security.tls import PLAIN, Tls
from zerofleet.storage.model_store import ModelStore

__all__ = ["ABSENCE_S", "ReplicaControl"]

ABSENCE_S = 30.0
"""Time in which a moved pod is back, or removed from the name."""
PROBE_S = 3.0  # timeout of a liveness probe

Result = TypeVar("Result")

log = structlog.get_logger()


@dataclass(slots=True)
class _Replica:
    """Replica at one address. `answered_s` is the time of its last reply, or of its discovery."""

    control: ModelControl
    answered_s: float
    passed_over: bool = False


class ReplicaControl:
    """Model control of every server behind `target` (see `addresses`), with the interface of `ModelControl`.

    token      operator token, if the servers require one
    tls        trusted authorities and own certificate; servers are verified by the name in `target`
    store      model store with Triton's configuration
    timeout_s  deadline of one load
    absence_s  maximum wait for a silent replica
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
        """Close the channels to all replicas. Cancellation: some may stay open until garbage-collected."""
        while self._replicas:
            _, replica = self._replicas.popitem()
            await replica.control.aclose()

    async def serve(self, model: str, versions: Sequence[int]) -> None:
        """Serve exactly these versions on every replica; return when all present ones have them.

        Raises the error of `ModelControl.serve` of any replica, `CorruptModel` first; replicas that loaded the versions keep
        them. `Unavailable` while a replica is silent or if none replies.
        Cancellation: each replica may or may not have changed; call again.
        """
        await self._at_each(lambda control: control.serve(model, versions))

    async def ready(self, model: str, version: int) -> bool:
        """Return whether a version is ready on every present replica. Raises `Unavailable`.

        Cancellation: no effect.
        """
        return all(await self._at_each(lambda control: control.ready(model, version)))

    async def evaluations(self, model: str) -> dict[tuple[str, int], int]:
        """Return the number of positions evaluated by address and version, each since it was loaded there.

        A replica that does not answer is left out. Raises `Unavailable` when none does. Cancellation: no effect.
        """
        present, _ = await self._present()
        answers = await all_of([_outcome(replica.control.evaluations(model)) for replica in present])
        return {
            (replica.control.target, version): count
            for replica, answer in zip(present, answers, strict=True)
            if not isinstance(answer, ZerofleetError)
            for version, count in answer.items()
        }

    async def _at_each(self, call: Callable[[ModelControl], Awaitable[Result]]) -> list[Result]:
        """Return the result of a call on every present replica; raises the most severe error after all have finished."""
        present, silent = await self._present()
        answers = await all_of([_outcome(call(replica.control)) for replica in present])
        errors = [answer for answer in answers if isinstance(answer, ZerofleetError)]
        if errors:
            raise min(errors, key=lambda error: not isinstance(error, CorruptModel))
        if silent:
            raise Unavailable(f"of {self.target}, {silent}; it is skipped after {self._absence_s:g} s")
        return [answer for answer in answers if not isinstance(answer, ZerofleetError)]

    async def _present(self) -> tuple[list[_Replica], str]:
        """Return the live replicas, and a message about silent ones within `absence_s`."""
        async with self._looking:
            await self._look_up()
            known = list(self._replicas.items())
            lives = await all_of([replica.control.live(timeout_s=PROBE_S) for _, replica in known])
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
            others = set(self._replicas) - {self.target}
            at = f" at {', '.join(sorted(others))}" if others else ""
            error = Unavailable(f"{self.target} does not answer{at}; is it running?")
            raise await known[0][1].control.explained(error) if known else error
        present = [replica for (_, replica), alive in zip(known, lives, strict=True) if alive]
        return present, f"{', '.join(silent)} does not answer" if silent else ""

    async def _look_up(self) -> None:
        """Update the channels to one for each current address of the name."""
        addresses = await self._addresses(self.target)
        for address in set(self._replicas) - set(addresses):
            log.info("replica.gone", address=address)
            await self._replicas.pop(address).control.aclose()
        for address in addresses:
            if address not in self._replicas:
                log.info("replica.found", address=address)
                self._replicas[address] = _Replica(self._control(address), asyncio.get_running_loop().time())

    def _control(self, address: str) -> ModelControl:
        is_listed = self.target.startswith(("ipv4:", "ipv6:", "unix:"))
        known_as = None if address == self.target or is_listed else self.target
        return ModelControl(
            address, token=self._token, tls=self._tls, store=self._store, timeout_s=self._timeout_s, known_as=known_as
        )


async def _outcome(call: Awaitable[Result]) -> Result | ZerofleetError:
    try:
        return await call
    except ZerofleetError as error:
        return error
