"""Frames between a front end and the device process, on a pair of connected sockets without a name.

A frame is a head of fixed size, fields as JSON, and the bytes of tensors. `ticket` is the number of a request, chosen by the
front end and repeated in the answer; 0 outside requests.

    front end → device                                    device → front end
    LISTENING, FAILED {text}      once, after ORDERS      ORDERS {...}              first
    INFER {...} + tensors                                 ANSWER {...} + tensors, or REFUSAL {code, text}
    CANCEL                        no answer is wanted     DRAIN {grace_s}
    REFUSED {reason: count}       calls refused unread
    CONNECTIONS {open, refused}   open now, and refused since the last such frame

The end of either process closes its socket, which the other sees at once. A front end parses what clients send, so the device
process checks each of its frames as it would a client's. Neither process keeps more than `CONGESTED_BYTES` that the other does
not take, beside what is in progress: a front end then refuses calls, the device process reads no further requests of it.
"""

from __future__ import annotations

import asyncio
import json
import math
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from inference_server.data_plane import Inference
from inference_server.tensors import Tensor
from zerofleet.contracts.naming import MAX_MESSAGE_BYTES
from zerofleet.contracts.priorities import Priority
from zerofleet.errors import InvalidRequest

__all__ = [
    "CONGESTED_BYTES",
    "Channel",
    "Frame",
    "Kind",
    "Question",
    "answer_frame",
    "inference_of",
    "open_channel",
    "question_frame",
]

MAX_FIELDS_BYTES = 1 << 20
"""Maximum size of the fields. Those of a request are bounded when it is packed; orders hold the tokens."""

CONGESTED_BYTES = 16 << 20
"""Unsent bytes above which the other process counts as too slow; more than any frame has."""

_HEAD = struct.Struct("<BIII")  # kind, ticket, bytes of the fields, bytes of the tensors
_CHARACTERS, _AXES = 64, 16  # more than the names and shapes of any model have, and than messages show
_DTYPES: dict[str, np.dtype[Any]] = {"FP16": np.dtype("<f2"), "FP32": np.dtype("<f4")}


class Kind(IntEnum):
    """Kind of a frame."""

    ORDERS = 1
    LISTENING = 2
    FAILED = 3
    INFER = 4
    CANCEL = 5
    ANSWER = 6
    REFUSAL = 7
    REFUSED = 8
    DRAIN = 9
    CONNECTIONS = 10


class Frame(NamedTuple):
    """Received frame."""

    kind: Kind
    ticket: int
    fields: Any
    content: bytes


