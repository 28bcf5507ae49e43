"""Judge of the peers: accuracy of a player on solved positions at given processor seconds.

    examination = examination_of(arguments, peer, version)          # arguments of `command_line`
    while True:
        ...                                                  # play and learn
        examination.look(player, Progress(games=games, samples=samples, updates=updates))

`look` writes one line of JSON for every mark that has passed and raises `Finished` after the last. The time of judging is
left out of the processor seconds. A position counts if some legal move does not keep its value (won, drawn or lost).

*sign*: share of the positions in which the chosen move keeps the value; *exact*: share in which no move has a better score,
so that wins are the earliest and losses the latest. The module needs the standard library and NumPy alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from benchmarks.peers.rules import CELLS, Board

__all__ = [
    "Clock",
    "Examination",
    "Finished",
    "Player",
    "Position",
    "Progress",
    "Subject",
    "Terms",
    "command_line",
    "examination_of",
    "limit_threads",
    "read_positions",
]

JUDGE_SEED = 0
THREAD_LIMITS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


class Finished(Exception):
    """The last mark has passed."""


@dataclass(frozen=True, slots=True)
class Position:
    """Solved position."""

    moves: tuple[int, ...]
    """Columns from the start position, 0 to 6."""
    legal: tuple[int, ...]
    lost: tuple[int, ...]
    """Difference between the best score and that of each legal action."""
    score: int
    """Best score for the player to move: the winner's stones left at the end, at least 1; negative if lost, 0 if drawn."""
    source: str
    """Origin of the position."""

    @property
    def decides(self) -> bool:
        """Whether some legal action does not keep the value."""
        return not all(map(self.keeps, self.legal))

    def keeps(self, action: int) -> bool:
        """Return whether the position is still won, drawn or lost after a legal action."""
        return bool(np.sign(self.score - self.lost[self.legal.index(action)]) == np.sign(self.score))

    def is_exact(self, action: int) -> bool:
        """Return whether no action has a better score than a legal `action`."""
        return self.lost[self.legal.index(action)] == 0

    def line(self) -> str:
        """Return the position as one line of JSON."""
        fields = {"moves": self.moves, "legal": self.legal, "lost": self.lost, "score": self.score}
        return json.dumps(fields | {"decides": self.decides, "source": self.source})


def read_positions(path: Path) -> list[Position]:
    """Return the positions of a file; raises `ValueError` if one contradicts the rules."""
    return [_read(line) for line in path.read_text().splitlines()]


def _read(line: str) -> Position:
    """Return the position of a line, after a check of its legal actions and of its immediate wins."""
    fields = json.loads(line)
    moves, legal, lost = (tuple(fields[name]) for name in ("moves", "legal", "lost"))
    position = Position(moves, legal, lost, fields["score"], fields["source"])
    wins = (CELLS - len(moves) + 1) // 2  # score of a win by the next stone
    for action, loss in zip(legal, lost, strict=True):
        if (Board([*moves, action]).winner is not None) != (position.score - loss == wins):
            raise ValueError(f"score {position.score - loss} of move {action} is wrong after {list(moves)}")
    if Board(moves).legal() != legal or min(lost) != 0 or position.decides != fields["decides"]:
        raise ValueError(f"position after {list(moves)} contradicts the rules or itself: {line}")
    return position


class Player(Protocol):
    """A peer's network at some time, with the peer's own search."""

    def by_policy(self, moves: Sequence[int]) -> int:
        """Return the legal action of highest prior."""
        ...

    def by_search(self, moves: Sequence[int], simulations: int) -> int:
        """Return the action chosen by a search without noise."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """Amount of self-play and training so far."""

    games: int
    """Finished games of self-play."""
    samples: int
    """Positions of self-play, without mirror images."""
    updates: int
    """Steps of gradient descent of the player that is judged."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Identity of a learner."""

    peer: str
    version: str
    settings: str
    """Name of the settings."""
    seed: int


@dataclass(frozen=True, slots=True)
class Terms:
    """How and when players are judged."""

    marks: tuple[float, ...]
    """Processor seconds of the judgements, ascending."""
    simulations: int
    policy_positions: int | None
    """Deciding positions for the policy, from the start of the file; None for all."""
    search_positions: int | None
    """Deciding positions for the search, from the start of the file; None for all, 0 to leave it out."""
    out: Path
    """File to which rows are appended."""


class Clock:
    """Processor seconds of this process and of its finished children, without those left out."""

    def __init__(self) -> None:
        """Begin with the start of the process: imports and compilation count."""
        self._left_out_s = 0.0

    def seconds(self) -> float:
        """Return the processor seconds spent so far."""
        return self._all() - self._left_out_s

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """Leave the processor time of a block out."""
        start = self._all()
        try:
            yield
        finally:
            self._left_out_s += self._all() - start

    @staticmethod
    def _all() -> float:
        times = os.times()
        return time.process_time() + times.children_user + times.children_system


