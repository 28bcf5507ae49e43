"""`zerofleet games check`: conformance test of games against the laws of `games.core`, with progress and a summary."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

import games
from games.conformance import QUICK_POSITIONS, THOROUGH_GAMES, Checked, Progress
from games.core import Game
from zerofleet.cli import screen
from zerofleet.cli.options import Json, Parameters, Seed, chosen_game

__all__ = ["check"]


def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="GAME", help="Games; all without one.", show_default=False),
    ] = None,
    *,
    thorough: Annotated[
        bool, typer.Option("--thorough", help=f"Play {THOROUGH_GAMES} games, in place of {QUICK_POSITIONS:,} positions.")
    ] = False,
    number: Annotated[
        int | None,
        typer.Option(
            "--games", metavar="N", min=1, help="Exact number of random games.", show_default="as many as the form has"
        ),
    ] = None,
    parameters: Parameters = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Check the laws of games in every position of random games, and their pictures in some.

    The quick form ends within half a minute for each built-in game, compilation included.
    """
    chosen = names or list(games.available())
    if parameters and len(chosen) != 1:
        raise typer.BadParameter("parameters belong to one game; name it", param_hint="--set")
    if number is not None and thorough:
        raise typer.BadParameter("give --games or --thorough", param_hint="--games")
    found: list[Checked] = []
    for name in chosen:
        limit = THOROUGH_GAMES if thorough else number
        checked = _checked(name, chosen_game(name, parameters), limit, seed)
        found.append(checked)
        if not json:
            screen.out().print(str(checked), markup=False, end="\n\n" if name != chosen[-1] else "\n")
    if json:
        screen.emit_json({"games": [asdict(checked) for checked in found]})


def _checked(name: str, game: Game, limit: int | None, seed: int) -> Checked:
    """Check one game with a progress display; `limit`: exact number of games, or None for the quick form."""
    with screen.meter(f"{name}: games", limit) as meter:
        done = 0

        def show(progress: Progress) -> None:
            nonlocal done
            doing = f"first call of {progress.rule}" if progress.is_first_call else progress.rule
            meter.advance(progress.games - done, f"({progress.positions:,} positions, {progress.processor_s:.0f} s, {doing})")
            done = progress.games

        return games.check_game(game, games=limit, seed=seed, progress=show)
