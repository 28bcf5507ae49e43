"""Data plane of the device process, as seen by a front end: requests leave as frames, answers come back by ticket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc

from inference_server.data_plane import Inference, require_names
from inference_server.fronts.frames import Channel, Frame, Kind, Question, inference_of, question_frame
from inference_server.tensors import Tensor
from zerofleet.contracts.priorities import Priority, level_of
from zerofleet.telemetry import request_ids, tracing

__all__ = ["RefusedByDevice", "RemotePlane", "passed_on"]

HOLD_S = 0.01
"""Time for which calls are refused unread after the device process refused one for its full queue."""
_TICKETS = 2**32
_CODES = {int(code.value[0]): code for code in grpc.StatusCode}
_SLOW = "the device process takes no more requests now; try again later"
_CLOSED = (grpc.StatusCode.UNAVAILABLE, "the device process of the server ended; use another server or try again later")


class RefusedByDevice(Exception):
    """Refusal of a request, with the status of the device process."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class RemotePlane:
    """Requests of this front end in progress. Used on the event loop."""

    def __init__(self, channel: Channel, *, on_refused: Callable[[], object] = lambda: None) -> None:
        """`on_refused` is called for each request that the device process would not take."""
        self._channel = channel
        self._on_refused = on_refused
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, tuple[asyncio.Future[Inference], Priority]] = {}
        self._ticket = 0
        self._full = dict.fromkeys((Priority.HIGH, Priority.LOW), ("", 0.0))  # the reason, and until when it holds

    def full(self, priority: Priority) -> str | None:
        """Return the reason to reject a request of a priority unread, None while there may be room."""
        if self._channel.congested:
            return _SLOW
        reason, until_s = self._full[level_of(priority)]
        return reason if self._loop.time() < until_s else None

    async def infer(
        self,
        names: tuple[str, str],
        tensors: Sequence[Tensor],
        *,
        outputs: Sequence[str] = (),
        patience_s: float | None = None,
        priority: Priority = Priority.DEFAULT,
    ) -> Inference:
        """See `DataPlane.infer`; raises `RefusedByDevice` for its errors, but `InvalidRequest` for invalid names.

        Cancellation: the request leaves the device's queue; others are not affected.
        """
        require_names(*names)
        if self._channel.congested:  # a cancelled request returns its bytes to the bounds of calls, but has not left yet
            self._on_refused()
            raise RefusedByDevice(grpc.StatusCode.RESOURCE_EXHAUSTED, _SLOW)
        self._ticket = ticket = (self._ticket + 1) % _TICKETS
        future: asyncio.Future[Inference] = self._loop.create_future()
        self._waiting[ticket] = future, level_of(priority)
        ids = tracing.traceparent(), request_ids.current_id()
        question = Question(names, tensors, outputs, patience_s, priority, *ids)
        self._channel.write(question_frame(ticket, question))
        try:
            return await future
        finally:
            if self._waiting.pop(ticket, None) is not None:  # no answer yet
                self._channel.send(Kind.CANCEL, ticket)

    def take(self, frame: Frame) -> None:
        """Deliver an answer or a refusal; none is wanted any more after a cancellation."""
        future, priority = self._waiting.pop(frame.ticket, (None, Priority.LOW))
        if future is None or future.done():
            return
        if frame.kind == Kind.ANSWER:
            future.set_result(inference_of(frame))
            return
        code, text = _CODES[frame.fields["code"]], frame.fields["text"]
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            self._full[priority] = text, self._loop.time() + HOLD_S
        future.set_exception(RefusedByDevice(code, text))

    def close(self) -> None:
        """Refuse the requests in progress: the device process has ended."""
        for future, _ in self._waiting.values():
            if not future.done():
                future.set_exception(RefusedByDevice(*_CLOSED))
        self._waiting.clear()


async def passed_on(work: Awaitable[Any], context: Any) -> Any:
    """Return the result of `work`, or abort the call with the status of a refusal. Cancellation: `work` is cancelled."""
    try:
        return await work
    except RefusedByDevice as refusal:
        await context.abort(refusal.code, refusal.text)
