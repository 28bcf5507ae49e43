"""The policy head that scores moves by their cells, and which head a network gets."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from trainer.export import script
from trainer.exported_module import serving_module, unpack_planes
from trainer.heads import MovesHead
from trainer.network import Network, new_network
from zerofleet.errors import ConfigurationError
from zerofleet.presets import NetworkSettings

HEIGHT, WIDTH = 4, 5
SMALL = NetworkSettings(blocks=1, channels=8, policy_channels=2, value_channels=2, value_hidden=8)


def jumps(board: list[int], *others: tuple[int, int]) -> np.ndarray:
    """Actions from each cell of `board` to each, and `others` behind them."""
    return np.array([*((a, b) for a in board for b in board), *others], np.int16)


def test_an_action_is_scored_by_the_features_of_its_two_cells():
    cells = jumps([3, 7, 19], (-1, -1))[::-1].copy()  # the pass first, the rest in no special order
    head = MovesHead(6, cells)
    x = torch.randn(2, 6, HEIGHT, WIDTH)
    logits = head(x)
    flat = x.flatten(2)
    for action, (origin, target) in enumerate(cells):
        for row in range(2):
            if origin < 0:
                wanted = head.others(flat[row].mean(dim=1))[0]
            else:
                wanted = head.origin(flat[row, :, origin]) @ head.target(flat[row, :, target]) / math.sqrt(6)
            torch.testing.assert_close(logits[row, action], wanted)


def test_actions_without_two_cells_have_separate_scores():
    head = MovesHead(6, jumps([0, 1], (-1, -1), (-1, 3), (2, -1)))
    logits = head(torch.randn(1, 6, HEIGHT, WIDTH))[0]
    assert len(set(logits.tolist())) == 4 + 3


@pytest.mark.parametrize("side", [81, 121])
def test_the_moves_head_has_as_many_weights_for_thousands_of_actions_as_for_a_few(side):
    many = MovesHead(32, jumps(list(range(side))))
    few = MovesHead(32, jumps([0, 1]))
    logits = many(torch.randn(2, 32, 17, 17))
    assert logits.shape == (2, side * side)
    assert logits.isfinite().all()
    assert sum(p.numel() for p in many.parameters()) == sum(p.numel() for p in few.parameters()) == 2 * 33 * 32


def moving_spec(connect_four, board: list[int], *, actions: int | None = None):
    """A game on the planes of Connect Four whose actions lead from a cell to a cell."""
    cells = jumps(board, (-1, -1))
    return replace(connect_four.spec(), num_actions=actions or len(cells), action_cells=cells, max_legal=12)


def test_a_network_with_a_moves_head_is_served_exactly_and_ignores_padding(connect_four):
    spec = moving_spec(connect_four, list(range(40)))
    network = new_network(spec, SMALL.model_copy(update={"policy_head": "moves"}), seed=1).eval()
    module = serving_module(network, spec)
    rng = np.random.default_rng(0)
    states = torch.from_numpy(rng.integers(0, 256, (5, spec.packed_bytes)).astype(np.uint8))
    states[:, -1] &= 0x3F
    legal = np.full((5, 12), -1, np.int16)
    for row, size in enumerate((1, 12, 3, 7, 2)):
        legal[row, :size] = np.sort(rng.choice(spec.num_actions, size, replace=False))
    scripted = script(module)
    with torch.inference_mode():
        for _ in range(3):
            policy, _ = scripted(states, torch.from_numpy(legal))
        planes = unpack_planes(states, *spec.planes)
        logits, _, _ = network(planes.float())
    assert policy.dtype == torch.float16
    for row in range(5):
        listed = legal[row][legal[row] >= 0]
        torch.testing.assert_close(policy[row, : len(listed)].float(), torch.softmax(logits[row, listed], 0), atol=1e-3, rtol=0)
        assert (policy[row, len(listed) :] == 0).all()


def head_of(spec, **settings) -> type:
    return type(Network(spec, SMALL.model_copy(update=settings)).policy)


def test_the_moves_head_is_chosen_for_games_with_many_actions(connect_four):
    few, many = moving_spec(connect_four, list(range(20))), moving_spec(connect_four, list(range(42)))
    repeated = replace(many, num_actions=2 * 1765, action_cells=np.concatenate([many.action_cells, many.action_cells]))
    assert (few.num_actions, many.num_actions) == (401, 1765)
    larger = replace(connect_four.spec(), planes=(2, 9, 9), num_actions=6561, action_cells=jumps(list(range(81))))
    assert head_of(larger) is MovesHead
    assert head_of(larger, policy_head="dense") is not MovesHead
    assert head_of(few) is not MovesHead
    assert head_of(few, policy_head="moves") is MovesHead
    assert head_of(repeated) is not MovesHead
    assert head_of(larger, kind="perceptron", hidden=(4,)) is not MovesHead


def test_an_unsuitable_policy_head_is_refused_with_the_reason(connect_four):
    few = moving_spec(connect_four, list(range(20)))
    twice = replace(few, num_actions=802, action_cells=np.concatenate([few.action_cells, few.action_cells]))
    passes = replace(few, num_actions=1, action_cells=np.array([[-1, -1]], np.int16))
    for spec, kind, why in (
        (connect_four.spec(), "residual", "do not lead from a cell to a cell"),
        (twice, "residual", "join the same two cells"),
        (passes, "residual", "none of its actions leads from a cell"),
        (few, "perceptron", "a perceptron has no cells"),
    ):
        with pytest.raises(ConfigurationError, match=rf"policy_head=moves .*{why}.*; use policy_head=dense"):
            Network(spec, SMALL.model_copy(update={"policy_head": "moves", "kind": kind}))


def test_weights_stored_under_the_names_of_earlier_releases_still_load(connect_four):
    network = new_network(connect_four.spec(), SMALL, seed=1)
    other = new_network(connect_four.spec(), SMALL, seed=2)
    former = {}
    for name, tensor in network.state_dict().items():
        plain = name.removeprefix("trunk.").replace("value.hidden.0", "value_hidden")
        former[plain.replace("policy.", "policy_").replace("value.", "value_")] = tensor
    assert {"stem.weight", "blocks.0.conv1.weight", "policy_out.bias", "value_hidden.weight"} < former.keys()
    other.load_state_dict(former)
    assert all(torch.equal(tensor, network.state_dict()[name]) for name, tensor in other.state_dict().items())
