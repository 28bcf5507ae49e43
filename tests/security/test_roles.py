"""Who may call what: every call of the table with every role, with none, and with a token that is none."""

import contextlib

import grpc
import pytest

from zerofleet.rpc.call_metrics import CallMetrics
from zerofleet.rpc.errors import ErrorInterceptor
from zerofleet.rpc.failures import REQUEST_ID
from zerofleet.rpc.requests import RequestInterceptor
from zerofleet.rpc.security.interceptors import RoleInterceptor
from zerofleet.rpc.security.limits import MAX_METADATA_BYTES, server_limits
from zerofleet.rpc.security.tokens import PERMISSIONS, Role, TokenTable, token_metadata
from zerofleet.telemetry import metrics

TOKENS = {role: f"{role}-".ljust(24, "x") for role in Role}
STREAMS = {"WatchChampion"}


def _handlers():
    """Return handlers of every call in the table that answer nothing, as the servers have them."""

    async def answer(request, context):
        return b"done"

    async def answers(request, context):
        yield b"done"

    by_service = {}
    for method in (*PERMISSIONS, "/grpc.health.v1.Health/Check", "/zerofleet.v1.Gatekeeper/Later"):
        service, name = method.lstrip("/").split("/")
        make, behaviour = (
            (grpc.unary_stream_rpc_method_handler, answers)
            if name in STREAMS
            else (grpc.unary_unary_rpc_method_handler, answer)
        )
        by_service.setdefault(service, {})[name] = make(behaviour)
    return [grpc.method_handlers_generic_handler(service, methods) for service, methods in by_service.items()]


@contextlib.asynccontextmanager
async def _server(tokens, admin_token=None, limits=(), handlers=None):
    server = grpc.aio.server(
        interceptors=[
            RequestInterceptor(),
            CallMetrics(),
            RoleInterceptor(TokenTable(tokens), admin_token=admin_token),
            ErrorInterceptor(),
        ],
        options=[("grpc.so_reuseport", 0), *limits],
    )
    server.add_generic_rpc_handlers(_handlers())
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("any.Service", handlers or {})])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(None)


async def _code(channel, method, metadata):
    try:
        if method.rpartition("/")[2] in STREAMS:
            assert [reply async for reply in channel.unary_stream(method)(b"", metadata=metadata, timeout=60)] == [b"done"]
        else:
            assert await channel.unary_unary(method)(b"", metadata=metadata, timeout=60) == b"done"
    except grpc.aio.AioRpcError as failure:
        if any(token in (failure.details() or "") for token in TOKENS.values()):
            raise AssertionError("the answer shows a token") from None
        return failure.code()
    return grpc.StatusCode.OK


