"""Asynchronous client, for programs with an event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import grpc

from zerofleet_client import operations
from zerofleet_client.attempts import CLOSED, Attempts, Watch, failed
from zerofleet_client.connections import Connection, connect, connection_of, require_timeout, token_metadata
from zerofleet_client.contracts.champions import Champion
from zerofleet_client.contracts.opinions import Opinion
from zerofleet_client.contracts.promotions import Candidate, Rung
from zerofleet_client.errors import Unavailable, ZerofleetError
from zerofleet_client.operations import Call, Operation
from zerofleet_client.tls import Tls

__all__ = ["AsyncClient"]

Result = TypeVar("Result")


class AsyncClient:
    """`Client` for an event loop; create it inside the loop that uses it. Arguments, answers and errors are the same.

    Cancellation of a call reaches the server, which drops a search or a queued operation. `promote` and `rollback` may have
    been carried out; check with `champion`.
    """

    def __init__(
        self,
        inference: str | None = None,
        *,
        gatekeeper: str | None = None,
        token: str | None = None,
        tls: Tls | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        self._timeout_s = require_timeout(timeout_s)
        self._metadata = token_metadata(token)
        self._connections = connect(grpc.aio, inference=inference, gatekeeper=gatekeeper, tls=tls)
        self._closed = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """See `Client.close`. Cancellation: a connection may stay open until garbage-collected; close it again."""
        self._closed.set()
        for connection in self._connections.values():
            await connection.channel.close()

    async def evaluate(
        self,
        game: str,
        moves: Sequence[str] = (),
        *,
        parameters: Mapping[str, str | float] | None = None,
        model_version: int | Literal["champion"] = "champion",
        simulations: int = 0,
        seed: int = 0,
        timeout_s: float | None = None,
    ) -> Opinion:
        """See `Client.evaluate`. Cancellation: the server drops the search."""
        operation = operations.evaluate(
            game, moves, parameters=parameters, model_version=model_version, simulations=simulations, seed=seed
        )
        return await self._run(operation, timeout_s)

    async def champion(self, model: str, *, timeout_s: float | None = None) -> Champion | None:
        """See `Client.champion`. Cancellation: no effect."""
        return await self._run(operations.champion(model), timeout_s)

    async def versions(self, model: str, *, timeout_s: float | None = None) -> tuple[Candidate, ...]:
        """See `Client.versions`. Cancellation: no effect."""
        return await self._run(operations.versions(model), timeout_s)

    async def ladder(self, model: str, *, timeout_s: float | None = None) -> tuple[Rung, ...]:
        """See `Client.ladder`. Cancellation: no effect."""
        return await self._run(operations.ladder(model), timeout_s)

    async def promote(
        self, model: str, version: int, *, reason: str, without_self_test: bool = False, timeout_s: float | None = None
    ) -> Champion:
        """See `Client.promote`. Cancellation: it may or may not have been promoted; check with `champion`."""
        operation = operations.promote(model, version, reason=reason, without_self_test=without_self_test)
        return await self._run(operation, timeout_s)

    async def rollback(self, model: str, *, reason: str, timeout_s: float | None = None) -> Champion:
        """See `Client.rollback`. Cancellation: it may or may not have been restored; check with `champion`."""
        return await self._run(operations.rollback(model, reason=reason), timeout_s)

    def watch_champion(
        self, model: str, *, on_lost: Callable[[ZerofleetError], None] = lambda error: None
    ) -> AsyncGenerator[Champion, None]:
        """See `Client.watch_champion`. Cancellation: the stream is closed."""
        call = operations.watch_call(model)
        return self._watch(call, connection_of(self._connections, call), on_lost)

    async def _run(self, operation: Operation[Result], timeout_s: float | None) -> Result:
        attempts = Attempts(self._timeout_s if timeout_s is None else require_timeout(timeout_s))
        step: Callable[[], Call] = partial(next, operation)
        while True:
            try:
                call = step()
            except StopIteration as end:
                result: Result = end.value
                return result
            try:
                step = partial(operation.send, await self._reply(call, attempts))
            except ZerofleetError as error:
                step = partial(operation.throw, error)

    async def _reply(self, call: Call, attempts: Attempts) -> Any:
        connection = connection_of(self._connections, call)
        while True:
            try:
                return await self._start(connection, call, timeout=attempts.left_s())
            except asyncio.CancelledError:
                self._require_own_cancellation()
                raise
            except grpc.aio.AioRpcError as failure:
                pause_s = attempts.pause_s(self._error(failure, call, connection))
            await self._pause(pause_s)

    async def _watch(
        self, call: Call, connection: Connection, on_lost: Callable[[ZerofleetError], None]
    ) -> AsyncGenerator[Champion, None]:
        watch = Watch()
        while not self._closed.is_set():
            stream = self._start(connection, call)
            error: ZerofleetError = Unavailable(f"{connection.target} ended the watch")
            try:
                async for message in stream:
                    if (champion := watch.accept(message)) is not None:
                        yield champion
            except asyncio.CancelledError:
                if not self._is_closing():
                    raise
            except grpc.aio.AioRpcError as failure:
                error = self._error(failure, call, connection)
                if watch.is_final(error):
                    raise error from failure
            finally:
                stream.cancel()
            if not self._closed.is_set():
                on_lost(error)
                await self._pause(watch.pause_s())

    async def _pause(self, pause_s: float) -> None:
        """Wait for `pause_s`, or until the client is closed. Cancellation: no effect."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._closed.wait()

    def _start(self, connection: Connection, call: Call, **options: Any) -> Any:
        """Begin a call; raises `Unavailable` on a closed client, where grpc raises an error of its own."""
        if self._closed.is_set():
            raise Unavailable(CLOSED)
        return connection.method(call)(call.request, metadata=self._metadata, **options)

    def _require_own_cancellation(self) -> None:
        """Raise `Unavailable` if `close` ended the call: grpc reports that as a cancellation of the caller."""
        if self._is_closing():
            raise Unavailable(CLOSED)

    def _is_closing(self) -> bool:
        """Return whether a cancellation comes from `close`, not from the caller's task."""
        task = asyncio.current_task()
        return self._closed.is_set() and (task is None or task.cancelling() == 0)

    def _error(self, failure: Any, call: Call, connection: Connection) -> ZerofleetError:
        return Unavailable(CLOSED) if self._closed.is_set() else failed(failure, call, connection.target)
