"""Share of a policy over all actions that is on illegal ones, in games of the network alone (Schulte 2021, section 9.5).

The meter of training (`trainer.loss.ILLEGAL_MASS`) is of the weights in training, on positions of the window; this is of a
stored version, in the positions that it reaches itself. Forced moves, such as the passes of a finished player, do not count:
they are played without the network, and are not samples of its training.
"""

from __future__ import annotations

import numpy as np
import torch

from games import core
from games.core import Game, State
from games.positions import encode_for, legal, new_state
from trainer.export import exported_network
from trainer.exported_module import planes_of
from trainer.loss import log_policy
from trainer.network import Network
from zerofleet.contracts.naming import model_name
from zerofleet.storage.model_store import ModelStore

__all__ = ["GAMES", "illegal_mass", "stored_policy"]

GAMES = 120
"""Games of a version, as in the thesis."""
OPENING_PLIES = 6
"""Random plies at the beginning of a game; the network's first choices would otherwise repeat one game."""


def stored_policy(store: ModelStore, game: Game, version: int) -> Network:
    """Return the network of a stored version, in evaluation mode. Raises `CorruptModel`, `Unavailable`."""
    return exported_network(store, game, store.verify(model_name(game), version, game=game))


@torch.no_grad()
def illegal_mass(network: Network, game: Game, *, seed: int, games: int = GAMES) -> float:
    """Return the mean share of the policy on illegal actions, in [0, 1], over the positions of some games with a choice.

    A choice is between two or more legal actions.

    Each seat plays the legal action of the highest probability. The `OPENING_PLIES` random plies before do not count. The game
    has one player to move at a time.
    """
    rng = np.random.default_rng(seed)
    going = [state for _ in range(games) if legal(game, state := _opened(game, rng))]
    total, positions = 0.0, 0
    while going:
        listed = [legal(game, state) for state in going]
        logits, _, _ = network(_planes(game, going))
        rows = torch.full((len(going), max(map(len, listed))), -1, dtype=torch.int64)
        for row, actions in zip(rows, listed, strict=True):
            row[: len(actions)] = torch.tensor(actions)
        shares = log_policy(logits, rows, network.policy_activation, over="all").exp()
        free = torch.tensor([len(actions) > 1 for actions in listed])
        total += float((1.0 - shares.sum(dim=1)[free]).clamp(min=0.0).sum())
        positions += int(free.sum())
        for state, actions, best in zip(going, listed, shares.argmax(dim=1).tolist(), strict=True):
            core.play(game, state, actions[best])
        going = [state for state in going if legal(game, state)]
    return total / max(1, positions)


def _opened(game: Game, rng: np.random.Generator) -> State:
    state = new_state(game)
    for _ in range(OPENING_PLIES):
        if actions := legal(game, state):
            core.play(game, state, actions[int(rng.integers(len(actions)))])
    return state


def _planes(game: Game, states: list[State]) -> torch.Tensor:
    """Return the planes that the players to move see, float32 [N, C, H, W]."""
    packed = np.stack([encode_for(game, state, core.to_move(game, state)) for state in states])
    return planes_of(game.spec(), packed)
