"""Networks of the theses: exact numbers of parameters, shapes, one batch learnt by heart, and equal results when exported."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import games
from games.core import make
from games.kit import bits
from games.reading import Reading, read_inputs
from trainer.dense import Dropout
from trainer.export import script
from trainer.exported_module import serving_module
from trainer.network import Network, new_network
from trainer.optimisation import estimate_statistics
from trainer.q_networks import QSA, QPool, new_q_network
from zerofleet.errors import ConfigurationError
from zerofleet.presets import NetworkSettings

TD = NetworkSettings(kind="perceptron", hidden=(100,), activation="sigmoid", policy_head="none", value_output="win_probability")
SUPERVISED = NetworkSettings(kind="perceptron", hidden=(729, 729), policy_head="none", value_output="win_or_loss")
MINI = NetworkSettings(
    kind="convolutional", channels=512, dense=(1024, 512), normalisation="batch", dropout=0.3, value_output="mover"
)
LARGE = NetworkSettings(
    blocks=5,
    channels=256,
    policy_channels=2,
    value_channels=1,
    value_hidden=32,
    value_output="mover",
    convolution_bias=True,
    hex_kernels=False,
)
STAR = NetworkSettings(blocks=3, channels=64, dense=(1024, 512), normalisation="batch", dropout=0.3, value_output="points")


def size(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def on_meta(spec, settings) -> Network:
    """The network without memory for its weights, for the large ones."""
    with torch.device("meta"):
        return Network(spec, settings)


@pytest.mark.parametrize(
    ("hidden", "wanted"),
    [
        ((100,), 21_401),
        ((250,), 53_501),
        ((500,), 107_001),
        ((750,), 160_501),
        ((1000,), 214_001),
        ((100, 100), 31_501),
        ((100, 100, 100), 41_601),
        ((250, 250), 116_251),
        ((500, 500), 357_501),
    ],
)
def test_every_shape_of_the_td_network_has_the_parameters_of_the_thesis(hidden, wanted):
    spec = make("connect_four", encoding="feature").spec()
    assert size(new_network(spec, TD.model_copy(update={"hidden": hidden}), seed=1)) == wanted


@pytest.mark.parametrize(
    ("columns", "encoding", "wanted"),
    [(7, "naive", 4_501), (7, "extended", 13_001), (25, "feature", 75_401), (50, "feature", 150_401)],
)
def test_the_td_network_has_the_parameters_of_the_thesis_for_every_encoding(columns, encoding, wanted):
    assert size(new_network(make("connect_four", columns=columns, encoding=encoding).spec(), TD, seed=1)) == wanted


def test_the_network_of_81_729_729_2_has_593408_parameters_and_592678_with_one_sigmoid():
    spec = make("chinese_checkers_rhombus", encoding="signed").spec()
    assert size(new_network(spec, SUPERVISED, seed=1)) == 593_408
    assert size(new_network(spec, SUPERVISED.model_copy(update={"value_output": "win_probability"}), seed=1)) == 592_678
    for normalisation in ("batch", "layer"):
        normalised = SUPERVISED.model_copy(update={"normalisation": normalisation})
        assert size(new_network(spec, normalised, seed=1)) == 593_408 + 4 * 729


def test_the_networks_of_tic_tac_toe_and_rock_paper_scissors_have_5807_and_33223_parameters():
    thesis = NetworkSettings(kind="perceptron", hidden=(100, 27), activation="tanh", value_output="mover")
    assert size(new_network(make("tic_tac_toe", encoding="one_hot").spec(), thesis, seed=1)) == 5_807
    thesis = NetworkSettings(kind="perceptron", hidden=(100, 30), activation="tanh", value_output="none")
    assert size(new_network(make("rock_paper_scissors").spec(), thesis, seed=1)) == 33_223


def test_the_mini_network_of_abalone_has_21470125_parameters():
    assert size(on_meta(make("abalone", encoding="signed").spec(), MINI)) == 21_470_125


def test_the_large_network_has_6146542_parameters_for_abalone_and_5911127_for_othello_on_six_by_six():
    assert size(on_meta(make("abalone", encoding="signed").spec(), LARGE)) == 6_146_542
    othello = make("othello", size=6).spec()
    signed = replace(othello, reading=Reading(cells=((1.0, -1.0, *[0.0] * (othello.planes[0] - 2)),)))
    assert size(on_meta(signed, LARGE)) == 5_911_127


def test_the_dense_network_of_the_star_has_the_parameters_of_its_layers():
    spec = make("chinese_checkers_star37", encoding="numbered").spec()
    tower = 9 * 64 + 2 * 64 + 3 * 2 * (9 * 64 * 64 + 2 * 64)
    dense = (64 * 81 * 1024 + 3 * 1024) + (1024 * 512 + 3 * 512)
    heads = 513 * 320 + 513 * 3
    assert size(on_meta(spec, STAR)) == tower + dense + heads


@pytest.mark.parametrize(
    ("channels", "padding", "wanted"),
    [((16, 32), "valid", 2_550), ((32, 64), "valid", 9_190), ((16, 32), "same", 4_086), ((32, 64), "same", 12_262)],
)
def test_the_q_network_of_a_pool_has_the_parameters_of_the_sheet(channels, padding, wanted):
    spec = make("chinese_checkers_rhombus", encoding="doubled").spec()
    settings = NetworkSettings(kind="q_pool", q_channels=channels, q_padding=padding)
    network = new_q_network(spec, settings, seed=1)
    assert size(network) == wanted
    assert network(torch.zeros(3, 2, 9, 9)).shape == (3, 6)


def test_padding_lets_the_q_network_see_all_cells_of_which_it_sees_36_without():
    spec = make("chinese_checkers_rhombus", encoding="signed").spec()
    for padding, wanted in (("same", 81), ("valid", 36)):
        network = new_q_network(spec, NetworkSettings(kind="q_pool", q_padding=padding), seed=1)
        for convolution in (network.layers.conv1, network.layers.conv2):
            torch.nn.init.uniform_(convolution.weight, 0.1, 1.0)  # no relu hides a cell
            torch.nn.init.ones_(convolution.bias)
        planes = torch.rand(1, 2, 9, 9, requires_grad=True)
        network(planes).square().sum().backward()
        assert int((planes.grad[0, 0] != 0).sum()) == wanted


def test_the_q_network_of_a_move_reads_its_two_cells():
    spec = make("chinese_checkers_rhombus", encoding="signed").spec()
    network = new_q_network(spec, NetworkSettings(kind="q_sa", q_padding="valid"), seed=1)
    assert isinstance(network, QSA)
    assert size(network) == 784 + 2_080 + 33
    planes, actions = torch.rand(2, 2, 9, 9), torch.tensor([81 * 3 + 30, 81 * 40 + 5])
    board = torch.zeros(2, 3, 9, 9)
    board[:, 0] = planes[:, 0] - planes[:, 1]
    for row, (source, target) in enumerate(((3, 30), (40, 5))):
        board[row, 1].view(-1)[source] = board[row, 2].view(-1)[target] = 1.0
    torch.testing.assert_close(network(planes, actions), network.layers(board)[:, 0])


SMALL = {
    "sigmoid": {"kind": "perceptron", "hidden": (24,), "activation": "sigmoid", "initial_weights": "glorot"},
    "tanh": {"kind": "perceptron", "hidden": (24, 9), "activation": "tanh", "value_output": "mover"},
    "batch norm": {"kind": "perceptron", "hidden": (24, 24), "normalisation": "batch"},
    "layer norm": {"kind": "perceptron", "hidden": (24, 24), "normalisation": "layer", "normalise": "after"},
    "win or loss": {"kind": "perceptron", "hidden": (24,), "value_output": "win_or_loss"},
    "win probability": {"kind": "perceptron", "hidden": (24,), "policy_head": "none", "value_output": "win_probability"},
    "points": {"kind": "perceptron", "hidden": (24,), "value_output": "points"},
    "policy alone": {"kind": "perceptron", "hidden": (24,), "value_output": "none"},
    "mini": {
        "kind": "convolutional",
        "convolutions": ("same", "valid"),
        "channels": 8,
        "dense": (24,),
        "normalisation": "batch",
        "dropout": 0.1,
        "value_output": "mover",
    },
    "large": {"blocks": 1, "channels": 8, "convolution_bias": True, "value_output": "mover"},
    "dense behind a tower": {"blocks": 1, "channels": 8, "dense": (24, 16), "normalisation": "batch", "dropout": 0.1},
}


def settings_of(name: str) -> NetworkSettings:
    return NetworkSettings(**SMALL[name])


@pytest.fixture(params=["tic_tac_toe", "connect_four"])
def chosen(request):
    """A game whose network reads bits, and one with numbers."""
    encoding = {"tic_tac_toe": "planes", "connect_four": "naive"}[request.param]
    return make(request.param, encoding=encoding)


def some_positions(game, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Packed positions of one game, and their legal actions."""
    spec, rng = game.spec(), np.random.default_rng(5)
    states, listed = [], np.full((count, spec.max_legal), -1, np.int16)
    state = games.new_state(game)
    for row in range(count):
        moves = games.legal(game, state)
        states.append(games.encode_for(game, state, games.core.to_move(game, state)))
        listed[row, : len(moves)] = moves
        games.advance(game, state, int(rng.choice(moves)))
    return np.stack(states), listed


