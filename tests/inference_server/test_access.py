"""Who may call the server: tokens and roles, local addresses, reflection."""

from __future__ import annotations

import grpc
import pytest
from fake_network import MODEL, refusal
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tritonclient.grpc import service_pb2 as messages

from zerofleet.errors import PermissionRefused
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.control import ModelControl
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.rpc.evaluation_client import EvaluationClient


async def test_only_holders_of_the_token_change_models(open_wire, publish):
    publish()
    async with open_wire(token="s3cret") as wire:
        for token in (None, "s3cre", "s3crets", "wrong", "S3CRET"):
            async with ModelControl(wire.server.address, token=token) as control:
                for call in (control.serve(MODEL, [1]), control.unload(MODEL), control.loaded()):
                    with pytest.raises(PermissionRefused, match="token") as caught:
                        await call
                    assert "s3cret" not in str(caught.value)
        async with ModelControl(wire.server.address, token="s3cret") as control:
            await control.serve(MODEL, [1])
        async with ModelControl(wire.server.address) as control:
            assert await control.ready(MODEL, 1)


async def test_with_tokens_every_call_requires_a_role_that_may_make_it(open_wire, publish, positions):
    publish()
    tokens = {role: role.ljust(24, "x") for role in ("worker", "trainer", "evaluator", "operator")}
    batch = LeafBatch(positions[0][:4], positions[1][:4])
    async with open_wire(tokens="\n".join(f"{role}: {token}" for role, token in tokens.items())) as wire:
        address = wire.server.address
        for role in ("worker", "trainer", "evaluator"):
            async with ModelControl(address, token=tokens[role]) as control:
                with pytest.raises(PermissionRefused, match=f"role {role}"):
                    await control.serve(MODEL, [1])
        async with ModelControl(address, token=tokens["operator"]) as control:
            await control.serve(MODEL, [1])
        for role in ("worker", "evaluator"):
            async with KServeEvaluator(address, MODEL, token=tokens[role]) as evaluator:
                assert len((await evaluator.evaluate(batch, version=1)).value) == len(batch)
        for token in (None, "wrong", tokens["trainer"]):
            async with KServeEvaluator(address, MODEL, token=token) as evaluator:
                with pytest.raises(PermissionRefused, match="token"):
                    await evaluator.evaluate(batch, version=1)
            async with EvaluationClient(address, token=token) as client:
                with pytest.raises(PermissionRefused, match="token"):
                    await client.evaluate(MODEL)
        async with EvaluationClient(address, token=tokens["worker"]) as client:
            with pytest.raises(PermissionRefused, match="role worker"):
                await client.evaluate(MODEL)
        async with EvaluationClient(address, token=tokens["evaluator"]) as client:
            assert (await client.evaluate(MODEL)).model_version == 1


async def test_a_missing_token_is_unauthenticated(open_wire):
    async with open_wire(token="s3cret") as wire:
        code, _ = await refusal(wire.stub.RepositoryIndex(messages.RepositoryIndexRequest()))
        assert code is grpc.StatusCode.UNAUTHENTICATED
        binary = (("x-zerofleet-token", "t\u00f6ken".encode("ascii", "ignore").decode()),)
        code, _ = await refusal(wire.stub.RepositoryIndex(messages.RepositoryIndexRequest(), metadata=binary))
        assert code is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("peer", "local"),
    [
        ("unix:", True),
        ("unix:/run/x.sock", True),
        ("ipv4:127.0.0.1:5555", True),
        ("ipv6:%5B::1%5D:5555", True),
        ("ipv6:[::1]:5555", True),
        ("ipv6:%5B::ffff:127.0.0.1%5D:5555", True),
        ("ipv4:10.0.0.7:5555", False),
        ("ipv6:%5B2001:db8::1%5D:5555", False),
        ("ipv6:%5B::ffff:10.0.0.7%5D:5555", False),
        ("vsock:2:3", False),
        ("", False),
    ],
)
def test_only_addresses_of_this_machine_are_local(peer, local):
    from zerofleet.rpc.security.interceptors import is_local  # noqa: PLC0415

    assert is_local(peer) is local


async def test_reflection_is_off_unless_asked_for(open_wire):
    async with open_wire(reflection=True) as wire:
        assert "inference.GRPCInferenceService" in await _listed_services(wire)
    async with open_wire() as wire:
        with pytest.raises(grpc.aio.AioRpcError, match="UNIMPLEMENTED"):
            await _listed_services(wire)


async def _listed_services(wire) -> list[str]:
    stub = reflection_pb2_grpc.ServerReflectionStub(wire.channel)
    call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    replies = [reply async for reply in call]
    return [service.name for service in replies[0].list_services_response.service]


async def test_a_malformed_request_of_reflection_is_refused_and_logs_no_traceback(open_wire, caplog):
    async with open_wire(reflection=True) as wire:
        call = wire.channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")(iter([b"\xff"]))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert [record for record in caplog.records if record.exc_info] == []
