"""Servers for matches, games and questions about a run's models: the run's own for one request, else one that is started."""

from __future__ import annotations

import contextlib
import json
import os

import pytest
from fake_network import MODEL

from zerofleet.errors import ModelNotFound
from zerofleet.evaluators.control import ModelControl
from zerofleet.evaluators.opening import evaluating
from zerofleet.storage.run_paths import RunPaths
from zerofleet.supervisor.borrowed import OwnServer, served

BY_DEFAULT = 16
"""Versions that a server has at a time unless it is told otherwise."""


@pytest.fixture
def run(tmp_path, open_wire, monkeypatch) -> RunPaths:
    """A run over the model store of these tests; an inference server that is started for a purpose runs in this process."""

    @contextlib.asynccontextmanager
    async def start(service, paths, game, option, number):
        assert (service, option) == ("inference_server", "--max-versions")
        async with open_wire(max_versions=int(number)) as wire:
            yield wire.server.address, ""

    monkeypatch.setattr("zerofleet.supervisor.borrowed._started", start)
    return RunPaths(tmp_path)


def go_live(run: RunPaths, address: str) -> None:
    """Announce a server as the run's own."""
    run.services.mkdir()
    run.announce("inference_server").write_text(json.dumps({"pid": os.getpid(), "address": address, "metrics_port": 1}))


async def test_one_request_goes_to_the_runs_own_server_if_that_has_the_version(run, game, wire, publish):
    go_live(run, wire.server.address)
    async with served(run, game, versions=[1], once=True) as address:
        assert address == wire.server.address
    async with served(run, game, versions=[1, publish()], once=True) as address:
        assert address != wire.server.address


async def test_a_match_keeps_a_version_that_the_runs_own_server_retires(run, game, wire, publish, leaves):
    go_live(run, wire.server.address)
    async with served(run, game, versions=[1]) as address, evaluating(address, game) as evaluator:
        await wire.server.plane.registry.serve(MODEL, [publish()])  # as the gatekeeper does after two promotions
        assert (await evaluator.evaluate(leaves, version=1)).version == 1


async def test_a_tournament_may_have_more_models_than_a_server_has_by_default(run, game, publish):
    versions = [publish() for _ in range(BY_DEFAULT + 1)]
    async with served(run, game, versions=versions) as address, ModelControl(address) as control:
        assert (await control.loaded())[MODEL] == versions


async def test_a_server_that_was_started_keeps_a_loaded_version_that_was_deleted(wire, publish, store):
    own = OwnServer(wire.server.address, "", MODEL, store)
    second = publish()
    store.delete(MODEL, 1)
    await own.serve([1, second])
    assert [one.version for one in wire.server.plane.registry.versions(MODEL)] == [1, second]
    await own.serve([second])
    with pytest.raises(ModelNotFound, match="no version 1 in the store"):
        await own.serve([1, second])
