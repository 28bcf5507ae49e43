"""The HTTP port against clients that dawdle, shout, or have no business there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from zerofleet.service import probes
from zerofleet.service.probes import MAX_CONNECTIONS, Answer, ProbeServer

TOKEN = "t" * 32
BIG = b"x" * (8 << 20)  # more than sockets hold, so that a reader who does not read is noticed


def broken() -> Answer:
    raise RuntimeError("secret path /etc/shadow")


@pytest.fixture
async def server() -> AsyncIterator[ProbeServer]:
    paths = {
        "/metrics": lambda: Answer(200, b"x_total 1\n"),
        "/readyz": lambda: Answer(200, b"ready\n"),
        "/big": lambda: Answer(200, BIG),
        "/broken": broken,
    }
    running = await ProbeServer(paths, tokens={"/metrics": TOKEN, "/readyz": None}).start("127.0.0.1", 0)
    yield running
    await running.aclose()


async def ask(server: ProbeServer, request: bytes) -> bytes:
    """Send a request and return the whole answer."""
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        return answer


async def status(server: ProbeServer, request: bytes) -> int:
    return int((await ask(server, request)).split()[1])


async def cut_off(reader: asyncio.StreamReader) -> bool:
    """Wait until the server has ended a connection; return whether it did so without an answer."""
    async with asyncio.timeout(20):
        try:
            return await reader.read() == b""
        except ConnectionResetError:
            return True


async def test_readiness_is_reported_while_slow_clients_hold_every_connection(server):
    slow = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(3 * MAX_CONNECTIONS)]
    for _, writer in slow:
        writer.write(b"GET /readyz HTTP/1.1\r\nX-Slow: ")  # and the rest of the header never comes
    for _ in range(5):
        assert await status(server, b"GET /readyz HTTP/1.1\r\n\r\n") == 200
    assert server.connections <= MAX_CONNECTIONS
    assert await cut_off(slow[0][0])  # the oldest made room
    for _, writer in slow:
        writer.transport.abort()


async def test_a_flood_from_one_address_closes_no_connection_of_another(server):
    patient, asking = await asyncio.open_connection("127.0.0.1", server.port)
    asking.write(b"GET /readyz HTTP/1.1\r\n")
    await until_open(server, 1)
    flood = []
    for count in range(2, 2 * MAX_CONNECTIONS):
        flood.append(await asyncio.open_connection("127.0.0.1", server.port, local_addr=("127.0.0.2", 0)))
        await until_open(server, min(count, MAX_CONNECTIONS))
    assert await cut_off(flood[0][0])  # the oldest of its address, and not of all
    asking.write(b"\r\n")
    assert (await patient.read()).startswith(b"HTTP/1.1 200 OK\r\n")
    asking.close()
    for _, writer in flood:
        writer.transport.abort()


async def until_open(server: ProbeServer, count: int) -> None:
    """Wait until the server has so many connections."""
    async with asyncio.timeout(20):
        while server.connections != count:  # noqa: ASYNC110 - turns of the loop
            await asyncio.sleep(0)


async def test_an_unfinished_http_request_is_cut_off_after_its_time(server, monkeypatch):
    monkeypatch.setattr(probes, "REQUEST_TIMEOUT_S", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /readyz HTTP/1.1\r\n")
    assert await cut_off(reader)
    assert server.connections == 0
    writer.close()


async def test_a_client_that_does_not_read_its_reply_is_cut_off(server, monkeypatch):
    monkeypatch.setattr(probes, "REQUEST_TIMEOUT_S", 0.2)
    with socket.create_connection(("127.0.0.1", server.port)) as lazy:
        lazy.sendall(b"GET /big HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(20):
            while not server.connections:  # noqa: ASYNC110 - turns of the loop
                await asyncio.sleep(0)
            while server.connections:  # noqa: ASYNC110 - turns of the loop
                await asyncio.sleep(0.01)


async def test_a_large_reply_arrives_complete(server):
    answer = await ask(server, b"GET /big HTTP/1.1\r\n\r\n")
    assert answer.endswith(BIG)


@pytest.mark.parametrize(
    ("request_bytes", "wanted"),
    [
        (b"HEAD /readyz HTTP/1.1\r\n\r\n", 200),
        (b"HEAD /nowhere HTTP/1.1\r\n\r\n", 404),
        (b"DELETE /readyz HTTP/1.1\r\n\r\n", 405),
        (b"POST /readyz HTTP/1.1\r\nContent-Length: 1000000000000\r\n\r\n", 405),
        (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"GET /readyz/ HTTP/1.1\r\n\r\n", 404),
        (b"GET http://else.where/readyz HTTP/1.1\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"GET /readyz HTTP/1.1\r\nX-Long: " + b"a" * 10_000 + b"\r\n\r\n", 400),
        (b"GET /readyz HTTP/1.1\r\n" + b"X: y\r\n" * 5_000 + b"\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    ],
)
async def test_http_requests_outside_the_probes_are_refused(server, request_bytes, wanted):
    assert await status(server, request_bytes) == wanted
    assert await status(server, b"GET /readyz HTTP/1.1\r\n\r\n") == 200


async def test_head_is_answered_as_get_but_without_the_body(server):
    answer = await ask(server, b"HEAD /big HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert f"Content-Length: {len(BIG)}\r\n".encode() in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "header",
    [b"", b"Authorization: Bearer wrong\r\n", b"Authorization: Basic " + TOKEN.encode() + b"\r\n", b"Authorization\r\n"],
)
async def test_metrics_with_a_token_are_shown_only_to_its_holders(server, header):
    answer = await ask(server, b"GET /metrics HTTP/1.1\r\n" + header + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 401 Unauthorized\r\n")
    assert b"WWW-Authenticate: Bearer" in answer
    assert TOKEN.encode() not in answer
    right = f"GET /metrics HTTP/1.1\r\nauthorization: bearer {TOKEN}\r\n\r\n".encode()
    assert (await ask(server, right)).endswith(b"\r\n\r\nx_total 1\n")


async def test_a_failing_page_shows_no_details_and_the_others_still_work(server):
    answer = await ask(server, b"GET /broken HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"secret" not in answer
    assert await status(server, b"GET /readyz HTTP/1.1\r\n\r\n") == 200


async def test_a_path_that_is_added_later_has_a_token_of_its_own_and_may_wait(server):
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def waiting() -> Answer:
        asked.set()
        await go_on.wait()
        return Answer(200, b"late\n")

    server.add("/late", waiting, token=TOKEN)
    assert await status(server, b"GET /late HTTP/1.1\r\n\r\n") == 401
    assert not asked.is_set()
    shown = f"GET /late HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    late = asyncio.create_task(ask(server, shown))
    await asked.wait()
    assert await status(server, b"GET /readyz HTTP/1.1\r\n\r\n") == 200
    go_on.set()
    assert (await late).endswith(b"\r\n\r\nlate\n")


async def test_a_path_that_waits_too_long_is_cut_off_and_one_that_fails_shows_no_details(server, monkeypatch):
    async def failing() -> Answer:
        return broken()

    async def endless() -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    server.add("/failing", failing)
    answer = await ask(server, b"GET /failing HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500")
    assert b"shadow" not in answer
    monkeypatch.setattr(probes, "REQUEST_TIMEOUT_S", 0.05)
    server.add("/endless", endless)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /endless HTTP/1.1\r\n\r\n")
    assert await cut_off(reader)
    writer.close()


async def test_closing_the_probes_closes_open_connections():
    server = await ProbeServer({}).start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    async with asyncio.timeout(20):
        while not server.connections:  # noqa: ASYNC110 - turns of the loop
            await asyncio.sleep(0)
        await server.aclose()
    assert await cut_off(reader)
    writer.close()


@pytest.mark.parametrize("request_", [b"", b"GET /endless HTTP/1.1\r\n\r\n"], ids=["unfinished request", "waiting handler"])
def test_an_orderly_stop_with_an_open_connection_reports_no_error(request_):
    reported = []
    begun = asyncio.Event()

    async def endless() -> Answer:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def serve_and_stop() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
        server = await ProbeServer({"/endless": endless}).start("127.0.0.1", 0)
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(request_)
            async with asyncio.timeout(20):
                await (begun.wait() if request_ else until_open(server, 1))
                await server.aclose()
        assert server.connections == 0

    asyncio.run(serve_and_stop())  # its end cancels the tasks that still run
    assert reported == []
