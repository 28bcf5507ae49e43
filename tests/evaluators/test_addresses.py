"""Which servers a target stands for."""

from __future__ import annotations

import asyncio
import socket

import pytest

from zerofleet.errors import Unavailable
from zerofleet.evaluators.addresses import may_have_replicas, resolve


@pytest.mark.parametrize(
    ("target", "addresses"),
    [
        ("127.0.0.1:8001", ["127.0.0.1:8001"]),
        ("[::1]:8001", ["[::1]:8001"]),
        ("unix:/run/inference.sock", ["unix:/run/inference.sock"]),
        ("unix:/b.sock,unix:/a.sock,unix:/b.sock", ["unix:/a.sock", "unix:/b.sock"]),
        ("unix:/a,b/c.sock", ["unix:/a,b/c.sock"]),
        ("ipv4:10.0.0.2:1,10.0.0.1:1,10.0.0.2:1", ["10.0.0.1:1", "10.0.0.2:1"]),
        ("ipv6:[::1]:1,[::2]:1", ["[::1]:1", "[::2]:1"]),
        ("dns://10.0.0.10/inference:8001", ["dns://10.0.0.10/inference:8001"]),
    ],
)
async def test_addresses_stand_for_themselves(target, addresses):
    assert list(await resolve(target)) == addresses


@pytest.mark.parametrize("target", ["inference:8001", "dns:inference:8001", "dns:///inference:8001"])
async def test_a_name_stands_for_every_address_it_has(target, monkeypatch):
    async def look_up(self, host, port, **_):
        assert (host, port) == ("inference", 8001)
        places = [("10.0.0.2", 8001), ("10.0.0.1", 8001), ("fd00::1", 8001, 0, 0), ("10.0.0.2", 8001)]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", look_up)
    assert list(await resolve(target)) == ["10.0.0.1:8001", "10.0.0.2:8001", "[fd00::1]:8001"]
    assert may_have_replicas(target)


@pytest.mark.parametrize("target", ["localhost:8001", "dns:///localhost:8001"])
async def test_localhost_is_one_server_whichever_of_its_addresses_it_listens_on(target, monkeypatch):
    async def look_up(self, host, port, **_):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in [("::1", port, 0, 0), ("127.0.0.1", port)]]

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", look_up)
    assert list(await resolve(target)) == [target]


async def test_a_name_without_addresses_is_told():
    with pytest.raises(Unavailable, match=r"nobody\.invalid:1 cannot be resolved"):
        await resolve("nobody.invalid:1")


@pytest.mark.parametrize("target", ["127.0.0.1:1", "localhost:1", "unix:/x", "ipv4:127.0.0.1:1", "[::1]:1"])
def test_one_server_has_no_replicas(target):
    assert not may_have_replicas(target)
