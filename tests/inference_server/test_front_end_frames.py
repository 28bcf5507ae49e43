"""Frames between front ends and the device process: round trips, cuts anywhere, and malformed bytes."""

from __future__ import annotations

import asyncio
import socket
import struct

import grpc
import numpy as np
import pytest
from fake_network import until

from inference_server.data_plane import DataPlane, Inference
from inference_server.fronts.frames import (
    CONGESTED_BYTES,
    MAX_FIELDS_BYTES,
    Channel,
    Frame,
    Kind,
    Question,
    answer_frame,
    inference_of,
    open_channel,
    question_frame,
)
from inference_server.fronts.link import FrontLink
from inference_server.fronts.remote import RefusedByDevice, RemotePlane
from inference_server.tensors import Tensor
from zerofleet.contracts.priorities import Priority
from zerofleet.errors import InvalidRequest
from zerofleet.telemetry import metrics

QUESTION = Question(
    ("tic_tac_toe", ""),
    [Tensor("state__0", "UINT8", (2, 3), b"abcdef"), Tensor("legal__1", "INT16", (2, 1), b"\0\0\1\0")],
    ["value__1"],
    1.5,
    Priority.HIGH,
)
HEAD = struct.Struct("<BIII")


def received(*pieces: bytes) -> list[Frame]:
    """Return the frames that a channel finds in these bytes, fed piece by piece."""
    channel, found = Channel(), []
    channel.on_frame = found.append
    channel.close = lambda reason="": pytest.fail(reason)
    for piece in pieces:
        channel.data_received(piece)
    return found


def test_a_request_and_its_answer_survive_any_cut():
    policy, value = np.array([[0.25, 0.75]], "<f2"), np.array([[1.0], [-1.0]], "<f4")
    answer = Inference("tic_tac_toe", 7, (("policy__0", "FP16", policy), ("value__1", "FP32", value)))
    content = b"".join([*question_frame(3, QUESTION), *answer_frame(4, answer)])
    for cut in range(len(content)):
        asked, answered = received(content[:cut], content[cut:])
        assert (asked.kind, asked.ticket, Question.of(asked)) == (Kind.INFER, 3, QUESTION)
        found = inference_of(answered)
        assert (answered.ticket, found.model, found.version) == (4, "tic_tac_toe", 7)
        for (name, kind, rows), (other, same, wanted) in zip(found.outputs, answer.outputs, strict=True):
            assert (name, kind) == (other, same)
            np.testing.assert_array_equal(rows, wanted)


def test_the_fields_of_a_request_have_a_bounded_size():
    long = Tensor("x" * 99_999, "y" * 99_999, (1,) * 99_999, b"z")
    packed, *_ = question_frame(1, Question(("m", "1"), [long] * 16, ["o" * 99_999] * 16, None, Priority.LOW))
    assert len(packed) < MAX_FIELDS_BYTES // 8


SOUND = {"model": "m", "version": "1", "outputs": [], "patience_s": None, "priority": 1, "trace": "", "request_id": ""}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"tensors": 7},
        {"tensors": [["a", "b", [1], 9]]},
        {"tensors": [], "model": "m", "version": "1"},
        None,
        [],
        SOUND | {"tensors": [["a", "b", [1], 5], ["a", "b", [1], -5]]},
        SOUND | {"tensors": [["a", "b", [1.0, 2], 0]]},
        SOUND | {"tensors": [["a", 7, [1], 0]]},
        SOUND | {"tensors": [], "model": ["m"]},
        SOUND | {"tensors": [], "outputs": [{}]},
        SOUND | {"tensors": [], "patience_s": float("nan")},
        SOUND | {"tensors": [], "patience_s": "1"},
        SOUND | {"tensors": [], "request_id": 7},
    ],
)
def test_fields_that_are_no_request_are_refused(fields):
    with pytest.raises(InvalidRequest, match="not a request"):
        Question.of(Frame(Kind.INFER, 1, fields, b""))


def test_fields_that_are_a_request_are_read():
    assert Question.of(Frame(Kind.INFER, 1, SOUND | {"tensors": []}, b"")).names == ("m", "1")


