"""`zerofleet run`: the complete loop on one machine, as supervised processes around one run directory.

    supervisor ──► inference_server   gatekeeper   trainer   selfplay_worker ...
        │  ▲ /metrics, champion, candidates        (unix sockets, SQLite stream, local model store)
        ▼  │
      page or lines

The services are the same programs as on a cluster. They start concurrently and wait for each other; at the end they are
drained from producers to the services they need (workers, trainer, gatekeeper, inference server), so that none waits for a
stopped one. The run directory holds all state: the same command resumes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console

from games.core import Game
from zerofleet.agents import make_agent
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.errors import ConfigurationError, InvalidRequest
from zerofleet.presets.commented import commented
from zerofleet.presets.experiment import SERVICES
from zerofleet.presets.warm_start import WarmStartSettings, game_of, seatings_of
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.rpc.security.credentials import client_token
from zerofleet.service.compilation_note import announcement
from zerofleet.service.settings import inherited_environment
from zerofleet.storage.files import atomic_publish
from zerofleet.storage.runs import RunDirectory, RunHeader
from zerofleet.supervisor.child import KILL_AFTER_GRACE_S, Child, ChildPlan, GaveUp
from zerofleet.supervisor.closing import closing_reading
from zerofleet.supervisor.device_check import require_devices
from zerofleet.supervisor.fleet import PAGES, grace_time_s, plan_fleet
from zerofleet.supervisor.history import History
from zerofleet.supervisor.keyboard import Keyboard, terminal_keyboard
from zerofleet.supervisor.leftovers import end_leftovers
from zerofleet.supervisor.observer import Observer
from zerofleet.supervisor.presenter import Presenter, presenter
from zerofleet.supervisor.readings import LEAST_FREE_BYTES, Readings
from zerofleet.supervisor.request import RunRequest
from zerofleet.supervisor.screen import Title
from zerofleet.supervisor.service_settings import require_service_settings
from zerofleet.supervisor.summary import summary
from zerofleet.supervisor.words import size

__all__ = ["Supervisor", "run", "stopped_by_signals", "supervising"]

EXIT_OK, EXIT_FAILED = 0, 1
LOOK_EVERY_S = 1.0
HISTORY_EVERY_S = 10.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(request: RunRequest, console: Console | None = None) -> int:
    """Run the loop until its time is up or Ctrl-C; return the exit code.

    Raises `RunDirectoryError`, `ConfigurationError`, `InvalidRequest` and `GameError` before anything starts.
    """
    console = console or Console(highlight=False)
    with supervising(request, console, terminal_keyboard()) as supervisor:
        failure, last = asyncio.run(_run_until_signal(supervisor))
    with contextlib.suppress(OSError, SystemExit):
        text = summary(request, last, failure, was_compiling=supervisor.was_compiling, unready=supervisor.unready)
        console.print(f"\n{text}\n", markup=False, highlight=False, soft_wrap=True)
    if failure is not None:
        sys.stderr.write(f"error: {failure}\n")
        return EXIT_FAILED
    return EXIT_OK


@contextlib.contextmanager
def supervising(request: RunRequest, console: Console, keyboard: Keyboard | None = None) -> Iterator[Supervisor]:
    """Check a request, lock its run directory and yield its supervisor, which has not started anything yet.

    `keyboard`: that of the console, to select a page.

    Raises `RunDirectoryError`, `ConfigurationError`, `InvalidRequest` and `GameError`.
    """
    environment = inherited_environment()
    request = request.with_environment(environment)
    chosen = request.build_preset()
    _check_warm_start(request.build_game(), chosen.warm_start)
    require_service_settings(request, environment)
    require_devices(request.devices, environment)
    with RunDirectory.create_or_open(
        request.run_dir, request.game, request.parameters, preset=request.preset, seed=request.seed
    ) as directory:
        _check_disk(directory)
        _keep_experiment(request, directory)
        longest_s = max(grace_time_s(request, service, environment) for service in (*SERVICES, PAGES))
        end_leftovers(directory.paths, timeout_s=longest_s + KILL_AFTER_GRACE_S)
        plans = plan_fleet(request, directory, chosen, environment)
        yield Supervisor(request, directory, plans, console, keyboard)


@contextlib.contextmanager
def stopped_by_signals(supervisor: Supervisor) -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP stop the supervisor; for the event loop of the main thread.

    SIGHUP stays ignored if it was when the process began, as under `nohup`: the run goes on when its terminal is closed.
    """
    loop = asyncio.get_running_loop()
    is_detached = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    heeded = [number for number in _SIGNALS if not (is_detached and number is signal.SIGHUP)]
    for number in heeded:
        loop.add_signal_handler(number, supervisor.stop, number.name)
    try:
        yield
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)


