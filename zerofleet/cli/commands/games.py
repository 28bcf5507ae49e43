"""`zerofleet games`: available games and their check; games stored by the trainer, listed, replayed or written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli import screen
from zerofleet.cli.commands.conformance import check
from zerofleet.cli.commands.rules import available, draw, require_seat
from zerofleet.cli.options import GameName, Json, Parameters, RunDir, chosen_game
from zerofleet.cli.play.game_view import WIDE_COLUMNS, list_table, render_game
from zerofleet.errors import InvalidRequest
from zerofleet.library.game_export import KINDS, export_game
from zerofleet.library.stored_games import find_game, list_games, read_game, replay_of
from zerofleet.storage.files import atomic_publish
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
    run_dir: RunDir = None,
    parameters: Parameters = None,
    json: Json = False,
) -> None:
    """List the newest games stored by the trainer of a run, also while it is running."""
    with GameLog.open(_store(game_name, run_dir, parameters), writer=False) as log:
        found = list_games(log, limit=limit)
    if json:
        screen.emit_json(found.model_dump(mode="json"))
        return
    screen.out().print(list_table(found.games, is_narrow=screen.out().width < WIDE_COLUMNS))
    screen.note(f"{len(found.games)} of {found.total:,} games")


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
        screen.emit_json(replayed.model_copy(update={"moves": chosen}).model_dump(mode="json"))
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
    with GameLog.open(_store(game_name, run_dir, parameters), writer=False) as log:
        logged = find_game(log, uid)
    stored = read_game(logged)
    if seat is not None:
        require_seat(game_name, stored.game.spec().num_players, seat)
    made = export_game(logged.index, stored, kind, viewer=None if seat is None else seat - 1)
    atomic_publish(out, made.content)
    screen.note(f"wrote game {logged.uid} to {out}{f' ({made.note})' if made.note else ''}")


def _store(game_name: str, run_dir: Path | None, parameters: list[str] | None) -> Path:
    return find_run(chosen_game(game_name, parameters), run_dir).replay
