"""Reflection: where a server describes its services, to whom, and the bounds of its streams."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from contextlib import asynccontextmanager

import grpc
import pytest
from fake_network import until
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from raw_http2 import DATA, HEADERS, RawConnection, call, frame

from zerofleet.rpc.addresses import is_near
from zerofleet.rpc.call_metrics import CallMetrics
from zerofleet.rpc.reflection import MOST_QUESTIONS, STREAMS, add_reflection
from zerofleet.rpc.security.bounded_calls import SMALL_BYTES, BoundedCalls
from zerofleet.rpc.security.interceptors import RoleInterceptor
from zerofleet.rpc.security.tokens import Role, TokenTable, token_metadata

METHOD = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
ECHO = "/any.Service/Echo"
ENDLESS_S = 120.0
LIST = reflection_pb2.ServerReflectionRequest(list_services="")
TOKENS = {role: f"{role}-".ljust(24, "x") for role in Role}


class Described:
    """A server with one method and reflection within these bounds."""

    def __init__(self, *, tokens=(), choice="auto", address="127.0.0.1:0", **bounds):
        self.refused: Counter[str] = Counter()
        self._address = address
        limits = BoundedCalls(message_bytes=64 << 10, bytes_in_flight=1 << 20, calls=8, long_lived={})
        guard = RoleInterceptor(TokenTable({TOKENS[role]: role for role in tokens}))
        self.server = grpc.aio.server(
            interceptors=[limits, CallMetrics(), guard],
            options=[("grpc.so_reuseport", 0)],
            maximum_concurrent_rpcs=limits.most_calls + STREAMS,
        )

        async def echo(request, context):
            return request

        methods = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
        self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("any.Service", methods)])
        note = {"on_refused": lambda reason: self.refused.update([reason])}
        self.reflection = add_reflection(self.server, ["any.Service"], choice=choice, address=address, **note, **bounds)
        self.places = self.reflection.places

    @asynccontextmanager
    async def served(self):
        port = self.server.add_insecure_port(self._address)
        await self.server.start()
        try:
            yield self._address if self._address.startswith("unix:") else f"127.0.0.1:{port}"
        finally:
            await self.server.stop(None)


def begun(channel, metadata=None):
    """Return a stream without a question yet."""
    return reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(metadata=metadata, timeout=60)


async def asked(stream):
    """Ask for the list; return the names of the services."""
    await stream.write(LIST)
    return [service.name for service in (await stream.read()).list_services_response.service]


async def refusal(channel, metadata=None):
    """Return code and text of a stream that is refused before a question."""
    stream = begun(channel, metadata)
    return await stream.code(), await stream.details()


@pytest.mark.parametrize(
    ("address", "near"),
    [
        ("unix:/run/x.sock", True),
        ("unix-abstract:x", True),
        ("127.0.0.1:50051", True),
        ("127.8.8.8:0", True),
        ("[::1]:50051", True),
        ("localhost:50051", True),
        ("0.0.0.0:50051", False),
        ("[::]:50051", False),
        (":50051", False),
        ("10.0.0.7:50051", False),
        ("localhost.example.org:50051", False),
        ("inference:50051", False),
    ],
)
def test_unix_sockets_and_loopback_addresses_are_near(address, near):
    assert is_near(address) is near


@pytest.mark.parametrize("place", ["loopback", "unix"])
async def test_services_are_listed_and_described_on_a_near_address(place, tmp_path):
    address = "127.0.0.1:0" if place == "loopback" else f"unix:{tmp_path}/x.sock"
    async with Described(address=address).served() as at, grpc.aio.insecure_channel(at) as channel:
        stream = begun(channel)
        assert await asked(stream) == ["any.Service", "grpc.reflection.v1alpha.ServerReflection"]
        symbol = reflection_pb2.ServerReflectionRequest(file_containing_symbol="grpc.reflection.v1alpha.ServerReflection")
        await stream.write(symbol)
        assert (await stream.read()).file_descriptor_response.file_descriptor_proto
        await stream.done_writing()
        assert await stream.code() is grpc.StatusCode.OK


@pytest.mark.parametrize(("choice", "address"), [("auto", "0.0.0.0:0"), ("off", "127.0.0.1:0"), ("off", "0.0.0.0:0")])
async def test_another_address_or_the_setting_off_is_refused_with_the_setting(choice, address):
    async with Described(choice=choice, address=address).served() as at, grpc.aio.insecure_channel(at) as channel:
        code, text = await refusal(channel)
        assert (code, "set reflection=on" in text) == (grpc.StatusCode.UNIMPLEMENTED, True)


async def test_the_setting_on_describes_the_services_on_any_address():
    async with Described(choice="on", address="0.0.0.0:0").served() as at, grpc.aio.insecure_channel(at) as channel:
        assert "any.Service" in await asked(begun(channel))


async def test_with_tokens_reflection_requires_one_of_any_role_and_strangers_take_no_place():
    async with Described(tokens=Role, streams=2).served() as at, grpc.aio.insecure_channel(at) as channel:
        for _ in range(5):
            for metadata in (None, token_metadata("wrong-token-of-nobody")):
                assert (await refusal(channel, metadata))[0] is grpc.StatusCode.UNAUTHENTICATED
        for token in TOKENS.values():
            stream = begun(channel, token_metadata(token))
            assert "any.Service" in await asked(stream)
            await stream.done_writing()
            assert await stream.code() is grpc.StatusCode.OK


async def test_a_stream_beyond_the_share_of_an_address_is_refused_and_the_others_live():
    described = Described(streams=4)
    async with described.served() as at, grpc.aio.insecure_channel(at) as channel:
        held = [begun(channel) for _ in range(2)]
        for stream in held:
            await asked(stream)
        code, text = await refusal(channel)
        assert (code, text.startswith("2 reflection streams")) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        assert described.refused == {"calls": 1}
        for stream in held:
            assert "any.Service" in await asked(stream)
        assert await channel.unary_unary(ECHO)(b"others", timeout=60) == b"others"
        held[0].cancel()
        await until(lambda: described.places.taken == 1)
        assert "any.Service" in await asked(begun(channel))


async def test_the_owner_of_a_unix_socket_has_every_place_and_no_more(tmp_path):
    described = Described(streams=3, address=f"unix:{tmp_path}/x.sock")
    async with described.served() as at, grpc.aio.insecure_channel(at) as channel:
        for _ in range(3):
            await asked(begun(channel))
        assert (await refusal(channel))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await channel.unary_unary(ECHO)(b"others", timeout=60) == b"others"


async def test_a_silent_stream_ends_after_its_time_and_frees_its_place():
    described = Described(streams=2, stream_s=0.05)
    async with described.served() as at, grpc.aio.insecure_channel(at) as channel:
        code, text = await refusal(channel)
        assert (code, "ends after 0.05 s" in text) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        assert described.refused == {"slow": 1}
        await until(lambda: described.places.taken == 0)
        assert await channel.unary_unary(ECHO)(b"others", timeout=60) == b"others"


async def test_clients_that_read_no_answer_hold_the_share_of_their_address_until_their_connection_ends():
    described = Described(streams=4, stream_s=0.1)
    async with described.served() as at:
        question = LIST.SerializeToString()
        asking = frame(DATA, 0, 1, b"\0" + struct.pack(">I", len(question)) + question)
        async with RawConnection.open(at, window=0) as deaf, RawConnection.open(at, window=0) as further:
            for connection in (deaf, further):
                connection.send(call(1, METHOD, None) + asking * 20)
            await until(lambda: described.refused["slow"] == 2)
            assert described.places.taken == 2
            async with grpc.aio.insecure_channel(at) as channel:
                assert await channel.unary_unary(ECHO)(b"others", timeout=60) == b"others"
                assert (await refusal(channel))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        await until(lambda: described.places.taken == 0)


async def test_a_body_that_never_arrives_ends_with_the_time_of_its_stream():
    described = Described(streams=2, stream_s=0.1)
    async with described.served() as at, RawConnection.open(at) as slow:
        slow.send(call(1, METHOD, None) + frame(DATA, 0, 1, b"\0" + struct.pack(">I", 60_000) + b"x" * 100))
        await slow.read_until(HEADERS, 1)
        assert described.refused == {"slow": 1}
        await until(lambda: described.places.taken == 0)


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"\x3a" + b"\xff" * 20, "not a ServerReflectionRequest"), (b"x" * (SMALL_BYTES + 1), f"want at most {SMALL_BYTES}")],
)
async def test_a_question_that_is_malformed_or_too_long_is_refused(content, text):
    async with Described().served() as at, grpc.aio.insecure_channel(at) as channel:
        stream = channel.stream_stream(METHOD)(timeout=60)
        await stream.write(content)
        assert await stream.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert text in await stream.details()


async def test_a_stream_has_a_number_of_questions():
    async with Described().served() as at, grpc.aio.insecure_channel(at) as channel:
        stream = begun(channel)
        for _ in range(MOST_QUESTIONS):
            assert await asked(stream)
        assert await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "begin another" in await stream.details()


async def test_a_flood_of_streams_is_refused_and_the_server_serves_on():
    described = Described(streams=4)
    async with described.served() as at, grpc.aio.insecure_channel(at) as channel:
        held = [begun(channel), begun(channel)]
        for stream in held:
            await asked(stream)
        codes = Counter(code for code, _ in await asyncio.gather(*(refusal(channel) for _ in range(200))))
        assert codes == {grpc.StatusCode.RESOURCE_EXHAUSTED: 200}
        assert described.refused == {"calls": 200}
        assert await channel.unary_unary(ECHO)(b"others", timeout=60) == b"others"
        for stream in held:
            assert "any.Service" in await asked(stream)


async def test_streams_end_when_reflection_is_closed_and_further_ones_are_refused():
    described = Described()
    async with described.served() as at, grpc.aio.insecure_channel(at) as channel:
        held = [begun(channel) for _ in range(3)]
        for stream in held:
            await asked(stream)
        described.reflection.close()
        assert [await stream.code() for stream in held] == [grpc.StatusCode.UNAVAILABLE] * 3
        assert (await refusal(channel))[0] is grpc.StatusCode.UNAVAILABLE
        await until(lambda: described.places.taken == 0)


class Replying:
    """A context whose one question has come; notes when the stream is aborted."""

    def __init__(self):
        self.questions = asyncio.Queue()
        self.aborted = []

    def peer(self):
        return "unix:"

    def add_done_callback(self, callback):
        pass

    async def read(self):
        return await self.questions.get()

    async def abort(self, code, text):
        self.aborted.append(code)
        self.questions.put_nowait(grpc.aio.EOF)
        raise grpc.aio.AbortError


async def test_a_stream_that_sends_a_reply_is_aborted_before_its_next_read_and_one_that_reads_at_once():
    described, context = Described(), Replying()
    context.questions.put_nowait(LIST.SerializeToString())
    replies = described.reflection.answer(None, context)
    await anext(replies)
    described.reflection.close()
    await asyncio.sleep(0)
    assert context.aborted == []  # grpc would lose the status: the reply is being sent
    with pytest.raises(grpc.aio.AbortError):
        await anext(replies)
    assert context.aborted == [grpc.StatusCode.UNAVAILABLE]

    described, context = Described(), Replying()
    waiting = asyncio.ensure_future(anext(described.reflection.answer(None, context), None))
    await until(lambda: context.questions._getters)
    described.reflection.close()
    assert await asyncio.wait_for(waiting, ENDLESS_S) is None
    assert context.aborted == [grpc.StatusCode.UNAVAILABLE]


@pytest.mark.parametrize("front_ends", [0, pytest.param(2, marks=pytest.mark.slow)])
async def test_a_silent_stream_does_not_hold_up_a_server_that_drains(open_wire, front_ends):
    async with open_wire(front_ends=front_ends) as wire:
        stream = begun(wire.channel)
        await asked(stream)
        await asyncio.wait_for(wire.server.drain(ENDLESS_S), ENDLESS_S / 2)
        assert await stream.code() is grpc.StatusCode.UNAVAILABLE


async def test_the_inference_server_lists_its_services_by_default_and_not_to_other_machines(open_wire, address):
    for near in ("127.0.0.1:0", address):
        async with open_wire(address=near) as wire:
            assert set(await asked(begun(wire.channel))) >= {"inference.GRPCInferenceService", "zerofleet.v1.Evaluation"}
    async with (
        open_wire(address="0.0.0.0:0") as wire,
        grpc.aio.insecure_channel(f"127.0.0.1:{wire.server.address.rpartition(':')[2]}") as other,
    ):
        assert (await refusal(other))[0] is grpc.StatusCode.UNIMPLEMENTED
    async with open_wire(reflection="off") as wire:
        assert (await refusal(wire.channel))[0] is grpc.StatusCode.UNIMPLEMENTED
