"""Device with streams: the part of CUDA that the slots use, behind a protocol, so that a stand-in can take its place.

    stream       work of
    loading      a load: copies of weights, warm-up, check of the golden positions
    capturing    nothing: graphs are recorded on it
    arriving     copies of positions to the device
    computing    networks of all versions, one batch after another
    leaving      copies of answers to the host

A load leaves the streams of the service alone, except for one run of each new graph: a batch in service waits for no other
work of a load. Graphs are recorded on a stream of their own and run on `computing` alone: cuBLAS gives all graphs recorded
on one stream the same workspace, which two of them may not use at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import torch

from zerofleet.errors import DeviceLost

__all__ = ["Accelerator", "Cuda", "Event", "Graph", "Stream", "Streams", "first_line", "require_alive"]

_KEPT_BYTES = 2 << 30  # memory without content that torch may keep: a return of it waits for the device, so it is rare


class Stream(Protocol):
    """Queue of work in order; `torch.cuda.Stream` is one."""

    def synchronize(self) -> None:
        """Block until all work queued so far is done; raises `RuntimeError` once the device is lost."""
        ...

    def wait_event(self, event: Any) -> None:
        """Let later work of this stream wait for an event."""
        ...


class Event(Protocol):
    """Mark in a stream; `torch.cuda.Event` is one."""

    def record(self, stream: Any) -> None:
        """Place the mark behind the work queued so far."""
        ...

    def synchronize(self) -> None:
        """Block until the device has reached the mark; raises `RuntimeError` once it is lost."""
        ...


class Graph(Protocol):
    """Recorded work."""

    def replay(self) -> None:
        """Queue the work on the current stream."""
        ...


class Streams(NamedTuple):
    """Streams of a batch: its positions arrive, are evaluated, and its answers leave."""

    arriving: Stream
    computing: Stream
    leaving: Stream


class Accelerator(Protocol):
    """A device, its streams and its kinds of memory."""

    device: torch.device
    loading: Stream
    serving: Streams

    def bind(self) -> None:
        """Make the device the current one of this thread."""
        ...

    def on(self, stream: Stream) -> AbstractContextManager[object]:
        """Make a stream the current one of this thread."""
        ...

    def event(self) -> Event:
        """Return a new event."""
        ...

    def host_buffer(self, shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
        """Return memory of the host that the device copies from and to without its processor: page-locked."""
        ...

    def pool(self) -> Any:
        """Return a new pool of memory for the graphs of one version, which never run at once."""
        ...

    def trim(self) -> None:
        """Give memory that unloaded versions left back to the device, once it is much."""
        ...

    def release(self) -> None:
        """Give all memory without content back to the device, once its work is done; never while a graph is recorded."""
        ...

    def capture(self, work: Callable[[], None], pool: Any) -> Graph:
        """Record `work`, which was warmed up on `loading` by this thread; raises `RuntimeError` if it cannot be recorded."""
        ...


class Cuda:
    """A CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.bind()
        # torch hands out 32 streams in turn: made once, so that no two of these are the same.
        streams: list[Any] = [torch.cuda.Stream(device) for _ in range(5)]  # type: ignore[no-untyped-call]
        self.loading, self._capturing, *serving = streams
        self.serving = Streams(*serving)
        self._left_bytes = 0  # without content after the last return
        self._unended: list[Any] = []
        """Holds the graph whose recording could not be ended; nothing is recorded and no memory returned after it."""

    def bind(self) -> None:
        """See `Accelerator.bind`."""
        torch.cuda.set_device(self.device)

    def on(self, stream: Any) -> AbstractContextManager[object]:
        """See `Accelerator.on`."""
        return torch.cuda.stream(stream)

    def event(self) -> Event:
        """Return an event whose waiting thread sleeps, in place of taking a core: a batch in flight hides its wake-up."""
        event: Event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        return event

    def host_buffer(self, shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
        """See `Accelerator.host_buffer`."""
        return torch.zeros(shape, dtype=dtype, pin_memory=True)

    def pool(self) -> Any:
        """See `Accelerator.pool`."""
        return torch.cuda.graph_pool_handle()

    def trim(self) -> None:
        """See `Accelerator.trim`. torch keeps the pools of deleted graphs for itself: 90 MB a load of 4 x 64, measured.

        Layers' outputs in the pools of graphs in use are without content to torch, but no return frees them: they are what is
        left after one, and only growth beyond it is garbage.
        """
        if not self._unended and self._without_content() - self._left_bytes > _KEPT_BYTES:
            torch.cuda.empty_cache()
            self._left_bytes = self._without_content()

    def _without_content(self) -> int:
        return torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)

    def release(self) -> None:
        """See `Accelerator.release`."""
        if self._unended:
            return
        torch.cuda.synchronize(self.device)  # torch keeps blocks that a stream may still use
        torch.cuda.empty_cache()
        self._left_bytes = self._without_content()

    def capture(self, work: Callable[[], None], pool: Any) -> Graph:
        """See `Accelerator.capture`.

        `torch.cuda.graph` would collect garbage and empty the memory cache for each graph, which stalls calls. In the mode
        `thread_local` other threads may use the device meanwhile; in the default one their calls would fail.

        A recording that cannot be ended, since the device rejects it, leaves torch's allocator as if it went on. It is the last
        one of this process; its graph is kept, as its destruction would end the recording a second time. Not run on a card.
        """
        if self._unended:
            raise RuntimeError("an earlier recording could not be ended, so this process records no more; restart the server")
        graph = torch.cuda.CUDAGraph()
        self.loading.synchronize()
        with torch.cuda.stream(self._capturing):
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                work()
            except BaseException:
                with contextlib.suppress(RuntimeError):  # it ends the recording and states once more that it is invalid
                    self._end(graph)
                raise
            self._end(graph)
        return graph

    def _end(self, graph: Any) -> None:
        try:
            graph.capture_end()
        except RuntimeError:
            self._unended.append(graph)
            raise


def require_alive(device: torch.device, streams: tuple[Stream, ...], error: Exception) -> None:
    """Raise `DeviceLost` if, after `error`, the device accepts no more work in this process.

    After a failed assertion on the device, an access to an illegal address or a fault of the hardware every call fails with
    the same error, so one more call decides, whatever the text. Others, such as exhausted memory, fail one call.
    """
    try:
        for stream in streams:
            stream.synchronize()
    except RuntimeError as lost:
        text = f"{device} is unusable in this process ({first_line(error)}); the process ends and has to be restarted"
        raise DeviceLost(text) from lost


def first_line(error: Exception) -> str:
    """Return the first line of an error of torch, which adds the calls in C++ below it; its type for an empty one."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
