"""Positions from Python: create, advance with legality checks, and read out.

The rules in `games.core` trust their caller, for speed in search. Callers that handle external moves (from a record, a
request, a person) use these functions, which reject illegal moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from games import core, notation
from games.compiled import compiled, lean
from games.core import Game, State
from games.errors import GameError, IllegalMove

__all__ = [
    "advance",
    "changed_parameters",
    "copy_state",
    "drawing",
    "encode_for",
    "final_scores",
    "legal",
    "model_parameters",
    "move_names",
    "movers",
    "new_state",
    "parameters_text",
    "read_moves",
    "replay",
    "title_of",
    "titled",
    "written_parameters",
]

_ALL_LEGAL = -1
_NO_ACTION = -1
_ACTIONS = 2**15


def new_state(game: Game, seed: int = 0) -> State:
    """Return the starting position, spec.state_dtype [S]; `seed` determines chance events at the start."""
    spec = game.spec()
    state = np.zeros(spec.state_size, dtype=spec.state_dtype)
    core.reset(game, state, seed)
    return state


def drawing(game: Game, state: State, viewer: int | None = None) -> str:
    """Return a text drawing of the position as `viewer` sees it, or without hiding anything if `viewer` is None."""
    own = getattr(game, "draw_for", None)
    if viewer is None or own is None:
        return game.draw(state)
    text: str = own(state, viewer)
    return text


def legal(game: Game, state: State) -> list[int]:
    """Return the legal actions, ascending; empty when the game is over."""
    actions = np.empty(game.spec().max_legal, dtype=np.int16)
    count = core.legal_actions(game, state, actions)
    return [int(action) for action in actions[:count]]


def advance(game: Game, state: State, action: int) -> None:
    """Play an action in place; raises `IllegalMove` and leaves `state` unchanged if it is illegal."""
    _advance_all(game, state, [action])


def replay(game: Game, moves: Iterable[int], seed: int = 0, start: State | None = None) -> State:
    """Return the position after `moves`; raises `IllegalMove` with the first illegal move.

    A `start` takes the place of the starting position, here and below; `seed` deals nothing then.
    """
    state = _begun(game, seed, start)
    _advance_all(game, state, list(moves))
    return state


def final_scores(game: Game, state: State) -> tuple[float, ...]:
    """Return each player's score in [-1, 1], in seat order; raises `GameError` if the game is not over."""
    if not core.is_over(game, state):
        raise GameError("the game is not over, so it has no scores")
    scores = np.empty(game.spec().num_players, dtype=np.float32)
    core.scores(game, state, scores)
    return tuple(float(score) for score in scores)


def encode_for(game: Game, state: State, viewer: int) -> np.ndarray:
    """Return the bit-packed planes that `viewer` sees, uint8 [packed_bytes]; `games.kit.bits.unpack` reads them."""
    packed = np.empty(game.spec().packed_bytes, dtype=np.uint8)
    core.encode(game, state, viewer, packed)
    return packed


def parameters_text(game: Game) -> dict[str, str]:
    """Return `written_parameters` as text, the form used in records and on command lines; `make` accepts it."""
    return {name: str(value) for name, value in written_parameters(game).items()}


def written_parameters(game: Game) -> dict[str, Any]:
    """Return the parameters that identify a game; one that is a word is absent at its default (see `games.parameters`)."""
    words = core.choices_of(game)
    return {name: value for name, value in core.parameters_in(game).items() if name not in words or value != words[name][0]}


def changed_parameters(game: Game) -> dict[str, str]:
    """Return the parameters that differ from their defaults, as text."""
    defaults = core.parameters_of(game.spec().name)
    return {name: str(value) for name, value in core.parameters_in(game).items() if value != defaults[name]}


def titled(game: Game) -> str:
    """Return the name and the changed parameters of a game, as on command lines: `connect_four rows=8 columns=9`."""
    return title_of(game.spec().name, changed_parameters(game))


def title_of(name: str, parameters: Mapping[str, str]) -> str:
    """Return the name and the given parameters of a game, as on command lines."""
    return " ".join([name, *(f"{parameter}={text}" for parameter, text in parameters.items())])


def model_parameters(game: Game) -> dict[str, str]:
    """Return the parameters on which a model depends, as text: all except `GameSpec.score_parameters`."""
    views = game.spec().score_parameters
    return {name: text for name, text in parameters_text(game).items() if name not in views}


def read_moves(game: Game, text: str, seed: int = 0, start: State | None = None) -> list[int]:
    """Return the actions written in `text`, separated by commas or space, from the starting position or `start`.

    Raises `IllegalMove` with the first move that cannot be parsed or is illegal.
    """
    state = _begun(game, seed, start)
    actions = []
    for ply, word in enumerate(text.replace(",", " ").split(), start=1):
        try:
            action = game.parse_action(state, word)
        except IllegalMove as error:
            raise IllegalMove(f"move {ply}: {error}") from None
        core.play(game, state, action)
        actions.append(action)
    return actions


def move_names(game: Game, moves: Iterable[int], seed: int = 0, start: State | None = None) -> list[str]:
    """Return the notation of `moves` from the starting position or `start`; raises `IllegalMove`."""
    state = _begun(game, seed, start)
    names = []
    for ply, action in enumerate(moves, start=1):
        if action not in legal(game, state):
            raise _illegal(game, state, action, ply)
        names.append(game.action_name(state, action))
        core.play(game, state, action)
    return names


def movers(game: Game, moves: Iterable[int], seed: int = 0) -> list[int]:
    """Return the seat that played each of `moves`, which are those of a legal game from its starting position."""
    state, seats = new_state(game, seed), []
    for action in moves:
        seats.append(int(core.to_move(game, state)))
        core.play(game, state, int(action))
    return seats


def _begun(game: Game, seed: int, start: State | None) -> State:
    return new_state(game, seed) if start is None else start.copy()


def _advance_all(game: Game, state: State, moves: list[int]) -> None:
    """Play all moves in place, or raise `IllegalMove` and leave `state` unchanged."""
    after = state.copy()
    listed = np.empty(game.spec().max_legal, dtype=np.int16)
    known = [action if 0 <= action < _ACTIONS else _NO_ACTION for action in moves]
    stopped_at = _play_legal(game, after, np.array(known, dtype=np.int64), listed)
    if stopped_at != _ALL_LEGAL:
        raise _illegal(game, after, moves[stopped_at], stopped_at + 1 if len(moves) > 1 else None)
    state[:] = after


def _illegal(game: Game, state: State, action: int, ply: int | None) -> IllegalMove:
    names = notation.legal_names(game, state)
    where = "" if ply is None else f"move {ply}: "
    if not names:
        return IllegalMove(f"{where}action {action} is not legal here: the game is over")
    listed = ", ".join(f"{number} ({name})" for name, number in names.items())
    return IllegalMove(f"{where}action {action} is not legal here; legal: {listed}")


@lean
def copy_state(state: State, out: State) -> None:
    """Copy a position into `out` in compiled code, where slice assignment would allocate."""
    for i in range(state.size):
        out[i] = state[i]


@compiled
def _play_legal(game: Game, state: State, moves: np.ndarray, listed: np.ndarray) -> int:
    """Play `moves` (int64 [n]) in place up to the first illegal one; return its index, or -1 if all are legal."""
    for ply in range(moves.size):
        count = core.legal_actions(game, state, listed)
        found = False
        for i in range(count):
            found = found or listed[i] == moves[ply]
        if not found:
            return ply
        core.play(game, state, moves[ply])
    return _ALL_LEGAL
