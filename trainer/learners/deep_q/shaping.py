"""Board value of Chinese Checkers on the rhombus, for shaping rewards.

    potential   gamma F(s') - F(s)   leaves the best play unchanged, whatever F (Ng, Harada and Russell 1999)
    gain        F(s') - F(s)         changes it where gamma < 1: board value gained soon counts more

s' is the position at the player's next turn, after the opponent's reply. F is the board value of the search agent
`rhombus_search`, for the player to move, as a share of the value of all levels.
"""

from __future__ import annotations

import numpy as np

from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.chinese_checkers.rhombus.board import CELLS, LEVELS_TO_GO
from games.core import Game
from zerofleet.agents.by_game.rhombus.evaluation import cell_values
from zerofleet.errors import ConfigurationError
from zerofleet.presets.deep_q import DeepQSettings

__all__ = ["BoardValue", "shaped"]


class BoardValue:
    """Potential of encoded positions."""

    def __init__(self, game: Game) -> None:
        """Raises `ConfigurationError` for a game other than the rhombus."""
        if not isinstance(game, ChineseCheckersRhombus):
            raise ConfigurationError(
                f"deep_q.shaping takes the board value of chinese_checkers_rhombus, and the game is {game.spec().name}; set 0"
            )
        table = cell_values()
        self._worth = np.concatenate([table.worth[0], -table.worth[1]]) / (table.level * LEVELS_TO_GO)

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """Return the values of positions, uint8 [n, packed_bytes], for their viewers: float64 [n]."""
        bits = np.unpackbits(states, axis=1, count=2 * CELLS, bitorder="little")
        return np.asarray(bits @ self._worth)


def shaped(game: Game, states: np.ndarray, settings: DeepQSettings) -> np.ndarray:
    """Return the additional rewards of a player's turns in the order of play, float64 [n]; `states` as they see them.

    The last turn has no next one: F(s') is 0 as a potential, and its gain is 0.
    """
    worth = BoardValue(game)(states)
    if settings.shaping_by == "gain":
        gained = np.append(np.diff(worth), 0.0)
    else:
        gained = settings.discount * np.append(worth[1:], 0.0) - worth
    return np.asarray(settings.shaping * gained)
