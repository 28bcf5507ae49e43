"""Tables: games that people play in a browser, against a model or an agent, in memory.

A table belongs to the browser that holds its id. The opponent replies in a task, so that a request returns at once; `wait`
returns after the reply. The rules run in threads, where their first use compiles them; a reader takes a snapshot, which no
move changes. Models are asked through an inference server, which the tables of the run share and use for the time of a question
alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass

import structlog

from games.core import Game, State
from games.errors import GameError
from games.positions import read_moves
from ui.catalogue import OpenRun
from ui.event_stream import LOOK_EVERY_S
from ui.faults import shown_fault
from ui.model_servers import ModelServers
from ui.searches import Searches
from ui.seats import InUse, Seats, seated
from zerofleet.errors import InvalidRequest, ModelNotFound, ZerofleetError
from zerofleet.library.hints import Outlook, outlook_of
from zerofleet.library.opponents import AgentOpponent, ModelOpponent
from zerofleet.library.seated_game import SeatedGame
from zerofleet.search import RootAnalysis
from zerofleet.search.block import LAST_SEED
from zerofleet.search.watched import WatchedSearch

__all__ = ["Snapshot", "Table", "Tables", "UnknownTable", "Watched"]

_SEEDS = LAST_SEED + 1  # so many that no player can try all deals for the one with the own hand

log = structlog.get_logger()


class UnknownTable(ModelNotFound):
    """Id of no table: it never existed, or it ended to make room for another."""


@dataclass(frozen=True, slots=True)
class Watched:
    """Search in progress at a table."""

    search: WatchedSearch
    played: SeatedGame
    """Copy of the searched position."""
    is_hint: bool
    """Whether it is for the person, not for the opponent's move."""
    ended: asyncio.Event


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of a table at one time."""

    id: str
    played: SeatedGame
    """Copy, that no move changes."""
    opponent: str
    """Name of the opponent."""
    has_model: bool
    """Whether hints are a model's."""
    number: int
    """Number of the last change of the position."""
    is_thinking: bool
    """Whether the opponent is choosing a move."""
    fault: str
    """Error of the opponent's last move; empty for none."""


