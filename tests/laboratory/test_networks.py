"""Networks of a trial evaluate as those of the inference server, and only the latest versions stay."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import games
from laboratory import networks
from laboratory.clock import ProcessorClock
from laboratory.networks import CountedEvaluator, Networks
from trainer.export import Lineage, export_network
from trainer.exported_module import serving_module
from trainer.network import new_network
from zerofleet.contracts.encodings import sample_positions
from zerofleet.errors import ModelNotFound
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.presets import preset
from zerofleet.storage.model_store import DirectoryStore

pytestmark = pytest.mark.slow

GAME = games.make("tic_tac_toe")


def store_with(tmp_path, versions: int) -> DirectoryStore:
    store, settings = DirectoryStore(tmp_path), preset(GAME, "tiny").network
    for seed in range(versions):
        export_network(store, GAME, new_network(GAME.spec(), settings, seed=seed), settings, lineage=Lineage())
    return store


async def test_a_loaded_version_answers_as_its_network_does(tmp_path):
    loaded = Networks(store_with(tmp_path, 2), "tic_tac_toe", max_batch=4)
    loaded.load(1)
    loaded.load(2)
    states, legal = sample_positions(GAME, games=3, seed=1)
    counted = CountedEvaluator(loaded, ProcessorClock())
    settings = preset(GAME, "tiny").network
    for version in (1, 2):
        found = await counted.evaluate(LeafBatch(states, legal), version=ModelVersion(version))
        module = serving_module(new_network(GAME.spec(), settings, seed=version - 1), GAME.spec())
        with torch.inference_mode():
            policy, value = module(torch.from_numpy(states.copy()), torch.from_numpy(legal.copy()))
        assert found.version == version
        assert np.allclose(found.policy, policy.numpy(), atol=2e-3)
        assert np.allclose(found.value, value.numpy(), atol=1e-4)
    assert (counted.positions, counted.batches) == (2 * len(states), 2)


async def test_only_the_latest_versions_stay_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(networks, "MOST_VERSIONS", 1)
    loaded = Networks(store_with(tmp_path, 2), "tic_tac_toe", max_batch=1)
    states, legal = sample_positions(GAME, games=1, seed=1)
    loaded.load(1)
    loaded.load(2)
    with pytest.raises(ModelNotFound, match=r"version 1 of tic_tac_toe is not loaded; loaded: \[2\]"):
        await loaded.evaluate(LeafBatch(states, legal), version=ModelVersion(1))
