"""Evaluations in shared memory: messages and layout between an inference server and a client on the same host.

The client connects to a unix socket of whole packets (SOCK_SEQPACKET) beside the server's gRPC socket, the doorbell, and sends
`Hello`. The server replies with `Reply` and passes the descriptor of a region without a name: `slots` slots of equal size, one
for each request in progress. Only arrays are in the region. Sizes, numbers and texts are in the packets, which the receiver
owns, so neither side can change them after they were checked. No packet has an offset: both sides derive it from the slot.

    client                                          server
    write states and legal actions into a slot
    Request(EVALUATE, slot, ...)           ───►     copy the legal actions, check, queue
                                           ◄───     outputs written into the slot, Reply(OK, slot, ...)
    copy the outputs, reuse the slot
    Request(CANCEL, slot, ...)             ───►     leaves the queue; Reply(CANCELLED, slot)

A slot belongs to the server from the request to the reply, whether the client still waits or not.

A slot holds, each part at a multiple of `ALIGNMENT` bytes: states uint8 [B, packed_bytes], legal actions int16 [B, L], then the
requested outputs in the order of the manifest's heads. Numbers are little-endian.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from games.core import GameSpec
from zerofleet.contracts.heads import BASE_HEADS, EXTRA_HEADS, MOVE_HEADS, outputs_of
from zerofleet.contracts.naming import MAX_REQUEST_ROWS, require_model_name
from zerofleet.errors import ConfigurationError, InvalidRequest

__all__ = [
    "ALIGNMENT",
    "EXTRA_BYTES",
    "MAX_PACKET_BYTES",
    "MAX_SLOTS",
    "MAX_SLOT_BYTES",
    "PROTOCOL",
    "ROOT",
    "Hello",
    "Kind",
    "OutputShape",
    "Reply",
    "Request",
    "doorbell_path",
    "inputs",
    "outputs",
    "rows_in",
    "slot_bytes_of",
    "user_of",
]

PROTOCOL = 1
"""Version of these messages; client and server must agree."""
MAX_SLOTS = 16
"""Maximum number of requests of one client in progress; as many replies fit into the buffer of its socket unread."""
MAX_SLOT_BYTES = 16 << 20
MAX_PACKET_BYTES = 4 << 10
EXTRA_BYTES = 64
"""Maximum length of the text after a request, a traceparent."""
ALIGNMENT = 64
ROOT = 0
"""User whose processes may do anything on this host."""

_SUFFIX = ".blocks"
_SHOWN_CHARACTERS = 40
_CREDENTIALS = struct.Struct("3i")  # process, user, group
_MAX_PATH_BYTES = 107  # sun_path holds 108 with its terminator
_REQUEST = struct.Struct("<BBHIIIIIQQ")
_REPLY = struct.Struct("<BBHIQ")
_SHAPE = struct.Struct("<BI")
_DTYPES: tuple[np.dtype[Any], ...] = (np.dtype("<f2"), np.dtype("<f4"))
_DATATYPES = ("FP16", "FP32")


class Kind(IntEnum):
    """Kind of a request."""

    EVALUATE = 1
    CANCEL = 2


@dataclass(frozen=True, slots=True)
class Hello:
    """First packet of a client: the region that it needs, and the token that gRPC calls have in their metadata."""

    protocol: int
    model: str
    slots: int
    slot_bytes: int
    token: str = ""

    def pack(self) -> bytes:
        """Return the packet."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def unpack(cls, packet: bytes) -> Self:
        """Parse a packet.

        Raises `ConfigurationError` for another protocol, `InvalidRequest` unless every field is within its bounds.
        """
        try:
            fields = json.loads(packet)
            if isinstance(fields, dict) and fields.get("protocol", PROTOCOL) != PROTOCOL:
                theirs = repr(fields["protocol"])[:_SHOWN_CHARACTERS]
                raise ConfigurationError(f"the client has protocol {theirs} of shared memory, this server {PROTOCOL}")
            found = cls(**fields)
            found.token.encode()
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidRequest("the first packet is not a hello") from error
        numbers, texts = (found.protocol, found.slots, found.slot_bytes), (found.model, found.token)
        if not all(type(number) is int for number in numbers) or not all(isinstance(text, str) for text in texts):
            raise InvalidRequest("the hello has fields of other types")
        require_model_name(found.model)
        if not 1 <= found.slots <= MAX_SLOTS:
            raise InvalidRequest(f"the hello asks for {found.slots} slots, want 1 to {MAX_SLOTS}")
        if not ALIGNMENT <= found.slot_bytes <= MAX_SLOT_BYTES or found.slot_bytes % ALIGNMENT:
            raise InvalidRequest(
                f"the hello asks for slots of {found.slot_bytes} bytes, want a multiple of {ALIGNMENT} up to {MAX_SLOT_BYTES}"
            )
        return found

    @property
    def region_bytes(self) -> int:
        """Size of the region."""
        return self.slots * self.slot_bytes


class Request(NamedTuple):
    """Packet of a client; a cancellation needs slot and ticket alone."""

    kind: int
    priority: int
    slot: int
    ticket: int
    """Number of the request, chosen by the client and repeated in the reply."""
    rows: int = 0
    packed_bytes: int = 0
    max_legal: int = 0
    extra_heads: int = 0
    version: int = 0
    timeout_us: int = 0
    """Remaining time of the caller."""

    def pack(self, extra: bytes = b"") -> bytes:
        """Return the packet, followed by `extra`."""
        return _REQUEST.pack(*self) + extra

    @classmethod
    def unpack(cls, packet: bytes) -> tuple[Self, bytes]:
        """Return the request and the text after it; raises `InvalidRequest` for a packet of another size or kind."""
        if not _REQUEST.size <= len(packet) <= _REQUEST.size + EXTRA_BYTES:
            raise InvalidRequest(f"a request has {len(packet)} bytes, want {_REQUEST.size} to {_REQUEST.size + EXTRA_BYTES}")
        found = cls(*_REQUEST.unpack_from(packet))
        if found.kind not in (Kind.EVALUATE, Kind.CANCEL):
            raise InvalidRequest(f"unknown kind of request {found.kind}")
        return found, packet[_REQUEST.size :]


