"""Strength of one version by the compiled kernel and by TorchScript: accuracy of its moves, and a match of both.

    $ python -m benchmarks.backend_strength runs/connect_four-laptop --judged 1000 --simulations 100 --games 2000

The judged positions are those of `zerofleet bench learn --judged N`. A match has the same weights, openings and search on both
sides, each opening with both seatings; where every move agrees, the two games are one and the pair has half of the points.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import games
from benchmarks.versions import version_or_champion
from games.core import Game
from inference_server.backend import TorchBackend
from inference_server.native_backend import NativeBackend
from inference_server.network import Backend, Network
from zerofleet.agents import make_agent
from zerofleet.cli.bench.learn.command import JUDGE_SEED, cache_folder
from zerofleet.contracts.naming import model_name
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.strength.accuracy import model_chooser
from zerofleet.strength.learning.positions import ScoredPosition, kept_positions, stored_positions
from zerofleet.strength.matches import FixedGames, MatchSettings, MatchTerms, Player, Scoreboard, play_match
from zerofleet.strength.matches.meeting import terms_of_games
from zerofleet.strength.ratings import wilson
from zerofleet.strength.ratings.intervals import Z_95

__all__ = ["Accuracy", "Backends", "compared", "main", "of_match", "paired_difference", "played", "same_games"]

MAX_BATCH = 512
SLOTS = 256
KERNEL, TORCHSCRIPT = "kernel", "torchscript"


class Backends:
    """Evaluator whose versions 1, 2, … are the same weights in one backend each, with the processor time of their calls."""

    def __init__(self, networks: Mapping[str, Network]) -> None:
        self.names = tuple(networks)
        self._networks = tuple(networks.values())
        self.spent_s = [0.0] * len(networks)
        self.rows = [0] * len(networks)

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. Cancellation: never suspends."""
        began_s = time.process_time()
        policy, value, *_ = self._networks[version - 1].evaluate([batch.states], [batch.legal])
        self.spent_s[version - 1] += time.process_time() - began_s
        self.rows[version - 1] += len(batch)
        return Evaluation(policy, value, version)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Judged moves of one backend."""

    kept: np.ndarray  # bool [N], the move keeps the value of the position
    exact: np.ndarray  # bool [N], no move scores better
    actions: np.ndarray  # int64 [N]


async def compared(
    game: Game, evaluator: Evaluator, positions: Sequence[ScoredPosition], *, versions: int, simulations: int
) -> list[Accuracy]:
    """Return the judged moves of versions 1 to `versions`, of the same search. Cancellation: nothing is kept."""
    found = []
    for version in range(1, versions + 1):
        choose = model_chooser(game, evaluator, version=version, simulations=simulations, seed=0)
        actions = await choose([position.moves for position in positions])
        pairs = list(zip(positions, actions, strict=True))
        kept = np.array([position.keeps_value(action) for position, action in pairs])
        exact = np.array([position.is_exact(action) for position, action in pairs])
        found.append(Accuracy(kept, exact, np.array(actions)))
    return found


def paired_difference(own: np.ndarray, base: np.ndarray) -> tuple[float, float]:
    """Return the difference of two shares over the same positions (bool [N] each), and half its 95 % interval, in points."""
    differences = 100.0 * (own.astype(np.float64) - base)
    return float(differences.mean()), Z_95 * float(differences.std(ddof=1)) / len(differences) ** 0.5


def _line(own: Accuracy, base: Accuracy) -> str:
    parts = []
    for label, marks, others in (("sign", own.kept, base.kept), ("exact", own.exact, base.exact)):
        low, high = wilson(int(marks.sum()), len(marks))
        middle, half = paired_difference(marks, others)
        parts.append(f"{label} {marks.mean():.1%} ({low:.1%} to {high:.1%}), difference {middle:+.2f} ± {half:.2f}")
    parts.append(f"another move in {int((own.actions != base.actions).sum())} of {len(own.actions)}")
    return "; ".join(parts)


def same_games(board: Scoreboard) -> int:
    """Return the number of complete groups whose games have the same moves: the players never chose differently."""
    moves: dict[int, set[tuple[int, ...]]] = {}
    for result in board.counted_results():
        moves.setdefault(result.group, set()).add(result.moves)
    return sum(len(different) == 1 for different in moves.values())


async def played(terms: MatchTerms, evaluator: Evaluator, *, simulations: int) -> Scoreboard:
    """Return the board of a complete match. Cancellation: nothing is kept."""
    board = Scoreboard(terms)
    settings = MatchSettings(simulations=simulations, slots=SLOTS)
    await play_match(board, FixedGames(), evaluator, settings=settings, make_agent=make_agent)
    return board


def of_match(board: Scoreboard) -> str:
    """Return the result of a match in one line."""
    standing = board.standing()
    low, high = standing.interval
    total = standing.total
    return (
        f"{standing.games} games, {total.wins} won, {total.draws} drawn, {total.losses} lost: {standing.share:.2%} of the"
        f" points (95 % interval {low:.2%} to {high:.2%}); {same_games(board)} of {standing.groups} pairs with equal games"
    )


def _loaded(asked: argparse.Namespace, game: Game) -> Backends:
    store, model = DirectoryStore(asked.run / "models"), model_name(game)
    version = version_or_champion(asked.run, game, asked.version)
    manifest = store.verify(model, version, game=game)
    backends: dict[str, Backend] = {KERNEL: NativeBackend(), TORCHSCRIPT: TorchBackend("cpu", "float32", 1)}
    path = store.directory(model, version) / "model.pt"
    sys.stdout.write(f"version {version}, load {os.getloadavg()[0]:.1f}\n")
    return Backends({name: backend.load(path, manifest, max_batch=MAX_BATCH) for name, backend in backends.items()})


def _judge(asked: argparse.Namespace, game: Game, both: Backends) -> None:
    positions = stored_positions(kept_positions(cache_folder(), game, count=asked.judged, seed=JUDGE_SEED))
    for simulations in (0, asked.simulations):
        found = asyncio.run(compared(game, both, positions, versions=len(both.names), simulations=simulations))
        for name, own in zip(both.names, found, strict=True):
            sys.stdout.write(f"{simulations} simulations, {name}: {_line(own, found[-1])}\n")


def _play(asked: argparse.Namespace, game: Game, both: Backends) -> None:
    players = (Player.model(1), Player.model(2))
    terms = terms_of_games(game, players, games=asked.games, seed=asked.seed, opening_plies=asked.opening_plies)
    board = asyncio.run(played(terms, both, simulations=asked.simulations))
    sys.stdout.write(f"{asked.simulations} simulations, {both.names[0]} against {both.names[1]}: {of_match(board)}\n")


def main() -> None:
    """Judge, play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run directory")
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--version", type=int, help="version; the champion by default")
    parser.add_argument("--judged", type=int, default=1000, help="judged positions; 0: none (default: 1000)")
    parser.add_argument("--simulations", type=int, default=100, help="besides the policy alone (default: 100)")
    parser.add_argument("--games", type=int, default=2000, help="games of the match; 0: none (default: 2000)")
    parser.add_argument("--opening-plies", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="seed of the openings")
    asked = parser.parse_args()
    game = games.make(asked.game)
    both = _loaded(asked, game)
    if asked.judged:
        _judge(asked, game, both)
    if asked.games:
        _play(asked, game, both)
    for name, spent_s, rows in zip(both.names, both.spent_s, both.rows, strict=True):
        sys.stdout.write(f"{name}: {rows} positions, {1e6 * spent_s / max(1, rows):.1f} us of processor time each\n")
    sys.stdout.write(f"load {os.getloadavg()[0]:.1f}\n")


if __name__ == "__main__":
    main()
