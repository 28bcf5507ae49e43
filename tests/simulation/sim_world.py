"""One simulation: a fleet of two workers, a trainer, a gatekeeper and an inference server, its faults, and its end.

`simulate(seed, games=...)` is a function of its arguments: the same seed gives the same trace, line for line, also in another
process with the same code. Until `games` games are published, processes are killed between any two callbacks and within file
operations, suspended, cut off, stopped in order and started twice; the machine loses power; the disk fails; bad records and
forged submissions arrive; an operator promotes and rolls back. Then the faults end, the fleet has to come to rest, and all
that it promised is compared with what is on its disk.

Not simulated: processes and signals themselves, gRPC, SQLite and Redis (the stream is `MemoryStream`, whose entries survive
everything, as both promise), torch, clocks that run backwards, bits that flip. Compiled search and rules are the real ones.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import importlib.util
import random
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import structlog
from sim_checks import Checks
from sim_disk import SimDisk
from sim_faults import Disturber
from sim_loop import Process, SimLoop, Stalled
from sim_network import Network, Rates, StreamHandle
from sim_services import (
    LEARNER,
    Acknowledged,
    CountingLearner,
    Exporter,
    gatekeeper_main,
    inference_main,
    small_files,
    trainer_main,
    worker_main,
)

from zerofleet.errors import ZerofleetError, first_error
from zerofleet.presets.learners import LEARNERS
from zerofleet.presets.learners.declaration import LearnerDeclaration
from zerofleet.storage.streams import StreamSettings
from zerofleet.storage.streams.memory import MemoryStream
from zerofleet.testing.models import sample_archive

WORKERS = ("worker-1", "worker-2")
SERVICES = ("inference", "gatekeeper", "trainer", *WORKERS)
LONGEST_S = 3_000.0  # virtual time in which the games must be published
REST_S = 600.0  # virtual time after the last fault in which the fleet must come to rest
STEPS_BETWEEN_KILLS = 800  # callbacks, on average
FAULTY_JOBS = 0.02
LOSSES_AFTER_ACKNOWLEDGEMENTS = 0.02
EPOCH_S = 1_700_000_000.0  # wall-clock time at virtual time 0


@dataclass
class Outcome:
    """End of a simulation."""

    seed: int
    broken: str = ""
    """Broken promise and what happened; empty when all hold."""
    games: int = 0
    steps: int = 0
    virtual_s: float = 0.0
    processor_s: float = 0.0
    promotions: int = 0
    verdicts: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    trace: list[str] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """Hash of the whole trace and of the number of callbacks."""
        return hashlib.sha256("\n".join([*self.trace, str(self.steps)]).encode()).hexdigest()


class World:
    """The simulated machine, its processes and their faults."""

    def __init__(self, seed: int, *, games: int, folder: Path, follow: Callable[[str], None] | None = None) -> None:
        self.seed, self._games, self._follow = seed, games, follow
        self.root = folder / "run"
        self.root.mkdir()
        self.rng = random.Random(f"faults/{seed}")
        self.entropy = random.Random(f"entropy/{seed}")
        self.loop = SimLoop(random.Random(f"order/{seed}"))
        self.disk = SimDisk(self.root, self.loop, random.Random(f"disk/{seed}"))
        self.network = Network(self.loop, random.Random(f"network/{seed}"))
        self.checks = Checks(self)
        self.gate_mode = ("sprt", "share", "sprt", "watch")[seed % 4]
        self.outcome = Outcome(seed)
        self.services: dict[Process, Any] = {}
        self.stream = MemoryStream(StreamSettings(high_water=60, idle_s=8.0, max_deliveries=10_000), clock=self.loop.time)
        self.faulty = True
        self.running: dict[str, Process] = {}
        self._kill_at = 0
        self._job_fate = "kill"
        gatekeeper_tests = _gatekeeper_fakes()
        self.export = Exporter(gatekeeper_tests.template(), sample_archive())

    # -- what services ask for -------------------------------------------------------------------------------------

    def open_stream(self) -> StreamHandle:
        """Return a connection to the game stream."""
        return StreamHandle(self.network, Acknowledged(self.stream.another(), self), self.checks.published.add)

    async def forever(self) -> None:
        """Wait until the process is killed."""
        await self.loop.create_future()

    def trace(self, text: str) -> None:
        """Note an event."""
        line = f"{self.loop.time() - 1_000_000:.6f} {text}"
        self.outcome.trace.append(line)
        if self._follow is not None:
            self._follow(line)

    def fail(self, text: str) -> None:
        """Note the first broken promise and end the simulation."""
        if not self.outcome.broken:
            self.outcome.broken = text
            self.trace(f"BROKEN {text}")
            self.loop.stop()

    # -- processes -------------------------------------------------------------------------------------------------

    def start(self, name: str) -> Process:
        """Start a service."""
        process = self.loop.new_process(name)
        self.running[name] = process
        self.trace(f"start {process}")
        mains = {"inference": inference_main, "gatekeeper": gatekeeper_main, "trainer": trainer_main}
        main: Coroutine[Any, Any, None] = mains[name](self) if name in mains else worker_main(self, name)
        task = self.loop.start(process, main)
        task.add_done_callback(lambda done: self.ended(process, done), context=self.loop.root.context)
        return process

    def ended(self, process: Process, task: asyncio.Task[None]) -> None:
        """Note the end of a service, and start it again unless it must not have ended."""
        if not process.alive:
            return
        failure = None if task.cancelled() else task.exception()
        self.trace(f"end {process} {type(first_error(failure)).__name__ if failure else 'in order'}")
        stopping = process in self.services and self.services[process].stopping.is_set()
        if failure is not None:
            error = first_error(failure)
            if not isinstance(error, ZerofleetError | OSError):
                self.fail(f"{process} ended with an error that is not its own: {type(error).__name__}: {error}")
        elif not stopping:
            self.fail(f"{process} ended without a reason")
        self._remove(process)

    def crash(self, process: Process) -> None:
        """Kill a process at this instant; it is started again later."""
        if process.alive and process is not self.loop.root:
            self.trace(f"kill {process}")
            self._remove(process)

    def _remove(self, process: Process) -> None:
        self.disk.release_locks(process)
        self.loop.kill(process)
        if self.running.get(process.name) is process:
            del self.running[process.name]
            delay_s = self.rng.uniform(0.05, 1.5)
            self.loop.call_later(delay_s, self._restart, process.name, context=self.loop.root.context)

    def _restart(self, name: str) -> None:
        if name not in self.running and not (name in WORKERS and not self.faulty):
            self.start(name)

    # -- faults ----------------------------------------------------------------------------------------------------

    def _before_step(self, process: Process) -> None:
        if self.faulty and process is not self.loop.root and self.loop.steps >= self._kill_at:
            self._kill_at = self.loop.steps + 1 + int(self.rng.expovariate(1 / STEPS_BETWEEN_KILLS))
            if self.loop.steps > 1:
                self.count("kill at an await")
                self.crash(process)

    def _plan_job(self, process: Process) -> bool:
        self.disk.countdown = -1
        if not self.faulty or process is self.loop.root or self.rng.random() >= FAULTY_JOBS:
            return False
        self.disk.countdown = self.rng.randrange(8)
        self._job_fate = "suspend" if process.name == "gatekeeper" and self.rng.random() < 0.4 else "kill"
        return True

    def _stop_in_job(self, process: Process) -> None:
        if self._job_fate == "suspend" and self.suspend(process):
            return
        self.count("kill within a file operation")
        self.crash(process)

    def suspend(self, process: Process) -> bool:
        """Suspend a gatekeeper, break its lock and start another, as where locks do not reach other machines."""
        if process.suspended or not self.disk.held(process) <= {".gatekeeper.lock"}:
            return False
        self.count("suspended gatekeeper")
        self.trace(f"suspend {process}")
        self.disk.release_locks(process)
        self.loop.suspend(process)
        if self.running.get("gatekeeper") is process:
            del self.running["gatekeeper"]
            self.loop.call_later(self.rng.uniform(0.05, 1.0), self._restart, "gatekeeper", context=self.loop.root.context)
        self.loop.call_later(self.rng.expovariate(1 / 4.0), self._resume, process, context=self.loop.root.context)
        return True

    def _resume(self, process: Process) -> None:
        if process.alive and process.suspended:
            self.trace(f"resume {process}")
            self.loop.resume(process)

    def count(self, fault: str) -> None:
        """Count a fault."""
        self.outcome.faults[fault] += 1

    def lose_power(self) -> None:
        """Kill everything, and leave what is durable."""
        self.trace("power loss")
        for process in [one for one in self.loop.processes if one is not self.loop.root]:
            self.crash(process)
        self.disk.lose_power()
        self.checks.after_power_loss()

    def note_acknowledgement(self) -> None:
        """Games were acknowledged, and must be durable: now and then the power is lost at once."""
        if self.faulty and self.rng.random() < LOSSES_AFTER_ACKNOWLEDGEMENTS:
            self.count("power loss after an acknowledgement")
            self.loop.call_soon(self.lose_power, context=self.loop.root.context)

    async def stop(self, name: str) -> None:
        """Stop a service in order, as SIGTERM does."""
        process = self.running.get(name)
        service = self.services.get(process) if process is not None else None
        if process is None or service is None or service.stopping.is_set():
            return
        self.trace(f"stop {process}")
        service.stopping.set()
        draining = self.loop.create_task(service.drain(), context=process.context)
        for _ in range(int(REST_S * 10)):
            if not process.alive or draining.done():
                return
            await asyncio.sleep(0.1)
        self.fail(f"P8: {process} did not stop in {REST_S:.0f} s")

    # -- the course of a simulation --------------------------------------------------------------------------------

    async def _scenario(self) -> None:
        self.network.serve("stream", self.loop.root, self.stream)
        self.network.rates = Rates(lost=0.01, slow=0.02, repeated=0.03, cut=0.05)
        for name in SERVICES:
            self.start(name)
        disturbing = asyncio.ensure_future(Disturber(self, self.rng).run())
        ends_s = self.loop.time() + LONGEST_S
        while len(self.checks.published) < self._games:
            await asyncio.sleep(0.25)
            if self.loop.time() > ends_s:
                self.fail(f"no progress: {len(self.checks.published)} of {self._games} games in {LONGEST_S:.0f} s")
                return
        self.trace(f"calm after {len(self.checks.published)} games")
        self.faulty = False
        disturbing.cancel()
        await self._heal()
        for name in WORKERS:
            await self.stop(name)
        await self._come_to_rest()
        self.checks.at_end({letter.uid for letter in self.stream._store.dead})

    async def _heal(self) -> None:
        self.network.rates, self.disk.error_rate = Rates(), 0.0
        self.network.partitions.clear()
        for process in list(self.loop.processes):
            self._resume(process)
        for process in [one for one in self.loop.processes if one.name == "gatekeeper"]:
            if process is not self.running.get("gatekeeper"):
                self.crash(process)
        await asyncio.sleep(1.0)

    async def _come_to_rest(self) -> None:
        ends_s = self.loop.time() + REST_S
        while not self._rests():
            await asyncio.sleep(0.5)
            if self.loop.time() > ends_s:
                left = len(self.stream._store.entries)
                waiting = self._unsettled()
                self.fail(f"the fleet does not come to rest: {left} games in the stream, candidates {waiting} undecided")
                return

    def _unsettled(self) -> list[int] | None:
        parts = self.checks._gatekeepers.get(self.running.get("gatekeeper"))
        return None if parts is None else parts.ledger.unsettled()

    def _rests(self) -> bool:
        trainer = self.running.get("trainer")
        if trainer is None or trainer not in self.services or self._unsettled() != []:
            return False
        return not self.stream._store.entries and not self.checks._training.learner.steps_allowed()

    def run(self) -> Outcome:
        """Run to the end; return what happened."""
        began_s = time.process_time()
        self.loop.before_step, self.loop.plan_job, self.disk.stops = self._before_step, self._plan_job, self._stop_in_job
        self.disk.replaced, self.disk.synced = self.checks.replaced, self.checks.synced
        self.disk.refused = self.checks.note_lock_refused
        self.loop.set_exception_handler(lambda loop, context: None)
        CountingLearner.seen = lambda uid: self.checks.trained.update([uid])
        try:
            self.loop.run_until_complete(self.loop.create_task(self._scenario(), context=self.loop.root.context))
        except (RuntimeError, Stalled) as error:
            if not self.outcome.broken:
                self.fail(f"the simulation stalled: {error}")
        finally:
            self.faulty, self.disk.error_rate, self.disk.countdown = False, 0.0, -1
            self._bury()
        found = self.outcome
        found.games, found.steps = len(self.checks.published), self.loop.steps
        found.virtual_s, found.processor_s = self.loop.time() - 1_000_000, time.process_time() - began_s
        found.promotions, found.verdicts = self.checks.promotions, self.checks.verdicts
        found.faults.update({f"call {name}": count for name, count in self.network.faults.items()})
        return found

    def _bury(self) -> None:
        before, sys.unraisablehook = sys.unraisablehook, lambda _: None
        try:
            self.loop.bury()
            self.loop.close()
        finally:
            sys.unraisablehook = before


def _gatekeeper_fakes() -> Any:
    """Return the helpers of the gatekeeper's tests."""
    name = "simulation_gatekeeper"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / "gatekeeper" / "conftest.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def simulate(seed: int, *, games: int = 200, follow: Callable[[str], None] | None = None) -> Outcome:
    """Run one simulation in a folder of its own; `follow` receives each line of the trace as it is written."""
    with ExitStack() as stack, _quiet(), small_files():
        shared = Path("/dev/shm")
        folder = Path(tempfile.mkdtemp(prefix="zerofleet-simulation-", dir=shared if shared.is_dir() else None))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        world = World(seed, games=games, folder=folder, follow=follow)
        declaration = LearnerDeclaration(implementation=f"{CountingLearner.__module__}:CountingLearner")
        stack.enter_context(mock.patch.dict(LEARNERS, {LEARNER: declaration}))
        for (module, name), function in {**world.disk.patches(), **_virtual(world)}.items():
            stack.enter_context(mock.patch.object(module, name, function))
        return world.run()


def _virtual(world: World) -> dict[tuple[Any, str], Any]:
    """Return clocks and sources of randomness that the seed determines."""
    now = world.loop.time

    class Seeded(random.Random):
        def __init__(self, seed: Any = None) -> None:
            super().__init__(world.entropy.getrandbits(64) if seed is None else seed)

    return {
        (time, "time"): lambda: EPOCH_S + now(),
        (time, "time_ns"): lambda: int((EPOCH_S + now()) * 1e9),
        (time, "monotonic"): now,
        (time, "perf_counter"): now,
        (secrets, "token_hex"): lambda size=32: world.entropy.randbytes(size).hex(),
        (secrets, "randbits"): world.entropy.getrandbits,
        (random, "Random"): Seeded,
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """Log nothing, and collect no garbage: neither must depend on the other."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50), cache_logger_on_first_use=False)
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        structlog.configure(**before)
