"""`zerofleet openings`: random openings of a game, for `--openings` of matches and tournaments."""

from __future__ import annotations

import itertools
import sys
from typing import Annotated

import typer

from games.positions import parameters_text
from zerofleet.cli import screen
from zerofleet.cli.options import GameName, Parameters, Seed, chosen_game
from zerofleet.errors import InvalidRequest
from zerofleet.strength.matches import draw_openings, opening_line

__all__ = ["openings"]


def openings(
    game_name: GameName,
    *,
    plies: Annotated[int, typer.Option("--plies", metavar="K", min=0, help="Random plies of each.")] = 2,
    count: Annotated[int, typer.Option("--count", metavar="N", min=1, help="How many.")] = 100,
    parameters: Parameters = None,
    seed: Seed = 0,
) -> None:
    """Print openings, one a line, in which nobody has won yet and of which no two lead to the same position.

    A line holds the moves, `-` for none; before them, where something is dealt, `@` and the seed that decides it. What follows
    `#` is for people.
    """
    game = chosen_game(game_name, parameters)
    drawn = list(itertools.islice(draw_openings(game, plies=plies, seed=seed), count))
    if not drawn:
        raise InvalidRequest(f"no opening of {plies} plies leaves the game open; take fewer")
    if len(drawn) < count:
        screen.note(f"{game_name} offers {len(drawn)} different openings of {plies} plies")
    about = " ".join([game_name, *(f"{name}={value}" for name, value in parameters_text(game).items())])
    lines = [f"# {about}: {plies} random plies, seed {seed}", *(opening_line(game, opening) for opening in drawn)]
    sys.stdout.write("\n".join(lines) + "\n")
