"""Games of a match: their positions, and their export as files.

The journal holds the moves and the scores of a game of a match, and no search: it has no values, visits or targets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from games import core
from games.core import State
from games.positions import parameters_text, replay
from zerofleet.errors import InvalidRequest
from zerofleet.library.game_export import GameCourse, GameFile, export_course
from zerofleet.library.match_list import StoredMatch, deal_seed, game_number, games_by_group
from zerofleet.library.stored_games import MoveView
from zerofleet.strength.matches import GameResult, Player, points

__all__ = ["PlayedGame", "export_match_game", "match_position", "played_game"]


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """Game of a match with its place in it."""

    match_id: str
    pair: int
    """From 1."""
    number: int
    """Number of the game of its pair, from 1."""
    result: GameResult
    opening_plies: int
    course: GameCourse


def match_position(stored: StoredMatch, *, pair: int, number: int, ply: int) -> State:
    """Return a position of a match: `pair` and the `number` of its game count from 1, `ply` 0 is the start.

    Raises `InvalidRequest`.
    """
    moves = _result(stored, pair, number).moves
    if not 0 <= ply <= len(moves):
        raise InvalidRequest(f"there is no position {ply}; the game has positions 0 to {len(moves)}")
    return replay(stored.board.terms.game, moves[:ply], deal_seed(stored.board, pair - 1))


def played_game(stored: StoredMatch, *, pair: int, number: int) -> PlayedGame:
    """Return a game of a match with its positions; counted as in `match_position`. Raises `InvalidRequest`, `GameError`."""
    result, board = _result(stored, pair, number), stored.board
    game, opening = board.terms.game, board.opening(pair - 1)
    state = replay(game, (), deal_seed(board, pair - 1))
    states, movers = [state.copy()], []
    for action in result.moves:
        movers.append(core.to_move(game, state))
        state = replay(game, (action,), start=state)  # refuses an illegal move
        states.append(state.copy())
    course = GameCourse(game, np.stack(states), np.array(movers, dtype=np.int8), result.moves)
    plies = 0 if opening is None else len(opening.moves)
    return PlayedGame(board.terms.match_id, pair, number, result, plies, course)


def export_match_game(
    played: PlayedGame, kind: str, *, viewer: int | None = None, is_stopped: Callable[[], bool] = lambda: False
) -> GameFile:
    """Return a game of a match as a file; arguments and errors are those of `export_game`."""
    return export_course(played.course, kind, lambda: _lines(played), viewer=viewer, is_stopped=is_stopped)


def _result(stored: StoredMatch, pair: int, number: int) -> GameResult:
    played = games_by_group(stored.board).get(pair - 1, [])
    found = next((one for one in played if game_number(stored.board, one) == number), None)
    if found is None:
        raise InvalidRequest(f"match {stored.board.terms.match_id} has no game {number} of pair {pair}")
    return found


def _lines(played: PlayedGame) -> list[dict[str, object]]:
    result, course = played.result, played.course
    facts: dict[str, object] = {
        "game": course.game.spec().name,
        "parameters": parameters_text(course.game),
        "match": played.match_id,
        "pair": played.pair,
        "number": played.number,
        "players": list(result.players),
        "scores": list(result.scores),
        "points": points(result.seating, result.scores),
        "plies": len(result.moves),
        "opening_plies": played.opening_plies,
    }
    return [facts, *(_move(played, ply).model_dump(mode="json") for ply in range(len(result.moves)))]


def _move(played: PlayedGame, ply: int) -> MoveView:
    mover, is_opening = int(played.course.movers[ply]), ply < played.opening_plies
    return MoveView(
        ply=ply + 1,
        player=mover + 1,
        move=played.course.move_name(ply),
        model_version=0 if is_opening else Player.named(played.result.players[mover]).version or 0,
        value=None,
        visits=0,
        notes=("opening",) if is_opening else (),
        actions=(),
    )