@pytest.mark.parametrize("name", SMALL)
def test_the_exported_script_equals_the_module_and_depends_on_no_batch_mate(name, chosen):
    spec = chosen.spec()
    network = new_network(spec, settings_of(name), seed=2)
    states, listed = map(torch.from_numpy, some_positions(chosen, 5))
    planes = torch.from_numpy(bits.unpack(states.numpy(), spec.planes)).float()
    for _ in range(3):
        network.train()(planes)  # statistics other than those of a new norm, and draws of dropout
    scripted = script(serving_module(network, spec))
    with torch.inference_mode():
        logits, value, _ = network.eval()(planes)
        policy, served_value = scripted(states, listed)
        alone = scripted(states[2:3], listed[2:3])
    assert policy.shape == listed.shape
    assert value.shape == (5, 2)
    assert value.abs().max() <= 1.0
    legal = listed.long()
    wanted = torch.softmax(logits.gather(1, legal.clamp(min=0)).masked_fill(legal < 0, -1e30), dim=1) * (legal >= 0)
    torch.testing.assert_close(policy.float(), wanted, atol=1e-3, rtol=0)
    torch.testing.assert_close(served_value, value, atol=1e-6, rtol=0)
    torch.testing.assert_close(alone[1], served_value[2:3], atol=1e-5, rtol=0)
    assert not any(isinstance(module, Dropout) for module in serving_module(network, spec).modules())
    half = serving_module(network, spec).half()(states, listed)
    torch.testing.assert_close(half[1].float(), value, atol=2e-2, rtol=0)


