"""Life of a service process: start, ready, drain, exit code.

    def main() -> int:
        return run_service(serve, load_settings(TrainerSettings, sys.argv[1:]))

    async def serve(service: Service) -> None:
        server = await start(...)                      # anything raised before `ready` is a failed start
        service.on_drain("intake", server.stop)        # run in this order at shutdown
        service.on_drain("flush", store.flush)
        service.ready(address)
        await server.wait_for_end()                    # or: await service.until_stopping(work())

    if __name__ == "__main__":
        end_process(main())                            # see `zerofleet.service.process_end`

On SIGTERM or SIGINT readiness turns false at once, `service.stopping` is set, the drains run one after another, then
`serve` has the rest of the grace time to return. The end of the grace time cancels; so does a second signal, after which the
drains have `LAST_DRAINS_S` together. They have no more after a failure of `serve` either: what they wait for may have ended.
A supervised service (`parent_pid`) ignores a repeated SIGTERM: a stop of all processes of a machine, and the death of the
supervisor, send one beside the supervisor's own, and a supervisor that cannot wait kills.

Exit codes: 0 shut down on request; 2 failed to start (standard error gives the reason: one line, or the place in a game's
rules that is at fault); 1 failed later, did not drain, or lost its device, at the start too, which a restart mends.
"""

from __future__ import annotations

import asyncio
import functools
import json
import math
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

import structlog

from games.errors import GameError
from games.faults import fault_of
from zerofleet.errors import DeviceLost, ZerofleetError
from zerofleet.rpc.security.credentials import plain
from zerofleet.service import logs
from zerofleet.service.open_files import raise_limit
from zerofleet.service.probes import Answer, Handler, ProbeServer
from zerofleet.service.process_end import end_with
from zerofleet.service.process_identity import announce_place, pid_namespace, start_ticks
from zerofleet.service.settings import ServiceSettings
from zerofleet.storage.files import atomic_publish
from zerofleet.telemetry import metrics, tracing

__all__ = ["EXIT_FAILED", "EXIT_OK", "EXIT_REFUSED", "Drain", "Service", "run_service", "serve_until_drained"]

EXIT_OK, EXIT_FAILED, EXIT_REFUSED = 0, 1, 2
LAST_DRAINS_S = 2.0
"""Time of all remaining drains after a second signal, or after a failure of the work."""

log = structlog.get_logger()

Drain = Callable[[], Awaitable[None]]


class Service:
    """State of a running service: its readiness and its drains."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.stopping = asyncio.Event()
        """Set when shutdown is requested."""
        self.metrics_port = 0
        self.probes = ProbeServer(_paths(self), tokens={"/metrics": plain(settings.metrics_token)})
        """Server of the HTTP port, to which a service may add paths."""
        self.was_ready = False
        self._is_ready = False
        self._drains: deque[tuple[str, Drain]] = deque()
        self._registered = asyncio.Event()

    @property
    def name(self) -> str:
        """Name of the service."""
        return self.settings.SERVICE

    @property
    def is_ready(self) -> bool:
        """Whether /readyz returns 200."""
        return self._is_ready and not self.stopping.is_set()

    def ready(self, address: str = "") -> None:
        """Mark the service as accepting work at `address`: /readyz returns 200 and the announce file is written."""
        self._is_ready = self.was_ready = True
        if self.settings.announce is not None:
            says = {
                "service": self.name,
                "pid": os.getpid(),
                "pid_namespace": pid_namespace(),
                "start_ticks": start_ticks(os.getpid()),
                "place": announce_place(self.settings.announce),
                "address": address,
                "metrics_port": self.metrics_port,
            }
            self.settings.announce.parent.mkdir(parents=True, exist_ok=True)
            atomic_publish(self.settings.announce, json.dumps(says))
        log.info("service.ready", address=address, metrics_port=self.metrics_port)

    def not_ready(self, reason: str) -> None:
        """Let /readyz return 503 until `ready` is called again; the process keeps running."""
        self._is_ready = False
        log.info("service.not_ready", reason=reason)

    def on_drain(self, name: str, drain: Drain) -> None:
        """Register a drain. Drains run once, in the order of registration; after a signal as soon as they are registered."""
        self._drains.append((name, drain))
        self._registered.set()

    async def until_stopping(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` until it ends or shutdown is requested; then cancel it.

        Raises the errors of `work`. Cancellation: `work` is cancelled.
        """
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work)
            stop = group.create_task(self.stopping.wait())
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            task.cancel()
            stop.cancel()

    async def drain(self) -> None:
        """Run the registered drains in order, each once. A failing drain is logged and the others still run.

        Cancellation: the current drain is cancelled, later ones do not run.
        """
        self._registered.clear()
        while self._drains:
            name, drain = self._drains.popleft()
            began = time.monotonic()
            try:
                await drain()
            except Exception:
                log.exception("service.drain_failed", drain=name)
                continue
            log.info("service.drained", drain=name, seconds=round(time.monotonic() - began, 3))

    async def drain_until(self, work: asyncio.Task[None]) -> None:
        """Run the drains until `work` has ended, also those that a start registers meanwhile. Cancellation: as `drain`."""
        while not work.done():
            await self.drain()
            registered = asyncio.ensure_future(self._registered.wait())
            try:
                await asyncio.wait({work, registered}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                registered.cancel()
        await self.drain()


def run_service(main: Callable[[Service], Awaitable[None]], settings: ServiceSettings) -> int:
    """Run a service process until it ends and return its exit code (see the module)."""
    raise_limit()
    logs.configure(settings.log_level, settings.log_format, settings.SERVICE)
    if settings.parent_pid and not end_with(settings.parent_pid):
        return EXIT_FAILED
    code = asyncio.run(serve_until_drained(main, settings))
    tracing.close()
    return code


async def serve_until_drained(main: Callable[[Service], Awaitable[None]], settings: ServiceSettings) -> int:
    """Run a service in the current event loop, with signals, probes and drains; return the exit code.

    Cancellation: `main` is cancelled, drains do not run.
    """
    service = Service(settings)
    code = EXIT_OK
    try:
        tracing.configure(service.name, settings.trace_sample)
        await service.probes.start(settings.metrics_host, settings.metrics_port)
        service.metrics_port = service.probes.port
        try:
            code = await _run_to_end(service, main)
        finally:
            await service.probes.aclose()
            if settings.announce is not None:
                settings.announce.unlink(missing_ok=True)
    except Exception as error:
        code = _failed(service, error)
    log.info("service.ended", exit_code=code)
    return code


async def _run_to_end(service: Service, main: Callable[[Service], Awaitable[None]]) -> int:
    """Run `main`, drain when it returns or a signal arrives; return the exit code.

    Raises the errors of `main`. One that it raises by itself comes at once, since `main` has closed what the drains would use;
    one that it raises during the drains comes after the last of them.
    """
    loop = asyncio.get_running_loop()
    work = asyncio.create_task(_awaited(main(service)))
    ask = asyncio.create_task(service.stopping.wait())
    hurry = asyncio.Event()
    work.add_done_callback(functools.partial(_on_end, hurry))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, service, number, work, hurry)
    try:
        await asyncio.wait({work, ask}, return_when=asyncio.FIRST_COMPLETED)
        code = EXIT_FAILED if _has_failed(work) else await _drain_within_grace(service, work, hurry)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        ask.cancel()
        work.cancel()
        await asyncio.wait({work})
    if _has_failed(work):
        work.result()
    return code


