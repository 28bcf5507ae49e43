"""Trunks: six neighbours on a hexagonal lattice, and perceptrons of the sizes that the literature counts."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from games.core import GameSpec
from trainer.network import new_network
from trainer.optimisation import make_optimizer
from trainer.tower import GlobalPooling, HexConv2d, Perceptron, ResidualBlock, SqueezeExcitation, Tower, fold_kernels
from zerofleet.presets import NetworkSettings, TrainSettings

RADIUS = 2
SIZE = 2 * RADIUS + 1
CELLS = [(y, x) for y in range(SIZE) for x in range(SIZE) if abs((y - RADIUS) + (x - RADIUS)) <= RADIUS]


def turned(y: int, x: int) -> tuple[int, int]:
    """The cell that (y, x) becomes when the hexagon turns by 60 degrees about its middle."""
    row, column = y - RADIUS, x - RADIUS
    return RADIUS + row + column, RADIUS - row


def touched(convolution: torch.nn.Module, y: int, x: int) -> set[tuple[int, int]]:
    """The cells whose output depends on cell (y, x)."""
    board = torch.zeros(1, 1, SIZE, SIZE)
    board[0, 0, y, x] = 1.0
    with torch.no_grad():
        return {(int(row), int(column)) for _, _, row, column in convolution(board).nonzero()}


def all_ones(convolution: HexConv2d) -> HexConv2d:
    torch.nn.init.ones_(convolution.weight)  # also where the mask must hide them
    return convolution


def test_a_hexagonal_kernel_covers_a_cell_and_its_six_neighbours_without_the_two_corners():
    seen = touched(all_ones(HexConv2d(1, 1)), 2, 2)
    assert seen == {(2, 2), (2, 1), (2, 3), (1, 2), (3, 2), (1, 3), (3, 1)}


def test_a_rotation_by_60_degrees_maps_neighbourhoods_onto_neighbourhoods():
    convolution = all_ones(HexConv2d(1, 1))
    assert sorted(turned(*cell) for cell in CELLS) == CELLS
    for cell in CELLS:
        neighbours = touched(convolution, *cell) & set(CELLS)
        assert {turned(*other) for other in neighbours} == touched(convolution, *turned(*cell)) & set(CELLS)
    square = torch.nn.Conv2d(1, 1, 3, padding=1, bias=False)
    assert {turned(*other) for other in touched(square, 2, 2)} != touched(square, 2, 2)


@pytest.mark.slow  # torch takes seconds to load its first optimiser
def test_the_masked_corners_stay_zero_after_optimiser_steps():
    tower = Tower(3, 4, 1, hexagonal=True)
    optimizer = make_optimizer(tower, TrainSettings(weight_decay=0.1))
    for _ in range(3):
        tower(torch.randn(2, 3, SIZE, SIZE)).square().sum().backward()
        optimizer.step()
    kernels = [module for module in tower.modules() if isinstance(module, HexConv2d)]
    assert len(kernels) == 3
    for kernel in kernels:
        assert (kernel.weight[:, :, 0, 0] == 0).all()
        assert (kernel.weight[:, :, 2, 2] == 0).all()
        assert (kernel.weight[:, :, 0, 2] != 0).all()


def test_a_folded_tower_gives_equal_results_with_plain_convolutions():
    tower = Tower(3, 4, 2, hexagonal=True).eval()
    for module in tower.modules():
        if isinstance(module, HexConv2d):
            all_ones(module)
    folded = copy.deepcopy(tower)
    fold_kernels(folded)
    assert not any(isinstance(module, HexConv2d) for module in folded.modules())
    assert tower.state_dict().keys() == folded.state_dict().keys()
    planes = torch.randn(2, 3, SIZE, SIZE)
    torch.testing.assert_close(folded(planes), tower(planes))


@pytest.mark.parametrize(
    ("lattice", "wanted", "hexagonal"), [("hexagonal", True, 3), ("hexagonal", False, 0), ("square", True, 0)]
)
def test_hexagonal_kernels_need_a_hexagonal_lattice_and_the_setting(connect_four, lattice, wanted, hexagonal):
    spec = replace(connect_four.spec(), lattice=lattice)
    network = new_network(spec, NetworkSettings(blocks=1, channels=4, hex_kernels=wanted), seed=0)
    assert sum(isinstance(module, HexConv2d) for module in network.modules()) == hexagonal


def flat_spec(connect_four, bits: int, actions: int, players: int) -> GameSpec:
    return replace(
        connect_four.spec(), planes=(bits, 1, 1), num_actions=actions, num_players=players, max_legal=actions, symmetries=()
    )


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_perceptrons_have_the_number_of_parameters_of_the_game_sheets(connect_four):
    tic_tac_toe = NetworkSettings(kind="perceptron", hidden=(100, 27), activation="tanh", policy_activation="sigmoid_norm")
    assert count(new_network(flat_spec(connect_four, 27, 9, 1), tic_tac_toe, seed=0)) == 5_807
    history = NetworkSettings(kind="perceptron", hidden=(100, 30), activation="tanh", policy_activation="sigmoid_norm")
    network = new_network(flat_spec(connect_four, 300, 3, 2), history, seed=0)
    assert count(network) - count(network.value) == 33_223


def test_a_perceptron_is_a_stack_of_dense_layers_with_activations():
    perceptron = Perceptron(6, (4, 3), NetworkSettings(kind="perceptron", activation="tanh"))
    first, second = (layer for layer in perceptron.layers if isinstance(layer, torch.nn.Linear))
    planes = torch.randn(5, 2, 3, 1)
    torch.testing.assert_close(perceptron(planes), torch.tanh(second(torch.tanh(first(planes.reshape(5, 6))))))
    assert (Perceptron(6, (4,), NetworkSettings(kind="perceptron"))(planes) >= 0).all()


def test_pooled_channels_bias_the_others_by_their_mean_and_maximum():
    pooling = GlobalPooling(5, 2)
    x = torch.randn(3, 5, 4, 6, generator=torch.Generator().manual_seed(0))
    got = pooling(x)
    for row in range(3):
        read = [x[row, channel].clamp(min=0) for channel in (0, 1)]
        moments = torch.stack([*(channel.mean() for channel in read), *(channel.max() for channel in read)])
        bias = pooling.bias.weight @ moments + pooling.bias.bias
        for channel in range(3):
            torch.testing.assert_close(got[row, channel], (x[row, 2 + channel] + bias[channel]).clamp(min=0))


def test_squeeze_and_excitation_scales_each_channel_by_the_means_of_all():
    module = SqueezeExcitation(4, 2)
    x = torch.randn(3, 4, 5, 5, generator=torch.Generator().manual_seed(0))
    got = module(x)
    for row in range(3):
        means = torch.stack([x[row, channel].mean() for channel in range(4)])
        hidden = (module.squeeze.weight @ means + module.squeeze.bias).clamp(min=0)
        scale = torch.sigmoid(module.excite.weight @ hidden + module.excite.bias)
        torch.testing.assert_close(got[row], x[row] * scale[:, None, None])


@pytest.mark.parametrize(("pooled", "squeeze"), [(0, 0), (2, 0), (0, 3), (2, 3)])
def test_a_new_block_is_the_identity_on_positive_features_whatever_its_parts(pooled, squeeze):
    block = ResidualBlock(6, hexagonal=False, pooled=pooled, squeeze=squeeze)
    x = torch.rand(2, 6, 4, 4)
    torch.testing.assert_close(block(x), x)
    assert (block.pooling is None, block.squeeze is None) == (not pooled, not squeeze)


def test_a_cell_reaches_every_cell_through_a_pooled_channel():
    torch.manual_seed(0)
    for pooled, far in ((0, False), (2, True)):
        block = ResidualBlock(6, hexagonal=False, pooled=pooled).eval()
        torch.nn.init.ones_(block.norm2.weight)
        x = torch.rand(1, 6, 9, 9, requires_grad=True)
        block(x)[0, :, 0, 0].sum().backward()
        assert bool(x.grad[0, :, 8, 8].any()) == far


def test_no_channel_is_left_when_all_are_pooled():
    with pytest.raises(ValueError, match="global_pooling 8 leaves none of 8 channels"):
        NetworkSettings(channels=8, global_pooling=8)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"global_pooling": 2}, {"squeeze": 4}, {"global_pooling": 2, "squeeze": 4}], ids=str)
def test_a_folded_hexagonal_tower_with_pooling_and_squeeze_gives_equal_results(changes, connect_four):
    spec = replace(connect_four.spec(), lattice="hexagonal")
    network = new_network(spec, NetworkSettings(blocks=2, channels=6, **changes), seed=4).eval()
    for block in network.trunk.blocks:
        torch.nn.init.ones_(block.norm2.weight)
    folded = copy.deepcopy(network)
    fold_kernels(folded)
    assert not any(isinstance(module, HexConv2d) for module in folded.modules())
    planes = torch.rand(3, *spec.planes)
    with torch.no_grad():
        torch.testing.assert_close(folded(planes)[1], network(planes)[1])