@pytest.mark.parametrize("name", SMALL)
def test_every_network_learns_one_batch_by_heart(name, game):
    settings = settings_of(name).model_copy(update={"dropout": 0.0})
    spec = game.spec()
    network = new_network(spec, settings, seed=3).train()
    states, listed = some_positions(game, 4)
    planes = torch.from_numpy(bits.unpack(states, spec.planes)).float()
    best = torch.from_numpy(listed[:, -5].astype(np.int64))
    wanted = torch.tensor([[0.9, -0.9], [-0.9, 0.9], [0.2, -0.2], [-0.6, 0.6]])
    rate = 0.03 if settings.activation == "sigmoid" else 0.01  # a sigmoid has a quarter of the slope of a relu
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    for _ in range(600):
        logits, value, _ = network(planes)
        policy_loss = torch.nn.functional.cross_entropy(logits, best)
        value_loss = (value - wanted).square().mean()
        loss = policy_loss * (settings.policy_head != "none") + value_loss * (settings.value_output != "none")
        if loss < 2e-3:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 2e-3


@pytest.mark.parametrize("kind", ["q_pool", "q_sa"])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_q_networks_learn_one_batch_by_heart_and_script_to_equal_values(kind, padding):
    spec = make("chinese_checkers_rhombus", encoding="signed").spec()
    network = new_q_network(spec, NetworkSettings(kind=kind, q_padding=padding), seed=3)
    generator = torch.Generator().manual_seed(1)
    planes = (torch.rand(4, 2, 9, 9, generator=generator) < 0.3).float()
    inputs = (planes,) if isinstance(network, QPool) else (planes, torch.tensor([3 * 81 + 5, 7, 40 * 81 + 2, 90]))
    wanted = torch.linspace(-1, 1, 24).reshape(4, 6) if isinstance(network, QPool) else torch.linspace(-1, 1, 4)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(400):
        loss = (network(*inputs) - wanted).square().mean()
        if loss < 1e-3:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 1e-3
    scripted = torch.jit.script(network.eval())
    torch.testing.assert_close(scripted(*inputs), network(*inputs))