def _has_failed(work: asyncio.Task[None]) -> bool:
    return work.done() and not work.cancelled() and work.exception() is not None


async def _awaited(awaitable: Awaitable[None]) -> None:
    await awaitable


async def _drain_within_grace(service: Service, work: asyncio.Task[None], hurry: asyncio.Event) -> int:
    asked = service.stopping.is_set()
    service.stopping.set()
    try:
        async with asyncio.timeout(service.settings.grace_s) as grace:
            shortening = asyncio.create_task(_shorten(grace, hurry))
            try:
                await service.drain_until(work)
            finally:
                shortening.cancel()
    except TimeoutError:
        if hurry.is_set():
            log.error("service.drains_cancelled", why="a second signal, or a failure of the work")
        else:
            log.error("service.grace_exceeded", grace_s=service.settings.grace_s)
        work.cancel()
        return EXIT_FAILED
    return EXIT_FAILED if work.cancelled() and asked else EXIT_OK


async def _shorten(grace: asyncio.Timeout, hurry: asyncio.Event) -> None:
    """Leave the drains `LAST_DRAINS_S` of their grace time once `hurry` is set. Cancellation: the grace time stays."""
    await hurry.wait()
    end_s = asyncio.get_running_loop().time() + LAST_DRAINS_S
    if not grace.expired() and end_s < (grace.when() or math.inf):
        grace.reschedule(end_s)


def _on_end(hurry: asyncio.Event, work: asyncio.Task[None]) -> None:
    if work.cancelled() or work.exception() is not None:
        hurry.set()


def _on_signal(service: Service, number: signal.Signals, work: asyncio.Task[None], hurry: asyncio.Event) -> None:
    is_again, is_supervised = service.stopping.is_set(), service.settings.parent_pid != 0
    log.info("service.signal", signal=number.name, again=is_again)
    if is_again and not (is_supervised and number is signal.SIGTERM):
        hurry.set()
        work.cancel()
    service.stopping.set()


def _failed(service: Service, error: Exception) -> int:
    """Report the error that ended the service; return the exit code."""
    causes = [fault_of(cause) or cause for cause in _leaves(error)]
    expected = all(isinstance(cause, ZerofleetError | GameError) for cause in causes)
    if not expected:
        log.error("service.failed", exc_info=error)
    for reason in dict.fromkeys(str(cause) if expected else f"{type(cause).__name__}: {cause}" for cause in causes):
        sys.stderr.write(f"{service.name}: {reason}\n")
    restart_helps = any(isinstance(cause, DeviceLost) for cause in causes)  # a refusal is not started again
    return EXIT_REFUSED if expected and not service.was_ready and not restart_helps else EXIT_FAILED


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _paths(service: Service) -> dict[str, Handler]:
    def readiness() -> Answer:
        if service.is_ready:
            return Answer(200, b"ready\n")
        return Answer(503, b"draining\n" if service.stopping.is_set() else b"not ready\n")

    return {
        "/metrics": lambda: Answer(200, metrics.exposition(service.name), metrics.CONTENT_TYPE),
        "/livez": lambda: Answer(200, b"alive\n"),
        "/readyz": readiness,
    }
