"""Event loop in virtual time, with processes that can be killed, suspended and resumed at every await and every write.

Each simulated process has a queue of ready callbacks, in the order that asyncio guarantees; which process runs next is drawn
from the seed. Time stands still while a callback runs, and jumps to the next timer when none is ready. Jobs of executors run
on the loop's thread, after a drawn delay; a job with a planned crash runs in a thread of its own, so that it can stop in the
middle of a file operation for good: no `finally` runs, as after SIGKILL.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

PROCESS: contextvars.ContextVar[Process] = contextvars.ContextVar("process")
STEP_S = 1e-5  # virtual duration of a callback
JOB_S = 0.004  # mean virtual duration of a job


class Released(BaseException):
    """Raised in the thread of a stopped job after the end of a simulation, to end the thread."""


class Stalled(Exception):
    """Nothing is left that could happen."""


class Process:
    """A simulated process: its tasks, its callbacks, and whether it lives."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number
        self.alive, self.suspended = True, False
        self.ready: deque[asyncio.Handle] = deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self.at_death: list[Callable[[], None]] = []
        self.context = contextvars.copy_context()
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return f"{self.name}#{self.number}"


class _Numbered:
    """Base of objects that sets keep in the order of their creation, and not of their addresses."""

    _numbers = itertools.count(1)

    def __hash__(self) -> int:
        try:
            return self._number
        except AttributeError:
            self._number = next(_Numbered._numbers)
            return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimTask(_Numbered, asyncio.Task):
    """Task with a reproducible hash."""


class SimFuture(_Numbered, asyncio.Future):
    """Future with a reproducible hash."""


class _Router:
    """Stands in for the queue of the base class: hands each callback to the queue of its process."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def append(self, handle: asyncio.Handle) -> None:
        self._loop.route(handle)

    def clear(self) -> None:
        """Nothing waits here."""

    def __len__(self) -> int:
        return 0


class _JobThread:
    """Thread of one job with a planned crash or suspension."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._told: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._go: SimpleQueue[bool] = SimpleQueue()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            said = ("done", self._work())
        except BaseException as error:
            said = ("raised", error)
        self._told.put(said)

    def start(self) -> tuple[str, Any]:
        self.thread.start()
        return self._told.get()

    def stop_here(self) -> None:
        """Called in the thread: stop until `go_on`, or for good."""
        self._told.put(("stopped", None))
        if not self._go.get():
            raise Released

    def go_on(self) -> tuple[str, Any]:
        self._go.put(True)
        return self._told.get()

    def release(self) -> None:
        self._go.put(False)
        self.thread.join(10)