async def _run_until_signal(supervisor: Supervisor) -> tuple[GaveUp | None, Readings]:
    with stopped_by_signals(supervisor):
        return await supervisor.run()


class Supervisor:
    """Supervisor of the services of a run, with their presentation."""

    def __init__(
        self,
        request: RunRequest,
        directory: RunDirectory,
        plans: Sequence[ChildPlan],
        console: Console,
        keyboard: Keyboard | None = None,
    ) -> None:
        """Create it; `plans` are in the order of starting, grouped by kind."""
        self._request = request
        self._directory = directory
        self._console = console
        self._keyboard = keyboard
        self._children = [Child(plan, self._tell) for plan in plans]
        self._end = asyncio.Event()  # of the run: `stop` was called, or it cannot go on
        self._is_stopped = False
        self._hurry = asyncio.Event()
        self._failure: GaveUp | None = None
        self._presenter: Presenter | None = None
        self._last = Readings()
        self._pages_at = ""
        self._compiled: set[str] = set()  # names of services whose compilation was reported
        self._has_told_device = False
        self._is_ending = False
        self.was_compiling = False
        """Whether a service compiled rules when the services were stopped."""
        self.unready: tuple[str, ...] = ()
        """Names of the other services that were never ready until then, without those that the run does without."""
        self._began_s = time.monotonic()

    async def run(self) -> tuple[GaveUp | None, Readings]:
        """Start all services, watch and drain them; return the failure, if any, and the state of the run after that.

        Cancellation: every child is killed.
        """
        with presenter(self._console, self._title(self._directory.header), self._keyboard) as self._presenter:
            if not self._request.has_pages:
                self._tell(f"to see this run in a browser: {self._request.look_command()}")
            await self._run_services()
        return self._failure, closing_reading(self._last, self._directory.paths, self._request.build_game())

    def stop(self, reason: str) -> None:
        """Drain the services, or kill what has not ended at the second call; `reason` is shown. In the event loop of `run`."""
        if self._is_stopped:
            self._tell(f"{reason} again: killing the remaining services")
            self._hurry.set()
        else:
            self._tell(f"{reason}: stopping the services; once more to kill them")
        self._is_stopped = True
        self._end.set()

    async def _run_services(self) -> None:
        paths = self._directory.paths
        model = model_name(self._request.build_game())
        async with GatekeeperClient(paths.gatekeeper_address, token=client_token(), timeout_s=2.0) as gatekeeper:
            wanted = self._request.build_preset().warm_start.games
            observer = Observer(self._children, gatekeeper, model, self._tell, warm_start_games=wanted, directory=paths.root)
            async with asyncio.TaskGroup() as group:
                for child in self._children:
                    group.create_task(self._keep(child))
                watching = group.create_task(self._watch(observer))
                hurrying = group.create_task(self._kill_when_hurried())
                await self._until_end()
                self._note_end()
                await self._drain()
                watching.cancel()
                hurrying.cancel()

    async def _keep(self, child: Child) -> None:
        try:
            await child.supervise()
        except GaveUp as failure:
            if not child.plan.is_needed:
                self._tell(f"the run continues without {child.name}: {failure}")
                return
            self._failure = self._failure or failure
            self._end.set()

    async def _until_end(self) -> None:
        """Wait until the time is up, `stop` is called or a service is given up."""
        try:
            async with asyncio.timeout(self._request.duration_s):
                await self._end.wait()
        except TimeoutError:
            self._tell("the time is up; finishing")

    def _note_end(self) -> None:
        """Note what the services had not done yet when they were stopped."""
        for child in self._children:
            child.look()
        self._is_ending, self.was_compiling = True, any(child.compiling is not None for child in self._children)
        unready = (child for child in self._children if not child.was_ready and child.compiling is None)
        self.unready = tuple(child.name for child in unready if child.plan.is_needed)

    async def _drain(self) -> None:
        """Drain the services, producers before the services they need."""
        kinds: list[list[Child]] = []
        for child in reversed(self._children):
            if kinds and kinds[-1][0].plan.kind == child.plan.kind:
                kinds[-1].append(child)
            else:
                kinds.append([child])
        for kind in kinds:
            async with asyncio.TaskGroup() as group:
                for child in kind:
                    group.create_task(child.drain())

    async def _kill_when_hurried(self) -> None:
        await self._hurry.wait()
        for child in self._children:
            child.kill()

    async def _watch(self, observer: Observer) -> None:
        """Observe, show and write history until cancelled. Cancellation: nothing is lost."""
        history = History(self._directory.paths.metrics / "run.jsonl", self._tell)
        loop = asyncio.get_running_loop()
        next_look_s = next_line_s = loop.time()
        while True:
            self._last = await observer.look(self._left_s())
            self._end_without_network()
            self._tell_compilations()
            self._tell_device()
            self._show()
            self._tell_pages()
            if loop.time() >= next_line_s:
                next_line_s += HISTORY_EVERY_S
                if next_line_s <= loop.time():  # the run was stopped for a while
                    next_line_s = loop.time() + HISTORY_EVERY_S
                history.write(self._last)
            next_look_s = max(next_look_s + LOOK_EVERY_S, loop.time())
            await asyncio.sleep(next_look_s - loop.time())

    def _end_without_network(self) -> None:
        """End a run without a champion whose newest version is broken: no games are played, so that no other version follows.

        A trainer that starts may still export one.
        """
        now = self._last
        newest = next((one for one in now.candidates if one.version == now.newest_version), None)
        if now.champion is None and newest is not None and newest.status is CandidateStatus.BROKEN:
            self._failure = self._failure or GaveUp(
                f"version {newest.version} is broken, and without a champion no games are played: {newest.reason}; mend the "
                "cause and start another run, or make the version champion with zerofleet models promote and resume",
                is_final=True,
            )
            self._end.set()

    def _tell_compilations(self) -> None:
        """Report each service that compiles, once, until the services are stopped."""
        if self._is_ending:
            return
        for child in self._children:
            if child.compiling is not None and child.name not in self._compiled:
                self._compiled.add(child.name)
                self._tell(f"{child.name} compiles {announcement(self._request.game)}")

    def _tell_device(self) -> None:
        """Report once that a preset whose sizes are meant for a GPU runs without one."""
        if self._request.preset == "gpu" and "cpu" in self._last.devices and not self._has_told_device:
            self._has_told_device = True
            self._tell(
                "attention: preset gpu is meant for a GPU, and inference is on a CPU; --preset laptop is meant for CPUs, and "
                "`zerofleet doctor` lists the devices"
            )

    def _tell_pages(self) -> None:
        """Report the address of the web application when it is ready, and a new one after a restart."""
        for child in self._children:
            if child.plan.kind == PAGES and child.address not in {"", self._pages_at}:
                self._pages_at = child.address
                self._tell(f"this run in a browser: {child.address}")

    def _left_s(self) -> float | None:
        duration_s = self._request.duration_s
        return None if duration_s is None else max(0.0, duration_s - self._elapsed_s())

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _tell(self, text: str) -> None:
        """Report an event to the presenter, if its terminal is still open."""
        self._to_presenter(lambda shown: shown.tell(self._elapsed_s(), text))

    def _show(self) -> None:
        self._to_presenter(lambda shown: shown.show(self._last))

    def _to_presenter(self, act: Callable[[Presenter], None]) -> None:
        if self._presenter is not None:
            try:
                act(self._presenter)
            except (OSError, SystemExit):  # closed terminal; closed pipe, for which rich raises SystemExit
                self._presenter = None  # the run continues without presentation

    def _title(self, header: RunHeader) -> Title:
        return Title(
            game=" ".join([header.game, *(f"{name}={value}" for name, value in header.parameters.items())]),
            preset=header.preset,
            run_dir=str(self._request.run_dir),
            duration_s=self._request.duration_s,
            interrupt="Ctrl-C stops it; the same command resumes",
        )


def _check_warm_start(game: Game, settings: WarmStartSettings) -> None:
    """Raise `ConfigurationError` or `InvalidRequest` if the agents of a warm start cannot play."""
    if settings.games:
        played = game_of(game, settings)
        for name in set(itertools.chain.from_iterable(seatings_of(game, settings))):
            try:
                make_agent(name, played)
            except InvalidRequest as error:
                advice = "name others with warm_start.agents, or set warm_start.games=0"
                raise InvalidRequest(f"warm_start.agents={settings.agents}: {error}; {advice}") from error


def _keep_experiment(request: RunRequest, directory: RunDirectory) -> None:
    """Write the experiment of a new run, with its seed, to its directory; never overwrite it."""
    if not directory.paths.experiment.exists():
        begun = dataclasses.replace(request.experiment, seed=directory.header.seed)
        atomic_publish(directory.paths.experiment, commented(begun))


def _check_disk(directory: RunDirectory) -> None:
    free = shutil.disk_usage(directory.paths.root).free
    if free < LEAST_FREE_BYTES:
        raise ConfigurationError(
            f"the disk of {directory.paths.root} has {size(free)} free, a run needs at least {size(LEAST_FREE_BYTES)}; "
            "free some, or choose another --run-dir"
        )