class Question(NamedTuple):
    """Request for evaluations, with the arguments of `DataPlane.infer`."""

    names: tuple[str, str]
    tensors: Sequence[Tensor]
    outputs: Sequence[str]
    patience_s: float | None
    priority: Priority
    trace: str = ""
    """Traceparent of the call; empty where none is recorded."""
    request_id: str = ""
    """Id under which the front end logs the call."""

    @classmethod
    def of(cls, frame: Frame) -> Question:
        """Return the request in a frame, without copies of its tensors; raises `InvalidRequest` for malformed fields."""
        try:
            fields = frame.fields
            tensors = [
                Tensor(_text(name), _text(datatype), tuple(map(_whole, shape)), content)
                for (name, datatype, shape, _), content in zip(fields["tensors"], _parts(frame), strict=True)
            ]
            return cls(
                (_text(fields["model"]), _text(fields["version"])),
                tensors,
                [_text(name) for name in fields["outputs"]],
                None if fields["patience_s"] is None else _seconds(fields["patience_s"]),
                Priority(fields["priority"]),
                _text(fields["trace"]),
                _text(fields["request_id"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRequest("a frame is not a request for evaluations") from error


def question_frame(ticket: int, question: Question) -> list[bytes]:
    """Return the parts of the frame of a request, with model and version already validated.

    Longer names and shapes than any model has are cut: the device process rejects them alike.
    """
    fields = {
        "model": question.names[0],
        "version": question.names[1],
        "tensors": [
            (tensor.name[:_CHARACTERS], tensor.datatype[:_CHARACTERS], tensor.shape[:_AXES], len(tensor.content))
            for tensor in question.tensors
        ],
        "outputs": [name[:_CHARACTERS] for name in question.outputs],
        "patience_s": question.patience_s,
        "priority": int(question.priority),
        "trace": question.trace,
        "request_id": question.request_id,
    }
    return _frame(Kind.INFER, ticket, fields, [tensor.content for tensor in question.tensors])


def answer_frame(ticket: int, inference: Inference) -> list[bytes]:
    """Return the parts of the frame of an answer."""
    contents = [rows.tobytes() for _, _, rows in inference.outputs]
    listed = [(name, kind, rows.shape, rows.nbytes) for name, kind, rows in inference.outputs]
    fields = {"model": inference.model, "version": inference.version, "tensors": listed}
    return _frame(Kind.ANSWER, ticket, fields, contents)


def inference_of(frame: Frame) -> Inference:
    """Return the evaluations in an answer."""
    outputs = tuple(
        (name, datatype, np.frombuffer(content, _DTYPES[datatype]).reshape(shape))
        for (name, datatype, shape, _), content in zip(frame.fields["tensors"], _parts(frame), strict=True)
    )
    return Inference(frame.fields["model"], frame.fields["version"], outputs)


def _parts(frame: Frame) -> list[bytes]:
    """Return the contents of the tensors of a frame; raises `ValueError` unless they are the whole of it."""
    found, start = [], 0
    for _, _, _, size in frame.fields["tensors"]:
        if size < 0:
            raise ValueError(f"a tensor has {size} bytes")
        found.append(frame.content[start : start + size])
        start += size
    if start != len(frame.content):
        raise ValueError(f"a frame has {len(frame.content)} bytes of tensors, want {start}")
    return found


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"got {type(value).__name__}, want a text")
    return value


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"got {type(value).__name__}, want a whole number")
    return value


def _seconds(value: object) -> float:
    if not isinstance(value, float | int) or math.isnan(value):
        raise ValueError(f"got {value!r}, want seconds")
    return float(value)


def _frame(kind: Kind, ticket: int, fields: Any, contents: Sequence[bytes] = ()) -> list[bytes]:
    packed = json.dumps(fields).encode() if fields else b""
    return [_HEAD.pack(kind, ticket, len(packed), sum(map(len, contents))) + packed, *contents]


class Channel(asyncio.Protocol):
    """One end of a connection. Frames written in one turn of the loop leave together.

    on_frame  called with each frame; an error that it raises, as any malformed frame, closes the connection
    on_close  called once, with the reason, when the connection has ended
    """

    reads_when_congested = True
    """Whether frames are read while the other process does not take those sent to it."""

    def __init__(self) -> None:
        self.on_frame: Callable[[Frame], None] = lambda frame: None
        self.on_close: Callable[[str], None] = lambda reason: None
        self._received = bytearray()
        self._leaving: list[bytes] = []
        self._transport: Any = None
        self._reason = ""
        self.congested = False
        """Whether more than `CONGESTED_BYTES` wait for the other process."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; called by asyncio."""
        self._transport = transport
        self._transport.set_write_buffer_limits(high=CONGESTED_BYTES)

    def pause_writing(self) -> None:
        """Note that the other process does not keep up; called by asyncio."""
        self.congested = True
        if not self.reads_when_congested:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Note that it does again; called by asyncio."""
        self.congested = False
        self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Report the end; called by asyncio."""
        self._leaving.clear()
        self.on_close(self._reason or str(error or "the other process ended"))

    def data_received(self, data: bytes) -> None:
        """Handle the frames that are complete; called by asyncio."""
        self._received += data
        try:
            for frame in self._frames():
                self.on_frame(frame)
        except Exception as error:  # of the frame: JSON nested too deeply, a second LISTENING, fields of another type
            self.close(f"a frame was malformed: {str(error) or type(error).__name__}")

    def send(self, kind: Kind, ticket: int = 0, fields: Any = None) -> None:
        """Send a frame without tensors."""
        self.write(_frame(kind, ticket, fields))

    def write(self, parts: Iterable[bytes]) -> None:
        """Send the parts of a frame, at the end of this turn of the loop. Dropped once the connection has ended."""
        if self._transport is None or self._transport.is_closing():
            return
        if not self._leaving:
            asyncio.get_running_loop().call_soon(self._flush)
        self._leaving.extend(parts)

    def close(self, reason: str = "") -> None:
        """End the connection, after what was sent."""
        self._reason = self._reason or reason
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        leaving, self._leaving = self._leaving, []
        if leaving and not self._transport.is_closing():
            self._transport.write(b"".join(leaving))

    def _frames(self) -> Iterable[Frame]:
        """Yield the complete frames received so far. Raises `ValueError` for a size out of bounds."""
        start, received = 0, self._received
        try:
            while len(received) - start >= _HEAD.size:
                kind, ticket, fields_bytes, content_bytes = _HEAD.unpack_from(received, start)
                if fields_bytes > MAX_FIELDS_BYTES or content_bytes > MAX_MESSAGE_BYTES:
                    raise ValueError(f"{fields_bytes} bytes of fields and {content_bytes} of tensors")
                content_at = start + _HEAD.size + fields_bytes
                if len(received) < content_at + content_bytes:
                    break
                fields = json.loads(received[start + _HEAD.size : content_at]) if fields_bytes else None
                content = bytes(memoryview(received)[content_at : content_at + content_bytes])
                start = content_at + content_bytes
                yield Frame(Kind(kind), ticket, fields, content)
        finally:
            del received[:start]


async def open_channel(connection: socket.socket) -> Channel:
    """Return the channel over a connected socket, which it owns from now on. Cancellation: the socket is closed."""
    connection.setblocking(False)
    _, channel = await asyncio.get_running_loop().create_unix_connection(Channel, sock=connection)
    return channel