class SimLoop(asyncio.BaseEventLoop):
    """The loop of all simulated processes."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._ready = _Router(self)
        self._rng = rng
        self._now_s = 1_000_000.0
        self._numbers = itertools.count(1)
        self.processes: list[Process] = []
        self.graves: list[Any] = []  # coroutines and callbacks of dead processes, kept so that no clean-up runs
        self.root = self.new_process("world")
        self.current = self.root
        self.steps = 0
        self.before_step: Callable[[Process], None] = lambda process: None
        self.plan_job: Callable[[Process], bool] = lambda process: False
        self.job_thread: _JobThread | None = None
        """Thread of the running job, if it has one."""
        self._busy: dict[tuple[Process, int], deque[Callable[[], None]]] = {}
        self._stopped: dict[Process, Callable[[], None]] = {}
        self._threads: list[_JobThread] = []
        self.set_task_factory(self._make_task)

    # -- processes -------------------------------------------------------------------------------------------------

    def new_process(self, name: str) -> Process:
        """Return a new live process."""
        process = Process(name, next(self._numbers))
        self.processes.append(process)
        return process

    def start(self, process: Process, main: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `main` as the first task of a process."""
        return self.create_task(main, context=process.context)

    def kill(self, process: Process) -> None:
        """End a process at once: none of its callbacks, handlers or clean-ups runs again."""
        if not process.alive:
            return
        process.alive = False
        self.graves += [process.tasks, list(process.ready), process]
        process.ready.clear()
        self.processes.remove(process)
        for tell in list(process.at_death):
            tell()

    def suspend(self, process: Process) -> None:
        """Stop a process until `resume`, as SIGSTOP does."""
        process.suspended = True

    def resume(self, process: Process) -> None:
        """Let a suspended process go on, also inside a job."""
        process.suspended = False
        go_on = self._stopped.pop(process, None)
        if go_on is not None and process.alive:
            go_on()

    def stopped_in_a_job(self) -> list[Process]:
        """Return the suspended processes that stopped within a job."""
        return list(self._stopped)

    def bury(self) -> None:
        """Let go of everything that dead processes hold; their clean-ups run now, without effect on the simulation."""
        for thread in self._threads:
            thread.release()
        for process in [*self.processes, *(grave for grave in self.graves if isinstance(grave, Process))]:
            for task in process.tasks:
                task._log_destroy_pending = False
                if not task.done():
                    with suppress(BaseException):
                        task.get_coro().close()
        self.graves.clear()

    # -- the parts of an event loop --------------------------------------------------------------------------------

    def _make_task(self, loop: asyncio.AbstractEventLoop, coro: Any, context: Any = None) -> SimTask:
        task = SimTask(coro, loop=loop, context=context)
        owner = (context or contextvars.copy_context()).get(PROCESS, self.root)
        owner.tasks.append(task)
        if len(owner.tasks) > 400:
            owner.tasks[:] = [known for known in owner.tasks if not known.done()]
        return task

    def create_future(self) -> SimFuture:
        return SimFuture(loop=self)

    def time(self) -> float:
        return self._now_s

    def route(self, handle: asyncio.Handle) -> None:
        """Queue a callback with its process; that of a dead one is dropped."""
        process = handle._context.get(PROCESS, self.root)
        (process.ready if process.alive else self.graves).append(handle)

    def _run_once(self) -> None:
        waiting = [process for process in self.processes if process.ready and not process.suspended]
        if not waiting:
            self._skip_to_timer()
            return
        process = waiting[0] if len(waiting) == 1 else waiting[self._rng.randrange(len(waiting))]
        self._now_s += STEP_S
        self._queue_due_timers()
        handle = process.ready[0]
        if not handle._cancelled:
            self.before_step(process)
            if not process.alive or process.suspended:
                return
            process.ready.popleft()
            self.steps += 1
            self.current = process
            handle._run()
            self.current = self.root
        else:
            process.ready.popleft()

    def _skip_to_timer(self) -> None:
        while self._scheduled and self._scheduled[0]._cancelled:
            heapq.heappop(self._scheduled)._scheduled = False
        if not self._scheduled:
            raise Stalled("no callback is ready and no timer is set")
        self._now_s = max(self._now_s, self._scheduled[0]._when)
        self._queue_due_timers()

    def _queue_due_timers(self) -> None:
        while self._scheduled and self._scheduled[0]._when <= self._now_s:
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False
            if not handle._cancelled:
                self.route(handle)

    def _timer_handle_cancelled(self, handle: Any) -> None:
        """Cancelled timers are dropped when they come due."""

    def _write_to_self(self) -> None:
        """Nothing waits in a system call."""

    def _process_events(self, events: Any) -> None:
        """There are none."""

    # -- jobs ------------------------------------------------------------------------------------------------------

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run a job later; jobs of one executor in order, one at a time."""
        process, future = self.current, self.create_future()
        key = (process, 0 if executor is None else id(executor))

        def begin() -> None:
            self.call_later(self._rng.expovariate(1 / JOB_S), self._run_job, process, future, func, args, end)

        def end() -> None:
            if executor is None:
                return
            queue = self._busy[key]
            queue.popleft()
            if queue:
                queue[0]()

        if executor is None:
            begin()
        else:
            queue = self._busy.setdefault(key, deque())
            queue.append(begin)
            if len(queue) == 1:
                begin()
        return future

    def _run_job(
        self, process: Process, future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...], end: Any
    ) -> None:
        if future.cancelled():
            end()
            return
        if not self.plan_job(process):
            try:
                said = ("done", func(*args))
            except Exception as error:
                said = ("raised", error)
            self._settle(process, future, said, end)
            return
        thread = _JobThread(lambda: func(*args))
        self._threads.append(thread)
        self.job_thread = thread
        said = thread.start()
        self.job_thread = None
        self._follow(process, future, thread, said, end)

    def _follow(self, process: Process, future: Any, thread: _JobThread, said: tuple[str, Any], end: Any) -> None:
        """Settle a job of a thread, or wait until it may go on."""
        if said[0] != "stopped":
            self._threads.remove(thread)
            self._settle(process, future, said, end)
            return

        def go_on() -> None:
            before, self.current, self.job_thread = self.current, process, thread
            found = thread.go_on()
            self.current, self.job_thread = before, None
            self._follow(process, future, thread, found, end)

        self.graves.append(future)
        self._stopped[process] = go_on

    def _settle(self, process: Process, future: Any, said: tuple[str, Any], end: Any) -> None:
        if process.alive:
            end()
            if not future.cancelled():
                if said[0] == "done":
                    future.set_result(said[1])
                else:
                    future.set_exception(said[1])
