"""alpha-zero-general at Connect Four: learning in one process, judged at given processor seconds.

    python -m benchmarks.peers.alpha_zero_general_peer --source alpha-zero-general --positions positions.jsonl \\
        --out rows.jsonl --at 300,600 --settings main

The parts are the peer's, from a clone of its repository: coach, search, arena, rules, network. README.md beside this file has
the settings and lists every difference.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.peers.judge import Examination, Finished, Progress, command_line, examination_of, limit_threads
from benchmarks.peers.rules import COLUMNS, ROWS, Seen, check_agreement

__all__ = ["SETTINGS", "Settings", "main"]

MIRRORED = 2
"""Examples per position: itself and its mirror image."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of `main.py` and of `othello/pytorch/NNet.py`; the defaults are theirs."""

    games_per_iteration: int = 100
    temperature_plies: int = 15
    accepted_share: float = 0.6
    examples_per_iteration: int = 200_000
    simulations: int = 25
    arena_games: int = 40
    cpuct: float = 1.0
    iterations_kept: int = 20
    num_channels: int = 512
    epochs: int = 10

    def coach(self, checkpoint: str) -> dict[str, Any]:
        """Return the peer's names and values."""
        return {
            "numIters": sys.maxsize - 1,
            "numEps": self.games_per_iteration,
            "tempThreshold": self.temperature_plies,
            "updateThreshold": self.accepted_share,
            "maxlenOfQueue": self.examples_per_iteration,
            "numMCTSSims": self.simulations,
            "arenaCompare": self.arena_games,
            "cpuct": self.cpuct,
            "checkpoint": checkpoint,
            "load_model": False,
            "numItersForTrainExamplesHistory": self.iterations_kept,
        }


SETTINGS = {"main": Settings(), "small": Settings(num_channels=64)}
"""Settings by name: those of `main.py`, and a network that suits the budget."""


@dataclass(frozen=True, slots=True)
class _Modules:
    """Parts of the peer, imported from its clone after the limit on threads."""

    coach: ModuleType
    mcts: ModuleType
    network: ModuleType
    utils: ModuleType
    torch: ModuleType
    game: Any
    """Connect Four of the peer."""

    @classmethod
    def load(cls, source: Path) -> _Modules:
        sys.path.insert(0, str(source.resolve()))
        load = importlib.import_module
        # Its default board calls np.int, gone since NumPy 1.24, and its keys call ndarray.tostring, gone since NumPy 2.3.
        game = load("connect4.Connect4Game").Connect4Game(np_pieces=np.zeros((ROWS, COLUMNS), dtype=int))
        game.stringRepresentation = np.ndarray.tobytes
        return cls(
            coach=load("Coach"),
            mcts=load("MCTS"),
            network=load("othello.pytorch.NNet"),
            utils=load("utils"),
            torch=load("torch"),
            game=game,
        )

    def board(self, moves: Sequence[int]) -> tuple[Any, int]:
        """Return the board after some moves, int [6, 7] with the top row first, and the player to move, 1 or -1."""
        board, player = self.game.getInitBoard(), 1
        for move in moves:
            board, player = self.game.getNextState(board, player, move)
        return board, player

    def canonical(self, moves: Sequence[int]) -> Any:
        """Return the board in which the stones of the player to move are 1."""
        return self.game.getCanonicalForm(*self.board(moves))

    def look(self, moves: Sequence[int]) -> Seen:
        """Return legal actions and winner after some moves by the peer's rules, read from the canonical form."""
        board, ended = self.canonical(moves), self.game.getGameEnded(self.canonical(moves), 1)
        if ended == 0:
            return Seen(tuple(np.flatnonzero(self.game.getValidMoves(board, 1)).tolist()), None)
        mover = len(moves) % 2
        winner = {1: mover, -1: 1 - mover}.get(ended)  # a draw is worth 1e-4
        return Seen((), winner)


class _Player:
    """One network with the peer's search."""

    def __init__(self, modules: _Modules, network: Any, cpuct: float) -> None:
        self._modules = modules
        self._network = network
        self._cpuct = cpuct

    def by_policy(self, moves: Sequence[int]) -> int:
        board = self._modules.canonical(moves)
        policy, _ = self._network.predict(board)
        return int(np.where(self._modules.game.getValidMoves(board, 1), policy, -1.0).argmax())

    def by_search(self, moves: Sequence[int], simulations: int) -> int:
        terms = self._modules.utils.dotdict(numMCTSSims=simulations, cpuct=self._cpuct)
        search = self._modules.mcts.MCTS(self._modules.game, self._network, terms)
        return int(np.argmax(search.getActionProb(self._modules.canonical(moves), temp=0)))


