"""Openings of self-play: moves at the start of a game that are drawn, so that games do not all follow the same line.

Late in a run the champion's play from the initial position is nearly deterministic, and games become near-copies. Positions
that it would not reach by itself keep the samples diverse. There are four kinds; settings give the share of each.

    uniform    0 to `opening_plies` uniformly random plies, cut or redrawn if they end the game; the rest of the games
    deep       uniformly random plies, their number uniform within `deep_opening_plies`
    forked     a recently finished game up to a random position, then another move than it played (`past_games`)
    balanced   one of several deep openings, with a probability that falls as its value departs from equality

An opening is a list of moves from the start of the game and never ends it, so the record reproduces the game. Its moves are
not samples. It depends on the seed of the game, the finished games and the evaluations alone:

    draft = openings.draft(seed)
    value = evaluate(draft.leaves).value if draft.leaves else None      # few drafts need an evaluation
    block.begin(slot, seed=seed, versions=versions, opening=draft.opening(value))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from games import core, positions
from games.compiled import compiled
from games.core import Game, State
from games.kit.randomness import mix64, uniform, uniform_int
from selfplay_worker.past_games import PastGames
from zerofleet.errors import ConfigurationError
from zerofleet.evaluators.base import LeafBatch
from zerofleet.presets import SelfPlaySettings
from zerofleet.search import PlayedGame

__all__ = ["Draft", "OpeningKind", "Openings", "random_opening"]

OpeningKind: TypeAlias = Literal["uniform", "deep", "forked", "balanced"]

# Separate the randomness of openings from other draws from the seed of a game; 2 is the agents of a warm start.
_STREAM, _MIXTURE_STREAM, _CHOICE_STREAM = 1, 3, 4
_STREAM_SHIFT = 56  # seeds end below 2^63, and mixing makes their neighbours unlike
_TRIES = 200
"""Redraws of a deep opening. A quarter of random tic-tac-toe games lasts 9 plies; no other game ends so early so often."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Opening that is decided, or lines of which an evaluation selects one."""

    kind: OpeningKind
    lines: tuple[tuple[int, ...], ...]
    leaves: LeafBatch | None = None
    """Positions after the lines, encoded for their players to move; None if there is one line."""
    pick: Callable[[np.ndarray], int] | None = None
    """Function from the values of the leaves to the index of the selected line."""

    def opening(self, value: np.ndarray | None = None) -> list[int]:
        """Return the moves; `value` (float32 [B, P], player to move first) evaluates `leaves`, if there are any."""
        if self.pick is None:
            return list(self.lines[0])
        if value is None:
            raise ValueError(f"this {self.kind} opening has {len(self.lines)} lines and needs the values of its leaves")
        return list(self.lines[self.pick(value)])