class Examination:
    """Judgements of one learner at the marks of its budget."""

    def __init__(self, subject: Subject, positions: Sequence[Position], terms: Terms) -> None:
        """Prepare the judgements; raises `ValueError` if the positions do not suffice."""
        self.clock = Clock()
        self._subject = subject
        self._terms = terms
        self._positions = [position for position in positions if position.decides]
        self._marks = list(terms.marks)
        self._judged: tuple[int, dict[str, float | int | None]] | None = None
        self._policy_positions = self._first(terms.policy_positions)
        self._search_positions = self._first(terms.search_positions)

    def _first(self, count: int | None) -> list[Position]:
        if count is not None and count > len(self._positions):
            raise ValueError(f"the file has {len(self._positions)} deciding positions, not {count}; ask for fewer")
        return self._positions[:count]

    def look(self, player: Player, progress: Progress) -> None:
        """Append a row for every mark that has passed; raises `Finished` after the last mark.

        A player with as many updates as at the last judgement is not judged again.
        """
        reached_s = self.clock.seconds()
        while self._marks and self._marks[0] <= reached_s:
            with self.clock.left_out():
                self._write(self._marks.pop(0), reached_s, player, progress)
        if not self._marks:
            raise Finished

    def _write(self, mark_s: float, reached_s: float, player: Player, progress: Progress) -> None:
        if self._judged is None or self._judged[0] != progress.updates:
            self._judged = progress.updates, self._judge(player)
        subject = self._subject
        row = {"peer": subject.peer, "version": subject.version, "settings": subject.settings, "seed": subject.seed}
        row |= {"cpu_s": mark_s, "reached_cpu_s": round(reached_s, 1)}
        row |= {"games": progress.games, "samples": progress.samples, "updates": progress.updates}
        line = json.dumps(row | self._judged[1])
        with self._terms.out.open("a") as out:
            out.write(line + "\n")
        sys.stderr.write(line + "\n")

    def _judge(self, player: Player) -> dict[str, float | int | None]:
        """Return the columns of a row that concern accuracy. The random numbers of the learner are left as they were."""
        terms, before = self._terms, np.random.get_state()
        np.random.seed(JUDGE_SEED)
        start = self.clock.seconds()
        sign, exact = self._shares(player.by_policy, self._policy_positions)
        found: dict[str, float | int | None] = {"policy_sign": sign, "policy_exact": exact}
        sign, exact = self._shares(lambda moves: player.by_search(moves, terms.simulations), self._search_positions)
        found |= {"search_sign": sign, "search_exact": exact, "simulations": terms.simulations}
        found |= {"policy_positions": len(self._policy_positions), "search_positions": len(self._search_positions)}
        np.random.set_state(before)
        return found | {"judging_cpu_s": round(self.clock.seconds() - start, 1)}

    def _shares(
        self, choose: Callable[[Sequence[int]], int], positions: Sequence[Position]
    ) -> tuple[float | None, float | None]:
        """Return the shares, in percent, of moves that keep the value and of moves that are exact; None for no positions."""
        chosen = [(position, choose(position.moves)) for position in positions]
        if not chosen:
            return None, None
        kept = sum(position.keeps(action) for position, action in chosen)
        exact = sum(position.is_exact(action) for position, action in chosen)
        return round(100 * kept / len(chosen), 2), round(100 * exact / len(chosen), 2)


def limit_threads() -> None:
    """Limit the numeric libraries to one thread; to be called before they are imported."""
    os.environ.update(THREAD_LIMITS)


def command_line(module: str, summary: str, *, settings: Iterable[str], default: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all peers share; `settings`: names of a peer's settings."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=summary)
    parser.add_argument("--positions", type=Path, required=True, help="file of `python -m benchmarks.peers.positions`")
    parser.add_argument("--out", type=Path, required=True, help="file to which rows are appended, as lines of JSON")
    parser.add_argument("--at", default="300,600,1200,1800", help="processor seconds of the judgements; the last is the budget")
    parser.add_argument("--simulations", type=int, default=100, help="simulations of the judged search")
    parser.add_argument("--policy-positions", type=int, help="deciding positions for the policy alone; all of the file")
    parser.add_argument("--search-positions", type=int, help="deciding positions for the search; all of the file; 0: none")
    parser.add_argument("--seed", type=int, default=1, help="seed of weights and games")
    parser.add_argument("--settings", choices=sorted(settings), default=default)
    return parser


def examination_of(arguments: argparse.Namespace, peer: str, version: str) -> Examination:
    """Return the examination that a command line describes; raises `ValueError` for positions that do not suffice."""
    subject = Subject(peer, version, arguments.settings, arguments.seed)
    marks = tuple(sorted(float(mark) for mark in arguments.at.split(",")))
    policy, search = arguments.policy_positions, arguments.search_positions
    terms = Terms(marks, arguments.simulations, policy, search, arguments.out)
    return Examination(subject, read_positions(arguments.positions), terms)
