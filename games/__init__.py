"""Games: rules, encodings, symmetries, notation and drawings, all pure functions.

    game = games.make("connect_four", rows=6, columns=7)
    state = games.replay(game, games.read_moves(game, "d1, d2, c1"))
    print(game.draw(state))

`games.core` defines the contract of a game and dispatches its rules, which compiled code calls directly. The functions
exported here are for Python callers and validate their input. Custom games: `docs/own_game.md`.
"""

from games import rock_paper_scissors as _rock_paper_scissors  # noqa: F401
from games import tic_tac_toe as _tic_tac_toe  # noqa: F401
from games.abalone import stones as _abalone  # noqa: F401
from games.chinese_checkers.rhombus import stones as _chinese_checkers_rhombus  # noqa: F401
from games.chinese_checkers.star37 import stones as _chinese_checkers_star37  # noqa: F401
from games.chinese_checkers.star121 import stones as _chinese_checkers  # noqa: F401
from games.conformance import check_game
from games.connect_four import rules as _connect_four  # noqa: F401  (registers the game)
from games.core import Game, GameSpec, State, Symmetry, available, make, parameters_of, register, rule
from games.errors import GameContractError, GameError, IllegalMove, InvalidDrawing, InvalidParameters, UnknownGame
from games.othello import stones as _othello  # noqa: F401
from games.positions import (
    advance,
    drawing,
    encode_for,
    final_scores,
    legal,
    move_names,
    new_state,
    parameters_text,
    read_moves,
    replay,
)
from games.take_six import rules as _take_six  # noqa: F401

__all__ = [
    "Game",
    "GameContractError",
    "GameError",
    "GameSpec",
    "IllegalMove",
    "InvalidDrawing",
    "InvalidParameters",
    "State",
    "Symmetry",
    "UnknownGame",
    "advance",
    "available",
    "check_game",
    "drawing",
    "encode_for",
    "final_scores",
    "legal",
    "make",
    "move_names",
    "new_state",
    "parameters_of",
    "parameters_text",
    "read_moves",
    "register",
    "replay",
    "rule",
]
