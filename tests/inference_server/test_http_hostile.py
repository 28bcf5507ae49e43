"""Callers of the HTTP port that mean harm or break off: the server's loop, log and connections stay as they were."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct

import pytest
from fake_network import until
from raw_http import Caller, ask, get, post
from structlog.testing import capture_logs

from inference_server.rest import connection as connections
from inference_server.rest.listener import HttpServer
from zerofleet.rpc.security.tls import Tls
from zerofleet.service.authority import Authority
from zerofleet.telemetry import metrics


async def test_requests_sent_ahead_leave_turns_of_the_loop_to_others(served, http_address, monkeypatch):
    turns, seen = 0, []
    routes = served.server.http._routes
    look_up = routes._look_up

    async def noted(*arguments):
        seen.append(turns)
        return await look_up(*arguments)

    async def count_turns():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    monkeypatch.setattr(routes, "_look_up", noted)
    counting = asyncio.create_task(count_turns())
    try:
        async with Caller.open(http_address) as caller:
            caller.writer.write(get("/v2/health/live") * 50)
            for _ in range(50):
                assert (await caller.reply()).status == 200
    finally:
        counting.cancel()
    assert len(set(seen)) == 50


async def test_a_chunked_head_request_is_refused_like_others(http_address):
    with capture_logs() as logs:
        async with Caller.open(http_address) as caller:
            reply = await caller.ask(get("/v2", "Transfer-Encoding: chunked", method="HEAD"))
            assert (reply.status, reply.headers["connection"]) == (411, "close")
            assert await caller.is_closed()
    assert [line for line in logs if line["log_level"] == "error"] == []


async def test_a_caller_that_breaks_off_inside_its_body_is_no_error_of_the_server(served, http_address):
    def failed() -> float:
        return metrics.INFERENCE_HTTP.labels(route="infer", status="500")._value.get()

    before = failed()
    places = served.server.http._routes._bounds._calls.places
    with capture_logs() as logs:
        async with Caller.open(http_address) as caller:
            caller.writer.write(post(b"{}" * 100)[:-1])
            await until(lambda: places.taken == 1)
            own: socket.socket = caller.writer.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset in place of an end
        await until(lambda: not len(served.server.http))
    assert [line for line in logs if line["log_level"] == "error"] == []
    assert (failed(), places.taken) == (before, 0)


@pytest.mark.parametrize(
    "headers", [["X-Long: " + "x" * (17 << 10)], ["a: b"] * 100, [*["X-Long: " + "x" * 8000] * 3]], ids=["one", "many", "long"]
)
async def test_a_long_head_is_refused_also_when_it_arrives_at_once(http_address, headers):
    reply = await ask(http_address, get("/v2", *headers))
    assert (reply.status, reply.headers["connection"]) == (431, "close")
    assert "want at most 16384 bytes and 100 lines" in reply.error
    assert (await ask(http_address, get("/v2", *["a: b"] * 90))).status == 200


async def test_a_long_body_and_requests_sent_ahead_are_no_long_head(http_address):
    async with Caller.open(http_address) as caller:
        assert (await caller.ask(post(b" " * 60_000))).status == 400
        caller.writer.write(get("/v2/health/live") * 500)
        for _ in range(500):
            assert (await caller.reply()).status == 200


async def test_a_malformed_request_is_named_by_an_id_of_its_own(http_address):
    async with Caller.open(http_address) as caller:
        assert (await caller.ask(get("/v2", "x-request-id: first"))).headers["x-request-id"] == "first"
        reply = await caller.ask(b"HELLO\r\n\r\n")
        assert reply.status == 400
        assert re.fullmatch(r"[0-9a-f]{16}", reply.headers["x-request-id"])


async def test_the_text_of_a_malformed_request_is_not_sent_back_whole(http_address):
    reply = await ask(http_address, get("/v2", "X-\x01: " + "x" * 10_000))
    assert reply.status == 400
    assert len(reply.body) < 500


async def test_an_answered_request_is_not_waited_for_when_the_connection_ends_with_it(served, http_address, monkeypatch):
    async def linger(self) -> None:
        raise AssertionError("the request was complete")

    monkeypatch.setattr(connections.Connection, "_linger", linger)
    async with Caller.open(http_address) as caller:
        assert (await caller.ask(get("/v2", "Connection: close"))).status == 200
        await until(lambda: not len(served.server.http))
    async with Caller.open(http_address) as caller:
        for _ in range(2):
            reply = await caller.ask(get("/v2", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: "))
            assert (reply.status, "connection" in reply.headers) == (200, False)


async def test_files_of_tls_that_cannot_be_looked_at_end_one_connection(served, tmp_path, monkeypatch):
    authority = Authority(tmp_path / "certs")
    authority.issue("server", ["127.0.0.1"], days=30)
    folder = tmp_path / "certs" / "server"
    encrypted = HttpServer(served.server.http._routes, "127.0.0.1:0", Tls(None, folder))
    trusted = ssl.create_default_context(cafile=str(folder / "ca.crt"))

    def absent() -> None:
        raise FileNotFoundError(2, "No such file", "tls.key")

    try:
        with monkeypatch.context() as patch:
            patch.setattr(encrypted._certificates._files, "look_again", absent)
            with pytest.raises((ConnectionError, ssl.SSLError)):
                await ask(encrypted.address, get("/v2"), trusted)
        assert (await ask(encrypted.address, get("/v2"), trusted)).status == 200
        await until(lambda: not len(encrypted))
        assert encrypted._places.taken == 0
    finally:
        await encrypted.aclose()


async def test_the_time_for_the_first_request_includes_the_handshake(served, http_address, monkeypatch):
    loop = asyncio.get_running_loop()
    connect, has_begun, times = loop.connect_accepted_socket, connections.Connection._has_begun, []

    async def noted_connect(*arguments, **options):
        times.append(loop.time() + connections_s)
        return await connect(*arguments, **options)

    async def noted_begin(self, begins_by):
        times.append(begins_by)
        return await has_begun(self, begins_by)

    connections_s = served.server.http._transfer_s
    monkeypatch.setattr(loop, "connect_accepted_socket", noted_connect)
    monkeypatch.setattr(connections.Connection, "_has_begun", noted_begin)
    async with Caller.open(http_address) as caller:
        assert (await caller.ask(get("/v2"))).status == 200
    assert times[1] <= times[0]
