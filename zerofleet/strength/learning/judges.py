"""Judges of a network in training: by perfect play on fixed positions, or by matches against fixed opponents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from games.core import Game
from zerofleet.agents import make_agent
from zerofleet.evaluators.base import Evaluator
from zerofleet.strength.accuracy import model_chooser
from zerofleet.strength.learning.positions import ScoredPosition
from zerofleet.strength.matches import FixedGames, MatchSettings, Player, Scoreboard, play_match
from zerofleet.strength.matches.meeting import terms_of_games
from zerofleet.strength.ratings import wilson

__all__ = ["Judge", "MatchJudge", "Measure", "PerfectJudge", "mode_names"]

SLOTS = 128


@dataclass(frozen=True, slots=True)
class Measure:
    """Share found by a judge, with its 95 % interval for this network alone."""

    name: str
    value: float
    low: float
    high: float
    of: int
    """Number of positions, or of games."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)


class Judge(Protocol):
    """Judge of versions."""

    async def judge(self, evaluator: Evaluator, version: int) -> list[Measure]:
        """Return the measures of a version, the same names each time. Cancellation: nothing is kept."""
        ...


def mode_names(simulations: int) -> dict[str, int]:
    """Return the simulations of each mode in which a network is judged, by name."""
    modes = {"policy alone": 0}
    if simulations:
        modes[f"{simulations} simulations"] = simulations
    return modes


class PerfectJudge:
    """Shares of deciding positions in which a move keeps the value (sign), and in which no move scores better (exact)."""

    def __init__(self, game: Game, positions: Sequence[ScoredPosition], *, simulations: int) -> None:
        self._game = game
        self._positions = positions
        self._simulations = simulations

    async def judge(self, evaluator: Evaluator, version: int) -> list[Measure]:
        """See `Judge.judge`; intervals are Wilson's, over positions. Cancellation: nothing is kept."""
        found = []
        for mode, simulations in mode_names(self._simulations).items():
            choose = model_chooser(self._game, evaluator, version=version, simulations=simulations, seed=0)
            chosen = await choose([position.moves for position in self._positions])
            pairs = list(zip(self._positions, chosen, strict=True))
            kept = sum(position.keeps_value(action) for position, action in pairs)
            exact = sum(position.is_exact(action) for position, action in pairs)
            for name, count in ((f"{mode}, sign", kept), (f"{mode}, exact", exact)):
                found.append(Measure(name, count / len(pairs), *wilson(count, len(pairs)), len(pairs)))
        return found


class MatchJudge:
    """Shares of the points against fixed opponents, from the same openings each time."""

    def __init__(
        self, game: Game, opponents: Sequence[str], *, games: int, simulations: int, seed: int, opening_plies: int
    ) -> None:
        """`games`: against each opponent, rounded up to whole groups."""
        self._game = game
        self._opponents = opponents
        self._games = games
        self._seed = seed
        self._opening_plies = opening_plies
        self._settings = MatchSettings(simulations=simulations, slots=min(SLOTS, games), agent_threads=1)

    async def judge(self, evaluator: Evaluator, version: int) -> list[Measure]:
        """See `Judge.judge`; intervals are over openings. Cancellation: nothing is kept."""
        found = []
        for opponent in self._opponents:
            players = Player.model(version), Player.named(opponent)
            terms = terms_of_games(self._game, players, games=self._games, seed=self._seed, opening_plies=self._opening_plies)
            outcome = await play_match(
                Scoreboard(terms), FixedGames(), evaluator, settings=self._settings, make_agent=make_agent
            )
            standing = outcome.standing
            found.append(Measure(f"points against {opponent}", standing.share, *standing.interval, standing.games))
        return found
