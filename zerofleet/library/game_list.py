"""Games and the agents that play them, as commands and pages list them."""

from __future__ import annotations

import games
from games.core import Information, parameters_of
from games.faults import loading_fault
from zerofleet.library.values import Value

__all__ = ["GameFacts", "GameFactsList", "available_games"]


class GameFacts(Value):
    """Game with its default parameters."""

    game: str
    players: int
    information: Information
    actions: int
    max_legal: int
    max_plies: int
    planes: tuple[int, int, int]
    symmetries: int
    """Number of symmetries of the board, the identity excluded."""
    rules_version: int
    parameters: dict[str, str]
    """Every parameter with its default."""


class GameFactsList(Value):
    """Available games."""

    games: tuple[GameFacts, ...]
    broken: tuple[str, ...] = ()
    """Error of each game of another package that cannot be loaded."""


def available_games() -> GameFactsList:
    """Return the available games, sorted by name; a broken game of another package does not affect the others."""
    found, broken = [], []
    for name in games.available():
        try:
            found.append(_facts(name))
        except Exception as error:  # of the game's own code, or of its loading
            broken.append(loading_fault(name, error))
    return GameFactsList(games=tuple(found), broken=tuple(broken))


def _facts(name: str) -> GameFacts:
    game = games.make(name)
    spec = game.spec()
    return GameFacts(
        game=name,
        players=spec.num_players,
        information=spec.information,
        actions=spec.num_actions,
        max_legal=spec.max_legal,
        max_plies=spec.max_plies,
        planes=spec.planes,
        symmetries=len(spec.symmetries),
        rules_version=spec.rules_version,
        parameters={parameter: str(value) for parameter, value in parameters_of(name).items()},
    )
