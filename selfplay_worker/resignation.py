"""Resignation: a threshold calibrated on games without resignation.

A share of all games is played out whatever the values (control games). For a threshold t, the first player of a control
game whose search value falls to t or below *would have resigned*; if that player then does not lose, the resignation would
have been false. The calibrated threshold is the highest one at which at most 5 % of resignations are false (Silver et
al. 2017, "Mastering the game of Go without human knowledge", self-play).

Games are counted in the order of their *start*. In the order of their end, the statistic would hold the short games of the
current network and lack its long ones, which are still running and in which early resignations are false more often; a
game is therefore counted only when every game that started before it has ended.

    started   1  2  3  4  5  6  7
    ended     x  x     x  x     x        game 3 is still running: the statistic holds the control games among 1 and 2
"""

from __future__ import annotations

from collections import deque

import numpy as np

from games import positions
from zerofleet.contracts.played import Searches
from zerofleet.search import PlayedGame

__all__ = ["NEVER", "ResignationCalibration"]

NEVER = -1.0
"""Threshold that disables resignation."""
LOST = -1.0
"""Score of a player who lost; only two-player games have resignation."""

_STEP = 0.01
_NONE, _RIGHT, _FALSE = 0, 1, 2


class ResignationCalibration:
    """Calibration of the threshold on control games. Not thread-safe."""

    def __init__(self, *, false_rate: float, highest: float, window_games: int, min_games: int) -> None:
        """Target `false_rate` with thresholds up to `highest`; `highest` -1 disables resignation.

        `window_games`: control games in the statistic. `min_games`: would-be resignations required before a player may resign.
        """
        self._false_rate = false_rate
        self._min_games = min_games
        steps = max(0, round((highest - NEVER) / _STEP))
        self._thresholds = NEVER + _STEP * np.arange(1, steps + 1)  # float64 [T], ascending
        self._window: deque[np.ndarray] = deque()  # each int8 [T]: none, right or false resignation
        self._window_games = window_games
        self._resigned = np.zeros(steps, dtype=np.int64)  # [T], sums over the window
        self._false = np.zeros(steps, dtype=np.int64)  # [T]
        self._running: set[int] = set()  # numbers of running games
        self._ended: dict[int, np.ndarray | None] = {}  # ended games that wait for older ones
        self._next = 0
        self._oldest = 1  # number of the oldest game that is not counted yet

    @property
    def enabled(self) -> bool:
        """Whether resignation is enabled."""
        return len(self._thresholds) > 0

    def started(self) -> int:
        """Register the start of a game; return its number."""
        self._next += 1
        self._running.add(self._next)
        return self._next

    def finished(self, number: int, played: PlayedGame) -> None:
        """Register a game that was played to its end."""
        self._end(number, self._outcomes(played) if played.resignation_control and self.enabled else None)

    def abandoned(self, number: int) -> None:
        """Register a game that will not be finished; it does not enter the statistic."""
        self._end(number, None)

    def threshold(self) -> float:
        """Return the highest threshold with a low enough rate of false resignations; `NEVER` without evidence."""
        good = (self._resigned >= self._min_games) & (self._false <= self._false_rate * self._resigned)
        return float(self._thresholds[np.flatnonzero(good)[-1]]) if good.any() else NEVER

    def false_ratio(self, threshold: float) -> float:
        """Return the share of false resignations at `threshold`; 0 when there were none."""
        index = round((threshold - NEVER) / _STEP) - 1
        if not 0 <= index < len(self._resigned) or self._resigned[index] == 0:
            return 0.0
        return float(self._false[index] / self._resigned[index])

    def _end(self, number: int, outcomes: np.ndarray | None) -> None:
        self._running.remove(number)
        self._ended[number] = outcomes
        while self._oldest in self._ended:
            known = self._ended.pop(self._oldest)
            self._oldest += 1
            if known is not None:
                self._take_in(known)

    def _take_in(self, outcomes: np.ndarray) -> None:
        self._window.append(outcomes)
        self._resigned += outcomes != _NONE
        self._false += outcomes == _FALSE
        if len(self._window) > self._window_games:
            oldest = self._window.popleft()
            self._resigned -= oldest != _NONE
            self._false -= oldest == _FALSE

    def _outcomes(self, played: PlayedGame) -> np.ndarray:
        """Return the first would-be resignation of this game for each threshold, int8 [T].

        The search also requires that its best move is no better than t, unless the loss is proven. The root's value alone
        finds resignations no later and therefore errs on the careful side.
        """
        searches = Searches.of(played.searched)
        movers = np.array(positions.movers(played.game, played.moves, played.seed), dtype=np.int64)[searches.ply]
        lowest = np.minimum.accumulate(searches.root_value[np.arange(len(searches)), movers].astype(np.float64))
        first = np.searchsorted(-lowest, -self._thresholds)  # of each threshold: the search that would resign first
        has_lost = np.append([played.scores[seat] <= LOST for seat in movers], False)
        outcomes = np.where(has_lost[first], _RIGHT, _FALSE)
        outcomes[first == len(searches)] = _NONE
        return outcomes.astype(np.int8)