class _Watch:
    """Looks at the clock between the steps of the peer's coach.

    The player is the network that generates games: `nnet`, except in training and arena, where it is the previous one, `pnet`.
    """

    def __init__(self, modules: _Modules, coach: Any, settings: Settings, examination: Examination) -> None:
        self._coach = coach
        self._examination = examination
        self._settings = settings
        self._torch = modules.torch
        self._batch_size = int(modules.network.args.batch_size)
        self._current = _Player(modules, coach.nnet, settings.cpuct)
        self._previous = _Player(modules, coach.pnet, settings.cpuct)
        self._games = self._samples = 0
        self._updates = 0  # of the player
        self._tried = 0  # of the candidate since then
        coach.executeEpisode = self._counted(coach.executeEpisode)
        coach.nnet.train = self._followed(coach.nnet.train)
        coach.saveTrainExamples = lambda _: None

    def _counted(self, play: Callable[[], list[Any]]) -> Callable[[], list[Any]]:
        """Return the generation of a game with a look before it, if a candidate was judged by the peer, and after it."""

        def episode() -> list[Any]:
            if self._tried:
                self._look(self._previous)
                self._updates += self._tried if self._accepted() else 0
                self._tried = 0
            examples = play()
            self._games += 1
            self._samples += len(examples) // MIRRORED
            self._look(self._current)
            return examples

        return episode

    def _followed(self, train: Callable[[list[Any]], None]) -> Callable[[list[Any]], None]:
        """Return the training of a candidate with a look after it."""

        def training(examples: list[Any]) -> None:
            train(examples)
            self._tried = self._settings.epochs * (len(examples) // self._batch_size)
            self._look(self._previous)

        return training

    def _look(self, player: _Player) -> None:
        self._examination.look(player, Progress(self._games, self._samples, self._updates))

    def _accepted(self) -> bool:
        """Return whether the coach kept the candidate: a refused one has the weights of the previous player again."""
        pairs = zip(self._coach.nnet.nnet.parameters(), self._coach.pnet.nnet.parameters(), strict=True)
        return not all(self._torch.equal(new, old) for new, old in pairs)


def revision(source: Path) -> str:
    """Return the commit of a clone; raises `RuntimeError` if its tracked Python files differ from the commit."""
    git = [shutil.which("git") or "git", "-C", str(source)]
    if subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "*.py"], check=False).returncode:
        raise RuntimeError(f"Python files of {source} differ from its commit; restore them with git checkout")
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def learn(modules: _Modules, settings: Settings, examination: Examination) -> None:
    """Let the peer's coach learn; raises `Finished` at the end of the budget."""
    modules.network.args.update(cuda=False, num_channels=settings.num_channels, epochs=settings.epochs)
    with (
        tempfile.TemporaryDirectory() as folder,
        Path(os.devnull).open("w") as nothing,
        contextlib.redirect_stdout(nothing),
    ):
        network = modules.network.NNetWrapper(modules.game)
        coach = modules.coach.Coach(modules.game, network, modules.utils.dotdict(settings.coach(folder)))
        _Watch(modules, coach, settings, examination)
        coach.learn()


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn until the last mark and append a row for each."""
    module = "benchmarks.peers.alpha_zero_general_peer"
    parser = command_line(module, __doc__.splitlines()[0], settings=SETTINGS, default="main")
    parser.add_argument("--source", type=Path, required=True, help="clone of the peer's repository")
    chosen = parser.parse_args(arguments)
    limit_threads()
    os.environ["TQDM_DISABLE"] = "1"
    version = f"{revision(chosen.source)} torch {importlib.metadata.version('torch')}"
    examination = examination_of(chosen, "alpha_zero_general", version)
    modules = _Modules.load(chosen.source)
    modules.torch.set_num_threads(1)
    with examination.clock.left_out():
        check_agreement("alpha-zero-general", modules.look)
    modules.torch.manual_seed(chosen.seed)
    np.random.seed(chosen.seed)
    random.seed(chosen.seed)
    with contextlib.suppress(Finished):
        learn(modules, SETTINGS[chosen.settings], examination)


if __name__ == "__main__":
    main()
