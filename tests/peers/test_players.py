"""Players of the comparison, without the peers' packages: the product's own, and the size of the network of pgx + mctx."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import games
from benchmarks.peers import open_spiel_speed
from benchmarks.peers.judge import Progress
from benchmarks.peers.pgx_mctx_speed import Size, parameters, shapes
from benchmarks.peers.positions import as_position
from benchmarks.peers.turns import Counts
from benchmarks.peers.zerofleet_speed import Play
from trainer.network import new_network
from zerofleet.evaluators.uniform import uniform_policy
from zerofleet.presets import NetworkSettings
from zerofleet.strength.learning.positions import ScoredPosition

GAME = games.make("connect_four")
SIMULATIONS = 4


class Uniform:
    """Network without an opinion."""

    def __init__(self):
        self.evaluated = 0

    def evaluate(self, states, legal):
        (rows,) = legal
        self.evaluated += len(rows)
        return uniform_policy(rows), np.zeros((len(rows), GAME.spec().num_players), np.float32)


class Learner:
    """Learner whose games have 20 plies, and which evaluates 3 positions of each; it counts emptied caches."""

    def __init__(self):
        self.emptied = 0
        self.progress = Progress(games=0, samples=0, updates=0)

    @property
    def evaluations(self):
        return 3 * self.progress.samples

    def forget(self):
        self.emptied += 1

    def play(self):
        assert self.emptied == self.progress.games + 1
        self.progress = Progress(self.progress.games + 1, self.progress.samples + 20, 0)


def test_open_spiel_plays_whole_games_each_with_an_empty_cache():
    play = open_spiel_speed.Play(Learner(), simulations=5)
    play.step()
    play.step()
    assert play.counts() == Counts(evaluations=120, simulations=200, plies=40, games=2)


@pytest.mark.slow
def test_the_product_counts_its_evaluations_moves_and_finished_games():
    network = Uniform()
    play = Play(GAME, network, games=8, simulations=SIMULATIONS)
    while play.counts().games < 20:
        play.step()
    found = play.counts()
    assert found.evaluations == network.evaluated
    assert found.plies > found.games
    assert found.plies <= found.simulations <= (SIMULATIONS + 1) * (found.plies + 8)


def test_the_network_of_the_peer_has_the_size_of_the_products():
    """Stem and last layer differ: pgx encodes a position in two planes, and its value has one output."""
    product = new_network(GAME.spec(), NetworkSettings(blocks=3, channels=16), seed=0)
    ours = Counter(tensor.numel() for name, tensor in product.named_parameters() if tensor.dim() > 1 and "stem" not in name)
    peers = Counter(int(np.prod(shape)) for name, shape in shapes(Size(3, 16)).items() if name != "stem")
    (last,) = (ours - peers).elements()
    assert ours - Counter([last]) == peers - Counter([64])
    assert last == 2 * 64


def test_weights_and_biases_fit_each_other():
    found = parameters(Size(2, 8))
    assert {name: weights.shape for name, (weights, _) in found.items()} == shapes(Size(2, 8))
    assert all(bias.shape == weights.shape[-1:] for weights, bias in found.values())


def test_a_position_of_the_products_judge_keeps_its_scores():
    found = as_position(ScoredPosition((3, 3), (0, 1, 2), (-1.0, 2.0, 0.0)))
    assert (found.moves, found.legal, found.lost, found.score) == ((3, 3), (0, 1, 2), (3, 0, 2), 2)
    assert [found.keeps(action) for action in found.legal] == [False, True, False]
