"""Who may use the HTTP port, and how much of the server: tokens, TLS, bounds, overload."""

from __future__ import annotations

import asyncio
import socket
import ssl

import pytest
from fake_network import MODEL, until
from raw_http import Caller, as_json, ask, get, json_request, post

from inference_server.rest.listener import HttpServer
from inference_server.settings import ServerSettings
from zerofleet.contracts.shared_memory import doorbell_path
from zerofleet.errors import ConfigurationError
from zerofleet.rpc.security.shares import Shares
from zerofleet.rpc.security.tls import Tls
from zerofleet.service.authority import Authority
from zerofleet.service.settings import read_settings

HTTP = {"http_address": "127.0.0.1:0"}


async def test_http_is_off_unless_an_address_is_set(wire):
    assert wire.server.http is None


@pytest.mark.parametrize(
    ("given", "address"),
    [("", ""), ("8000", "127.0.0.1:8000"), (":8000", "127.0.0.1:8000"), ("0.0.0.0:80", "0.0.0.0:80"), ("[::1]:0", "[::1]:0")],
)
def test_an_address_without_a_host_is_loopback(given, address):
    assert read_settings(ServerSettings, [f"--http-address={given}"], {})[0].http_address == address


@pytest.mark.parametrize("given", ["unix:/tmp/x", "localhost", "a:99999", "a:0000080000", "a b:1", "a:-1"])
def test_another_form_of_address_is_refused(given):
    with pytest.raises(ConfigurationError, match="setting http_address: want HOST:PORT"):
        read_settings(ServerSettings, [f"--http-address={given}"], {})


@pytest.mark.parametrize("has_ipv6", [True, False])
async def test_every_address_is_that_of_ipv4_too_or_alone_where_the_machine_has_no_ipv6(open_wire, monkeypatch, has_ipv6):
    has_ipv6 = has_ipv6 and socket.has_dualstack_ipv6()
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: has_ipv6)
    async with open_wire(http_address="[::]:0") as wire:
        port = wire.server.http.address.rpartition(":")[2]
        for host in ("127.0.0.1", "::1") if has_ipv6 and is_bindable("::1") else ("127.0.0.1",):
            assert (await ask(f"{host}:{port}", get("/v2/health/live"))).status == 200


def is_bindable(host):
    """Return whether the machine has this address of IPv6, which may be turned off while its sockets are not."""
    with socket.socket(socket.AF_INET6) as tried:
        try:
            tried.bind((host, 0))
        except OSError:
            return False
    return True


async def test_an_address_in_use_is_a_configuration_error(open_wire, address):
    async with open_wire(**HTTP) as wire:
        with pytest.raises(ConfigurationError, match="set another http_address"):
            async with open_wire(address=address, http_address=wire.server.http.address):
                pass
        assert not doorbell_path(address).exists()  # nothing listens that nobody would close
    with pytest.raises(ConfigurationError, match=r"cannot listen on \.\.:0: no such host"):
        async with open_wire(http_address="..:0"):
            pass


async def test_with_tokens_requests_need_a_role_that_may_make_them_and_health_checks_none(open_wire, publish, positions):
    publish()
    tokens = {role: role.ljust(24, "x") for role in ("worker", "trainer", "evaluator", "operator")}
    good = as_json(positions[0][:1], positions[1][:1])
    async with open_wire(tokens="\n".join(f"{role}: {token}" for role, token in tokens.items()), **HTTP) as wire:
        await wire.server.plane.registry.serve(MODEL, [1])
        address = wire.server.http.address

        async def status(request: bytes) -> int:
            return (await ask(address, request)).status

        for path in ("/v2/health/live", "/v2/health/ready"):
            assert await status(get(path)) == 200
        for path in ("/v2", f"/v2/models/{MODEL}", f"/v2/models/{MODEL}/ready", "/v2/models/stats"):
            assert await status(get(path)) == 401
            assert await status(get(path, f"Authorization: Bearer {tokens['trainer']}")) == 200
        for role in ("worker", "evaluator", "operator"):
            assert await status(json_request(good, f"authorization: bearer {tokens[role]}")) == 200
        for header in (
            "X-None: 1",
            "Authorization: Bearer",
            "Authorization: Bearer wrong",
            f"Authorization: Basic {tokens['worker']}",
        ):
            reply = await ask(address, json_request(good, header))
            assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
            assert "the header Authorization, as Bearer TOKEN" in reply.error
        reply = await ask(address, json_request(good, f"Authorization: Bearer {tokens['trainer']}"))
        assert (reply.status, reply.error) == (
            403,
            "a token of the role trainer may not make this call; want evaluator, operator, worker",
        )


async def test_without_a_token_the_body_is_not_read(open_wire):
    async with open_wire(tokens=f"worker: {'w' * 24}", **HTTP) as wire, Caller.open(wire.server.http.address) as caller:
        reply = await caller.ask(post(b"x" * 1000)[:-1])
        assert (reply.status, reply.headers["connection"]) == (401, "close")
        assert wire.server.http._routes._bounds._calls.bytes.taken == 0


