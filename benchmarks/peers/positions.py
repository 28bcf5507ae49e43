"""Solved positions for the judge of the peers, one line of JSON each.

    python -m benchmarks.peers.positions positions.jsonl --deciding 1000 --seed 1
    python -m benchmarks.peers.positions pons.jsonl --deciding 0 --tests Test_L3_R1 Test_L2_R1
    python -m benchmarks.peers.positions judged.jsonl --deciding 0 --judged 1000

Positions come from random games and, as many, from games of an agent with random rollouts against itself after random
openings; or from the public test files of Pascal Pons, lines of moves (columns from 1) and score. The product's solver
gives the score of every legal move. With `--judged N` they are the deciding positions by which `zerofleet bench learn
--judged N` judges, which are kept once they are solved. The lines are in random order, so the first are a fair sample.

The deciding positions are also written as such a test file, beside the first with the suffix `.txt`, for players of the
product.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

import numpy as np

import games
from benchmarks.peers.judge import Position, read_positions
from benchmarks.peers.rules import COLUMNS, ROWS, Seen, check_agreement
from games import core
from games.connect_four import ConnectFour
from games.positions import legal, new_state, replay
from zerofleet.agents import make_agent
from zerofleet.agents.exact.solver import Solver, shipped_book
from zerofleet.cli.bench.learn.command import JUDGE_SEED, cache_folder
from zerofleet.strength.accuracy import agent_chooser, random_positions, self_play_positions
from zerofleet.strength.learning.positions import ScoredPosition, kept_positions, stored_positions

__all__ = ["as_position", "as_test_line", "collect", "main", "read_tests", "solved", "solved_until"]

JUDGE = "bench learn"  # source of positions of the product's judge
TABLE_BITS = 24  # 128 MB of transposition table
SOURCES = 2
DRAWN = 3  # positions drawn for each deciding one; about half of them decide
REPORT_EVERY = 100

Item = TypeVar("Item")

Unsolved: TypeAlias = tuple[tuple[int, ...], str, int | None]
"""Moves, source, and the score if it is known."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a file of solved positions, and its deciding positions as a test file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.positions", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--deciding", type=int, default=1000, help="deciding positions to find; 0: those of --tests alone")
    parser.add_argument("--first-ply", type=int, default=8, help="earliest ply; positions of few stones take longest to solve")
    parser.add_argument("--agent", default="uct:200", help="agent of the self-play games")
    parser.add_argument("--tests", type=Path, nargs="*", default=[], help="test files with lines of moves and score")
    parser.add_argument("--judged", type=int, default=0, help="positions of `zerofleet bench learn --judged N`")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    if chosen.out.suffix == ".txt":
        parser.error(f"{chosen.out} would be overwritten by the test file; choose another suffix, such as .jsonl")
    game = cast("ConnectFour", games.make("connect_four"))
    check_agreement("the product", lambda moves: look(game, moves))
    solver = Solver(game, book=shipped_book(game), table=TABLE_BITS)
    found = [solved(solver, one) for path in chosen.tests for one in read_tests(path)]
    if chosen.judged:
        kept = kept_positions(cache_folder(), game, count=chosen.judged, seed=JUDGE_SEED)
        found += [as_position(one) for one in stored_positions(kept)]
    if chosen.deciding:
        count = DRAWN * -(-chosen.deciding // SOURCES)
        drawn = collect(game, chosen.agent, count=count, first_ply=chosen.first_ply, seed=chosen.seed)
        found += solved_until(solver, shuffled(drawn, chosen.seed), deciding=chosen.deciding)
    found = shuffled(found, chosen.seed)
    chosen.out.write_text("".join(position.line() + "\n" for position in found))
    deciding = [position for position in read_positions(chosen.out) if position.decides]
    chosen.out.with_suffix(".txt").write_text("".join(as_test_line(position) + "\n" for position in deciding))
    sys.stdout.write(f"{len(found)} positions, {len(deciding)} of them deciding\n")


def look(game: ConnectFour, moves: Sequence[int]) -> Seen:
    """Return legal actions and winner after some moves by the product's rules."""
    if (game.rows, game.columns) != (ROWS, COLUMNS):
        raise ValueError(f"the board has {game.rows} rows and {game.columns} columns, want {ROWS} and {COLUMNS}")
    state, scores = new_state(game), np.zeros(2, dtype=np.float32)
    for move in moves:
        core.play(game, state, move)
    if not core.is_over(game, state):
        return Seen(tuple(legal(game, state)), None)
    core.scores(game, state, scores)
    return Seen((), int(scores.argmax()) if scores.any() else None)


def read_tests(path: Path) -> list[Unsolved]:
    """Return the lines of a test file, with columns from 0."""
    lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
    return [(tuple(int(column) - 1 for column in moves), path.name, int(score)) for moves, score in lines]


def as_test_line(position: Position) -> str:
    """Return a position as a line of a test file; the start position has no moves and therefore no score."""
    return f"{''.join(str(move + 1) for move in position.moves)} {position.score}" if position.moves else "-"


def collect(game: ConnectFour, agent: str, *, count: int, first_ply: int, seed: int) -> list[Unsolved]:
    """Return `count` positions of random games and as many of an agent's self-play, without score and repetition."""
    by_chance = random_positions(game, count=count, seed=seed, first_ply=first_ply)
    chooser = agent_chooser(game, make_agent(agent, game), seed=seed)
    played = asyncio.run(self_play_positions(game, chooser, count=count, seed=seed, first_ply=first_ply))
    sources = dict.fromkeys(played, agent) | dict.fromkeys(by_chance, "random")
    return [(moves, source, None) for moves, source in sources.items()]


def shuffled(items: Sequence[Item], seed: int) -> list[Item]:
    """Return the items in random order."""
    return [items[i] for i in np.random.default_rng(seed).permutation(len(items))]


def solved_until(solver: Solver, drawn: Iterable[Unsolved], *, deciding: int) -> list[Position]:
    """Return the first positions, solved, up to the last of `deciding` ones; raises `ValueError` if there are fewer."""
    found, missing = list[Position](), deciding
    for one in drawn:
        found.append(solved(solver, one))
        missing -= found[-1].decides
        if not missing:
            return found
        if len(found) % REPORT_EVERY == 0:
            sys.stderr.write(f"{len(found)} positions solved, {missing} deciding ones to find\n")
    raise ValueError(f"{missing} of {deciding} deciding positions are missing; ask for fewer, or for earlier plies")


def as_position(scored: ScoredPosition) -> Position:
    """Return a position of the product's judge in the form of this file."""
    scores = [int(score) for score in scored.scores]
    return Position(scored.moves, scored.actions, tuple(max(scores) - score for score in scores), max(scores), JUDGE)


def solved(solver: Solver, unsolved: Unsolved) -> Position:
    """Return a position with the scores of its moves; raises `ValueError` if its own score is wrong."""
    moves, source, score = unsolved
    found = solver.scores(replay(solver.game, moves))
    best = int(found.scores.max())
    if score is not None and score != best:
        raise ValueError(f"the solver finds {best} after {list(moves)}, the test file has {score}")
    return Position(moves, tuple(found.actions.tolist()), tuple((best - found.scores).tolist()), best, source)


if __name__ == "__main__":
    main()