class OutputShape(NamedTuple):
    """Type and row length of an output."""

    dtype: np.dtype[Any]
    width: int

    @classmethod
    def of(cls, datatype: str, width: int) -> Self:
        """Return that of an output tensor, `FP16` or `FP32`."""
        return cls(_DTYPES[_DATATYPES.index(datatype)], width)


class Reply(NamedTuple):
    """Packet of the server. `status` is the number of a gRPC status code, 0 for an answer or a welcome."""

    status: int
    slot: int
    ticket: int
    version: int = 0
    """Version of the model that answered."""
    outputs: tuple[OutputShape, ...] = ()
    text: str = ""
    """Reason of a refusal."""

    def pack(self) -> bytes:
        """Return the packet."""
        shapes = b"".join(_SHAPE.pack(_DTYPES.index(output.dtype), output.width) for output in self.outputs)
        head = _REPLY.pack(self.status, len(self.outputs), self.slot, self.ticket, self.version)
        return head + shapes + self.text.encode(errors="backslashreplace")

    @classmethod
    def unpack(cls, packet: bytes) -> Self:
        """Parse a packet; raises `InvalidRequest` for one that is truncated or has an unknown type."""
        try:
            status, count, slot, ticket, version = _REPLY.unpack_from(packet)
            text_at = _REPLY.size + count * _SHAPE.size
            shapes = tuple(
                OutputShape(_DTYPES[code], width) for code, width in _SHAPE.iter_unpack(packet[_REPLY.size : text_at])
            )
        except (struct.error, IndexError) as error:
            raise InvalidRequest("the packet is not a reply") from error
        if len(shapes) != count:
            raise InvalidRequest("the reply is truncated")
        return cls(status, slot, ticket, version, shapes, packet[text_at:].decode(errors="replace"))


def doorbell_path(target: str) -> Path | None:
    """Return the path of the doorbell beside the gRPC socket `unix:/path`; None for another address, or one too long."""
    if not target.startswith("unix:"):
        return None
    path = target.removeprefix("unix:").removeprefix("//") + _SUFFIX
    return Path(path) if len(path.encode()) <= _MAX_PATH_BYTES else None


def user_of(connection: socket.socket) -> int:
    """Return the effective user of the process that connected, or that listens, at the other end. Linux."""
    return int(_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[1])


def inputs(region: Any, start: int, shape: tuple[int, int, int], *, end: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the views of states and legal actions in the slot from `start` to `end`, and the offset of its outputs.

    shape  rows B, packed_bytes, maximum number of legal actions L

    Raises `InvalidRequest` if they do not end by `end`.
    """
    rows, packed_bytes, max_legal = shape
    if start + _input_bytes(rows, packed_bytes, max_legal) > end:
        raise InvalidRequest(f"{rows} rows of {packed_bytes} bytes and {max_legal} actions exceed the slot; send fewer")
    legal_at = start + _aligned(rows * packed_bytes)
    states = np.ndarray((rows, packed_bytes), np.uint8, region, start)
    legal = np.ndarray((rows, max_legal), np.dtype("<i2"), region, legal_at)
    return states, legal, legal_at + _aligned(2 * rows * max_legal)


def outputs(region: Any, begin: int, end: int, rows: int, shapes: Sequence[OutputShape]) -> list[np.ndarray]:
    """Return the views [rows, width] of outputs from offset `begin`; raises `InvalidRequest` if they do not end by `end`."""
    found = []
    for dtype, width in shapes:
        after = begin + _aligned(rows * width * dtype.itemsize)
        if after > end:
            raise InvalidRequest(f"{rows} rows of outputs need {after - end} bytes more than the slot has; send fewer")
        found.append(np.ndarray((rows, width), dtype, region, begin))
        begin = after
    return found


def _input_bytes(rows: int, packed_bytes: int, max_legal: int) -> int:
    """Return the bytes of a slot that its inputs take."""
    return _aligned(rows * packed_bytes) + _aligned(2 * rows * max_legal)


def slot_bytes_of(spec: GameSpec, rows: int = MAX_REQUEST_ROWS, *, extra_heads: bool = True) -> int:
    """Return the size of a slot for `rows` positions of a game with policy and value, or every head that a model may have."""
    answered = sum(_aligned(rows * width) for width in _output_bytes(spec, extra_heads))
    return _input_bytes(rows, spec.packed_bytes, spec.max_legal) + answered


def rows_in(slot_bytes: int, spec: GameSpec, *, extra_heads: bool, most: int) -> int:
    """Return the number of positions, at least 1 and at most `most`, whose slot has at most that size."""
    if slot_bytes_of(spec, most, extra_heads=extra_heads) <= slot_bytes:
        return most
    parts = [spec.packed_bytes, 2 * spec.max_legal, *_output_bytes(spec, extra_heads)]
    return max(1, (slot_bytes - len(parts) * (ALIGNMENT - 1)) // sum(parts))


def _output_bytes(spec: GameSpec, extra_heads: bool) -> list[int]:
    """Return the bytes of a row of each output."""
    heads = (*BASE_HEADS, *EXTRA_HEADS, *MOVE_HEADS) if extra_heads else BASE_HEADS
    found = outputs_of(heads, max_legal=spec.max_legal, num_players=spec.num_players, num_actions=spec.num_actions)
    return [output.row_bytes for output in found]


def _aligned(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
