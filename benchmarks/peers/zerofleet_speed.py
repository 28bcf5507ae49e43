"""Zerofleet at Connect Four for `benchmarks.peers.throughput`: self-play of one block of games in one process.

The parts are the product's: the compiled search of a worker (`SearchBlock`) and the backend of the inference server
(`open_backend`). Search and network take turns in one thread, without requests, records and learning; the root is Gumbel's as
in mctx, no evaluation is cached and no subtree is kept. `zerofleet bench serve` measures worker and server as processes.
"""

from __future__ import annotations

from collections.abc import Sequence

import games
from benchmarks.peers.turns import Counts, clock_for, command_line, random_openings, take_turns
from benchmarks.random_network import random_network
from games.core import Game
from inference_server.network import Network
from zerofleet import __version__
from zerofleet.search import SearchBlock, SearchSettings
from zerofleet.service import logs

__all__ = ["Play", "main"]

VERSION = 1  # any: there is one network
FIRST_SEED = 1


class Play:
    """One block in which a new game replaces each finished one."""

    def __init__(self, game: Game, network: Network, *, games: int, simulations: int) -> None:
        """Begin `games` games at random plies."""
        settings = SearchSettings(simulations=simulations, root_policy="gumbel", reuse_subtree=False)
        self._block = SearchBlock(game, settings, slots=games)
        self._network = network
        self._versions = [VERSION] * game.spec().num_players
        self._evaluations = self._games = 0
        self._seed = FIRST_SEED
        for slot, opening in enumerate(random_openings(games)):
            self._begin(slot, opening)

    def step(self) -> None:
        """Search until every game waits for the network, evaluate, and replace finished games."""
        leaves = self._block.advance()
        if len(leaves.batch):
            policy, value, *_ = self._network.evaluate([leaves.batch.states], [leaves.batch.legal])
            self._block.absorb(policy, value)
            self._evaluations += len(leaves.batch)
        for slot in self._block.finished():
            self._block.take(slot)
            self._games += 1
            self._begin(slot)

    def counts(self) -> Counts:
        """Return the totals so far."""
        done = self._block.counters
        return Counts(self._evaluations, done.simulations, done.moves, self._games)

    def _begin(self, slot: int, opening: Sequence[int] = ()) -> None:
        self._block.begin(slot, seed=self._seed, versions=self._versions, opening=opening)
        self._seed += 1


def main(arguments: Sequence[str] | None = None) -> None:
    """Take turns."""
    chosen = command_line("benchmarks.peers.zerofleet_speed", __doc__.splitlines()[0]).parse_args(arguments)
    logs.configure("warning", "auto", "zerofleet_speed")
    game = games.make("connect_four")
    size = {"blocks": chosen.blocks, "channels": chosen.channels}
    with random_network(game, **size, device=chosen.device, max_batch=chosen.games) as network:
        play = Play(game, network, games=chosen.games, simulations=chosen.simulations)
        player = f"zerofleet {__version__}, {network.backend}, {network.precision}"
        take_turns(play, player, clock=clock_for(chosen.device))


if __name__ == "__main__":
    main()
