"""`zerofleet games available` and `zerofleet games draw`: list of games, and drawing of any position."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import games
from games.kit import svg
from zerofleet.cli import screen
from zerofleet.cli.options import GameName, Json, Parameters, Seed, chosen_game
from zerofleet.cli.play.board import colour_board
from zerofleet.errors import InvalidRequest
from zerofleet.library.game_list import available_games

__all__ = ["available", "draw", "require_seat"]


def available(*, json: Json = False) -> None:
    """List the games, each with the default values of its parameters."""
    found = available_games()
    if json:
        screen.emit_value(found)
        return
    table = screen.table("game", ">players", "information", ">actions", ">legal", ">plies", ">planes", ">turns", "--set")
    for row in found.games:
        parameters = " ".join(f"{key}={value}" for key, value in row.parameters.items())
        numbers = map(str, (row.actions, row.max_legal, row.max_plies))
        planes = "x".join(map(str, row.planes))
        table.add_row(row.game, str(row.players), row.information, *numbers, planes, str(row.symmetries + 1), parameters)
    screen.out().print(table)
    for fault in found.broken:
        screen.error(fault)
    screen.note("legal, plies: maxima; turns: symmetries of the board; docs/games has a page for each game")


def draw(
    game_name: GameName,
    *,
    moves: Annotated[
        str, typer.Option("--moves", metavar="M1,M2,...", help="Moves from the start position; empty for the start.")
    ] = "",
    svg_file: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the picture as SVG instead of printing it.")
    ] = None,
    seat: Annotated[
        int | None, typer.Option("--seat", metavar="N", min=1, help="Show the view of this seat; by default everything.")
    ] = None,
    parameters: Parameters = None,
    seed: Seed = 0,
) -> None:
    """Draw the position after the given moves; `--seed` selects the deal of games that have one."""
    game = chosen_game(game_name, parameters)
    require_seat(game_name, game.spec().num_players, seat)
    state = games.replay(game, games.read_moves(game, moves, seed), seed)
    if svg_file is None:
        screen.out().print(colour_board(game, state, None if seat is None else seat - 1))
        return
    if seat is not None:
        raise InvalidRequest("an SVG picture always shows everything; omit --seat or --svg")
    svg_file.write_text(svg.picture(game, state), encoding="utf-8")
    screen.note(f"wrote {svg_file}")


def require_seat(game_name: str, players: int, seat: int | None) -> None:
    """Raise `InvalidRequest` for a seat (counted from 1) outside the game's."""
    if seat is not None and not 1 <= seat <= players:
        raise InvalidRequest(f"{game_name} has {players} seats, got --seat {seat}")