@pytest.mark.parametrize(
    "content",
    [
        HEAD.pack(Kind.INFER, 1, MAX_FIELDS_BYTES + 1, 0),
        HEAD.pack(Kind.INFER, 1, 0, 2**32 - 1),
        HEAD.pack(99, 1, 0, 0),
        HEAD.pack(Kind.INFER, 1, 3, 0) + b"{]}",
        HEAD.pack(Kind.INFER, 1, 1, 0) + b"\xff",
        HEAD.pack(Kind.INFER, 1, 100_000, 0) + b"[" * 100_000,
    ],
)
async def test_malformed_bytes_end_the_connection_with_a_reason(content):
    own, theirs = socket.socketpair()
    channel = await open_channel(own)
    reasons = []
    channel.on_close = reasons.append
    with theirs:
        theirs.send(content)
        await until(lambda: bool(reasons))
        assert theirs.recv(1) == b""
    assert "malformed" in reasons[0]


async def test_frames_of_one_turn_leave_together_and_none_after_the_end():
    own, theirs = socket.socketpair()
    channel, other = await open_channel(own), await open_channel(theirs)
    found, ended = [], asyncio.Event()
    other.on_frame = found.append
    other.on_close = lambda reason: ended.set()
    channel.send(Kind.CANCEL, 1)
    channel.send(Kind.DRAIN, fields={"grace_s": 2.0})
    channel.close()
    channel.send(Kind.CANCEL, 2)
    async with asyncio.timeout(60):
        await ended.wait()
    assert [(frame.kind, frame.ticket, frame.fields) for frame in found] == [
        (Kind.CANCEL, 1, None),
        (Kind.DRAIN, 0, {"grace_s": 2.0}),
    ]


@pytest.mark.parametrize(
    "frames",
    [
        [(Kind.LISTENING, None), (Kind.LISTENING, None)],
        [(Kind.LISTENING, None), (Kind.FAILED, {"text": "too late"})],
        [(Kind.FAILED, [])],
        [(Kind.REFUSED, {"x" * 1000: 1})],
        [(Kind.REFUSED, {"overload": -1})],
        [(Kind.REFUSED, {"overload": float("inf")})],
        [(Kind.REFUSED, [1])],
        [(Kind.CONNECTIONS, {"open": -5, "refused": 0})],
        [(Kind.CONNECTIONS, {"open": 1e300, "refused": 0})],
        [(Kind.CONNECTIONS, {"open": 1, "refused": True})],
        [(Kind.ORDERS, {})],
    ],
)
async def test_frames_that_no_front_end_sends_end_its_connection_and_nothing_else(frames):
    own, theirs = socket.socketpair()
    link, front, faults = FrontLink(1, await open_channel(own), DataPlane(None, None)), await open_channel(theirs), []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
    before = metrics.GRPC_CONNECTIONS._value.get()
    for kind, fields in frames:
        front.send(kind, fields=fields)
    async with asyncio.timeout(60):
        await link.ended
    assert faults == []
    assert metrics.GRPC_CONNECTIONS._value.get() == before
    front.close()


async def test_a_device_process_that_takes_nothing_costs_a_front_end_bounded_memory():
    own, theirs = socket.socketpair()
    channel, refused = await open_channel(own), []
    plane = RemotePlane(channel, on_refused=lambda: refused.append(1))
    content = bytes(1 << 20)
    accepted = 0
    with theirs:
        for _ in range(64):  # requests of a mebibyte that their clients cancel at once
            call = asyncio.ensure_future(plane.infer(("m", "1"), [Tensor("state__0", "UINT8", (1, 1 << 20), content)]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            call.cancel()
            outcome = (await asyncio.gather(call, return_exceptions=True))[0]
            accepted += not isinstance(outcome, RefusedByDevice)
        assert plane.full(Priority.HIGH) is not None
        assert outcome.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert accepted + len(refused) == 64  # each refusal is counted
        assert CONGESTED_BYTES >> 20 <= accepted <= (CONGESTED_BYTES >> 20) + 2
        theirs.setblocking(False)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(60):
            while plane.full(Priority.LOW) is not None:
                await loop.sock_recv(theirs, 1 << 20)
        channel.close()


async def test_a_front_end_that_takes_no_answers_is_not_read_from():
    own, theirs = socket.socketpair()
    channel = await open_channel(own)
    link = FrontLink(1, channel, DataPlane(None, None))
    theirs.setblocking(False)
    loop = asyncio.get_running_loop()
    with theirs:
        channel.write([bytes(2 * CONGESTED_BYTES)])
        await until(lambda: channel.congested)
        theirs.send(HEAD.pack(Kind.LISTENING, 0, 0, 0))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not link.listening.done()
        async with asyncio.timeout(60):
            while channel.congested:
                await loop.sock_recv(theirs, 1 << 20)
            await link.listening
        link.close()
