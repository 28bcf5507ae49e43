"""Versions under load, health, statistics, who may change models, and the end of a server."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

import grpc
import numpy as np
import pytest
from fake_network import MODEL, expected_value, infer_request, refusal, until
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from structlog.testing import capture_logs
from tritonclient.grpc import service_pb2 as messages

from inference_server import kserve
from inference_server import registry as registry_module
from inference_server.server import open_server
from inference_server.settings import ServerSettings
from zerofleet.errors import ConfigurationError, CorruptModel, InvalidRequest, ModelNotFound, PermissionRefused
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.control import ModelControl
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.rpc.evaluation_client import EvaluationClient
from zerofleet.service.logs import placed
from zerofleet.telemetry import metrics

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


async def health_of(wire, name: str) -> int:
    reply = await health_pb2_grpc.HealthStub(wire.channel).Check(health_pb2.HealthCheckRequest(service=name), timeout=60)
    return reply.status


class Load:
    """Clients that ask without pause and check every answer."""

    def __init__(self, wire, positions, *, version: str = "") -> None:
        self._wire, self._positions, self._version = wire, positions, version
        self.answered_by: list[str] = []
        self.stop = asyncio.Event()

    async def client(self, first_row: int) -> None:
        states, legal = (array[first_row : first_row + 8] for array in self._positions)
        while not self.stop.is_set():
            version, value = await self._wire.infer(states, legal, version=self._version)
            np.testing.assert_array_equal(value, expected_value(states, legal, int(version)))
            self.answered_by.append(version)

    async def until_answers(self, version: str) -> None:
        seen = len(self.answered_by)
        await until(lambda: version in self.answered_by[seen:])


async def test_versions_are_swapped_under_load_without_a_failed_request(wire, publish, positions):
    load = Load(wire, positions)
    async with ModelControl(wire.server.address) as control, asyncio.TaskGroup() as group:
        for client in range(6):
            group.create_task(load.client(client * 8))
        await load.until_answers("1")
        for _ in range(3):
            version = publish()
            await control.serve(MODEL, [version])
            await load.until_answers(str(version))
        load.stop.set()
    assert sorted(set(load.answered_by)) == ["1", "2", "3", "4"]
    assert load.answered_by == sorted(load.answered_by)


async def test_a_broken_candidate_leaves_the_old_version_serving(wire, publish, loader, positions):
    load = Load(wire, positions)
    broken = publish()
    loader.broken.add(broken)
    async with ModelControl(wire.server.address) as control, asyncio.TaskGroup() as group:
        for client in range(4):
            group.create_task(load.client(client * 8))
        await load.until_answers("1")
        with pytest.raises(CorruptModel, match="broken on purpose"):
            await control.serve(MODEL, [1, broken])
        await load.until_answers("1")
        assert await control.loaded() == {MODEL: [1]}
        load.stop.set()
    assert set(load.answered_by) == {"1"}


async def test_changed_files_are_refused_before_they_are_loaded(wire, publish, store, loader):
    broken = publish()
    path = store.directory(MODEL, broken) / "model.pt"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    async with ModelControl(wire.server.address) as control:
        with pytest.raises(CorruptModel, match="sha256"):
            await control.serve(MODEL, [broken])
        assert await control.ready(MODEL, 1)
        assert not await control.ready(MODEL, broken)
    assert broken not in loader.networks


async def test_a_retired_version_answers_queued_requests_and_no_new_ones(wire, publish, loader, positions):
    states, legal = positions[0][:4], positions[1][:4]
    publish()
    loader.gate.clear()
    async with ModelControl(wire.server.address) as control, asyncio.TaskGroup() as group:
        running = group.create_task(wire.infer(states, legal, version="1"))
        assert await asyncio.to_thread(loader.entered.wait, 60)
        queued = group.create_task(wire.infer(states, legal, version="1"))
        await until(lambda: wire.waiting_rows() == 4)
        await control.serve(MODEL, [2])
        code, details = await refusal(wire.infer(states, legal, version="1"))
        assert (code, details) == (
            grpc.StatusCode.NOT_FOUND,
            f"version 1 of {MODEL} is not served; served versions: 2",
        )
        loader.gate.set()
    assert (running.result()[0], queued.result()[0]) == ("1", "1")
    np.testing.assert_array_equal(queued.result()[1], expected_value(states, legal, 1))


async def test_several_versions_are_served_side_by_side(wire, publish, positions):
    publish()
    async with ModelControl(wire.server.address) as control:
        await control.serve(MODEL, [1, 2])
        assert await control.loaded() == {MODEL: [1, 2]}
    states, legal = positions[0][:8], positions[1][:8]
    answers = await asyncio.gather(*(wire.infer(states, legal, version=str(1 + i % 2)) for i in range(20)))
    for i, (version, value) in enumerate(answers):
        assert version == str(1 + i % 2)
        np.testing.assert_array_equal(value, expected_value(states, legal, 1 + i % 2))
    assert (await wire.infer(states, legal))[0] == "2"


async def test_a_load_does_not_hold_up_evaluations(wire, publish, loader, positions):
    publish()
    loader.hold.clear()
    loader.loading.clear()
    async with ModelControl(wire.server.address) as control, asyncio.TaskGroup() as group:
        change = group.create_task(control.serve(MODEL, [2]))
        assert await asyncio.to_thread(loader.loading.wait, 60)
        assert (await wire.infer(positions[0][:1], positions[1][:1]))[0] == "1"
        loader.hold.set()
        await change
    assert (await wire.infer(positions[0][:1], positions[1][:1]))[0] == "2"


async def test_a_load_without_versions_selects_the_champion_or_else_the_newest(wire, publish, store):
    newest = [publish(), publish()][-1]
    load = messages.RepositoryModelLoadRequest(model_name=MODEL)
    await wire.stub.RepositoryModelLoad(load, timeout=60)
    async with ModelControl(wire.server.address) as control:
        assert await control.loaded() == {MODEL: [newest]}
        store.write_champion(MODEL, 2, epoch=1, reason="test")
        await wire.stub.RepositoryModelLoad(load, timeout=60)
        assert await control.loaded() == {MODEL: [2]}


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"config": "{"}, "is not a model configuration"),
        ({"config": "[]"}, "is not a model configuration"),
        ({"config": '{"versionPolicy": {"specific": {"versions": 7}}}'}, "is not a model configuration"),
        ({"config": '{"versionPolicy": {"specific": {"versions": ["../1"]}}}'}, "is not a version"),
        ({"config": '{"versionPolicy": {"specific": {"versions": []}}}'}, "names no versions"),
        ({"config": '{"versionPolicy": {"latest": {"numVersions": 2}}}'}, "version policy 'latest' is not supported"),
        ({"config": '{"version_policy": {"all": {}}}'}, "version policy 'all' is not supported"),
        ({"config": "[" * 1_000}, "is not a model configuration"),
        ({"config": '{"versionPolicy":' * 1_000 + "1" + "}" * 1_000}, "is not a model configuration"),
        ({"file:1/model.py": "import os"}, "files are not accepted over gRPC"),
        ({"priority": "9"}, "unknown load parameter 'priority'; want config"),
    ],
)
async def test_a_load_with_unsupported_parameters_is_refused(wire, parameters, says):
    request = messages.RepositoryModelLoadRequest(model_name=MODEL)
    for name, text in parameters.items():
        request.parameters[name].string_param = text
    code, details = await refusal(wire.stub.RepositoryModelLoad(request, timeout=60))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert says in details


async def test_unknown_versions_and_too_many_are_refused(wire):
    async with ModelControl(wire.server.address) as control:
        with pytest.raises(ModelNotFound, match="no version 9"):
            await control.serve(MODEL, [9])
        with pytest.raises(ModelNotFound):
            await control.serve("go", [1])
        with pytest.raises(InvalidRequest, match="want 1 to 16"):
            await control.serve(MODEL, list(range(1, 100)))
        with pytest.raises(ModelNotFound):
            await control.unload("go")


async def test_unloading_a_model_ends_its_health_too(wire, positions):
    assert await health_of(wire, MODEL) == SERVING
    async with ModelControl(wire.server.address) as control:
        await control.unload(MODEL)
        assert await control.loaded() == {}
    assert await health_of(wire, MODEL) == NOT_SERVING
    assert (await refusal(wire.infer(positions[0][:1], positions[1][:1])))[0] is grpc.StatusCode.NOT_FOUND


async def test_a_server_without_models_is_alive_and_not_ready(open_wire):
    async with open_wire() as wire:
        assert (await wire.stub.ServerLive(messages.ServerLiveRequest())).live
        assert not (await wire.stub.ServerReady(messages.ServerReadyRequest())).ready
        assert not (await wire.stub.ModelReady(messages.ModelReadyRequest(name=MODEL))).ready
        assert await health_of(wire, "") == SERVING
        assert await health_of(wire, kserve.SERVICE) == NOT_SERVING
        code, _ = await refusal(health_of(wire, MODEL))
        assert code is grpc.StatusCode.NOT_FOUND


async def test_a_health_watch_reports_loading_and_unloading(wire, open_wire):
    watch = health_pb2_grpc.HealthStub(wire.channel).Watch(health_pb2.HealthCheckRequest(service=MODEL))
    assert (await watch.read()).status == SERVING
    async with ModelControl(wire.server.address) as control:
        await control.unload(MODEL)
    assert (await watch.read()).status == NOT_SERVING
    watch.cancel()


async def test_the_champions_of_the_store_are_served_from_the_start(open_wire, publish, store, loader, positions):
    publish()
    publish()
    store.write_champion(MODEL, 1, epoch=1, reason="test")
    async with open_wire() as wire:
        await wire.server.plane.registry.serve_champions()
        assert (await wire.infer(positions[0][:1], positions[1][:1]))[0] == "1"
        assert (await wire.stub.ServerReady(messages.ServerReadyRequest())).ready


async def test_a_broken_champion_does_not_keep_the_server_from_starting(open_wire, publish, store, loader):
    store.write_champion(MODEL, publish(), epoch=1, reason="test")
    loader.broken.add(1)
    async with open_wire() as wire:
        await wire.server.plane.registry.serve_champions()
        assert wire.server.plane.registry.models() == []


async def test_the_start_does_not_overrule_an_earlier_load_request(wire, publish):
    publish(), publish()
    registry = wire.server.plane.registry
    registry.store.write_champion(MODEL, 1, epoch=1, reason="test")
    async with ModelControl(wire.server.address) as control:
        await control.serve(MODEL, [2, 3])
        await registry.serve_champions()
        assert [version.version for version in registry.versions(MODEL)] == [2, 3]


async def test_model_metadata_and_configuration_describe_the_tensors(wire, publish):
    publish()
    await wire.server.plane.registry.serve(MODEL, [1, 2])
    about = await wire.stub.ModelMetadata(messages.ModelMetadataRequest(name=MODEL))
    assert list(about.versions) == ["1", "2"]
    described = [(t.name, t.datatype, list(t.shape)) for t in (*about.inputs, *about.outputs)]
    assert described == [
        ("state__0", "UINT8", [-1, 3]),
        ("legal__1", "INT16", [-1, 9]),
        ("policy__0", "FP16", [-1, 9]),
        ("value__1", "FP32", [-1, 2]),
    ]
    config = (await wire.stub.ModelConfig(messages.ModelConfigRequest(name=MODEL))).config
    assert (config.max_batch_size, list(config.version_policy.specific.versions)) == (1024, [1, 2])
    assert (await wire.stub.ServerMetadata(messages.ServerMetadataRequest())).name == "zerofleet"


async def test_only_requested_outputs_are_sent(wire, positions):
    request = infer_request(positions[0][:2], positions[1][:2])
    request.id = "mine"
    request.outputs.add(name="value__1")
    reply = await wire.stub.ModelInfer(request)
    assert ([output.name for output in reply.outputs], len(reply.raw_output_contents), reply.id) == (["value__1"], 1, "mine")


async def test_extra_heads_are_described_and_sent_on_request(wire, publish, positions):
    publish("plies_left", "opponents")
    await wire.server.plane.registry.serve(MODEL, [1, 2])
    about = await wire.stub.ModelMetadata(messages.ModelMetadataRequest(name=MODEL, version="2"))
    assert [(t.name, t.datatype, list(t.shape)) for t in about.outputs][2:] == [
        ("head__2", "FP32", [-1, 1]),
        ("head__3", "FP16", [-1, 9]),
    ]
    states, legal = positions[0][:3], positions[1][:3]
    request = infer_request(states, legal, version="2")
    everything = ["policy__0", "value__1", "head__2", "head__3"]
    assert [output.name for output in (await wire.stub.ModelInfer(request)).outputs] == everything
    for name in ("value__1", "head__2"):
        request.outputs.add(name=name)
    reply = await wire.stub.ModelInfer(request)
    assert [output.name for output in reply.outputs] == ["value__1", "head__2"]
    value, plies_left = (np.frombuffer(content, "<f4").reshape(3, -1) for content in reply.raw_output_contents)
    np.testing.assert_array_equal(value, expected_value(states, legal, 2))
    np.testing.assert_array_equal(plies_left, value[:, 1:])
    request.model_version = "1"
    code, says = await refusal(wire.stub.ModelInfer(request))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert says == "unknown output 'head__2'; this version has policy__0, value__1"


async def test_a_model_with_unknown_heads_is_not_served(wire, publish):
    for heads in (("mood",), ("plies_left", "plies_left")):
        with pytest.raises(
            CorruptModel, match="want policy, value, then some of opponents, plies_left, pool, action_values, once each"
        ):
            await wire.server.plane.registry.serve(MODEL, [publish(*heads)])


async def test_statistics_count_by_version(wire, publish, positions):
    publish()
    await wire.server.plane.registry.serve(MODEL, [1, 2])
    states, legal = positions[0][:8], positions[1][:8]
    for version in ("1", "1", "2"):
        await wire.infer(states, legal, version=version)
    await refusal(wire.infer(states, legal * 0, version="2"))
    reply = await wire.stub.ModelStatistics(messages.ModelStatisticsRequest(name=MODEL))
    first, second = reply.model_stats
    assert (first.version, first.inference_count, first.execution_count) == ("1", 16, 2)
    assert (first.inference_stats.success.count, first.inference_stats.fail.count) == (2, 0)
    assert (second.inference_stats.success.count, second.inference_stats.fail.count) == (1, 1)
    assert [(batch.batch_size, batch.compute_infer.count) for batch in first.batch_stats] == [(8, 2)]
    one = await wire.stub.ModelStatistics(messages.ModelStatisticsRequest(name=MODEL, version="2"))
    assert [stats.version for stats in one.model_stats] == ["2"]
    code, _ = await refusal(wire.stub.ModelStatistics(messages.ModelStatisticsRequest(name="go")))
    assert code is grpc.StatusCode.NOT_FOUND


async def test_calls_are_counted_by_code(wire, positions):
    def handled(code: str) -> float:
        labels = ("UNARY", "inference.GRPCInferenceService", "ModelInfer", code)
        return metrics.GRPC_HANDLED.labels(*labels)._value.get()

    before = handled("OK"), handled("INVALID_ARGUMENT")
    await wire.infer(positions[0][:1], positions[1][:1])
    await refusal(wire.infer(positions[0][:1], positions[1][:1] * 0))
    async with asyncio.timeout(10):
        while handled("INVALID_ARGUMENT") == before[1]:  # noqa: ASYNC110 - a refusal leaves before it is counted
            await asyncio.sleep(0)
    assert (handled("OK"), handled("INVALID_ARGUMENT")) == (before[0] + 1, before[1] + 1)


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


async def test_a_draining_server_completes_accepted_calls_and_refuses_new_ones(wire, loader, positions):
    states, legal = positions[0][:4], positions[1][:4]
    loader.gate.clear()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(wire.infer(states, legal))
        assert await asyncio.to_thread(loader.entered.wait, 60)
        draining = group.create_task(wire.server.drain(10.0))
        await until(lambda: wire.server.plane.draining)
        assert not wire.server.plane.ready()
        loader.gate.set()
        await draining
    np.testing.assert_array_equal(running.result()[1], expected_value(states, legal, 1))
    assert (await refusal(wire.infer(states, legal)))[0] is grpc.StatusCode.UNAVAILABLE


async def test_a_port_in_use_is_named_in_the_error(wire, store, loader):
    settings = ServerSettings(address=wire.server.address, model_store=store.root)
    with pytest.raises(ConfigurationError, match=f"cannot listen on {wire.server.address}"):
        async with open_server(settings, loader):
            raise AssertionError("it listens on a taken port")


async def test_a_socket_in_use_is_named_in_the_error_and_a_stale_one_is_replaced(tmp_path, store, loader):
    settings = ServerSettings(address=f"unix:{tmp_path}/s.sock", model_store=store.root)
    with closing(socket.socket(socket.AF_UNIX)) as stale:
        stale.bind(str(tmp_path / "s.sock"))
    async with open_server(settings, loader) as server:
        assert server.address == settings.address
        with pytest.raises(ConfigurationError, match="another server listens"):
            async with open_server(settings, loader):
                raise AssertionError("it took the socket over")


async def test_replies_and_errors_carry_the_request_id(wire, positions):
    request = infer_request(*positions)
    call = wire.stub.ModelInfer(request, metadata=(("x-request-id", "job-1"),), timeout=60)
    await call
    assert dict(await call.trailing_metadata())["x-request-id"] == "job-1"
    request.model_version = "7"
    with capture_logs([placed]) as lines:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await wire.stub.ModelInfer(request, metadata=(("x-request-id", "job-2"),), timeout=60)
        async with asyncio.timeout(20):
            while not any(line["event"] == "rpc.refused" for line in lines):  # noqa: ASYNC110 - it is logged once it is sent
                await asyncio.sleep(0)
    assert dict(refused.value.trailing_metadata())["x-request-id"] == "job-2"
    (line,) = [line for line in lines if line["event"] == "rpc.refused"]
    assert (line["request_id"], line["code"]) == ("job-2", "NOT_FOUND")


async def test_the_champion_answers_requests_without_a_version_and_a_candidate_only_to_its_number(wire, publish, positions):
    publish()
    registry = wire.server.plane.registry
    registry.store.write_champion(MODEL, 1, epoch=1, reason="test")
    await registry.serve(MODEL, [1, 2])
    states, legal = positions[0][:1], positions[1][:1]
    assert [(await wire.infer(states, legal, version=asked))[0] for asked in ("", "champion", "2", "1")] == ["1", "1", "2", "1"]
    async with EvaluationClient(wire.server.address) as client:
        answered = [(await client.evaluate(MODEL, model_version=asked)).model_version for asked in (0, "champion", 2)]
    assert answered == [1, 1, 2]


async def test_a_promotion_changes_who_answers_without_any_call(open_wire, publish, positions, monkeypatch):
    monkeypatch.setattr(registry_module, "CHAMPION_EVERY_S", 0.01)
    async with open_wire() as wire:
        publish(), publish()
        registry = wire.server.plane.registry
        registry.store.write_champion(MODEL, 1, epoch=1, reason="test")
        await registry.serve(MODEL, [1, 2])
        registry.store.write_champion(MODEL, 2, epoch=2, reason="test")
        await until(lambda: registry.resolve(MODEL, None).version == 2)


async def test_without_a_champion_among_the_served_versions_a_request_must_name_its_version(wire, publish):
    publish()
    registry = wire.server.plane.registry
    registry.store.write_champion(MODEL, 1, epoch=1, reason="test")
    await registry.serve(MODEL, [2])
    with pytest.raises(ModelNotFound, match=r"the champion, version 1, of tic_tac_toe is not served; served versions: 2"):
        registry.resolve(MODEL, None)
