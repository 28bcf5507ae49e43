"""Versions: swapped under load, refused, served side by side and from the start."""

from __future__ import annotations

import asyncio

import grpc
import numpy as np
import pytest
from fake_network import MODEL, expected_value, refusal, until
from tritonclient.grpc import service_pb2 as messages

from zerofleet.errors import CorruptModel, InvalidRequest, ModelNotFound, Unavailable
from zerofleet.evaluators.control import ModelControl


class Load:
    """Clients that ask without pause and check every answer."""

    def __init__(self, wire, positions, *, version: str = "") -> None:
        self._wire, self._positions, self._version = wire, positions, version
        self.answered_by: list[str] = []
        self.stop = asyncio.Event()

    async def client(self, first_row: int) -> None:
        states, legal = (array[first_row : first_row + 8] for array in self._positions)
        newest = 0
        while not self.stop.is_set():
            version, value = await self._wire.infer(states, legal, version=self._version)
            np.testing.assert_array_equal(value, expected_value(states, legal, int(version)))
            self.answered_by.append(version)
            # Two answers under way may overtake each other, those to one client, which asks again after an answer, may not.
            assert int(version) >= newest
            newest = int(version)

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


async def test_a_load_that_another_program_replaces_at_once_is_repeated_and_no_version_is_blamed(wire, publish, monkeypatch):
    publish()
    registry = wire.server.plane.registry
    async with ModelControl(wire.server.address) as control, ModelControl(wire.server.address) as other:
        ready, replaced = control.ready, []

        async def ready_after_another_load(model, version):
            if not replaced:
                replaced.append(version)
                await other.serve(MODEL, [1])
            return await ready(model, version)

        monkeypatch.setattr(control, "ready", ready_after_another_load)
        await control.serve(MODEL, [1, 2])
        assert [held.version for held in registry.versions(MODEL)] == [1, 2]


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
        ({"config": '{"versionPolicy": {"specific": {"versions": "35"}}}'}, "its versions are '35', want a list"),
        ({"config": '{"versionPolicy": {"specific": {"versions": {"3": 5}}}}'}, "want a list"),
        ({"config": '{"versionPolicy": {"specific": {"versions": [1.0]}}}'}, "is not a version"),
        ({"config": '{"versionPolicy": {"specific": {"versions": [true]}}}'}, "is not a version"),
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


async def test_the_champions_of_the_store_are_served_from_the_start(open_wire, publish, store, loader, positions):
    publish()
    publish()
    store.write_champion(MODEL, 1, epoch=1, reason="test")
    async with open_wire() as wire:
        await wire.server.plane.registry.serve_champions()
        assert (await wire.infer(positions[0][:1], positions[1][:1]))[0] == "1"
        assert (await wire.stub.ServerReady(messages.ServerReadyRequest())).ready


async def test_clients_wait_for_the_champions_of_a_restarted_server(open_wire, publish, store, loader, positions):
    store.write_champion(MODEL, publish(), epoch=1, reason="test")
    async with open_wire(starting=True) as wire:
        with pytest.raises(Unavailable, match="the server is loading the champions; try again shortly"):
            wire.server.plane.registry.resolve(MODEL, 1)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await wire.infer(positions[0][:1], positions[1][:1])
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert not (await wire.stub.ModelReady(messages.ModelReadyRequest(name=MODEL))).ready
        await wire.server.plane.registry.serve_champions()
        assert (await wire.infer(positions[0][:1], positions[1][:1]))[0] == "1"
        with pytest.raises(ModelNotFound):
            wire.server.plane.registry.resolve("go", None)


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


async def test_a_model_with_unknown_heads_is_not_served(wire, publish):
    for heads in (("mood",), ("plies_left", "plies_left")):
        with pytest.raises(
            CorruptModel, match="want policy, value, then some of opponents, plies_left, pool, action_values, once each"
        ):
            await wire.server.plane.registry.serve(MODEL, [publish(*heads)])
