"""`zerofleet openings`: random openings of a game, for the option `--openings` of matches and tournaments."""

from __future__ import annotations

import itertools
import sys
from typing import Annotated

import typer

from games.positions import parameters_text, title_of
from zerofleet.cli import screen
from zerofleet.cli.options import GameName, Parameters, Seed, chosen_game
from zerofleet.errors import InvalidRequest
from zerofleet.strength.matches import draw_openings, opening_line

__all__ = ["openings"]


def openings(
    game_name: GameName,
    *,
    plies: Annotated[int, typer.Option("--plies", metavar="K", min=0, help="Random plies of each opening.")] = 2,
    count: Annotated[int, typer.Option("--count", metavar="N", min=1, help="Number of openings.")] = 100,
    parameters: Parameters = None,
    seed: Seed = 0,
) -> None:
    """Print openings, one per line, that lead to distinct unfinished positions.

    A line holds the moves, `-` for none, preceded by `@` and a seed in games with a deal; `#` starts a comment.
    """
    game = chosen_game(game_name, parameters)
    drawn = list(itertools.islice(draw_openings(game, plies=plies, seed=seed), count))
    if not drawn:
        raise InvalidRequest(f"every opening of {plies} plies ends the game; use fewer --plies")
    if len(drawn) < count:
        screen.note(f"{game_name} has only {len(drawn)} different openings of {plies} plies")
    about = title_of(game_name, parameters_text(game))
    lines = [f"# {about}: {plies} random plies, seed {seed}", *(opening_line(game, opening) for opening in drawn)]
    sys.stdout.write("\n".join(lines) + "\n")
