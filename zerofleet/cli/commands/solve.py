"""`zerofleet solve`: score of every move of a position under perfect play, and construction of opening books."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, cast

import typer

from games.connect_four import ConnectFour
from games.core import Game, State
from games.notation import column_name
from games.positions import final_scores, legal, read_moves, replay, titled
from zerofleet.agents.exact.solver import Solver, build_book, fits, load_book
from zerofleet.cli import screen
from zerofleet.cli.options import GameName, Json, Parameters, chosen_game
from zerofleet.cli.play.board import colour_board, player_name
from zerofleet.errors import InvalidRequest
from zerofleet.library.solutions import Solution, require_solvable, solve_position, solved_line
from zerofleet.storage.files import require_place

__all__ = ["solve"]

NO_BOOK = "none"


def solve(
    game_name: GameName,
    *,
    moves: Annotated[
        str,
        typer.Option(
            "--moves", metavar="M1,M2,...", help="Moves from the start position, such as d1,d2 or d,d; empty for the start."
        ),
    ] = "",
    build: Annotated[
        Path | None, typer.Option("--build-book", metavar="FILE", help="Build an opening book of Connect Four instead.")
    ] = None,
    plies: Annotated[int, typer.Option("--plies", metavar="N", min=0, help="With --build-book: depth of the book.")] = 4,
    threads: Annotated[
        int, typer.Option("--threads", metavar="N", min=1, max=256, help="With --build-book: parallel searches.")
    ] = 1,
    table_bits: Annotated[
        int,
        typer.Option("--table-bits", metavar="B", min=22, max=34, help="Transposition table of 2^B entries, 8 bytes each."),
    ] = 22,
    book_file: Annotated[
        str | None,
        typer.Option("--book", metavar="FILE", help="Opening book to use, or `none`.", show_default="the shipped book"),
    ] = None,
    parameters: Parameters = None,
    json: Json = False,
) -> None:
    """Show the score of each legal move under perfect play by both players.

    Connect Four: a win scores the winner's stones left, the winning one included; a loss the negative; a draw 0.
    Other small games: the final score.
    """
    game = chosen_game(game_name, parameters)
    if build is not None:
        if moves or book_file is not None:
            raise typer.BadParameter("cannot be combined with --moves or --book", param_hint="--build-book")
        _build(game, build, plies=plies, threads=threads, table_bits=table_bits, json=json)
        return
    require_solvable(game)
    actions = read_moves(game, moves)
    state = replay(game, actions)
    solution = _solve(game, state, book_file, table_bits)
    if json:
        screen.emit_value(solved_line(game, actions, solution))
    else:
        _show(game, state, solution)


def _solve(game: Game, state: State, book_file: str | None, table_bits: int) -> Solution:
    if book_file is None:
        return solve_position(game, state, table_bits=table_bits)
    if not fits(game):
        raise InvalidRequest(f"--book supports Connect Four on boards of at most 64 bits, not {titled(game)}")
    book = None if book_file == NO_BOOK else load_book(Path(book_file))
    return solve_position(game, state, solver=Solver(cast("ConnectFour", game), book=book, table=table_bits))


def _show(game: Game, state: State, solution: Solution) -> None:
    console = screen.out()
    console.print(colour_board(game, state))
    console.print()
    if solution.player is None:
        ends = "   ".join(f"{player_name(game, seat).plain} {score:+g}" for seat, score in enumerate(final_scores(game, state)))
        console.print(f"the game is over: {ends}")
        return
    rows = screen.table("move", ">score", "")
    names = {column_name(action): game.action_name(state, action) for action in legal(game, state)} if fits(game) else {}
    for name, score in solution.scores.items():
        shown = names.get(name, name)
        if score is None:
            rows.add_row(name, "", "full", style="dim")
        else:
            rows.add_row(shown, f"{score:+g}", _words(score), style="bold" if shown in solution.best else "")
    console.print(rows)
    console.print()
    line = player_name(game, solution.player - 1)
    line.append(f" to move {_words(solution.score or 0.0)} (score {solution.score:+g}); best: {' '.join(solution.best)}")
    console.print(line)
    console.print(f"{solution.nodes:,} positions, {solution.seconds:.3f} s", style="dim")


def _words(score: float) -> str:
    return "wins" if score > 0 else "loses" if score < 0 else "draws"


def _build(game: Game, path: Path, *, plies: int, threads: int, table_bits: int, json: bool) -> None:
    if not fits(game):
        raise InvalidRequest(f"--build-book supports Connect Four on boards of at most 64 bits, not {titled(game)}")
    require_place(path)
    began, shown = time.perf_counter(), 0
    with screen.meter(f"positions of {plies} plies") as meter:

        def progress(done: int, total: int) -> None:
            nonlocal shown
            meter.advance(done - shown, f"of {total:,}")
            shown = done

        built = build_book(
            cast("ConnectFour", game), path, plies=plies, threads=threads, table_bits=table_bits, progress=progress
        )
    seconds = time.perf_counter() - began
    if json:
        screen.emit_json({"file": str(path), "plies": plies, **asdict(built), "seconds": seconds, "bytes": path.stat().st_size})
        return
    screen.out().print(
        f"wrote {path}: {built.positions:,} positions of up to {plies} plies, {path.stat().st_size:,} bytes; "
        f"{built.searched:,} searched ({built.nodes:,} nodes, {seconds:.0f} s), {built.resumed:,} resumed"
    )
