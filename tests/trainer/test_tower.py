"""Trunks: six neighbours on a hexagonal lattice, and perceptrons of the sizes that the literature counts."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from games.core import GameSpec
from trainer.network import new_network
from trainer.optimisation import make_optimizer
from trainer.tower import HexConv2d, Perceptron, Tower, fold_kernels
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
    perceptron = Perceptron(6, (4, 3), "tanh")
    first, second = (layer for layer in perceptron.layers if isinstance(layer, torch.nn.Linear))
    planes = torch.randn(5, 2, 3, 1)
    torch.testing.assert_close(perceptron(planes), torch.tanh(second(torch.tanh(first(planes.reshape(5, 6))))))
    assert (Perceptron(6, (4,), "relu")(planes) >= 0).all()
