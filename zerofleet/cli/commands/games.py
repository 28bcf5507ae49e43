"""`zerofleet games`: available games, and games stored by the trainer, listed or replayed move by move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli import screen
from zerofleet.cli.commands.rules import available, draw
from zerofleet.cli.options import GameName, Json, Parameters, RunDir, chosen_game
from zerofleet.cli.play.game_view import WIDE_COLUMNS, list_table, render_game, summarise, view_moves
from zerofleet.contracts.records import ValidatedGame, decode_record, validate
from zerofleet.errors import InvalidRequest, RecordRejected
from zerofleet.storage.game_log import GameLog, LoggedGame
from zerofleet.storage.run_lookup import find_run

__all__ = ["app", "find_game"]

UID_DIGITS = 32
FEWEST_DIGITS = 4
HEX_DIGITS = frozenset("0123456789abcdef")

app = typer.Typer(
    help="List the available games, draw a position, list stored games and replay one.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


app.command("available")(available)
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
        rows = [summarise(logged.index, _read(logged)) for logged in _newest(log, limit)]
        total = len(log)
    if json:
        screen.emit_json({"total": total, "games": [asdict(row) for row in rows]})
        return
    screen.out().print(list_table(rows, is_narrow=screen.out().width < WIDE_COLUMNS))
    screen.note(f"{len(rows)} of {total:,} games")


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
    stored = _read(logged)
    if ply is not None and ply > len(stored.movers):
        raise InvalidRequest(f"game {logged.uid} has {len(stored.movers)} moves; there is no move {ply}")
    if json:
        counted = [{**asdict(view), "ply": view.ply + 1, "player": view.player + 1} for view in view_moves(stored)]
        moves = [view for view in counted if ply in (None, view["ply"])]
        screen.emit_json({**asdict(summarise(logged.index, stored)), "moves": moves})
        return
    for part in render_game(stored, ply=ply):
        screen.out().print(part)


def find_game(log: GameLog, text: str) -> LoggedGame:
    """Return the game whose uid begins with `text`; raises `InvalidRequest` unless there is exactly one."""
    prefix = text.strip().lower()
    if not FEWEST_DIGITS <= len(prefix) <= UID_DIGITS or not set(prefix) <= HEX_DIGITS:
        raise InvalidRequest(f"{text!r} is not a uid: want {FEWEST_DIGITS} to {UID_DIGITS} hex digits, as `games list` shows")
    if len(prefix) == UID_DIGITS:
        found = [logged for logged in [log.find(prefix)] if logged is not None]
    else:
        found = [logged for logged in log.scan() if logged.uid.startswith(prefix)]
    if not found:
        raise InvalidRequest(f"no stored game has a uid beginning with {prefix}; `zerofleet games list` shows the newest")
    if len(found) > 1:
        several = ", ".join(logged.uid for logged in found[:3])
        raise InvalidRequest(f"{len(found)} games have uids beginning with {prefix}: {several}; give more digits")
    return found[0]


def _store(game_name: str, run_dir: Path | None, parameters: list[str] | None) -> Path:
    return find_run(chosen_game(game_name, parameters), run_dir).replay


def _read(logged: LoggedGame) -> ValidatedGame:
    return validate(decode_record(logged.payload))


def _newest(log: GameLog, limit: int) -> Iterator[LoggedGame]:
    """Yield the newest games, newest first; damaged ones are skipped."""
    index = log.end_index
    while limit and index > log.start_index:
        index -= 1
        try:
            yield log.get(index)
        except RecordRejected:
            continue
        limit -= 1
