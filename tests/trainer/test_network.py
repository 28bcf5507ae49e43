"""The network and its served form: shapes, masking, and the law of batch-mates."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from games.kit import bits
from trainer.export import script
from trainer.exported_module import serving_module, unpack_planes
from trainer.network import new_network
from zerofleet.contracts.encodings import sample_positions
from zerofleet.errors import CorruptModel
from zerofleet.presets import NetworkSettings


def positions(game, games=6):
    states, legal = sample_positions(game, games=games, seed=7)
    return torch.from_numpy(states), torch.from_numpy(legal)


def trained_looking(network):
    """Give the batch norms statistics other than 0 and 1, so that forgetting `eval()` shows."""
    generator = torch.Generator().manual_seed(3)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5, generator=generator)
            torch.nn.init.uniform_(module.running_mean, -0.2, 0.2, generator=generator)
            torch.nn.init.uniform_(module.running_var, 0.5, 2.0, generator=generator)
    return network


@pytest.fixture(params=["tic_tac_toe", "connect_four"])
def served(request, game, connect_four, small):
    chosen = {"tic_tac_toe": game, "connect_four": connect_four}[request.param]
    network = trained_looking(new_network(chosen.spec(), small, seed=2))
    return chosen, serving_module(network, chosen.spec())


def test_packed_bits_are_unpacked_as_the_games_pack_them(served):
    game, _ = served
    states, _ = positions(game)
    planes = unpack_planes(states, *game.spec().planes)
    np.testing.assert_array_equal(planes.numpy(), bits.unpack(states.numpy(), game.spec().planes))


def test_policies_sum_to_one_over_the_listed_actions_and_are_zero_elsewhere(served):
    game, module = served
    states, legal = positions(game)
    with torch.inference_mode():
        policy, value = module(states, legal)
    assert policy.dtype == torch.float16
    assert policy.shape == legal.shape
    assert value.dtype == torch.float32
    assert value.shape == (len(states), game.spec().num_players)
    assert (policy[legal < 0] == 0).all()
    assert (policy[legal >= 0] > 0).all()
    torch.testing.assert_close(policy.float().sum(1), torch.ones(len(states)), atol=2e-3, rtol=0)
    assert value.abs().max() <= 1


def test_an_evaluation_does_not_depend_on_its_batch_mates(served):
    game, module = served
    states, legal = positions(game)
    scripted = script(module)
    with torch.inference_mode():
        together = scripted(states, legal)
        for i in (0, 3, len(states) - 1):
            alone = scripted(states[i : i + 1], legal[i : i + 1])
            torch.testing.assert_close(alone[0], together[0][i : i + 1], atol=1e-3, rtol=0)
            torch.testing.assert_close(alone[1], together[1][i : i + 1], atol=1e-5, rtol=0)


def test_the_script_and_the_module_give_equal_results(served):
    game, module = served
    states, legal = positions(game)
    scripted = script(module)
    with torch.inference_mode():
        for _ in range(3):  # the executor specialises on its second run
            got, want = scripted(states, legal), module(states, legal)
            torch.testing.assert_close(got[0], want[0], atol=1e-3, rtol=0)
            torch.testing.assert_close(got[1], want[1], atol=1e-6, rtol=0)


def test_the_order_of_listed_actions_carries_their_probabilities(served):
    game, module = served
    states, legal = positions(game)
    with torch.inference_mode():
        policy, _ = module(states[:1], legal[:1])
        reversed_policy, _ = module(states[:1], legal[:1].flip(1))
    torch.testing.assert_close(policy.flip(1), reversed_policy)


def test_a_row_of_padding_alone_gives_zeros_and_not_nan(served):
    game, module = served
    states, legal = positions(game)
    with torch.inference_mode():
        policy, _ = module(states[:1], torch.full_like(legal[:1], -1))
    assert (policy == 0).all()


def test_a_module_in_training_mode_is_not_scripted(game, network):
    with pytest.raises(CorruptModel, match="training mode"):
        script(serving_module(network, game.spec()).train())


def test_half_precision_gives_nearly_equal_results(game):
    wide = NetworkSettings(blocks=2, channels=32)
    module = serving_module(trained_looking(new_network(game.spec(), wide, seed=5)), game.spec())
    states, legal = positions(game)
    with torch.inference_mode():
        policy, value = module(states, legal)
        half_policy, half_value = module.half()(states, legal)
    torch.testing.assert_close(half_policy, policy, atol=5e-3, rtol=0)
    torch.testing.assert_close(half_value, value, atol=2e-2, rtol=0)


def test_the_same_seed_gives_the_same_weights_and_leaves_the_global_generator_alone(game, small):
    before = torch.get_rng_state()
    one, two, other = (new_network(game.spec(), small, seed=seed).state_dict() for seed in (4, 4, 5))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["trunk.stem.weight"], other["trunk.stem.weight"])


def test_network_settings_recognise_their_description_in_a_manifest(small):
    stored = small.model_dump(mode="json")
    assert small.describes(stored)
    assert small.describes(
        {name: stored[name] for name in ("blocks", "channels", "policy_channels", "value_channels", "value_hidden")}
    )
    older = {name: value for name, value in stored.items() if name not in ("global_pooling", "squeeze")}
    assert small.describes(older)
    assert not small.model_copy(update={"squeeze": 4}).describes(older)
    for change in ({"blocks": 2}, {"heads": ("plies_left",)}, {"kind": "perceptron"}, {"unheard_of": 1}, {"blocks": "many"}):
        assert not small.describes({**stored, **change})


def test_a_head_listed_twice_is_refused():
    with pytest.raises(ValueError, match="each may occur once"):
        NetworkSettings(heads=("plies_left", "plies_left"))