class Table:
    """Game between a person and an opponent."""

    def __init__(
        self,
        played: SeatedGame,
        opponent: ModelOpponent | AgentOpponent,
        searches: Searches,
        in_use: InUse = contextlib.nullcontext,
    ) -> None:
        """Create it; `searches` run hints without a model, `in_use` is entered for each question to the opponent."""
        self.id = secrets.token_urlsafe(16)
        self.played = played
        self.opponent = opponent
        self.fault = ""
        """Error of the opponent's last move; empty for none."""
        self._searches = searches
        self._in_use = in_use
        self._reply: asyncio.Task[None] | None = None
        self._changed = 0
        self._is_changing = False
        self._is_advising = False
        self._is_closed = False
        self._watched: Watched | None = None

    @property
    def is_thinking(self) -> bool:
        """Whether the opponent is choosing a move."""
        return self._reply is not None and not self._reply.done()

    @property
    def number(self) -> int:
        """Number of the last change of the position, for addresses of its picture."""
        return self._changed

    @property
    def has_model(self) -> bool:
        """Whether hints are a model's."""
        return isinstance(self.opponent, ModelOpponent)

    def source(self, visits: int) -> str:
        """Return the source of a hint with this number of visits, such as `champion 7, 100 simulations`."""
        return self.opponent.source(visits) if isinstance(self.opponent, ModelOpponent) else self.opponent.name

    def snapshot(self) -> Snapshot:
        """Return the present state, which later moves do not change."""
        return Snapshot(
            id=self.id,
            played=self.played.copy(),
            opponent=self.opponent.name,
            has_model=self.has_model,
            number=self.number,
            is_thinking=self.is_thinking,
            fault=self.fault,
        )

    async def begin(self) -> None:
        """Let the opponent move first, if that is its turn. Cancellation: the opponent has not begun."""
        await self._change(lambda played: None)

    async def play(self, text: str) -> None:
        """Play a move of the person, then let the opponent reply. Raises `IllegalMove`, `InvalidRequest`.

        Cancellation: the move was not played.
        """
        await self._change(lambda played: played.play(text))

    async def undo(self) -> None:
        """Take back the person's last move and its replies. Raises `IllegalMove`, `InvalidRequest`.

        Cancellation: nothing was taken back.
        """
        await self._change(SeatedGame.undo)

    async def resign(self) -> None:
        """End the game by a resignation of the person. Raises `InvalidRequest` when it is over. Cancellation: it goes on."""
        with self._changing():
            played = self.played.copy()
            if await asyncio.to_thread(lambda: played.is_over):
                raise InvalidRequest("the game is over")
        if self._reply is not None:
            self._reply.cancel()
        self.played.resigned = True
        self._changed += 1

    async def wait(self) -> None:
        """Wait until the opponent has moved. Cancellation: the opponent goes on."""
        if self._reply is not None:
            await asyncio.wait({self._reply})

    async def advise(self) -> tuple[SeatedGame, RootAnalysis | Outlook]:
        """Return the person's position with the opponent's search of it, or its `outlook_of` against an agent.

        Raises `InvalidRequest` when it is not the person's turn, or while another hint is searched. Cancellation: nothing is
        kept.
        """
        if self._is_advising:
            raise InvalidRequest("a hint for this game is being searched; wait for it")
        self._is_advising = True
        try:
            played = self.played.copy()
            if not await asyncio.to_thread(lambda: played.is_turn):
                raise InvalidRequest("there is a hint only when it is your turn")
            if isinstance(self.opponent, ModelOpponent):
                return played, await self._analysed(self.opponent, played)
            return played, await self._searches.run(lambda: outlook_of(played.game, played.state()))
        finally:
            self._is_advising = False

    async def enter_line(self, number: int) -> None:
        """Go to another line that was left, from 0. Raises `IllegalMove`, `InvalidRequest`. Cancellation: nothing changes."""
        await self._change(lambda played: played.enter_line(number))

    def stop(self) -> None:
        """End the search in progress: the opponent plays, or the hint shows, what it has found.

        Raises `InvalidRequest` when no search of a model is in progress.
        """
        if self._watched is None:
            raise InvalidRequest("no search of a model is in progress here; the search of an agent ends by itself")
        self._watched.search.stop()

    async def follow(self) -> AsyncGenerator[Watched]:
        """Yield the search in progress several times a second, until no more is. Cancellation: the search goes on."""
        while self.is_thinking or self._is_advising:
            watched = self._watched
            if watched is None:  # it begins soon, or an agent chooses
                await asyncio.sleep(LOOK_EVERY_S)
                continue
            yield watched
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await watched.ended.wait()

    async def aclose(self) -> None:
        """End the opponent's move."""
        self._is_closed = True
        if self._reply is not None:
            self._reply.cancel()
            await asyncio.gather(self._reply, return_exceptions=True)

    async def _change(self, act: Callable[[SeatedGame], None]) -> None:
        """Carry out a change on a copy in a thread, then let the opponent reply, if it is to move."""
        if self.is_thinking:
            raise InvalidRequest("the opponent is choosing its move; wait for it")
        with self._changing():
            after = self.played.copy()
            is_reply_due = await asyncio.to_thread(_changed, act, after)
            self.played = after
        self._changed += 1
        self.fault = ""
        if is_reply_due and not self._is_closed:
            self._reply = asyncio.create_task(self._play_others())

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Refuse every other change meanwhile."""
        if self._is_changing:
            raise InvalidRequest("your last request for this game is being carried out; wait for it")
        self._is_changing = True
        try:
            yield
        finally:
            self._is_changing = False

    async def _play_others(self) -> None:
        played = self.played
        try:
            while await asyncio.to_thread(lambda: played.awaits_others):
                played.moves.append(await self._chosen(played))
                self._changed += 1
        except (ZerofleetError, GameError) as error:
            self.fault = f"the opponent could not move: {error}"
        except Exception as error:
            self.fault = f"the opponent could not move: {shown_fault(error)}"
            log.exception("table.opponent_failed", game=played.game.spec().name)

    async def _chosen(self, played: SeatedGame) -> int:
        """Return the move of the seat that is to move."""
        async with self._in_use():
            if not isinstance(self.opponent, ModelOpponent):
                return await self.opponent.choose(played.moves, seed=played.seed, start=played.start)
            with self._watching(played, is_hint=False) as began:
                return await self.opponent.choose(played.moves, seed=played.seed, start=played.start, began=began)

    async def _analysed(self, adviser: ModelOpponent, played: SeatedGame) -> RootAnalysis:
        """Return the search of a hint."""
        async with self._in_use():
            with self._watching(played, is_hint=True) as began:
                return await adviser.analyse(played.moves, seed=played.seed, start=played.start, began=began)

    @contextlib.contextmanager
    def _watching(self, played: SeatedGame, *, is_hint: bool) -> Iterator[Callable[[WatchedSearch], None]]:
        """Show the search that the yielded function receives, until the end of the block or the beginning of another."""
        mine: list[Watched] = []

        def began(search: WatchedSearch) -> None:
            mine.append(Watched(search, played.copy(), is_hint, asyncio.Event()))
            self._watched = mine[0]

        try:
            yield began
        finally:
            for watched in mine:
                watched.ended.set()
                self._watched = None if self._watched is watched else self._watched


def first_moves(game: Game, text: str, *, seed: int = 0, start: State | None = None) -> list[int]:
    """Return the moves, in notation, that lead to the position where play begins.

    Raises `InvalidRequest` for those of a game with hidden information, and as `read_moves`.
    """
    if text and game.spec().information != "perfect":
        raise InvalidRequest(f"{game.spec().name} has hidden information, so play begins at the start; leave out moves")
    return read_moves(game, text, seed, start)


class Tables:
    """Tables by id, the least recently used first."""

    def __init__(self, most: int, servers: ModelServers | None = None) -> None:
        self._most = most
        self._searches = Searches()
        self._servers = servers or ModelServers()
        self._tables: OrderedDict[str, Table] = OrderedDict()

    def get(self, table_id: str) -> Table:
        """Return a table. Raises `UnknownTable`."""
        table = self._tables.get(table_id)
        if table is None:
            raise UnknownTable("this game is not in progress: it was closed, or made room for newer ones; begin another")
        self._tables.move_to_end(table_id)
        return table

    async def open(self, game: Game, seats: Seats, run: OpenRun | None) -> Table:
        """Return a new table, where the opponent moves first if that is its turn.

        Raises `InvalidRequest`, `ModelNotFound`, `CorruptModel`, `Unavailable`. Cancellation: what was started is stopped.
        """
        players = game.spec().num_players
        if not 0 <= seats.seat < players:
            raise InvalidRequest(f"{game.spec().name} has seats 1 to {players}, got {seats.seat + 1}")
        seed = secrets.randbelow(_SEEDS) if seats.seed is None else seats.seed
        played = SeatedGame(game, seat=seats.seat, seed=seed, start=seats.start)
        played.moves = await asyncio.to_thread(first_moves, game, seats.moves, seed=seed, start=seats.start)
        opponent, in_use = await seated(seats, game, run, seed, self._servers, self._searches)
        async with in_use():  # a server that cannot start is refused here, and the first move does not wait for it
            table = Table(played, opponent, self._searches, in_use)
        self._tables[table.id] = table
        await table.begin()
        while len(self._tables) > self._most:
            _, oldest = self._tables.popitem(last=False)
            await oldest.aclose()
        return table

    async def aclose(self) -> None:
        """Close every table."""
        tables = list(self._tables.values())
        self._tables.clear()
        await asyncio.gather(*(table.aclose() for table in tables))


def _changed(act: Callable[[SeatedGame], None], played: SeatedGame) -> bool:
    """Carry out a change; return whether the opponent is to move after it."""
    act(played)
    return played.awaits_others
