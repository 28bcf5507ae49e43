"""Endpoints of play: tables, moves, undo, hints and boards. Every answer is in the view of the person's seat."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Self

from pydantic import BaseModel, Field, model_validator
from starlette.requests import Request
from starlette.responses import Response

import games
from games.positions import changed_parameters
from ui.catalogue import Catalogue
from ui.endpoints import MOST_TEXT, Endpoint, Parameter, StrictValue, read_body
from ui.event_stream import streamed
from ui.seats import Seats
from ui.setting_up import DrawnPosition
from ui.tables import Snapshot, Table, Tables
from ui.thinking import expected_line, thinking_events
from zerofleet.contracts.played import LAST_SEED
from zerofleet.library.game_list import GameFactsList, available_games
from zerofleet.library.hints import Outlook
from zerofleet.library.opponents import LEAST_LIMIT_S, MOST_LIMIT_S
from zerofleet.library.seated_game import SeatedGame
from zerofleet.search import RootAnalysis
from zerofleet.search.deadline import MOST_SIMULATIONS

__all__ = ["PlayEndpoints"]

MOST_OPPONENT = 200  # characters


class NewTable(StrictValue):
    """Wish of the person who begins a game."""

    game: str
    """Name of the game; that of the run, if one is given."""
    parameters: dict[str, str] = Field(default_factory=dict)
    """Parameters that differ from the game's defaults; those of the run, if one is given."""
    run: str | None = None
    """Run whose models play; needed for `champion` and `model:N`."""
    opponent: str = Field(default="random", max_length=MOST_OPPONENT)
    """champion, model:N or an agent."""
    seat: int = Field(default=1, ge=1)
    """Seat of the person; 1 moves first."""
    simulations: int | None = Field(default=None, ge=0, le=MOST_SIMULATIONS)
    """Simulations per move of a model."""
    seconds: float | None = Field(default=None, ge=LEAST_LIMIT_S, le=MOST_LIMIT_S, allow_inf_nan=False)
    """Wall-clock time per move and per hint of a model, in place of simulations."""
    seed: int | None = Field(default=None, ge=0, le=LAST_SEED)
    """Seed of the deal and of the opponent's choices; drawn without one."""
    moves: str = Field(default="", max_length=MOST_TEXT)
    """Moves from the start to the position where play begins, separated by spaces or commas; only with perfect information."""
    position: DrawnPosition | None = None
    """Drawn position in place of the start, as `/setup/moves` returns it; moves, if any, are played from it."""

    @model_validator(mode="after")
    def _has_one_budget(self) -> Self:
        if self.simulations is not None and self.seconds is not None:
            raise ValueError("both simulations and seconds are given; a move has one budget, leave one out")
        return self


class MoveWish(StrictValue):
    """Move of the person."""

    move: str
    """Notation of the move."""


class LineWish(StrictValue):
    """Line to go to."""

    line: int = Field(ge=1)
    """Number of one of the other lines of the table."""


class Nothing(StrictValue):
    """Empty object."""


class CellView(StrictValue):
    """Cell of the board that can be clicked, in the coordinates of the board's picture."""

    id: str
    x: float
    y: float
    radius: float


class LegalMove(StrictValue):
    """Legal move of the person."""

    move: str
    path: tuple[str, ...]
    """Cells to click in turn; empty where the game has no cells."""


class TableView(StrictValue):
    """Game in progress as the person's seat sees it."""

    id: str
    game: str
    seat: int
    """Seat of the person, from 1."""
    players: int
    opponent: str
    has_model: bool
    """Whether hints are a model's."""
    number: int
    """Number of the last change of the position."""
    is_over: bool
    is_turn: bool
    """Whether the person is to move."""
    is_thinking: bool
    """Whether the opponent is choosing a move."""
    resigned: bool
    text: str
    """Position as text."""
    moves: tuple[str, ...]
    """Moves that the person knows."""
    position: DrawnPosition | None
    """Drawn position where the moves begin; None for the start of the game."""
    lines: tuple[tuple[str, ...], ...]
    """Moves of other lines that were left by taking back, newest first; empty with hidden information."""
    parameters: dict[str, str]
    """Parameters of the game that differ from its defaults."""
    keeps_moves: bool
    """Whether the moves restore the game, from `position` if there is one: it has perfect information."""
    legal: tuple[LegalMove, ...]
    cells: tuple[CellView, ...]
    scores: tuple[float, ...] | None
    """Scores by seat in [-1, 1]; None until the game ends by the rules."""
    fault: str
    """Error of the opponent's last move; empty for none."""


class AnalysedMove(StrictValue):
    """Legal move with the model's opinion, for the player to move."""

    move: str
    prior: float
    visits: int
    value: float | None
    """None for a move without visits."""


class Hint(StrictValue):
    """Opinion on the person's position."""

    source: str
    """Model and its search, or the depth of a search without a model."""
    value: float | None
    """Expected score of the person in [-1, 1]; None without a model."""
    moves: tuple[AnalysedMove, ...]
    """Best first; empty without a model."""
    line: tuple[str, ...]
    """Expected line, from the person's move on."""
    outlook: dict[str, list[str]]
    """Without a model: moves that win, stay open or lose within a few plies."""