async def test_calls_that_take_a_stream_of_requests_are_guarded_as_well():
    async def sum_up(requests, context):
        return b"".join([request async for request in requests])

    async def echo(requests, context):
        async for request in requests:
            yield request

    calls = {"Sum": grpc.stream_unary_rpc_method_handler(sum_up), "Echo": grpc.stream_stream_rpc_method_handler(echo)}
    operator = token_metadata(TOKENS[Role.OPERATOR])
    async with _server({token: role for role, token in TOKENS.items()}, handlers=calls) as channel:
        assert await channel.stream_unary("/any.Service/Sum")(iter([b"a", b"b"]), metadata=operator, timeout=60) == b"ab"
        echoed = channel.stream_stream("/any.Service/Echo")(iter([b"a", b"b"]), metadata=operator, timeout=60)
        assert [reply async for reply in echoed] == [b"a", b"b"]
        for metadata, code in (
            ((), grpc.StatusCode.UNAUTHENTICATED),
            (token_metadata(TOKENS[Role.WORKER]), grpc.StatusCode.PERMISSION_DENIED),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await channel.stream_unary("/any.Service/Sum")(iter([b"a"]), metadata=metadata, timeout=60)
            assert refusal.value.code() is code


async def test_a_role_may_make_the_calls_of_its_row_and_no_others():
    async with _server({token: role for role, token in TOKENS.items()}) as channel:
        for method, allowed in PERMISSIONS.items():
            for role, token in TOKENS.items():
                wanted = grpc.StatusCode.OK if role in allowed else grpc.StatusCode.PERMISSION_DENIED
                assert await _code(channel, method, token_metadata(token)) is wanted, (method, role)


async def test_permission_of_one_caller_is_not_cached_for_the_next():
    promote = "/zerofleet.v1.Gatekeeper/Promote"
    async with _server({token: role for role, token in TOKENS.items()}) as channel:
        for role, wanted in 3 * [(Role.OPERATOR, grpc.StatusCode.OK), (Role.WORKER, grpc.StatusCode.PERMISSION_DENIED)]:
            assert await _code(channel, promote, token_metadata(TOKENS[role])) is wanted
            assert await _code(channel, promote, ()) is grpc.StatusCode.UNAUTHENTICATED


async def test_no_call_is_made_without_a_token_or_with_a_wrong_one():
    async with _server({token: role for role, token in TOKENS.items()}) as channel:
        for method in (*PERMISSIONS, "/zerofleet.v1.Gatekeeper/Later"):
            for metadata in ((), token_metadata("wrong"), token_metadata(TOKENS[Role.OPERATOR][:-1])):
                assert await _code(channel, method, metadata) is grpc.StatusCode.UNAUTHENTICATED, method


async def test_a_second_token_after_a_wrong_one_does_not_count():
    async with _server({token: role for role, token in TOKENS.items()}) as channel:
        metadata = (*token_metadata("wrong"), *token_metadata(TOKENS[Role.OPERATOR]))
        assert await _code(channel, "/zerofleet.v1.Gatekeeper/Promote", metadata) is grpc.StatusCode.UNAUTHENTICATED


async def test_a_token_is_valid_for_any_holder_any_number_of_times_until_it_is_replaced():
    """What a thief or somebody who repeats what he read can do ends with the restart that leaves the token out."""
    method, old, new = "/zerofleet.v1.Gatekeeper/Promote", "o" * 24, "n" * 24
    works, ended = [grpc.StatusCode.OK] * 2, [grpc.StatusCode.UNAUTHENTICATED] * 2
    for known, of_old, of_new in (([old], works, ended), ([old, new], works, works), ([new], ended, works)):
        async with _server(dict.fromkeys(known, Role.OPERATOR)) as channel:
            assert [await _code(channel, method, token_metadata(old)) for _ in range(2)] == of_old
            assert [await _code(channel, method, token_metadata(new)) for _ in range(2)] == of_new


async def test_health_checks_need_no_token():
    async with _server({token: role for role, token in TOKENS.items()}) as channel:
        assert await _code(channel, "/grpc.health.v1.Health/Check", ()) is grpc.StatusCode.OK


async def test_without_tokens_this_machine_may_make_every_call():
    async with _server({}) as channel:
        for method in PERMISSIONS:
            assert await _code(channel, method, ()) is grpc.StatusCode.OK


async def test_without_tokens_another_machine_may_not_make_the_operators_calls(monkeypatch):
    monkeypatch.setattr("zerofleet.rpc.security.interceptors.is_local", lambda peer: False)
    async with _server({}) as channel:
        for method, allowed in PERMISSIONS.items():
            wanted = grpc.StatusCode.UNAUTHENTICATED if allowed == {Role.OPERATOR} else grpc.StatusCode.OK
            assert await _code(channel, method, ()) is wanted, method


async def test_with_an_operators_token_only_the_operators_calls_require_it():
    async with _server({}, admin_token="s3cret") as channel:
        for method, allowed in PERMISSIONS.items():
            wanted = grpc.StatusCode.UNAUTHENTICATED if allowed == {Role.OPERATOR} else grpc.StatusCode.OK
            assert await _code(channel, method, ()) is wanted, method
            assert await _code(channel, method, token_metadata("s3cret")) is grpc.StatusCode.OK, method


async def test_oversized_metadata_is_refused_and_the_server_continues():
    async with _server({}, limits=server_limits(receive_bytes=1 << 16, send_bytes=1 << 16, connections=64)) as channel:
        huge = (("x-filler", "x" * (4 * MAX_METADATA_BYTES)),)
        assert await _code(channel, "/zerofleet.v1.Gatekeeper/GetChampion", huge) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await _code(channel, "/zerofleet.v1.Gatekeeper/GetChampion", ()) is grpc.StatusCode.OK


async def test_a_message_over_the_limit_is_refused_and_the_server_continues():
    async with _server({}, limits=server_limits(receive_bytes=1 << 16, send_bytes=1 << 16, connections=64)) as channel:
        call = channel.unary_unary("/zerofleet.v1.Gatekeeper/Promote")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"x" * (1 << 17), timeout=60)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await call(b"x", timeout=60) == b"done"


class Keeping(grpc.aio.ServerInterceptor):
    """Keeps the handler of a method for every later call, as an interceptor may that wants to be quick."""

    def __init__(self):
        self.kept = {}

    async def intercept_service(self, continuation, handler_call_details):
        method = handler_call_details.method
        if method not in self.kept:
            self.kept[method] = await continuation(handler_call_details)
        return self.kept[method]


async def test_permission_of_one_caller_does_not_extend_to_the_next_with_the_same_handler():
    guard = RoleInterceptor(TokenTable({token: role for role, token in TOKENS.items()}))
    server = grpc.aio.server(interceptors=[Keeping(), guard], options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers(_handlers())
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            for method, allowed in PERMISSIONS.items():
                first = token_metadata(TOKENS[next(iter(sorted(allowed)))])
                assert await _code(channel, method, first) is grpc.StatusCode.OK
                assert await _code(channel, method, ()) is grpc.StatusCode.UNAUTHENTICATED
                for role in set(Role) - allowed:
                    assert await _code(channel, method, token_metadata(TOKENS[role])) is grpc.StatusCode.PERMISSION_DENIED
    finally:
        await server.stop(None)


async def test_a_refused_call_has_an_id_and_is_counted_under_its_method():
    wanted = {}
    for method in PERMISSIONS:
        service, name = method.lstrip("/").split("/")
        kind = "SERVER_STREAMING" if name in STREAMS else "UNARY"
        wanted[method] = metrics.GRPC_HANDLED.labels(kind, service, name, "UNAUTHENTICATED")
    before = {method: counter._value.get() for method, counter in wanted.items()}
    async with _server({token: role for role, token in TOKENS.items()}) as channel:
        for method in PERMISSIONS:
            call = channel.unary_stream(method)(b"", metadata=((REQUEST_ID, "mine"),), timeout=60)
            assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
            assert dict(await call.trailing_metadata())[REQUEST_ID] == "mine"
    assert {method: counter._value.get() - before[method] for method, counter in wanted.items()} == dict.fromkeys(wanted, 1)
