import asyncio

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from structlog.testing import capture_logs

from gatekeeper.service import open_gatekeeper
from zerofleet.contracts.wire import gatekeeper_pb2 as wire
from zerofleet.contracts.wire import gatekeeper_pb2_grpc as stubs
from zerofleet.errors import ConfigurationError, ModelNotFound, PermissionRefused
from zerofleet.rpc.failures import REQUEST_ID
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.rpc.requests import outgoing
from zerofleet.rpc.security.tokens import token_metadata
from zerofleet.service.logs import placed
from zerofleet.service.settings import read_settings

MODEL = "tic_tac_toe"
TOKENS = {role: role.ljust(24, "x") for role in ("worker", "trainer", "evaluator", "operator")}


@pytest.fixture
async def guarded(settings_of, inference):
    """The address of a gatekeeper that asks for tokens."""
    text = "\n".join(f"{role}: {token}" for role, token in TOKENS.items())
    async with open_gatekeeper(settings_of(tokens=text), evaluator=inference, control=inference) as gatekeeper:
        yield gatekeeper.address


async def test_only_the_operator_promotes_and_rolls_back(guarded, models):
    version, _ = models.publish()
    for token in (None, "wrong", *(TOKENS[role] for role in ("worker", "trainer", "evaluator"))):
        async with GatekeeperClient(guarded, token=token) as client:
            with pytest.raises(PermissionRefused, match="token"):
                await client.promote(MODEL, version, reason="mine")
            with pytest.raises(PermissionRefused, match="token"):
                await client.rollback(MODEL, reason="mine")
    async with GatekeeperClient(guarded, token=TOKENS["operator"]) as client:
        with pytest.raises(ModelNotFound):
            await client.rollback(MODEL, reason="there is none")


async def test_the_trainer_submits_and_a_worker_does_not(guarded, models):
    version, sha256 = models.publish()
    async with GatekeeperClient(guarded, token=TOKENS["worker"]) as client:
        with pytest.raises(PermissionRefused, match="role worker"):
            await client.submit(MODEL, version, sha256)
    async with GatekeeperClient(guarded, token=TOKENS["trainer"]) as client:
        assert (await client.submit(MODEL, version, sha256)).version == version


async def test_a_watcher_without_a_token_gets_an_error_instead_of_retrying(guarded):
    async with GatekeeperClient(guarded) as client:
        with pytest.raises(PermissionRefused, match="needs a token"):
            await anext(client.watch(MODEL))
    async with GatekeeperClient(guarded, token=TOKENS["worker"]) as client:
        assert await client.champion(MODEL) is None


def test_invalid_tokens_are_a_setting_error_that_does_not_show_them(settings_of, tmp_path):
    (tmp_path / "tokens").write_text("root: swordfish-swordfish")
    with pytest.raises(ConfigurationError, match="tokens: line 1 of the tokens has no valid role") as caught:
        read_settings(type(settings_of()), [], {"ZEROFLEET_TOKENS_FILE": str(tmp_path / "tokens")})
    assert "swordfish" not in str(caught.value)


async def test_gatekeeper_and_inference_server_share_the_name_of_the_operators_calls(guarded, models, inference):
    asked_under = []
    serve = inference.serve

    async def note(model, versions):
        asked_under.append(dict(outgoing(())).get(REQUEST_ID))
        await serve(model, versions)

    inference.serve = note
    version, _ = models.publish()
    channel = grpc.aio.insecure_channel(guarded)
    async with channel:
        request = wire.PromoteRequest(game=MODEL, version=version, reason="mine")
        metadata = (*token_metadata(TOKENS["operator"]), (REQUEST_ID, "change-42"))
        call = stubs.GatekeeperStub(channel).Promote(request, metadata=metadata, timeout=60)
        with capture_logs([placed]) as lines:
            assert (await call).version == version
        assert dict(await call.trailing_metadata())[REQUEST_ID] == "change-42"
    assert asked_under == ["change-42"]
    (changed,) = [line for line in lines if line["event"] == "champion.changed"]
    assert (changed["request_id"], changed["version"]) == ("change-42", version)


@pytest.mark.parametrize(("choice", "code"), [("auto", grpc.StatusCode.OK), ("off", grpc.StatusCode.UNIMPLEMENTED)])
async def test_the_gatekeeper_describes_its_service_on_loopback_unless_it_is_turned_off(settings_of, inference, choice, code):
    async with (
        open_gatekeeper(settings_of(reflection=choice), evaluator=inference, control=inference) as gatekeeper,
        grpc.aio.insecure_channel(gatekeeper.address) as channel,
    ):
        stream = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(timeout=60)
        if code is grpc.StatusCode.OK:
            await stream.write(reflection_pb2.ServerReflectionRequest(list_services=""))
            names = [service.name for service in (await stream.read()).list_services_response.service]
            assert names == ["grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection", "zerofleet.v1.Gatekeeper"]
            await stream.done_writing()
        assert await stream.code() is code


async def test_a_silent_stream_of_reflection_does_not_hold_up_a_gatekeeper_that_drains(settings_of, inference):
    async with (
        open_gatekeeper(settings_of(), evaluator=inference, control=inference) as gatekeeper,
        grpc.aio.insecure_channel(gatekeeper.address) as channel,
    ):
        stream = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(timeout=120)
        await stream.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        await stream.read()
        await asyncio.wait_for(gatekeeper.drain(120.0), 60)
        assert await stream.code() is grpc.StatusCode.UNAVAILABLE
