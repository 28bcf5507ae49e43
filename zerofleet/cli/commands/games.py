"""`zerofleet games`: available games and their check; games stored by the trainer, listed, replayed or written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from games.core import Game
from zerofleet.cli import screen
from zerofleet.cli.commands.conformance import check
from zerofleet.cli.commands.rules import available, draw, require_seat
from zerofleet.cli.options import GameName, Json, Parameters, RunDir, chosen_game
from zerofleet.cli.play.game_view import WIDE_COLUMNS, list_table, render_game
from zerofleet.contracts.endings import ENDINGS
from zerofleet.errors import InvalidRequest
from zerofleet.library.game_export import KINDS, export_game
from zerofleet.library.game_query import GameQuery
from zerofleet.library.game_search import Bounds, GameSearch
from zerofleet.library.stored_games import GameList, find_game, list_games, read_game, replay_of
from zerofleet.storage.files import atomic_publish, require_place
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.run_lookup import find_run

__all__ = ["app"]

app = typer.Typer(
    help="List and check the available games, draw a position, list stored games, replay one and export it.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


app.command("available")(available)
app.command("check")(check)
app.command("draw")(draw)


@app.command("list")
def list_(
    game_name: GameName,
    *,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Maximum number of games, newest first.")] = 20,
    before: Annotated[
        int | None, typer.Option("--before", metavar="GAME", min=0, help="Only games older than the one with this number.")
    ] = None,
    model: Annotated[
        int | None,
        typer.Option(
            "--model", metavar="VERSION", min=0, help="Only games with this model on some seat; 0: none on some seat."
        ),
    ] = None,
    result: Annotated[
        str | None,
        typer.Option("--result", metavar="N|draw", help="Only games that player N won, counted from 1, or drawn ones."),
    ] = None,
    ending: Annotated[
        str | None,
        typer.Option(
            "--ending",
            metavar="|".join(ENDINGS),
            help="Only games that were played out (result), were cut at the maximum of plies (cut), were resigned, or were "
            "played on after a resignation (soft_resigned).",
        ),
    ] = None,
    min_plies: Annotated[int | None, typer.Option("--min-plies", metavar="N", min=0, help="Minimum number of plies.")] = None,
    max_plies: Annotated[int | None, typer.Option("--max-plies", metavar="N", min=0, help="Maximum number of plies.")] = None,
    worker: Annotated[str | None, typer.Option("--worker", metavar="NAME", help="Only games of this worker.")] = None,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    json: Json = False,
) -> None:
    """List the newest games stored by the trainer of a run, also while it is running; all given conditions hold for each.

    A search with conditions ends at the oldest game, some seconds for a million.
    """
    lengths = {"min_plies": min_plies, "max_plies": max_plies}
    wanted = {"before": before, "model": model, "result": result, "ending": ending, "worker": worker, **lengths}
    query = GameQuery.read({"limit": limit} | {name: value for name, value in wanted.items() if value is not None})
    game = chosen_game(game_name, parameters)
    query.require_player(game.spec().num_players)
    paths = find_run(game, run_dir)
    with GameLog.open(paths.replay, writer=False) as log:
        found = _search(log, query, game) if query.has_filter else list_games(log, limit=limit, before=before)
    if json:
        screen.emit_value(found)
        return
    if not found.total:
        screen.out().print(
            f"no game of {game_name} in {paths.root} yet; `zerofleet status {paths.root}` shows the state of the run",
            soft_wrap=True,
            highlight=False,
        )
        return
    screen.out().print(list_table(game, found.games, is_narrow=screen.out().width < WIDE_COLUMNS))
    screen.note(_summary(found, query))


@app.command("show")
def show(
    game_name: GameName,
    uid: Annotated[str, typer.Argument(metavar="UID", help="Uid of a game, or a prefix of at least 4 digits.")],
    *,
    ply: Annotated[int | None, typer.Option("--ply", metavar="N", min=1, help="Show only this move, counted from 1.")] = None,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    json: Json = False,
) -> None:
    """Replay a game: each move with its value, the visits of its search, and the board."""
    with GameLog.open(_store(game_name, run_dir, parameters), writer=False) as log:
        logged = find_game(log, uid)
    stored = read_game(logged)
    if ply is not None and ply > len(stored.movers):
        raise InvalidRequest(f"game {logged.uid} has {len(stored.movers)} moves; there is no move {ply}")
    if json:
        replayed = replay_of(logged.index, stored)
        chosen = tuple(view for view in replayed.moves if ply in (None, view.ply))
        screen.emit_value(replayed.model_copy(update={"moves": chosen}))
        return
    for part in render_game(stored, ply=ply):
        screen.out().print(part)


@app.command("export")
def export(
    game_name: GameName,
    uid: Annotated[str, typer.Argument(metavar="UID", help="Uid of a game, or a prefix of at least 4 digits.")],
    *,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="File to write: .gif, .png or .svg for pictures, .jsonl for moves.")
    ],
    seat: Annotated[
        int | None, typer.Option("--seat", metavar="N", min=1, help="Pictures as this seat sees them; by default every hand.")
    ] = None,
    run_dir: RunDir = None,
    parameters: Parameters = None,
) -> None:
    """Write a stored game as an animation (GIF), a strip of boards (PNG, SVG), or its moves with their searches (JSONL)."""
    kind = out.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise InvalidRequest(f"{out} cannot be written: its name must end in {', '.join(f'.{known}' for known in KINDS)}")
    require_place(out)
    with GameLog.open(_store(game_name, run_dir, parameters), writer=False) as log:
        logged = find_game(log, uid)
    stored = read_game(logged)
    if seat is not None:
        require_seat(game_name, stored.game.spec().num_players, seat)
    made = export_game(logged.index, stored, kind, viewer=None if seat is None else seat - 1)
    atomic_publish(out, made.content)
    screen.note(f"wrote game {logged.uid} to {out}{f' ({made.note})' if made.note else ''}")


def _search(log: GameLog, query: GameQuery, game: Game) -> GameList:
    """Return the games of a query, with as many looks as it takes."""
    search = GameSearch(query, game.spec(), bounds=Bounds(games=None, size_bytes=None, duration_s=None))
    with screen.meter("searched", max(0, min(query.before or log.end_index, log.end_index) - log.start_index)) as meter:
        while not search.is_over:
            already = search.searched
            search.advance(log)
            meter.advance(search.searched - already)
    return search.found(log)


def _summary(found: GameList, query: GameQuery) -> str:
    searched = f", {found.searched:,} searched" if query.has_filter else ""
    unreadable = f", {found.unreadable:,} not readable" if found.unreadable else ""
    older = "" if found.next_before is None else f"; older ones: --before {found.next_before}"
    return f"{len(found.games)} of {found.total:,} games{searched}{unreadable}{older}"


def _store(game_name: str, run_dir: Path | None, parameters: list[str] | None) -> Path:
    return find_run(chosen_game(game_name, parameters), run_dir).replay
