"""Games and the agents that play them, as commands and pages list them."""

from __future__ import annotations

import games
from games.core import Information
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


class GameFactsList(Value):
    """Available games."""

    games: tuple[GameFacts, ...]


def available_games() -> GameFactsList:
    """Return the available games, sorted by name."""
    return GameFactsList(games=tuple(_facts(name) for name in games.available()))


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
        parameters=games.parameters_text(game),
    )
