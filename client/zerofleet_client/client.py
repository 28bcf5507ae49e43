"""Synchronous client, for scripts and threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
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

__all__ = ["Client"]

Result = TypeVar("Result")


class Client:
    """Client of an inference server, a gatekeeper or both; threads may share it.

    inference    address of the inference server: `host:port`, `dns:///name:port` or `unix:/path`
    gatekeeper   address of the gatekeeper
    token        token presented with every call, if the servers require one
    tls          None: plain text. Unix sockets are always plain text
    timeout_s    seconds after which a call ends, retries included; each call may name its own

    A call to an overloaded server is repeated with jittered back-off until its time is over; other failures are final.
    `close`, from any thread, ends the calls in progress with `Unavailable` and watches without an error.
    Raises `ConfigurationError` for an invalid address, token or timeout, and for unreadable files of `tls`.
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
        self._connections = connect(grpc, inference=inference, gatekeeper=gatekeeper, tls=tls)
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; harmless if repeated."""
        self._closed.set()
        for connection in self._connections.values():
            connection.channel.close()

    def evaluate(
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
        """Return a model's opinion on the position after `moves`, which are in the game's notation.

        `parameters` are those of the game that differ from its defaults; without `simulations` the network answers alone.
        `seed` is that of the search and, in games that deal, of the deal.
        Raises `InvalidRequest` (unknown game, illegal move), `ModelNotFound`, `CorruptModel` (the network returns numbers that
        are not finite), `Overloaded`, `PermissionRefused`, `Unavailable`.
        """
        operation = operations.evaluate(
            game, moves, parameters=parameters, model_version=model_version, simulations=simulations, seed=seed
        )
        return self._run(operation, timeout_s)

    def champion(self, model: str, *, timeout_s: float | None = None) -> Champion | None:
        """Return the champion, None before the first promotion.

        Raises `InvalidRequest` (a gatekeeper of another model), `Overloaded`, `PermissionRefused`, `Unavailable`.
        """
        return self._run(operations.champion(model), timeout_s)

    def versions(self, model: str, *, timeout_s: float | None = None) -> tuple[Candidate, ...]:
        """Return every submitted version with its status and match, oldest first. Raises as `champion`."""
        return self._run(operations.versions(model), timeout_s)

    def ladder(self, model: str, *, timeout_s: float | None = None) -> tuple[Rung, ...]:
        """Return the ratings, strongest first; `random` has 0 Elo. Raises as `champion`."""
        return self._run(operations.ladder(model), timeout_s)

    def promote(
        self, model: str, version: int, *, reason: str, without_self_test: bool = False, timeout_s: float | None = None
    ) -> Champion:
        """Promote a version regardless of its results, once its files are verified and an inference server has loaded it.

        `without_self_test` accepts a version that no server can load now, at the risk of a champion that cannot be evaluated.
        Raises as `champion`, and `ModelNotFound`, `CorruptModel`, `StaleEpoch`. After `Unavailable` it may have been promoted.
        """
        operation = operations.promote(model, version, reason=reason, without_self_test=without_self_test)
        return self._run(operation, timeout_s)

    def rollback(self, model: str, *, reason: str, timeout_s: float | None = None) -> Champion:
        """Restore the previous champion. Raises as `promote`; `ModelNotFound` means that there is no previous one."""
        return self._run(operations.rollback(model, reason=reason), timeout_s)

    def watch_champion(
        self, model: str, *, on_lost: Callable[[ZerofleetError], None] = lambda error: None
    ) -> Generator[Champion, None, None]:
        """Yield the current champion at once (if any) and every later one, with strictly increasing epochs.

        It has no end: an absent or lost gatekeeper is called again with jittered back-off, after `on_lost` has received the
        error. Raises what another call would meet again: `InvalidRequest`, `PermissionRefused`, `ConfigurationError`.
        """
        call = operations.watch_call(model)
        return self._watch(call, connection_of(self._connections, call), on_lost)

    def _run(self, operation: Operation[Result], timeout_s: float | None) -> Result:
        attempts = Attempts(self._timeout_s if timeout_s is None else require_timeout(timeout_s))
        step: Callable[[], Call] = partial(next, operation)
        while True:
            try:
                call = step()
            except StopIteration as end:
                result: Result = end.value
                return result
            try:
                step = partial(operation.send, self._reply(call, attempts))
            except ZerofleetError as error:
                step = partial(operation.throw, error)

    def _reply(self, call: Call, attempts: Attempts) -> Any:
        connection = connection_of(self._connections, call)
        while True:
            try:
                return self._start(connection, call, timeout=attempts.left_s())
            except grpc.RpcError as failure:
                pause_s = attempts.pause_s(self._error(failure, call, connection))
            self._closed.wait(pause_s)

    def _watch(
        self, call: Call, connection: Connection, on_lost: Callable[[ZerofleetError], None]
    ) -> Generator[Champion, None, None]:
        watch = Watch()
        while not self._closed.is_set():
            try:
                stream = self._start(connection, call)
            except Unavailable:  # closed by another thread just now
                return
            error: ZerofleetError = Unavailable(f"{connection.target} ended the watch")
            try:
                for message in stream:
                    if (champion := watch.accept(message)) is not None:
                        yield champion
            except grpc.RpcError as failure:
                error = self._error(failure, call, connection)
                if watch.is_final(error):
                    raise error from failure
            finally:
                stream.cancel()
            if not self._closed.is_set():
                on_lost(error)
                self._closed.wait(watch.pause_s())

    def _start(self, connection: Connection, call: Call, **options: Any) -> Any:
        """Make a call; raises `Unavailable` on a closed client, where grpc raises a bare `ValueError`."""
        try:
            return connection.method(call)(call.request, metadata=self._metadata, **options)
        except ValueError:
            if self._closed.is_set():
                raise Unavailable(CLOSED) from None
            raise

    def _error(self, failure: Any, call: Call, connection: Connection) -> ZerofleetError:
        return Unavailable(CLOSED) if self._closed.is_set() else failed(failure, call, connection.target)