def test_a_network_without_a_board_reads_the_numbers_of_the_encoding():
    for encoding in ("naive", "extended", "feature"):
        game = make("connect_four", encoding=encoding)
        spec = game.spec()
        network = new_network(spec, TD, seed=1)
        states, _ = some_positions(game, 6)
        unpacked = bits.unpack(states, spec.planes)
        got = network.reading(torch.from_numpy(unpacked).float())
        np.testing.assert_array_equal(got.numpy(), read_inputs(unpacked, spec.reading))
        assert not network.reading.state_dict()


def test_a_network_with_a_board_reads_numbers_of_the_position_as_planes():
    game = make("connect_four", encoding="naive")
    network = new_network(game.spec(), NetworkSettings(blocks=1, channels=4), seed=1)
    states, _ = some_positions(game, 6)
    planes = torch.from_numpy(bits.unpack(states, game.spec().planes)).float()
    read = network.reading(planes)
    assert read.shape == (6, 2, 6, 7)
    torch.testing.assert_close(read[:, 0], planes[:, 0] - planes[:, 1])
    assert (read[:, 1] == 1.0).all()  # the player to move looks at the position


def test_a_td_network_of_two_layers_computes_the_sheets_formula():
    game = make("connect_four", encoding="feature")
    network = new_network(game.spec(), TD, seed=1).double()
    states, _ = some_positions(game, 3)
    unpacked = bits.unpack(states, game.spec().planes)
    first, last = network.trunk.layers[0], network.value.out
    x = read_inputs(unpacked, game.spec().reading).astype(np.float64)
    hidden = 1 / (1 + np.exp(-(x @ first.weight.detach().numpy().T + first.bias.detach().numpy())))
    chance = 1 / (1 + np.exp(-(hidden @ last.weight.detach().numpy().T + last.bias.detach().numpy())))
    _, value, _ = network(torch.from_numpy(unpacked).double())
    np.testing.assert_allclose(value.detach().numpy(), np.concatenate([2 * chance - 1, 1 - 2 * chance], axis=1), atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "weights", "biases"),
    [("small", 0.05, 0.0), ("normal", 1.0, 1.0), ("fan_in", 212**-0.5, 1.0), ("glorot", None, 0.0)],
)
def test_initial_weights_have_their_distribution(kind, weights, biases):
    spec = make("connect_four", encoding="feature").spec()
    network = new_network(spec, TD.model_copy(update={"initial_weights": kind, "hidden": (400,)}), seed=1)
    layer = network.trunk.layers[0]
    deviation = math.sqrt(2 / (212 + 400)) if weights is None else weights  # glorot: variance 2 / (inputs + outputs)
    assert layer.weight.std().item() == pytest.approx(deviation, rel=0.02)
    assert layer.weight.mean().item() == pytest.approx(0.0, abs=0.02 * deviation)
    assert layer.bias.std().item() == pytest.approx(biases, abs=0.1)
    if biases == 0.0:
        assert not layer.bias.any()
        assert not network.value.out.bias.any()


def test_dropout_drops_its_share_in_training_repeats_from_its_count_and_passes_all_in_evaluation():
    layer = Dropout(0.3, place=1)
    ones = torch.ones(100, 100)
    before = torch.get_rng_state()
    first, second = layer(ones), layer(ones)
    assert torch.equal(before, torch.get_rng_state())
    assert float((first == 0).float().mean()) == pytest.approx(0.3, abs=0.02)
    assert first.mean().item() == pytest.approx(1.0, abs=0.03)
    assert not torch.equal(first, second)
    resumed = Dropout(0.3, place=1)
    resumed.load_state_dict({"draws": torch.tensor(1)})
    assert torch.equal(resumed(ones), second)
    assert not torch.equal(Dropout(0.3, place=2)(ones), first)
    assert torch.equal(layer.eval()(ones), ones)


