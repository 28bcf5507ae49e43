"""Warm-up: the compiled code of play without a tree, loaded or compiled before the first game."""

from __future__ import annotations

import numpy as np

from games.core import Game
from zerofleet.contracts.heads import MOVE_HEADS
from zerofleet.evaluators.in_process.kernels import Perceptron, values
from zerofleet.search.afterstates.action_values import ActionValueBlock
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.search.afterstates.settings import AfterstateSettings

__all__ = ["warm_up", "warm_up_action_values"]

_OF_MODELS = {"opponents": (), "opponent_shares": (), "endgame": "values"}


def warm_up(game: Game, settings: AfterstateSettings) -> None:
    """Play a game by values of 0, and evaluate a position with a perceptron. Raises `ConfigurationError` for an unfit game."""
    block = AfterstateBlock(game, settings.model_copy(update=_OF_MODELS), slots=1)
    block.begin(0, seed=0, versions=[1, 1])
    while not block.finished():
        leaves = block.advance()
        block.absorb(np.empty(0), np.zeros((len(leaves.batch), 2), dtype=np.float32))
    block.take(0)
    inputs = int(np.prod(game.spec().planes))
    net = Perceptron(*(np.zeros(shape, dtype=np.float32) for shape in ((inputs, 1), 1, 1, 1, (0, 1, 1), (0, 1))))
    values(net, np.zeros((1, game.spec().packed_bytes), dtype=np.uint8), np.empty(1, dtype=np.float32))


def warm_up_action_values(game: Game, settings: AfterstateSettings) -> None:
    """Play a game by equal values of all moves. Raises `ConfigurationError` for an unfit game."""
    block = ActionValueBlock(game, settings.model_copy(update=_OF_MODELS), slots=1)
    block.begin(0, seed=0, versions=[1, 1])
    while not block.finished():
        batch = block.advance().batch
        heads = [np.full(batch.legal.shape, 0.5, dtype=np.float32)] * len(MOVE_HEADS)
        block.absorb(np.empty(0), np.zeros((len(batch), 2), dtype=np.float32), heads)
    block.take(0)