class PlayEndpoints:
    """Handlers over the tables."""

    def __init__(self, catalogue: Catalogue, tables: Tables) -> None:
        self._catalogue = catalogue
        self._tables = tables

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        wait = Parameter("wait", "string", "Any value: answer after the opponent has moved.")
        table = "/tables/{table}"
        return (
            Endpoint("/games", self.list_games, "Available games", GameFactsList),
            Endpoint("/tables", self.begin, "Begin a game", TableView, method="POST", body=NewTable),
            Endpoint(table, self.table, "A game in progress", TableView, query=(wait,)),
            Endpoint(f"{table}/moves", self.move, "Play a move", TableView, method="POST", body=MoveWish),
            Endpoint(f"{table}/undo", self.undo, "Take back the last move and its replies", TableView, "POST", Nothing),
            Endpoint(f"{table}/line", self.line, "Go to another line that was left", TableView, "POST", LineWish),
            Endpoint(f"{table}/stop", self.stop, "End the search in progress with its best move", Nothing, "POST", Nothing),
            Endpoint(f"{table}/thinking", self.thinking, "The search in progress, as events `thinking`", "text/event-stream"),
            Endpoint(f"{table}/resign", self.resign, "Resign", TableView, "POST", Nothing),
            Endpoint(f"{table}/hint", self.hint, "The model's opinion on the position", Hint),
            Endpoint(f"{table}/board", self.seen_board, "The position as a picture", "image/svg+xml"),
        )

    async def list_games(self, request: Request) -> BaseModel:
        """List the games."""
        return await asyncio.to_thread(available_games)

    async def begin(self, request: Request) -> BaseModel:
        """Begin a game."""
        wish = await read_body(request, NewTable)
        run = None if wish.run is None else await asyncio.to_thread(self._catalogue.get, wish.run)
        game = run.game if run is not None else await asyncio.to_thread(games.make, wish.game, **wish.parameters)
        seats = Seats(
            wish.opponent,
            wish.seat - 1,
            wish.simulations,
            seed=wish.seed,
            seconds=wish.seconds,
            moves=wish.moves,
            start=None if wish.position is None else await asyncio.to_thread(wish.position.read, game),
        )
        return await _seen(await self._tables.open(game, seats, run))

    async def table(self, request: Request) -> BaseModel:
        """Return a game in progress."""
        table = self._table(request)
        if "wait" in request.query_params:
            await table.wait()
            table = self._table(request)  # else a game that made room meanwhile would be one without a turn
        return await _seen(table)

    async def move(self, request: Request) -> BaseModel:
        """Play a move."""
        table, wish = self._table(request), await read_body(request, MoveWish)
        await table.play(wish.move)
        return await _seen(table)

    async def undo(self, request: Request) -> BaseModel:
        """Take back the last move."""
        table = self._table(request)
        await table.undo()
        return await _seen(table)

    async def line(self, request: Request) -> BaseModel:
        """Go to another line."""
        table, wish = self._table(request), await read_body(request, LineWish)
        await table.enter_line(wish.line - 1)
        return await _seen(table)

    async def stop(self, request: Request) -> BaseModel:
        """End the search in progress."""
        self._table(request).stop()
        return Nothing()

    async def thinking(self, request: Request) -> Response:
        """Stream the search in progress."""
        return streamed(thinking_events(self._table(request)))

    async def resign(self, request: Request) -> BaseModel:
        """Resign."""
        table = self._table(request)
        await table.resign()
        return await _seen(table)

    async def hint(self, request: Request) -> BaseModel:
        """Return the opinion on the position."""
        table = self._table(request)
        played, found = await table.advise()
        if isinstance(found, Outlook):
            return Hint(source=f"search of the next {found.plies} plies", value=None, moves=(), line=(), outlook=found.kinds)
        return await asyncio.to_thread(_hint, played, found, table.source(int(found.visits.sum())))

    async def seen_board(self, request: Request) -> Response:
        """Draw the position in the view of the seat."""
        picture = await asyncio.to_thread(self._table(request).played.copy().picture)
        return Response(picture, media_type="image/svg+xml", headers={"Cache-Control": "no-store"})

    def _table(self, request: Request) -> Table:
        return self._tables.get(request.path_params["table"])


async def _seen(table: Table) -> TableView:
    """Return the table as it is now; the snapshot keeps moves that are played meanwhile out of it."""
    return await asyncio.to_thread(_view, table.snapshot())


def _view(now: Snapshot) -> TableView:
    played, game = now.played, now.played.game
    is_open = game.spec().information == "perfect"
    return TableView(
        id=now.id,
        game=game.spec().name,
        seat=played.seat + 1,
        players=game.spec().num_players,
        opponent=now.opponent,
        has_model=now.has_model,
        number=now.number,
        is_over=played.is_over,
        is_turn=played.is_turn,
        is_thinking=now.is_thinking and not played.resigned,
        resigned=played.resigned,
        text=played.text(),
        moves=tuple(played.seen_moves()),
        position=None if played.start is None else DrawnPosition.of(game, played.start),
        lines=tuple(tuple(played.names(line)) for line in played.other_lines()),
        parameters=changed_parameters(game),
        keeps_moves=is_open,
        legal=tuple(LegalMove(move=name, path=path) for name, path in played.paths().items()),
        cells=tuple(CellView(**cell._asdict()) for cell in played.cells()),
        scores=played.scores(),
        fault=now.fault,
    )


def _hint(played: SeatedGame, analysis: RootAnalysis, title: str) -> Hint:
    game, state = played.game, played.state()
    moves = [
        AnalysedMove(
            move=game.action_name(state, int(analysis.actions[index])),
            prior=float(analysis.priors[index]),
            visits=int(analysis.visits[index]),
            value=None if math.isnan(analysis.values[index]) else float(analysis.values[index]),
        )
        for index in analysis.ranking()
    ]
    value = float(analysis.value[played.seat])
    return Hint(source=title, value=value, moves=tuple(moves), line=expected_line(played, analysis), outlook={})