def test_the_statistics_of_flat_norms_are_estimated_anew_as_those_of_towers(game):
    network = new_network(game.spec(), settings_of("batch norm"), seed=2)
    planes = torch.from_numpy(bits.unpack(some_positions(game, 5)[0], game.spec().planes)).float()
    estimate_statistics(network, [planes])
    norm = network.trunk.layers[1].norm
    with torch.no_grad():
        torch.testing.assert_close(norm.running_mean, network.trunk.layers[0](planes.flatten(1)).mean(dim=0))
    assert not network.training


def test_points_begin_where_their_relu_has_a_gradient_and_are_limited_outside_of_training():
    spec = make("chinese_checkers_star37", encoding="numbered").spec()
    settings = NetworkSettings(kind="perceptron", hidden=(8,), value_output="points")
    network = new_network(spec, settings, seed=1)
    assert network.value.out.bias.tolist() == pytest.approx([4 / 3] * 3)
    with torch.no_grad():
        network.value.out.bias.fill_(9.0)
    planes = torch.zeros(1, *spec.planes)
    assert (network.train()(planes)[1] > 1).all()
    assert (network.eval()(planes)[1] == 1).all()


@pytest.mark.parametrize(
    ("game", "settings", "said"),
    [
        ("take_six", {"kind": "perceptron", "value_output": "mover"}, "take_six has 3 players: use value_output=players"),
        ("tic_tac_toe", {"kind": "convolutional"}, "take 4 rows and columns of a board of 3 x 3; use same"),
        ("abalone", {"convolution_bias": True}, "hexagonal kernels of abalone, which have none; set hex_kernels=false"),
        ("chinese_checkers_rhombus", {"dense": (8,), "policy_head": "moves"}, "network.dense there are no cells"),
        ("chinese_checkers_rhombus", {"kind": "convolutional", "policy_head": "moves"}, "the board lacks cells"),
        ("tic_tac_toe", {"kind": "q_pool"}, "want residual, convolutional or perceptron"),
    ],
)
def test_settings_that_do_not_fit_a_game_are_rejected_with_the_remedy(game, settings, said):
    with pytest.raises(ConfigurationError, match=said):
        new_network(make(game).spec(), NetworkSettings(**settings), seed=1)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "perceptron", "dense": (8,)}, "set hidden for a perceptron"),
        ({"policy_head": "none", "value_output": "none"}, "a network needs an output"),
        ({"dropout": 0.3}, "set dense, or kind=perceptron"),
        ({"kind": "convolutional", "normalisation": "layer"}, "set dense, or kind=perceptron"),
        ({"kind": "convolutional", "convolutions": ()}, "at least 1 item"),
        ({"activation": "gelu"}, "'relu', 'tanh' or 'sigmoid'"),
    ],
)
def test_settings_that_contradict_each_other_are_rejected(settings, said):
    with pytest.raises(ValueError, match=said):
        NetworkSettings(**settings)


def test_a_q_network_needs_its_kind_and_moves_between_cells_and_a_board_that_is_large_enough():
    spec = make("tic_tac_toe").spec()
    with pytest.raises(ConfigurationError, match="needs q_pool or q_sa"):
        new_q_network(spec, NetworkSettings(), seed=1)
    with pytest.raises(ConfigurationError, match="actions of tic_tac_toe are not; use q_pool"):
        new_q_network(spec, NetworkSettings(kind="q_sa"), seed=1)
    with pytest.raises(ConfigurationError, match=r"board of 3 x 3 .* set q_padding=same"):
        new_q_network(spec, NetworkSettings(kind="q_pool", q_padding="valid"), seed=1)
    assert new_q_network(spec, NetworkSettings(kind="q_pool"), seed=1)(torch.zeros(1, 2, 3, 3)).shape == (1, 6)
