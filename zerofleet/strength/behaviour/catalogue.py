"""Tables by name, and the games that they suit."""

from __future__ import annotations

from games.core import Game
from zerofleet.errors import InvalidRequest
from zerofleet.strength.behaviour.collector import Collector, Reading
from zerofleet.strength.behaviour.lines import Lines
from zerofleet.strength.behaviour.placements import Placements
from zerofleet.strength.behaviour.rock_paper_scissors import RockPaperScissorsTurns
from zerofleet.strength.behaviour.take_six import TakeSixTurns
from zerofleet.strength.behaviour.values import Values

__all__ = ["OPENINGS", "TABLES", "check_suits", "check_table", "new_collector"]

OPENINGS = "openings"
TABLES = {
    "turns": "Take 6!: cards, points and rows by turn; rock paper scissors: choices and results by turn",
    "lines": "the sequences of moves played most often, with their results",
    "values": "histograms of the results and of the values of the search",
    OPENINGS: "priors of the first moves by model version, and how often they were played",
    "placements": "placings and mean score of each seat",
}
"""Names of the tables and what they show."""


def check_table(name: str) -> None:
    """Raise `InvalidRequest` unless there is a table of this name."""
    if name not in TABLES:
        raise InvalidRequest(f"there is no table {name!r}; the tables are {', '.join(TABLES)}")


def check_suits(name: str, game: Game, reading: Reading) -> None:
    """Raise `InvalidRequest` unless the table suits the game and its seats."""
    if name != OPENINGS:
        new_collector(name, game, reading)
    elif game.spec().information == "hidden":
        raise InvalidRequest(f"the table {name} is for games with one initial position, and {game.spec().name} deals it")


def new_collector(name: str, game: Game, reading: Reading) -> Collector:
    """Return an empty table of any name but `openings`; raises `InvalidRequest` if it is unknown or does not suit the game."""
    check_table(name)
    spec = game.spec()
    if reading.seat >= spec.num_players:
        raise InvalidRequest(f"{spec.name} has {spec.num_players} seats, got seat {reading.seat + 1}")
    match name:
        case "lines":
            return Lines(seat=reading.seat, top=reading.top, plies=reading.plies)
        case "values":
            return Values(reading.bins)
        case "placements":
            return Placements(spec.num_players)
    match spec.name:
        case "take_six":
            return TakeSixTurns()
        case "rock_paper_scissors":
            return RockPaperScissorsTurns(reading.seat)
    raise InvalidRequest(f"the table {name} is for take_six and rock_paper_scissors, and the game is {spec.name}")
