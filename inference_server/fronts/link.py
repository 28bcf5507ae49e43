"""Device's side of one front end: evaluates its requests, answers, counts."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpc

from inference_server.data_plane import DataPlane
from inference_server.fronts.frames import Channel, Frame, Kind, Question, answer_frame
from inference_server.kserve import SERVICE
from zerofleet.errors import InvalidRequest
from zerofleet.rpc.errors import status_of
from zerofleet.telemetry import metrics, request_ids, tracing

__all__ = ["FrontLink"]

REASONS = frozenset({"calls", "connections", "memory", "overload", "slow", "token"})
"""Reasons for which a front end refuses calls."""
_MOST_COUNTED = 1 << 31
_LABELS = ("UNARY", SERVICE, "ModelInfer")
_METHOD = f"/{SERVICE}/ModelInfer"
_SPAN = "zerofleet.front_end/ModelInfer"


class FrontLink:
    """Connection to the front end of number `index`. Used on the event loop.

    A request is a task: it is cancelled with its call, and all of them with the front end.
    """

    def __init__(self, index: int, channel: Channel, plane: DataPlane) -> None:
        self.listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the front end listens; its failure to do so, as `InvalidRequest` with the reason, is the exception."""
        self.ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        """Done when the connection has ended."""
        self._channel = channel
        self._plane = plane
        self._tasks: dict[int, asyncio.Task[None]] = {}  # by ticket
        self._connections = 0  # open at the front end
        self._requests = metrics.FRONT_REQUESTS.labels(front=str(index))
        self._positions = metrics.FRONT_POSITIONS.labels(front=str(index))
        self._started = metrics.GRPC_STARTED.labels(*_LABELS)
        self._handling = metrics.GRPC_HANDLING.labels(*_LABELS)
        channel.reads_when_congested = False
        channel.on_frame = self._take
        channel.on_close = self._end

    @property
    def in_progress(self) -> int:
        """Number of requests without an answer."""
        return len(self._tasks)

    def drain(self, grace_s: float) -> None:
        """Ask the front end to refuse new calls, complete those in progress within `grace_s`, and end."""
        self._channel.send(Kind.DRAIN, fields={"grace_s": grace_s})

    def close(self) -> None:
        """End the connection, and with it the front end."""
        self._channel.close("the device process closed the connection")

    def _count_connections(self, count: int) -> None:
        metrics.GRPC_CONNECTIONS.inc(count - self._connections)
        self._connections = count

    def _end(self, reason: str) -> None:
        self.ended.set_result(None)
        self._count_connections(0)
        for task in self._tasks.values():
            task.cancel()
        if not self.listening.done():
            self.listening.set_exception(InvalidRequest(f"the front end ended before it listened: {reason}"))
            self.listening.exception()  # marks it as seen, since `start` may be over

    def _take(self, frame: Frame) -> None:
        """Handle a frame; raises `InvalidRequest` for one that no front end sends."""
        match frame.kind:
            case Kind.INFER:
                self._begin(frame)
            case Kind.CANCEL:
                if (task := self._tasks.get(frame.ticket)) is not None:
                    task.cancel()
            case Kind.REFUSED:
                for reason, count in frame.fields.items():
                    if reason not in REASONS:  # each makes a time series
                        raise InvalidRequest("a front end refused calls for an unknown reason")
                    metrics.INFERENCE_REFUSED.labels(reason=reason).inc(_count(count))
            case Kind.CONNECTIONS:
                self._count_connections(_count(frame.fields["open"]))
                metrics.GRPC_CONNECTIONS_REFUSED.inc(_count(frame.fields["refused"]))
            case Kind.LISTENING:
                self.listening.set_result(None)
            case Kind.FAILED:
                self.listening.set_exception(InvalidRequest(str(frame.fields["text"])))
                self.listening.exception()
            case _:
                raise InvalidRequest(f"a front end sent {frame.kind.name}")

    def _begin(self, frame: Frame) -> None:
        question = Question.of(frame)
        if frame.ticket in self._tasks:
            raise InvalidRequest(f"ticket {frame.ticket} is in use")
        self._requests.inc()
        task = asyncio.get_running_loop().create_task(self._answer(frame.ticket, question))
        self._tasks[frame.ticket] = task
        task.add_done_callback(lambda done: self._forget(frame.ticket, done))

    def _forget(self, ticket: int, done: asyncio.Task[None]) -> None:
        if self._tasks.get(ticket) is done:
            del self._tasks[ticket]

    async def _answer(self, ticket: int, question: Question) -> None:
        """Evaluate a request and send the answer, or the refusal. Cancellation: it leaves the queue, nothing is sent."""
        began_s, code = time.monotonic(), grpc.StatusCode.CANCELLED
        request_ids.bind(question.request_id, _METHOD)  # never unbound: each request is its own task
        self._started.inc()
        try:
            self._plane.require_room(question.priority)
            with tracing.follow(_SPAN, parent=tracing.readable(question.trace), kind=tracing.SpanKind.SERVER):
                found = await self._plane.infer(
                    question.names,
                    question.tensors,
                    outputs=question.outputs,
                    patience_s=question.patience_s,
                    priority=question.priority,
                )
            code = grpc.StatusCode.OK
            self._positions.inc(question.tensors[0].shape[0])
            self._channel.write(answer_frame(ticket, found))
        except Exception as error:
            code, text = status_of(error)
            self._channel.send(Kind.REFUSAL, ticket, {"code": int(code.value[0]), "text": text})
        finally:
            self._handling.observe(time.monotonic() - began_s)
            metrics.GRPC_HANDLED.labels(*_LABELS, code.name).inc()


def _count(value: object) -> int:
    """Return a count; raises `InvalidRequest` for anything else, which metrics would add or refuse."""
    if type(value) is not int or not 0 <= value < _MOST_COUNTED:
        raise InvalidRequest(f"a front end counted {str(value)[:20]}")
    return value
