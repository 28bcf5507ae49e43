"""Health, metadata, statistics, and the end of a server."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import grpc
import numpy as np
import pytest
from fake_network import MODEL, Wire, expected_value, infer_request, publish_version, refusal, until
from grpc_health.v1 import health_pb2, health_pb2_grpc
from structlog.testing import capture_logs
from tritonclient.grpc import service_pb2 as messages

from inference_server import kserve
from inference_server import registry as registry_module
from inference_server.message_sizes import largest_request_bytes
from inference_server.server import open_server
from inference_server.settings import ServerSettings
from zerofleet.contracts.naming import MAX_MESSAGE_BYTES
from zerofleet.errors import ConfigurationError, ModelNotFound, Unavailable
from zerofleet.evaluators.control import ModelControl
from zerofleet.rpc.evaluation_client import EvaluationClient
from zerofleet.service.logs import placed
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.telemetry import metrics

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


async def health_of(wire, name: str) -> int:
    reply = await health_pb2_grpc.HealthStub(wire.channel).Check(health_pb2.HealthCheckRequest(service=name), timeout=60)
    return reply.status


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
    for stages in (first.inference_stats, *first.batch_stats):  # perf_analyzer ends itself where these counts differ
        assert stages.compute_input.count == stages.compute_infer.count == stages.compute_output.count == 2
        assert (stages.compute_input.ns, stages.compute_output.ns) == (0, 0)
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
    with pytest.raises(
        ConfigurationError, match=f"^cannot listen on {wire.server.address}: is the port in use. set another --address$"
    ):
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


async def test_a_path_too_long_for_a_socket_is_refused_with_its_length(tmp_path, store, loader):
    path = f"{tmp_path}/{'s' * 100}"
    settings = ServerSettings(address=f"unix:{path}", model_store=store.root)
    with pytest.raises(ConfigurationError, match=f"has {len(path)} bytes, and the path of a socket at most 107"):
        async with open_server(settings, loader):
            raise AssertionError("it listens on a path that no client can reach")


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


async def test_without_a_champion_among_the_chosen_versions_a_request_must_name_its_version(wire, publish):
    publish()
    registry = wire.server.plane.registry
    registry.store.write_champion(MODEL, 1, epoch=1, reason="test")
    await registry.serve(MODEL, [2])
    with pytest.raises(
        ModelNotFound,
        match=r"the champion, version 1, of tic_tac_toe is not served; served versions: 2;"
        r" name one of them, or load the model without versions, so that the server follows the champion",
    ):
        registry.resolve(MODEL, None)


@pytest.fixture
async def follower(open_wire, publish, store, monkeypatch) -> AsyncIterator[Wire]:
    """A server that no gatekeeper controls, over a store of versions 1, 2 and 3 with the champion 1."""
    publish(), publish(), publish()
    store.write_champion(MODEL, 1, epoch=1, reason="test")
    monkeypatch.setattr(registry_module, "CHAMPION_EVERY_S", 0.001)
    async with open_wire() as wire:
        await wire.server.plane.registry.serve_champions()
        yield wire


def looked_at(store: DirectoryStore, monkeypatch: pytest.MonkeyPatch, method: str) -> Callable[[], bool]:
    """Return a condition: `method` of the store was called several times since, so that what followed from one call is done."""
    looks, looking = [], getattr(type(store), method)

    def look(*given):
        looks.append(method)
        return looking(*given)

    monkeypatch.setattr(type(store), method, look)
    return lambda: len(looks) > 5


def served_by(wire: Wire) -> list[int]:
    return [held.version for held in wire.server.plane.registry.versions(MODEL)]


async def test_a_new_champion_that_no_gatekeeper_loads_here_is_loaded_beside_its_predecessor(follower, store, positions):
    states, legal = positions[0][:1], positions[1][:1]
    for epoch, champion, served in ((2, 2, [1, 2]), (3, 3, [2, 3]), (4, 1, [1, 3])):
        store.write_champion(MODEL, champion, epoch=epoch, reason="test")
        await until(lambda served=served: served_by(follower) == served)
        for asked in ("", "champion"):
            assert (await follower.infer(states, legal, version=asked))[0] == str(champion)


@pytest.fixture
async def early(open_wire, store, monkeypatch) -> AsyncIterator[Wire]:
    """A server that no gatekeeper controls, started before its store has a model."""
    monkeypatch.setattr(registry_module, "CHAMPION_EVERY_S", 0.001)
    async with open_wire(starting=True) as wire:
        await wire.server.plane.registry.serve_champions()
        yield wire


async def test_a_server_that_was_started_before_the_first_champion_serves_it_and_the_next_ones(
    early, publish, store, loader, positions
):
    publish(), publish()
    store.write_champion(MODEL, 1, epoch=1, reason="test")
    await until(lambda: served_by(early) == [1])
    assert (await early.infer(positions[0][:1], positions[1][:1]))[0] == "1"
    store.write_champion(MODEL, 2, epoch=2, reason="test")
    await until(lambda: served_by(early) == [1, 2])


async def test_the_first_champion_of_a_second_model_is_served_by_a_server_of_the_first(follower, store, game, monkeypatch):
    monkeypatch.setattr(registry_module, "MODELS_EVERY_S", 0.0)
    second = f"{MODEL}_second"
    publish_version(store, game, model=second)
    store.write_champion(second, 1, epoch=1, reason="test")
    registry = follower.server.plane.registry
    await until(lambda: registry.models() == [MODEL, second])
    assert registry.resolve(second, None).version == 1
    assert served_by(follower) == [1]


async def test_a_first_champion_that_cannot_be_loaded_is_logged_once_and_tried_again(
    early, publish, store, loader, monkeypatch
):
    monkeypatch.setattr(registry_module, "LOAD_AGAIN_S", 3600.0)
    loader.broken.add(publish())
    with capture_logs() as lines:
        store.write_champion(MODEL, 1, epoch=1, reason="test")
        await until(lambda: any(line["event"] == "model.champion_refused" for line in lines))
        await until(looked_at(store, monkeypatch, "champion"))
    (told,) = [line for line in lines if line["event"] == "model.champion_refused"]
    assert (told["versions"], told["answered_by"]) == ([1], None)
    store.write_champion(MODEL, publish(), epoch=2, reason="test")
    await until(lambda: served_by(early) == [2])


async def test_a_model_that_a_caller_has_unloaded_stays_unloaded(follower, store, monkeypatch):
    await follower.stub.RepositoryModelUnload(messages.RepositoryModelUnloadRequest(model_name=MODEL), timeout=60)
    store.write_champion(MODEL, 2, epoch=2, reason="test")
    await until(looked_at(store, monkeypatch, "champion"))
    assert served_by(follower) == []
    await follower.stub.RepositoryModelLoad(messages.RepositoryModelLoadRequest(model_name=MODEL), timeout=60)
    assert served_by(follower) == [2]


@pytest.mark.parametrize("failure", [Unavailable("the store is away"), RuntimeError("unforeseen")])
async def test_a_server_that_waits_for_its_first_champion_logs_once_that_the_store_is_away(
    early, publish, store, monkeypatch, failure
):
    def refuse(store):
        raise failure

    publish()
    with capture_logs() as lines, monkeypatch.context() as away:
        away.setattr(type(store), "models", refuse)
        await until(looked_at(store, away, "models"))
    assert [line["event"] for line in lines if line["log_level"] == "warning"] == ["models.unknown"]
    store.write_champion(MODEL, 1, epoch=1, reason="test")
    await until(lambda: served_by(early) == [1])


async def test_the_predecessor_answers_and_pointers_are_read_while_a_new_champion_is_loaded(
    follower, store, loader, positions, monkeypatch
):
    loader.hold.clear()
    loader.loading.clear()
    store.write_champion(MODEL, 2, epoch=2, reason="test")
    assert await asyncio.to_thread(loader.loading.wait, 60)
    assert (await follower.infer(positions[0][:1], positions[1][:1]))[0] == "1"
    await until(looked_at(store, monkeypatch, "champion"))
    loader.hold.set()
    await until(lambda: follower.server.plane.registry.resolve(MODEL, None).version == 2)


async def test_a_server_of_one_version_replaces_it_by_the_new_champion(open_wire, publish, store, monkeypatch):
    publish(), publish()
    store.write_champion(MODEL, 1, epoch=1, reason="test")
    monkeypatch.setattr(registry_module, "CHAMPION_EVERY_S", 0.001)
    async with open_wire(max_versions=1) as wire:
        await wire.server.plane.registry.serve_champions()
        store.write_champion(MODEL, 2, epoch=2, reason="test")
        await until(lambda: served_by(wire) == [2])


async def test_a_champion_that_cannot_be_loaded_leaves_its_predecessor_answering_which_is_logged_once(
    follower, store, loader, positions, monkeypatch
):
    loader.broken.add(2)
    with capture_logs() as lines:
        store.write_champion(MODEL, 2, epoch=2, reason="test")
        await until(lambda: any(line["event"] == "model.champion_refused" for line in lines))
        await until(looked_at(store, monkeypatch, "champion"))
        assert (await follower.infer(positions[0][:1], positions[1][:1]))[0] == "1"
    (told,) = [line for line in lines if line["event"] == "model.champion_refused"]
    assert (told["versions"], told["answered_by"]) == ([2], 1)
    store.write_champion(MODEL, 3, epoch=3, reason="test")
    await until(lambda: served_by(follower) == [1, 3])


async def test_a_champion_that_could_not_be_loaded_is_tried_again(follower, store, loader, monkeypatch):
    monkeypatch.setattr(registry_module, "LOAD_AGAIN_S", 0.0)
    loader.broken.add(2)
    with capture_logs() as lines:
        store.write_champion(MODEL, 2, epoch=2, reason="test")
        await until(lambda: sum(line["event"] == "model.champion_refused" for line in lines) > 2)
    for event in ("model.refused", "model.champion_refused"):
        levels = [line["log_level"] for line in lines if line["event"] == event]
        assert levels == ["error", *["info"] * (len(levels) - 1)]
    loader.broken.clear()
    await until(lambda: served_by(follower) == [1, 2])


async def test_the_predecessor_answers_after_a_restart_where_the_champion_cannot_be_loaded(
    open_wire, publish, store, loader, positions, monkeypatch
):
    monkeypatch.setattr(registry_module, "CHAMPION_EVERY_S", 0.001)
    monkeypatch.setattr(registry_module, "LOAD_AGAIN_S", 0.0)
    publish(), publish()
    for epoch, champion in ((1, 1), (2, 2)):
        store.write_champion(MODEL, champion, epoch=epoch, reason="test")
    loader.broken.add(2)
    async with open_wire(starting=True) as wire:
        with capture_logs() as lines:
            await wire.server.plane.registry.serve_champions()
            assert (await wire.infer(positions[0][:1], positions[1][:1]))[0] == "1"
            await until(lambda: sum(line["event"] == "model.refused" for line in lines) > 3)
        refused = [line for line in lines if line["event"] == "model.champion_refused"]
        assert [line["versions"] for line in refused] == [[2]] * len(refused)
        assert [line["log_level"] for line in refused] == ["error", *["info"] * (len(refused) - 1)]
        loader.broken.clear()
        await until(lambda: served_by(wire) == [1, 2])


async def test_a_server_of_one_version_starts_with_the_champion_and_without_an_error(open_wire, publish, store):
    publish(), publish()
    for epoch, champion in ((1, 1), (2, 2)):
        store.write_champion(MODEL, champion, epoch=epoch, reason="test")
    async with open_wire(max_versions=1) as wire:
        with capture_logs() as lines:
            await wire.server.plane.registry.serve_champions()
        assert served_by(wire) == [2]
    assert [line["event"] for line in lines if line["log_level"] == "error"] == []


async def test_a_server_of_one_version_starts_with_the_predecessor_of_a_broken_champion(open_wire, publish, store, loader):
    publish(), publish()
    for epoch, champion in ((1, 1), (2, 2)):
        store.write_champion(MODEL, champion, epoch=epoch, reason="test")
    loader.broken.add(2)
    async with open_wire(max_versions=1) as wire:
        await wire.server.plane.registry.serve_champions()
        assert served_by(wire) == [1]


async def test_a_champion_that_is_refused_again_after_a_success_is_an_error(follower, store, loader, monkeypatch):
    monkeypatch.setattr(registry_module, "LOAD_AGAIN_S", 0.0)
    epochs = itertools.count(2)

    def promote(version):
        store.write_champion(MODEL, version, epoch=next(epochs), reason="test")

    for _ in range(2):
        loader.broken.add(2)
        with capture_logs() as lines:
            promote(2)
            await until(lambda lines=lines: [line for line in lines if line["event"] == "model.champion_refused"])
        assert next(line for line in lines if line["event"] == "model.champion_refused")["log_level"] == "error"
        loader.broken.clear()
        await until(lambda: 2 in served_by(follower))
        for version in (3, 1):  # both take its place in memory
            promote(version)
            await until(lambda version=version: version in served_by(follower))
        assert served_by(follower) == [1, 3]


async def test_a_model_that_cannot_be_listed_holds_up_no_other(open_wire, publish, store, game, monkeypatch):
    publish()
    store.write_champion(MODEL, 1, epoch=1, reason="test")
    private = f"{MODEL}_private"
    publish_version(store, game, model=private)
    listed = os.scandir

    def refused(place):
        if Path(place).name == private:
            raise PermissionError(errno.EACCES, "Permission denied")
        return listed(place)

    monkeypatch.setattr(os, "scandir", refused)
    largest = largest_request_bytes(game, store)
    assert largest < MAX_MESSAGE_BYTES
    async with open_wire() as wire:
        registry = wire.server.plane.registry
        await registry.serve_champions()
        assert registry.models() == [MODEL]
        assert await registry.stored() == {MODEL: [1]}
    with pytest.raises(Unavailable, match=f"cannot list .*{private}: Permission denied"):
        store.versions(private)


async def test_versions_that_a_caller_has_chosen_stay_after_a_promotion_until_a_load_without_versions(
    follower, store, loader, publish
):
    registry = follower.server.plane.registry
    await registry.serve(MODEL, [1, 3])
    store.write_champion(MODEL, 2, epoch=2, reason="test")
    await until(lambda: registry._champions[MODEL] == 2)
    assert served_by(follower) == [1, 3]
    assert 2 not in loader.networks
    await follower.stub.RepositoryModelLoad(messages.RepositoryModelLoadRequest(model_name=MODEL), timeout=60)
    assert served_by(follower) == [2]
    store.write_champion(MODEL, publish(), epoch=3, reason="test")
    await until(lambda: served_by(follower) == [2, 4])


@pytest.mark.parametrize("failure", [Unavailable("the store is away"), RuntimeError("unforeseen")])
async def test_the_known_champion_answers_while_the_store_is_away_which_is_logged_once(
    open_wire, publish, positions, monkeypatch, failure
):
    monkeypatch.setattr(registry_module, "CHAMPION_EVERY_S", 0.001)
    looks, is_away = [], True
    async with open_wire() as wire:
        publish(), publish()
        registry = wire.server.plane.registry
        registry.store.write_champion(MODEL, 1, epoch=1, reason="test")
        await registry.serve(MODEL, [1, 2])
        champion = type(registry.store).champion

        def look(store, model):
            looks.append(model)
            if is_away:
                raise failure
            return champion(store, model)

        with capture_logs() as lines:
            monkeypatch.setattr(type(registry.store), "champion", look)
            await until(lambda: len(looks) > 3)
            assert (await wire.infer(positions[0][:1], positions[1][:1]))[0] == "1"
            is_away = False
            registry.store.write_champion(MODEL, 2, epoch=2, reason="test")
            await until(lambda: registry.resolve(MODEL, None).version == 2)
    told = [line["event"] for line in lines if line["event"].startswith("model.champion")]
    assert told == ["model.champion_unknown", "model.champion_known"]


async def test_served_versions_change_without_the_store_while_the_champion_is_among_them(wire, publish, monkeypatch):
    publish()
    registry = wire.server.plane.registry
    registry.store.write_champion(MODEL, 1, epoch=1, reason="test")
    await registry.serve(MODEL, [1, 2])
    asked = []
    monkeypatch.setattr(type(registry.store), "champion", lambda store, model: asked.append(model))
    monkeypatch.setattr(registry, "models", list)  # the looks at intervals
    await registry.serve(MODEL, [1])
    assert not asked
