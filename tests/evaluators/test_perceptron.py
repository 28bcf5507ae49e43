"""Perceptrons evaluated in this process: their answers are those of the served network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import games
from trainer.export import Lineage, export_network
from trainer.exported_module import serving_module
from trainer.network import new_network
from zerofleet.agents import make_agent
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.naming import model_name
from zerofleet.errors import CorruptModel, InvalidRequest, ModelNotFound
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.evaluators.in_process.evaluator import InProcessEvaluator, load_network
from zerofleet.evaluators.in_process.layers import PerceptronNetwork
from zerofleet.evaluators.in_process.perceptrons import PerceptronSource
from zerofleet.presets import NetworkSettings
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.testing import EvaluatorContract

TIC_TAC_TOE = games.make("tic_tac_toe")
RPS = games.make("rock_paper_scissors", turns=6)


def stored(root, game, **settings):
    """Return a store with one exported network, and the network as it is served."""
    chosen = NetworkSettings(**{"kind": "perceptron", "hidden": (24, 12)} | settings)
    network = new_network(game.spec(), chosen, seed=3)
    store = DirectoryStore(root)
    assert export_network(store, game, network, chosen, lineage=Lineage()) == 1
    return store, serving_module(network, game.spec())


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("policy", ["softmax", "sigmoid_norm"])
@pytest.mark.parametrize(("game", "heads"), [(TIC_TAC_TOE, ("reply", "plies_left")), (RPS, ("opponents", "plies_left"))])
@pytest.mark.slow
def test_the_answers_are_those_of_the_served_network(tmp_path, game, heads, activation, policy):
    store, served = stored(tmp_path, game, activation=activation, policy_activation=policy, heads=heads)
    network = load_network(store, game, 1)
    states, legal = sample_positions(game, games=5, seed=1)
    extra_heads = 2 - heads.count("reply")
    policy, value, extra = network(LeafBatch(states, legal, extra_heads))
    with torch.inference_mode():
        wanted = served(torch.from_numpy(states.copy()), torch.from_numpy(legal.copy()))
    assert len(wanted) == 2 + extra_heads
    for got, want in zip((policy, value, *extra), wanted, strict=True):
        assert got.dtype == want.numpy().dtype
        np.testing.assert_allclose(got, want.numpy(), atol=1e-3 if got.dtype == np.float16 else 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["naive", "feature"])
def test_an_encoding_that_stands_for_numbers_is_read_as_the_served_network_reads_it(tmp_path, encoding):
    game = games.make("connect_four", rows=4, columns=4, encoding=encoding)
    store, served = stored(tmp_path, game)
    states, legal = sample_positions(game, games=3, seed=1)
    policy, value, _ = load_network(store, game, 1)(LeafBatch(states, legal))
    with torch.inference_mode():
        wanted = served(torch.from_numpy(states.copy()), torch.from_numpy(legal.copy()))
    np.testing.assert_allclose(policy, wanted[0].numpy(), atol=1e-3)
    np.testing.assert_allclose(value, wanted[1].numpy(), atol=1e-5)


@pytest.mark.parametrize("normalisation", ["none", "batch", "layer"])
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize(("output", "policy"), [("mover", "dense"), ("win_or_loss", "none"), ("players", "none")])
def test_norms_dropout_and_outputs_are_those_of_the_served_network(tmp_path, normalisation, place, output, policy):
    settings = NetworkSettings(
        kind="perceptron",
        hidden=(7, 6, 5),
        normalisation=normalisation,
        normalise=place,
        dropout=0.2 if place == "after" else 0.0,
        value_output=output,
        policy_head=policy,
    )
    network = new_network(TIC_TAC_TOE.spec(), settings, seed=3)
    with torch.no_grad():
        for _ in range(9):  # statistics of batch norms
            network(torch.randint(0, 2, (32, *TIC_TAC_TOE.spec().planes)).float())
        for parameter in network.parameters():  # weights of norms begin as 1 and 0
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) / 5)
    store = DirectoryStore(tmp_path)
    export_network(store, TIC_TAC_TOE, network.eval(), settings, lineage=Lineage())
    states, legal = sample_positions(TIC_TAC_TOE, games=5, seed=1)
    got_policy, got_value, _ = load_network(store, TIC_TAC_TOE, 1)(LeafBatch(states, legal))
    with torch.inference_mode():
        want_policy, want_value = serving_module(network, TIC_TAC_TOE.spec())(
            torch.from_numpy(states.copy()), torch.from_numpy(legal.copy())
        )
    np.testing.assert_allclose(got_value, want_value.numpy(), atol=1e-5)
    np.testing.assert_allclose(got_policy, want_policy.numpy(), atol=1e-3)
    assert np.ptp(got_value[:, 0]) > 1e-3


def test_outputs_in_points_are_left_to_a_server(tmp_path):
    store, _ = stored(tmp_path, TIC_TAC_TOE, value_output="points")
    with pytest.raises(InvalidRequest, match="value_output=points, which cannot be evaluated in this process"):
        load_network(store, TIC_TAC_TOE, 1)


def test_a_norm_that_is_missing_is_named(tmp_path):
    store, _ = stored(tmp_path, TIC_TAC_TOE, hidden=(5,), normalisation="layer")
    manifest = store.manifest(model_name(TIC_TAC_TOE), 1)
    tensors = load_file(store.directory(model_name(TIC_TAC_TOE), 1) / "weights.safetensors")
    del tensors["trunk.layers.1.bias"]
    with pytest.raises(CorruptModel, match=r"trunk\.layers\.1\.bias has no such tensor"):
        PerceptronNetwork(manifest, tensors, TIC_TAC_TOE.spec())


def test_a_sigmoid_layer_is_evaluated_as_written(tmp_path):
    store, _ = stored(tmp_path, TIC_TAC_TOE, hidden=(5,))
    manifest = store.manifest(model_name(TIC_TAC_TOE), 1)
    tensors = load_file(store.directory(model_name(TIC_TAC_TOE), 1) / "weights.safetensors")
    manifest.network["activation"] = "sigmoid"
    states, legal = sample_positions(TIC_TAC_TOE, games=2, seed=1)
    bits = np.unpackbits(states, axis=1, bitorder="little")[:, : tensors["trunk.layers.0.weight"].shape[1]]
    hidden = 1 / (1 + np.exp(-(bits @ tensors["trunk.layers.0.weight"].T + tensors["trunk.layers.0.bias"])))
    want = np.tanh(hidden @ tensors["value.out.weight"].T + tensors["value.out.bias"])
    _, value, _ = PerceptronNetwork(manifest, tensors, TIC_TAC_TOE.spec())(LeafBatch(states, legal))
    np.testing.assert_allclose(value, want, atol=1e-5)


@pytest.mark.slow
class TestContract(EvaluatorContract):
    game = RPS
    extra_heads = 1
    missing = ModelVersion(2)

    @pytest.fixture
    def evaluator(self, tmp_path):
        return InProcessEvaluator(stored(tmp_path, RPS, heads=("opponents",))[0], RPS)


@pytest.mark.slow
def test_a_network_of_another_kind_is_refused_with_the_way_out(tmp_path):
    store, _ = stored(tmp_path, TIC_TAC_TOE, kind="residual", blocks=1, channels=4)
    with pytest.raises(
        InvalidRequest, match=r"is a residual network .*want a perceptron with one of .*, or an inference server"
    ):
        load_network(store, TIC_TAC_TOE, 1)


def test_weights_that_do_not_fit_the_manifest_are_refused(tmp_path):
    store, _ = stored(tmp_path, TIC_TAC_TOE)
    manifest = store.manifest(model_name(TIC_TAC_TOE), 1)
    path = store.directory(model_name(TIC_TAC_TOE), 1) / "weights.safetensors"
    tensors = load_file(path)
    with pytest.raises(CorruptModel, match=r"layer value\.out has no such layer, want weights"):
        PerceptronNetwork(
            manifest, {name: tensor for name, tensor in tensors.items() if name != "value.out.bias"}, TIC_TAC_TOE.spec()
        )
    save_file({name: tensor + 1 for name, tensor in tensors.items()}, path)
    with pytest.raises(CorruptModel):
        load_network(store, TIC_TAC_TOE, 1)
    with pytest.raises(ModelNotFound):
        load_network(store, TIC_TAC_TOE, 2)


@pytest.mark.slow
def test_agents_that_ask_a_model_play_as_with_the_served_network(tmp_path):
    store, served = stored(tmp_path, TIC_TAC_TOE)
    local = InProcessEvaluator(store, TIC_TAC_TOE)
    assert isinstance(local, PerceptronSource)

    def remote(batch, version):
        with torch.inference_mode():
            policy, value = served(torch.from_numpy(batch.states.copy()), torch.from_numpy(batch.legal.copy()))
        return Evaluation(policy.numpy(), value.numpy(), version)

    state = games.replay(TIC_TAC_TOE, [0, 4])
    for text in ("alpha_beta:3,model=1", "uct:60,model=1", "mcts:30,model=1", "network,model=1,by=value"):
        here, there = (
            make_agent(text, TIC_TAC_TOE, evaluate=evaluate).choose(TIC_TAC_TOE, state, np.random.default_rng(1))
            for evaluate in (local, remote)
        )
        assert (here.action, here.nodes) == (there.action, there.nodes)
        assert here.value == pytest.approx(there.value, abs=1e-3)
