"""Frames between front ends and the device process: round trips, cuts anywhere, and malformed bytes."""

from __future__ import annotations

import asyncio
import socket
import struct

import numpy as np
import pytest
from fake_network import until

from inference_server.data_plane import Inference
from inference_server.fronts.frames import (
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
from inference_server.tensors import Tensor
from zerofleet.contracts.priorities import Priority
from zerofleet.errors import InvalidRequest

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


@pytest.mark.parametrize(
    "fields", [{}, {"tensors": 7}, {"tensors": [["a", "b", [1], 9]]}, {"tensors": [], "model": "m", "version": "1"}, None]
)
def test_fields_that_are_no_request_are_refused(fields):
    with pytest.raises(InvalidRequest, match="not a request"):
        Question.of(Frame(Kind.INFER, 1, fields, b""))


@pytest.mark.parametrize(
    "content",
    [
        HEAD.pack(Kind.INFER, 1, MAX_FIELDS_BYTES + 1, 0),
        HEAD.pack(Kind.INFER, 1, 0, 2**32 - 1),
        HEAD.pack(99, 1, 0, 0),
        HEAD.pack(Kind.INFER, 1, 3, 0) + b"{]}",
        HEAD.pack(Kind.INFER, 1, 1, 0) + b"\xff",
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
