"""A device with streams on the CPU: work is done at once, and what CUDA would not allow fails.

Streams, events, graphs and page-locked memory are those of `inference_server.gpu.accelerator`. A graph replays the calls that
were recorded. `log` has every step with its stream, so that a test sees which waits for which.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import torch

from inference_server.gpu.accelerator import Streams

SICK = "CUDA error: device-side assert triggered"


class StandInStream:
    def __init__(self, device: StandIn, name: str) -> None:
        self.name, self._device = name, device

    def synchronize(self) -> None:
        self._device.require_alive()
        assert self._device.recording is None, "a stream cannot be waited for while a graph is recorded"

    def wait_event(self, event: StandInEvent) -> None:
        assert event.recorded, "a wait for an event that was never recorded waits for nothing"
        self._device.log.append((self.name, f"wait {event.name}"))


class StandInEvent:
    def __init__(self, device: StandIn, name: str) -> None:
        self.name, self.recorded, self._device = name, False, device

    def record(self, stream: StandInStream) -> None:
        assert self._device.current() is stream, "recorded in another stream than the work"
        self.recorded = True
        self._device.log.append((stream.name, f"record {self.name}"))

    def synchronize(self) -> None:
        assert self.recorded
        assert self._device.gate.wait(60)
        self._device.require_alive()


class StandInGraph:
    def __init__(self, device: StandIn, work: Callable[[], None]) -> None:
        self._device, self._work = device, work

    def replay(self) -> None:
        stream = self._device.current()
        assert stream.name == "computing", "graphs share a workspace, so they run on one stream"
        self._device.log.append((stream.name, "replay"))
        self._work()


class StandIn:
    """An `Accelerator`. `sick` makes every call fail from then on; `forgets` records graphs that do nothing."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.loading = StandInStream(self, "loading")
        self.serving = Streams(*(StandInStream(self, name) for name in Streams._fields))
        self.log: list[tuple[str, str]] = []
        self.bound: set[int] = set()
        self.sick = self.forgets = False
        self.refuses_graphs = ""
        self.recording: int | None = None
        self.gate = threading.Event()
        """Closed: no event completes."""
        self.gate.set()
        self.trims = self.releases = 0
        self._events = 0
        self._here = threading.local()

    def require_alive(self) -> None:
        if self.sick:
            raise RuntimeError(SICK)

    def bind(self) -> None:
        self.require_alive()
        self.bound.add(threading.get_ident())

    def current(self) -> StandInStream:
        return self._here.stream

    @contextlib.contextmanager
    def on(self, stream: StandInStream) -> Iterator[None]:
        assert threading.get_ident() in self.bound, "the device is not the current one of this thread"
        before = getattr(self._here, "stream", None)
        self._here.stream = stream
        try:
            yield
        finally:
            self._here.stream = before

    def event(self) -> StandInEvent:
        self._events += 1
        return StandInEvent(self, ("arrived", "computed", "done")[(self._events - 1) % 3])

    def host_buffer(self, shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
        assert self.recording is None, "no memory is page-locked while a graph is recorded"
        return torch.zeros(shape, dtype=dtype)

    def pool(self) -> object:
        return object()

    def trim(self) -> None:
        assert self.recording is None, "no memory is given back while a graph is recorded"
        self.trims += 1

    def release(self) -> None:
        assert self.recording is None, "no memory is given back while a graph is recorded"
        self.require_alive()
        self.releases += 1

    def capture(self, work: Callable[[], None], pool: object) -> StandInGraph:
        assert self.current() is self.loading
        assert pool is not None
        if self.refuses_graphs:
            raise RuntimeError(self.refuses_graphs)
        self.recording = threading.get_ident()
        try:
            work()
        finally:
            self.recording = None
        return StandInGraph(self, (lambda: None) if self.forgets else work)