class Openings:
    """Source of openings for the games of a worker. Not thread-safe."""

    def __init__(self, game: Game, settings: SelfPlaySettings) -> None:
        """Raises `ConfigurationError` for settings that do not suit the game."""
        self._game = game
        self._settings = settings
        self._past = PastGames(game, capacity=settings.forked_opening_games)
        _require_suitable(game, settings)

    def warm_up(self) -> None:
        """Load or compile what openings and finished games call on the event loop, and try the longest deep opening.

        Raises `ConfigurationError` if that is too long.
        """
        start, word = positions.new_state(self._game), _generator(0, _MIXTURE_STREAM)
        _ = uniform(word), uniform_int(word, 1)
        self._try_line(0, word, plies=1)
        end = positions.replay(self._game, positions.legal(self._game, start)[:1])
        core.is_over(self._game, end)
        _leaves(self._game, [start])
        core.play(self._game, start, positions.legal(self._game, start)[0])
        if self._settings.forked_opening_share > 0.0:
            self._past.warm_up()
        if self._settings.deep_opening_share + self._settings.balanced_opening_share > 0.0:
            self._random_line(0, word, plies=self._settings.deep_opening_plies[1])

    def draft(self, seed: int) -> Draft:
        """Return the opening of the game with this seed; one kind is drawn by the shares.

        A forked opening is replaced by a uniform one while no finished game can be forked. Raises `ConfigurationError` if
        random play nearly always ends before the plies of a deep opening.
        """
        settings = self._settings
        word = _generator(seed, _MIXTURE_STREAM)
        drawn = uniform(word) - settings.deep_opening_share
        if drawn < 0.0:
            return Draft("deep", (self._random_line(seed, word, plies=self._deep_plies(word)),))
        drawn -= settings.balanced_opening_share
        if drawn < 0.0:
            return self._balanced(seed, word)
        drawn -= settings.forked_opening_share
        if drawn < 0.0 and (found := self._forked(seed, word)) is not None:
            return found
        return Draft("uniform", (self._uniform(seed, word),))

    def remember(self, played: PlayedGame) -> None:
        """Keep a finished game for forks, in place of the oldest if there are too many."""
        if self._settings.forked_opening_share > 0.0:
            self._past.add(played)

    def _uniform(self, seed: int, word: np.ndarray) -> tuple[int, ...]:
        """Return 0 to `opening_plies` random moves after which the game is not over."""
        most = self._settings.opening_plies
        if self._settings.decided_openings == "cut":
            return tuple(random_opening(self._game, seed=seed, most_plies=most))
        for _ in range(_TRIES):
            if (line := self._try_line(seed, word, plies=uniform_int(word, most + 1))) is not None:
                return line
        raise ConfigurationError(
            f"selfplay.opening_plies={most}: {_TRIES} random openings of {self._game.spec().name} ended the game; lower it"
        )

    def _deep_plies(self, word: np.ndarray) -> int:
        fewest, most = self._settings.deep_opening_plies
        return fewest + uniform_int(word, most + 1 - fewest)

    def _random_line(self, seed: int, word: np.ndarray, *, plies: int) -> tuple[int, ...]:
        """Return uniformly random moves after which the game is not over; a line that ends it is redrawn."""
        for _ in range(_TRIES):
            if (line := self._try_line(seed, word, plies=plies)) is not None:
                return line
        raise ConfigurationError(
            f"selfplay.deep_opening_plies={list(self._settings.deep_opening_plies)}: {_TRIES} random games of "
            f"{self._game.spec().name} ended within {plies} plies; lower it"
        )

    def _try_line(self, seed: int, word: np.ndarray, *, plies: int) -> tuple[int, ...] | None:
        """Return uniformly random moves; None if they end the game."""
        line = _random_moves(self._game, seed, word, plies)
        return tuple(line) if len(line) == plies else None

    def _balanced(self, seed: int, word: np.ndarray) -> Draft:
        settings = self._settings
        lines = tuple(
            self._random_line(seed, word, plies=self._deep_plies(word)) for _ in range(settings.balanced_opening_choices)
        )
        if len(lines) == 1:
            return Draft("balanced", lines)
        ends = [positions.replay(self._game, line, seed) for line in lines]
        pick = partial(_draw_equal, seed=seed, sharpness=settings.balanced_opening_sharpness)
        return Draft("balanced", lines, _leaves(self._game, ends), pick)

    def _forked(self, seed: int, word: np.ndarray) -> Draft | None:
        fork = self._past.fork(seed, word, choices=self._settings.forked_opening_choices)
        if fork is None:
            return None
        lines = tuple((*fork.moves, choice) for choice in fork.choices)
        if len(lines) == 1:
            return Draft("forked", lines)
        ends = [positions.replay(self._game, line, seed) for line in lines]
        movers = np.array([core.to_move(self._game, end) for end in ends], dtype=np.int64)
        columns = (fork.mover - movers) % self._game.spec().num_players
        return Draft("forked", lines, _leaves(self._game, ends), partial(_best_for, columns))


