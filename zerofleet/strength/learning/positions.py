"""Scored positions: every legal move of a position with its score under perfect play.

A *deciding* position has moves of different values (won, drawn, lost): only there a player can err. The positions of a judge
are drawn from random games and from games of a shallow search against itself, half each, and are the same for every player.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from games.core import Game
from games.positions import replay, titled, written_parameters
from zerofleet.agents import make_agent
from zerofleet.errors import InvalidRequest
from zerofleet.storage.files import atomic_publish
from zerofleet.strength.accuracy import (
    Position,
    Yardstick,
    agent_chooser,
    random_positions,
    self_play_positions,
    yardstick,
)
from zerofleet.strength.position_file import FiledPosition

__all__ = [
    "ScoredPosition",
    "deciding_positions",
    "is_solvable",
    "kept_file_positions",
    "kept_positions",
    "score_positions",
    "store_positions",
    "stored_positions",
]

PLAYER = "alpha_beta:4"
"""Player of the games that are not random: it finds short threats and errs beyond them, like a network in training."""
DRAWN = 3  # positions drawn for each wanted one; in most of them the moves do not differ in value
MAX_NODES = 400_000  # of the solver, a tenth of a second; harder positions are left out
FORMAT = 1  # changes with the way in which positions are drawn


@dataclass(frozen=True, slots=True)
class ScoredPosition:
    """Unfinished position with the scores of its moves."""

    moves: Position
    """Moves from the start."""
    actions: tuple[int, ...]
    """Legal actions, ascending."""
    scores: tuple[float, ...]
    """Score of each action for the player to move; its sign is the value: won, drawn or lost."""

    @property
    def decides(self) -> bool:
        """Whether the moves differ in value."""
        return len(set(np.sign(self.scores).tolist())) > 1

    def keeps_value(self, action: int) -> bool:
        """Return whether a move keeps the value of the position."""
        return bool(np.sign(self._score(action)) == np.sign(max(self.scores)))

    def is_exact(self, action: int) -> bool:
        """Return whether no move scores better."""
        return self._score(action) == max(self.scores)

    def _score(self, action: int) -> float:
        return self.scores[self.actions.index(action)]


def is_solvable(game: Game) -> bool:
    """Return whether there is perfect play to compare with."""
    try:
        yardstick(game)
    except InvalidRequest:
        return False
    return True


def score_positions(
    perfect: Yardstick, game: Game, positions: Sequence[Position], *, progress: Callable[[], None] = lambda: None
) -> list[ScoredPosition]:
    """Return the positions with their scores; raises `InvalidRequest` for one that cannot be solved."""
    found = []
    for position in positions:
        actions, scores = perfect.scores(replay(game, position))
        found.append(ScoredPosition(tuple(position), tuple(actions), tuple(scores)))
        progress()
    return found


def deciding_positions(
    game: Game, *, count: int, seed: int, progress: Callable[[], None] = lambda: None
) -> list[ScoredPosition]:
    """Return up to `count` different deciding positions, half of them of random games; the same arguments give the same.

    Positions that take the solver long are left out. `progress` is called for each position found. Raises `InvalidRequest`
    if the game cannot be solved, or if none of the positions drawn decides.
    """
    perfect = yardstick(game, max_nodes=MAX_NODES)
    choose = agent_chooser(game, make_agent(PLAYER, game), seed=seed)
    half = count // 2
    sources = (
        random_positions(game, count=DRAWN * half, seed=seed),
        asyncio.run(self_play_positions(game, choose, count=DRAWN * (count - half), seed=seed)),
    )
    found: dict[Position, ScoredPosition] = {}
    for source, wanted in zip(sources, (half, count), strict=True):
        drawn = [position for position in source if position not in found]
        np.random.default_rng([seed, count]).shuffle(drawn)
        for position in drawn:
            if len(found) >= wanted:
                break
            scored = _scored_if_easy(perfect, game, position)
            if scored is not None and scored.decides:
                found[position] = scored
                progress()
    if not found:
        raise InvalidRequest(
            f"{titled(game)}: in none of the {sum(map(len, sources)):,} positions drawn do the moves differ in value, want one "
            "at least; choose another size of the board, or judge by matches against opponents"
        )
    return sorted(found.values(), key=lambda one: (len(one.moves), one.moves))


def _scored_if_easy(perfect: Yardstick, game: Game, position: Position) -> ScoredPosition | None:
    try:
        return score_positions(perfect, game, [position])[0]
    except InvalidRequest:  # too many nodes
        return None


def kept_positions(folder: Path, game: Game, *, count: int, seed: int, progress: Callable[[], None] = lambda: None) -> Path:
    """Return the file of `deciding_positions` in `folder`, written by the first call with these arguments."""
    return _kept(folder, game, [count, seed], lambda: deciding_positions(game, count=count, seed=seed, progress=progress))


def kept_file_positions(
    folder: Path, game: Game, positions: Sequence[FiledPosition], *, progress: Callable[[], None] = lambda: None
) -> Path:
    """Return the file in `folder` of the deciding ones of a user's positions, scored by the first call with these.

    `progress` is called for each position scored. Raises `InvalidRequest` for a stated score that is not the solver's, if no
    position decides, or if the game cannot be solved.
    """
    return _kept(folder, game, [position.moves for position in positions], lambda: _deciding(game, positions, progress))


def _deciding(game: Game, positions: Sequence[FiledPosition], progress: Callable[[], None]) -> list[ScoredPosition]:
    scored = score_positions(yardstick(game), game, [position.moves for position in positions], progress=progress)
    for position, found in zip(positions, scored, strict=True):
        if position.score is not None and position.score != max(found.scores):
            raise InvalidRequest(
                f"line {position.line} states the score {position.score}, the solver finds {max(found.scores):.0f}; "
                "correct the line, or omit its score"
            )
    deciding = [found for found in scored if found.decides]
    if not deciding:
        raise InvalidRequest("in none of the positions do the moves differ in value; nothing can be judged")
    return deciding


def _kept(folder: Path, game: Game, terms: list[Any], make: Callable[[], list[ScoredPosition]]) -> Path:
    """Return the file in `folder` of the positions with these terms; `make` is called if it does not exist."""
    about = [FORMAT, game.spec().name, game.spec().rules_version, written_parameters(game), terms]
    digest = hashlib.blake2b(json.dumps(about).encode(), digest_size=8).hexdigest()
    path = folder / f"{game.spec().name}-{digest}.json"
    if not path.exists():
        found = make()
        folder.mkdir(parents=True, exist_ok=True)
        store_positions(path, found)
    return path


def store_positions(path: Path, positions: Sequence[ScoredPosition]) -> None:
    """Write positions for `stored_positions`."""
    atomic_publish(path, json.dumps([[one.moves, one.actions, one.scores] for one in positions]).encode())


def stored_positions(path: Path) -> list[ScoredPosition]:
    """Return the positions of a file of `store_positions`."""
    return [_position(one) for one in json.loads(path.read_text("utf-8"))]


def _position(stored: list[list[float]]) -> ScoredPosition:
    moves, actions, scores = stored
    return ScoredPosition(tuple(map(int, moves)), tuple(map(int, actions)), tuple(map(float, scores)))
