"""Games stored by the trainer, for readers: rows of a list, and replays with the search of each move.

`zerofleet games --json` prints these values, and the pages of `zerofleet ui` receive the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from games.core import GameSpec
from zerofleet.contracts.endings import Ending, ending_of
from zerofleet.contracts.played import FULL_SEARCH, REDUCED, WOULD_RESIGN
from zerofleet.contracts.records import GameRecord, ValidatedGame, decode_record, validate
from zerofleet.errors import InvalidRequest, RecordRejected
from zerofleet.library.times import time_text
from zerofleet.library.values import Value
from zerofleet.storage.game_log import GameLog, LoggedGame

__all__ = [
    "FinishedGame",
    "FinishedGames",
    "GameList",
    "GameReplay",
    "GameRow",
    "MoveView",
    "SearchedAction",
    "ending_of_record",
    "find_game",
    "finished_game",
    "list_games",
    "newest",
    "read_game",
    "replay_of",
    "search_marks",
    "seat_names",
    "summarise",
    "view_moves",
]

UID_DIGITS = 32
FEWEST_DIGITS = 4
HEX_DIGITS = frozenset("0123456789abcdef")


class FinishedGame(Value):
    """Facts of a stored game, the same in a list and in its replay."""

    index: int
    uid: str
    plies: int
    scores: tuple[float, ...]
    ending: str
    """played out, which player resigned, played on after a resignation, or cut at the maximum of plies."""
    versions: tuple[int, ...]
    """Model version of each seat at the start; 0 for a seat without a model."""
    searched: int
    """Number of moves with a search."""
    worker: str
    finished_at: str | None
    """By the worker's clock, ISO 8601 with zone; None for an impossible time."""


class GameRow(FinishedGame):
    """Row of a list of stored games."""

    moves: tuple[str, ...]


class SearchedAction(Value):
    """Search result of one legal move."""

    move: str
    visits: int
    share: float
    """Share of all visits."""
    target: float
    """Policy target."""


class MoveView(Value):
    """Move of a game; without a search, `actions` is empty and `value` None."""

    ply: int
    """Number of the move, from 1."""
    player: int
    """Number of the player who moved, from 1."""
    move: str
    model_version: int
    value: float | None
    """Mean value of the search for the player who moved."""
    visits: int
    notes: tuple[str, ...]
    actions: tuple[SearchedAction, ...]


class GameList(Value):
    """Newest stored games, newest first."""

    total: int
    """Number of games ever stored."""
    searched: int
    """Number of games looked at for this answer."""
    unreadable: int
    """Number of these that are damaged or of another release, and left out."""
    next_before: int | None
    """Number with which a query for older games goes on; None where none is left."""
    games: tuple[GameRow, ...]


class FinishedGames(Value):
    """Newest stored games, newest first, without their moves."""

    total: int
    """Number of games ever stored."""
    players: int
    is_hidden: bool
    """Whether players hide something from each other."""
    games: tuple[FinishedGame, ...]


class GameReplay(FinishedGame):
    """A stored game with every move."""

    moves: tuple[MoveView, ...]


def list_games(log: GameLog, *, limit: int, before: int | None = None) -> GameList:
    """Return at most `limit` games with numbers below `before`, newest first.

    Damaged games and those of another release are skipped. Raises `RecordRejected` when none of the newest `limit` can be read.
    """
    rows: list[GameRow] = []
    refused: RecordRejected | None = None
    first = at = log.end_index if before is None else min(before, log.end_index)
    for logged in newest(log, limit, before=before):
        at = logged.index
        try:
            rows.append(summarise(logged.index, read_game(logged)))
        except RecordRejected as error:
            refused = error
    if refused is not None and not rows:
        raise refused
    if len(rows) < limit and refused is None:
        at = min(at, log.start_index)  # damaged games alone are left
    is_at_end = at <= log.start_index
    searched = max(0, first - at)
    return GameList(
        total=len(log),
        searched=searched,
        unreadable=searched - len(rows),
        next_before=None if is_at_end else at,
        games=tuple(rows),
    )


def find_game(log: GameLog, text: str) -> LoggedGame:
    """Return the game whose uid begins with `text`.

    Raises `InvalidRequest` unless exactly one is stored, `RecordRejected` when it is damaged.
    """
    prefix = text.strip().lower()
    if not FEWEST_DIGITS <= len(prefix) <= UID_DIGITS or not set(prefix) <= HEX_DIGITS:
        raise InvalidRequest(f"{text!r} is not a uid: want {FEWEST_DIGITS} to {UID_DIGITS} hex digits, as `games list` shows")
    known = log.starting_with(prefix)
    found = [index for index in known if index >= log.start_index]
    if not found:
        gone = f"; game {known[0]} was deleted, the oldest one kept is {log.start_index}" if known else ""
        raise InvalidRequest(f"no stored game has a uid beginning with {prefix}{gone}; `zerofleet games list` shows the newest")
    if len(found) > 1:
        several = ", ".join(log.get(index).uid for index in found[:3])
        raise InvalidRequest(f"{len(found)} games have uids beginning with {prefix}: {several}; give more digits")
    return log.get(found[0])