def random_opening(game: Game, *, seed: int, most_plies: int) -> list[int]:
    """Return 0 to `most_plies` random actions from the start of the game with that seed, after which it is not over.

    The number of plies is uniform; a move that would end the game is left out.
    """
    word = _generator(seed, _STREAM)
    return _random_moves(game, seed, word, uniform_int(word, most_plies + 1))


def _random_moves(game: Game, seed: int, word: np.ndarray, plies: int) -> list[int]:
    """Return random moves from the start of the game with that seed: `plies`, or as many as do not end it."""
    spec, moves = game.spec(), np.empty(plies, dtype=np.int32)
    legal = np.empty(spec.max_legal, dtype=np.int16)
    played = _play_randomly(game, positions.new_state(game, seed), word, legal, moves)
    line: list[int] = moves[:played].tolist()
    return line


def _generator(seed: int, stream: int) -> np.ndarray:
    """Return a generator of `games.kit.randomness` for one of the uses of a game's seed, uint64 [1]."""
    return np.array([mix64(np.uint64(seed ^ stream << _STREAM_SHIFT))], dtype=np.uint64)


def _require_suitable(game: Game, settings: SelfPlaySettings) -> None:
    spec = game.spec()
    most = settings.deep_opening_plies[1]
    if settings.deep_opening_share + settings.balanced_opening_share > 0.0 and most >= spec.max_plies:
        raise ConfigurationError(
            f"selfplay.deep_opening_plies={list(settings.deep_opening_plies)}: {spec.name} has at most {spec.max_plies} plies; "
            "lower it, or set deep_opening_share=0 and balanced_opening_share=0"
        )
    if spec.information == "perfect":
        return
    for name in ("forked_opening_share", "balanced_opening_share"):
        if getattr(settings, name) > 0.0:
            raise ConfigurationError(
                f"selfplay.{name}={getattr(settings, name)} needs perfect information; {spec.name} has {spec.information} "
                f"information; set {name}=0"
            )


@compiled
def _play_randomly(game: Any, state: State, word: np.ndarray, legal: np.ndarray, moves: np.ndarray) -> int:
    """Play random actions in place and write them into `moves` (int32 [n]) until it is full or the game over.

    Return the number of moves, without one that ended the game. `word` (uint64 [1]) is the generator, `legal` (int16 [L]) a
    workspace.
    """
    for ply in range(moves.size):
        count = core.legal_actions(game, state, legal)
        if count == 0:
            return ply
        moves[ply] = legal[uniform_int(word, count)]
        core.play(game, state, moves[ply])
        if core.is_over(game, state):
            return ply
    return moves.size


def _leaves(game: Game, ends: Sequence[State]) -> LeafBatch:
    """Return the positions as the network's input, each for its player to move."""
    states = np.stack([positions.encode_for(game, end, int(core.to_move(game, end))) for end in ends])
    legal = np.full((len(ends), game.spec().max_legal), -1, dtype=np.int16)
    for row, end in enumerate(ends):
        actions = positions.legal(game, end)
        legal[row, : len(actions)] = actions
    return LeafBatch(states, legal)


def _draw_equal(value: np.ndarray, *, seed: int, sharpness: float) -> int:
    """Return a row of `value` (float32 [B, P]), drawn with probability proportional to exp(-sharpness * gap / 2).

    The gap is that between the best and the worst player; half of it is the absolute value of a two-player position.
    """
    sums = np.cumsum(np.exp(-sharpness * 0.5 * np.ptp(value.astype(np.float64), axis=1)))
    return min(int(np.searchsorted(sums, uniform(_generator(seed, _CHOICE_STREAM)) * sums[-1], side="right")), len(sums) - 1)


def _best_for(columns: np.ndarray, value: np.ndarray) -> int:
    """Return the row of `value` (float32 [B, P]) with the highest entry at `columns` (int64 [B]); the first of equals."""
    return int(np.argmax(value[np.arange(len(columns)), columns]))
