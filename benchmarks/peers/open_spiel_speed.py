"""OpenSpiel's Python AlphaZero at Connect Four for `benchmarks.peers.throughput`: self-play, one game after another.

Game loop, search and network are those of `benchmarks.peers.open_spiel_peer`, inference compiled. A step is a whole game. Each
game begins with an empty cache; positions that the cache holds are not evaluated again.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence

import numpy as np

from benchmarks.peers.open_spiel_peer import PACKAGES, SETTINGS, Learner, Modules
from benchmarks.peers.rules import check_agreement
from benchmarks.peers.turns import Counts, clock_for, command_line, prepare_jax, require_jax_on, take_turns

__all__ = ["Play", "main"]

SEED = 1
CHECKED_GAMES = 10


class Play:
    """Self-play without learning."""

    def __init__(self, learner: Learner, *, simulations: int) -> None:
        """Count from now on; `simulations`: those of a move of the learner."""
        self._learner = learner
        self._simulations = simulations

    def step(self) -> None:
        """Play a game."""
        self._learner.forget()
        self._learner.play()

    def counts(self) -> Counts:
        """Return the totals so far."""
        done = self._learner.progress
        return Counts(self._learner.evaluations, done.samples * self._simulations, done.samples, done.games)


def main(arguments: Sequence[str] | None = None) -> None:
    """Take turns."""
    chosen = command_line("benchmarks.peers.open_spiel_speed", __doc__.splitlines()[0]).parse_args(arguments)
    if chosen.games != 1:
        raise SystemExit(f"error: --games {chosen.games}: this program plays one game at a time; give 1")
    prepare_jax(chosen.device)
    modules = Modules.load()
    require_jax_on(chosen.device, modules.jax.default_backend())
    check_agreement("OpenSpiel", modules.look, games=CHECKED_GAMES)
    np.random.seed(SEED)
    size = {"nn_depth": chosen.blocks, "nn_width": chosen.channels, "max_simulations": chosen.simulations}
    play = Play(Learner(modules, SETTINGS["small"].changed(**size), SEED), simulations=chosen.simulations)
    versions = " ".join(f"{package} {importlib.metadata.version(package)}" for package in PACKAGES)
    take_turns(play, f"{versions}, float32", clock=clock_for(chosen.device))


if __name__ == "__main__":
    main()