def read_game(logged: LoggedGame) -> ValidatedGame:
    """Return a stored game, replayed with the rules; raises `RecordRejected`."""
    return validate(decode_record(logged.payload))


def replay_of(index: int, stored: ValidatedGame) -> GameReplay:
    """Return a game with every move."""
    return GameReplay(**(dict(summarise(index, stored)) | {"moves": tuple(view_moves(stored))}))


def summarise(index: int, stored: ValidatedGame) -> GameRow:
    """Return the row of a game."""
    return GameRow(**(dict(finished_game(index, stored)) | {"moves": tuple(_names(stored))}))


def finished_game(index: int, stored: ValidatedGame) -> FinishedGame:
    """Return the facts of a game, without its moves."""
    record = stored.record
    return FinishedGame(
        index=index,
        uid=record.uid,
        plies=len(record.moves),
        scores=tuple(stored.scores.tolist()),
        ending=_ending_text(ending_of_record(stored.game.spec(), record), record.resigned_seat),
        versions=tuple(record.seat_versions),
        searched=len(record.searched),
        worker=record.worker_id,
        finished_at=time_text(record.finished_at_ms),
    )


def ending_of_record(spec: GameSpec, record: GameRecord) -> Ending:
    """Return the ending of a record of a game with this `spec`."""
    return ending_of(
        spec,
        plies=len(record.moves),
        has_resigned=record.resigned_seat > 0,
        has_reduced=any(move.flags & REDUCED for move in record.searched),
    )


def view_moves(stored: ValidatedGame) -> list[MoveView]:
    """Return every move with its search, in order."""
    columns = stored.search
    rows = {int(ply): row for row, ply in enumerate(columns.ply)}
    views = []
    for ply, name in enumerate(_names(stored)):
        player = int(stored.movers[ply])
        row = rows.get(ply)
        actions = () if row is None else _actions(stored, ply, row)
        views.append(
            MoveView(
                ply=ply + 1,
                player=player + 1,
                move=name,
                model_version=0 if row is None else int(columns.model_version[row]),
                value=None if row is None else float(columns.root_value[row, player]),
                visits=sum(action.visits for action in actions),
                notes=() if row is None else _notes(int(columns.flags[row])),
                actions=actions,
            )
        )
    return views


def search_marks(stored: ValidatedGame) -> list[str]:
    """Return the mark of each move for a caption: ` (fast)` or ` (reduced)`, empty for a full search and for none."""
    marks = [""] * len(stored.movers)
    for ply, flags in zip(stored.search.ply.tolist(), stored.search.flags.tolist(), strict=True):
        kind = _kind(flags)
        marks[ply] = "" if kind == "full" else f" ({kind})"
    return marks


def seat_names(stored: ValidatedGame) -> list[str]:
    """Return the player of each seat, as text: `model 7`, the name of an agent, or `no model`."""
    versions = stored.record.seat_versions[:]
    names = stored.record.seat_agents[:] or [""] * len(versions)
    return [f"model {version}" if version else name or "no model" for version, name in zip(versions, names, strict=True)]


def newest(log: GameLog, limit: int, *, before: int | None = None, after: int = -1) -> Iterator[LoggedGame]:
    """Yield at most `limit` games with numbers below `before` and above `after`, newest first; damaged entries are skipped."""
    index = log.end_index if before is None else min(before, log.end_index)
    while limit and index > max(log.start_index, after + 1):
        index -= 1
        try:
            yield log.get(index)
        except RecordRejected:
            continue
        limit -= 1


def _ending_text(ending: Ending, resigned_seat: int) -> str:
    if ending == "resigned":
        return f"player {resigned_seat} resigned"
    return {"soft_resigned": "played on after a resignation", "cut": "cut at the maximum of plies"}.get(ending, "played out")


def _names(stored: ValidatedGame) -> list[str]:
    return [stored.game.action_name(stored.states[ply], int(action)) for ply, action in enumerate(stored.record.moves)]


def _actions(stored: ValidatedGame, ply: int, row: int) -> tuple[SearchedAction, ...]:
    columns = stored.search
    entries = slice(columns.start[row], columns.start[row + 1])
    visits = columns.visits[entries].tolist()
    total = sum(visits) or 1  # agents without a search record targets alone
    found = [
        SearchedAction(
            move=stored.game.action_name(stored.states[ply], action), visits=count, share=count / total, target=target
        )
        for action, count, target in zip(
            columns.actions[entries].tolist(), visits, columns.policy[entries].tolist(), strict=True
        )
    ]
    return tuple(sorted(found, key=lambda action: (-action.visits, -action.target)))


def _notes(flags: int) -> tuple[str, ...]:
    return (f"{_kind(flags)} search", "would resign") if flags & WOULD_RESIGN else (f"{_kind(flags)} search",)


def _kind(flags: int) -> str:
    return "reduced" if flags & REDUCED else "full" if flags & FULL_SEARCH else "fast"
