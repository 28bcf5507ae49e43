"""What is served of a network with extra heads."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from trainer.export import script
from trainer.exported_module import serving_module, unpack_planes
from trainer.network import new_network
from trainer.tower import HexConv2d
from zerofleet.contracts.encodings import sample_positions
from zerofleet.presets import NetworkSettings

PLAIN = NetworkSettings(blocks=1, channels=8, policy_channels=2, value_channels=2, value_hidden=8)
KINDS = {
    "residual": PLAIN,
    "pooled": PLAIN.model_copy(update={"global_pooling": 3}),
    "squeezed": PLAIN.model_copy(update={"squeeze": 4, "global_pooling": 2}),
    "perceptron": NetworkSettings(kind="perceptron", hidden=(12, 9), activation="tanh"),
}


def positions(game):
    states, legal = sample_positions(game, games=3, seed=7)
    return torch.from_numpy(states), torch.from_numpy(legal)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "heads", [(), ("plies_left",), ("opponents",), ("opponents", "plies_left"), ("plies_left", "opponents")]
)
def test_extra_heads_follow_policy_and_value_in_the_order_of_the_settings(connect_four, kind, heads):
    spec = connect_four.spec()
    network = new_network(spec, KINDS[kind].model_copy(update={"heads": heads}), seed=2)
    module = serving_module(network, spec)
    states, legal = positions(connect_four)
    with torch.inference_mode():
        policy, value, *extra = module(states, legal)
        scripted = script(module)
        for _ in range(2):
            again = scripted(states, legal)
    assert (policy.shape, value.shape) == (legal.shape, (len(states), 2))
    assert len(extra) == len(heads)
    for name, answer in zip(heads, extra, strict=True):
        if name == "opponents":
            assert (answer.shape, answer.dtype) == ((len(states), spec.num_actions), torch.float16)
            torch.testing.assert_close(answer.float().sum(dim=1), torch.ones(len(states)), atol=2e-3, rtol=0)
        else:
            assert (answer.shape, answer.dtype) == ((len(states), 1), torch.float32)
            assert 0 < answer.min() <= answer.max() < 1
    for got, want in zip(again, (policy, value, *extra), strict=True):
        torch.testing.assert_close(got, want, atol=1e-3, rtol=0)


def test_extra_heads_do_not_change_policy_and_value(connect_four):
    plain, more = (KINDS["residual"].model_copy(update={"heads": heads}) for heads in ((), ("opponents", "plies_left")))
    with torch.inference_mode():
        answers = [
            serving_module(new_network(connect_four.spec(), settings, seed=3), connect_four.spec())(*positions(connect_four))
            for settings in (plain, more)
        ]
    assert all(torch.equal(one, two) for one, two in zip(*answers, strict=False))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("heads", [("reply",), ("reply", "opponents"), ("plies_left", "reply", "opponents")])
def test_an_auxiliary_head_is_trained_and_not_served(connect_four, kind, heads):
    spec = connect_four.spec()
    network = new_network(spec, KINDS[kind].model_copy(update={"heads": heads}), seed=2)
    assert [tuple(answer.shape) for answer in network(torch.zeros(3, *spec.planes))[2]] == [
        (3, 1 if name == "plies_left" else spec.num_actions) for name in heads
    ]
    module = serving_module(network, spec)
    states, legal = positions(connect_four)
    with torch.inference_mode():
        answers = module(states, legal)
        scripted = script(module)(states, legal)
        _, value, extra = network.eval()(unpack_planes(states, *spec.planes).float())
    served = [name for name in heads if name != "reply"]
    assert len(answers) == len(scripted) == 2 + len(served)
    for one, two in zip(answers, scripted, strict=True):
        torch.testing.assert_close(one, two, atol=1e-3, rtol=0)
    torch.testing.assert_close(answers[1], value)
    for name, answer in zip(served, answers[2:], strict=True):
        wanted = extra[heads.index(name)]
        wanted = torch.softmax(wanted, dim=1) if name == "opponents" else wanted
        torch.testing.assert_close(answer.float(), wanted, atol=1e-3, rtol=0)
    assert len(module.network.extra) == len(served)
    assert network.heads == heads


def test_the_network_returns_logits_of_opponents_and_a_share_of_plies(connect_four):
    spec = connect_four.spec()
    network = new_network(spec, KINDS["residual"].model_copy(update={"heads": ("opponents", "plies_left")}), seed=2)
    _, _, (opponents, plies_left) = network(torch.zeros(3, *spec.planes))
    assert opponents.shape == (3, spec.num_actions)
    assert opponents.min() < 0
    assert plies_left.shape == (3, 1)
    assert network.heads == ("opponents", "plies_left")


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_gives_nearly_equal_extra_heads(connect_four, kind):
    settings = KINDS[kind].model_copy(update={"heads": ("opponents", "plies_left")})
    module = serving_module(new_network(connect_four.spec(), settings, seed=5), connect_four.spec())
    states, legal = positions(connect_four)
    with torch.inference_mode():
        full = module(states, legal)
        half = module.half()(states, legal)
    for got, want in zip(half, full, strict=True):
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want, atol=1e-2, rtol=0)


def test_a_hexagonal_network_is_served_with_equivalent_plain_kernels(connect_four):
    spec = replace(connect_four.spec(), lattice="hexagonal")
    network = new_network(spec, KINDS["residual"], seed=1).eval()
    with torch.no_grad():
        network.trunk.stem.weight.fill_(0.1)  # as an optimiser might that knows nothing of the mask
    module = serving_module(network, spec)
    stem = module.network.trunk.stem
    assert (type(stem), type(network.trunk.stem)) == (torch.nn.Conv2d, HexConv2d)
    assert (stem.weight[0, 0, 0, 0], stem.weight[0, 0, 2, 2]) == (0, 0)
    states, legal = positions(connect_four)
    with torch.inference_mode():
        _, value = script(module)(states, legal)
        _, wanted, _ = network(unpack_planes(states, *spec.planes).float())
    torch.testing.assert_close(value, wanted)