async def test_a_full_queue_refuses_requests_unread_but_those_that_announce_high_priority(
    open_wire, publish, positions, loader
):
    publish()
    block = as_json(positions[0][:8], positions[1][:8])
    async with open_wire(max_queue_positions=8, **HTTP) as wire:
        await wire.server.plane.registry.serve(MODEL, [1])
        address = wire.server.http.address
        loader.entered.clear()
        loader.gate.clear()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(ask(address, json_request(block)))
                await asyncio.to_thread(loader.entered.wait, 60)
                waiting = group.create_task(ask(address, json_request(block)))
                await until(lambda: wire.waiting_rows() == 8)
                refused = await ask(address, json_request(block))
                assert (refused.status, refused.headers["retry-after"]) == (429, "1")
                assert "8 positions wait for the device" in refused.error
                unread = await ask(address, post(b"x" * 1000)[:-1])
                assert unread.status == 429
                one = as_json(positions[0][:1], positions[1][:1]) | {"parameters": {"priority": 1}}
                urgent = group.create_task(ask(address, json_request(one, "Zerofleet-Priority: 1")))
                await until(lambda: wire.waiting_rows() == 9)
                loader.gate.set()
            assert (waiting.result().status, urgent.result().status) == (200, 200)
        finally:
            loader.gate.set()


async def test_http_and_grpc_share_the_bounds_on_calls_and_bytes(open_wire, publish, positions):
    publish()
    async with open_wire(max_concurrent_calls=1, **HTTP) as wire:
        await wire.server.plane.registry.serve(MODEL, [1])
        address = wire.server.http.address
        places = wire.server.http._routes._bounds._calls.places
        async with Caller.open(address) as withheld:
            withheld.writer.write(post(b"{}" * 100)[:-1])
            await until(lambda: places.taken == 1)
            reply = await ask(address, get("/v2"))
            assert (reply.status, "1 calls are in progress" in reply.error) == (429, True)
            assert (await ask(address, get("/v2/health/live"))).status == 200
        await until(lambda: places.taken == 0)
        assert (await ask(address, get("/v2"))).status == 200


async def test_requests_hold_their_bytes_until_they_are_answered(open_wire):
    async with open_wire(max_bytes_in_flight=1 << 20, max_message_bytes=600_000, **HTTP) as wire:
        address = wire.server.http.address
        held = wire.server.http._routes._bounds._calls.bytes
        assert held.total == 1_200_000
        async with Caller.open(address) as withheld:
            withheld.writer.write(post(b"x" * 600_000)[:-1])
            await until(lambda: held.taken == 600_000)
            reply = await ask(address, post(b"x" * 600_000)[:-1])
            assert (reply.status, "hold 600000 bytes of 1200000" in reply.error) == (429, True)
        await until(lambda: held.taken == 0)


async def test_connections_are_bounded_and_one_address_holds_half(open_wire):
    async with open_wire(**HTTP) as wire:
        wire.server.http._places = Shares(4)
        address = wire.server.http.address
        async with Caller.open(address) as first, Caller.open(address) as second:
            assert [(await caller.ask(get("/v2"))).status for caller in (first, second)] == [200, 200]
            async with Caller.open(address) as third:
                assert await third.is_closed()
            first.writer.transport.abort()
            await until(lambda: len(wire.server.http) == 1)
            assert (await ask(address, get("/v2"))).status == 200


async def test_tls_as_for_grpc_and_renewed_without_a_restart(open_wire, tmp_path):
    authority = Authority(tmp_path / "certs")
    authority.issue("server", ["127.0.0.1"], days=30)
    authority.issue("client", days=30)
    server, client = (Tls(tmp_path / "certs" / name / "ca.crt", tmp_path / "certs" / name) for name in ("server", "client"))

    def context(*, identity: bool) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=str(client.ca))
        if identity:
            made.load_cert_chain(str(client.certificate), str(client.key))
        return made

    async def presented(address: str) -> bytes:
        async with Caller.open(address, context(identity=True)) as caller:
            assert (await caller.ask(get("/v2"))).status == 200
            return caller.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)

    async with open_wire(**HTTP) as wire:
        encrypted = HttpServer(wire.server.http._routes, "127.0.0.1:0", server, transfer_s=15)
        try:
            before = await presented(encrypted.address)
            assert await presented(encrypted.address) == before
            authority.renew("server", ["127.0.0.1"], days=30)
            assert await presented(encrypted.address) != before
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await ask(encrypted.address, get("/v2"), context(identity=False))
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await ask(encrypted.address, get("/v2"))
            await presented(encrypted.address)
        finally:
            await encrypted.aclose()
    with pytest.raises(ConfigurationError, match="tls_ca without tls_identity"):
        HttpServer(wire.server.http._routes, "127.0.0.1:0", Tls(client.ca, None))
