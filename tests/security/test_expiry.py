"""End of calls whose request comes too late, and of no others."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from zerofleet.rpc.security.bounded_calls import BoundedCalls

LIMIT_S = 0.02


class Call:
    """A call as grpc shows it to a handler; its request comes when `arrives` says so."""

    def __init__(self) -> None:
        self.request: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.reading = asyncio.Event()
        self.aborted: list[grpc.StatusCode] = []

    def peer(self) -> str:
        return "unix:"

    def add_done_callback(self, callback: Any) -> None:
        pass

    async def read(self) -> bytes:
        self.reading.set()
        return await self.request

    async def abort(self, code: grpc.StatusCode, text: str) -> None:
        self.aborted.append(code)
        if not self.request.done():
            self.request.set_exception(grpc.aio.AbortError("Locally aborted."))
        raise grpc.aio.AbortError("Locally aborted.")


class Calls:
    """A handler behind bounds, and the reasons for which calls were refused."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self._bounds = BoundedCalls(
            message_bytes=100, bytes_in_flight=1000, calls=8, long_lived={}, read_s=LIMIT_S, on_refused=self.refused.append
        )

    async def answer(self, call: Call) -> bytes:
        async def found(details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(self._echo)

        class Details:
            method = "/any.Service/Echo"

        handler = await self._bounds.intercept_service(found, Details())  # type: ignore[arg-type]
        return await handler.stream_unary(iter(()), call)

    async def _echo(self, request: bytes, context: Any) -> bytes:
        for _ in range(10):  # whatever else is ready runs meanwhile
            await asyncio.sleep(0)
        return request


async def test_a_request_that_arrives_in_the_moment_of_its_limit_is_answered_and_not_refused_too():
    calls, call = Calls(), Call()
    answering = asyncio.create_task(calls.answer(call))
    await call.reading.wait()
    loop = asyncio.get_running_loop()
    # As after a freeze of the process: the limit has passed and the message is there when the loop runs again.
    arrival = loop.call_later(LIMIT_S / 2, call.request.set_result, b"here")
    while loop.time() < arrival.when() + LIMIT_S:
        pass
    assert await answering == b"here"
    assert (call.aborted, calls.refused) == ([], [])


async def test_a_request_that_does_not_arrive_ends_its_call():
    calls, call = Calls(), Call()
    with pytest.raises(grpc.aio.AbortError):
        await calls.answer(call)
    assert (call.aborted, calls.refused) == ([grpc.StatusCode.RESOURCE_EXHAUSTED], ["slow"])
