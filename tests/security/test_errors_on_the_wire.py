"""What a caller is told when a server fails: its own mistakes in words, the server's as a number, and nothing of the inside."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from zerofleet.errors import InvalidRequest, ZerofleetError
from zerofleet.rpc.errors import ErrorInterceptor
from zerofleet.rpc.failures import error_from

SECRET = "sesame at /run/credentials/control/token"
FAILURES = [
    ValueError(SECRET),
    KeyError(SECRET),
    OSError(13, "Permission denied", SECRET),
    RuntimeError(f"outer {SECRET}"),
    ExceptionGroup(SECRET, [ValueError(SECRET)]),
    AssertionError(SECRET),
]


@asynccontextmanager
async def answering(failure: BaseException) -> AsyncIterator[grpc.aio.Channel]:
    """A server whose every call raises `failure`, and a channel to it."""

    async def one(request, context):
        raise failure

    async def several(request, context):
        yield b"first"
        raise failure

    def unreadable(data):
        raise failure

    handlers = {
        "One": grpc.unary_unary_rpc_method_handler(one),
        "Several": grpc.unary_stream_rpc_method_handler(several),
        "Unreadable": grpc.unary_unary_rpc_method_handler(one, request_deserializer=unreadable),
    }
    server = grpc.aio.server(interceptors=[ErrorInterceptor()], options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("any.Service", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(None)


def everything_said(failure: grpc.aio.AioRpcError) -> str:
    return f"{failure} {failure.details()} {failure.initial_metadata()} {failure.trailing_metadata()}"


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
async def test_an_unexpected_failure_is_a_number_whatever_the_shape_of_the_call(failure, capsys):
    async with answering(failure) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as unary:
            await channel.unary_unary("/any.Service/One")(b"", timeout=60)
        replies = channel.unary_stream("/any.Service/Several")(b"", timeout=60)
        assert await replies.read() == b"first"
        with pytest.raises(grpc.aio.AioRpcError) as stream:
            await replies.read()
    for caught in (unary.value, stream.value):
        assert caught.code() is grpc.StatusCode.INTERNAL
        assert "sesame" not in everything_said(caught)
        assert "credentials" not in everything_said(caught)
        incident = re.fullmatch(r"internal error ([0-9a-f]{12}); the server's log has the details", caught.details())
        assert incident is not None
        assert incident[1] in "".join(capsys.readouterr()) or caught is stream.value  # the log was read with the first
        assert "sesame" not in str(error_from(caught, target="the server"))


async def test_the_error_for_an_unreadable_request_reveals_nothing_of_the_parser():
    async with answering(ValueError(SECRET)) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary("/any.Service/Unreadable")(b"x", timeout=60)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "the request bytes are not a message of /any.Service/Unreadable"
    assert "sesame" not in everything_said(caught.value)


async def test_an_error_meant_for_the_caller_arrives_with_its_text():
    async with answering(InvalidRequest("shape [3, 4], want [3, 3]")) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary("/any.Service/One")(b"", timeout=60)
    back = error_from(caught.value, target="the server")
    assert isinstance(back, InvalidRequest)
    assert isinstance(back, ZerofleetError)
    assert str(back) == "shape [3, 4], want [3, 3]"
