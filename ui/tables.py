"""Tables: games that people play in a browser, against a model or an agent, in memory.

A table belongs to the browser that holds its id. The opponent replies in a task, so that a request returns at once; `wait`
returns after the reply. Models are asked through an inference server, the run's own or one started for the table.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import structlog

from games.core import Game, to_move
from games.errors import GameError
from ui.catalogue import OpenRun
from zerofleet.errors import InvalidRequest, ModelNotFound, ZerofleetError
from zerofleet.evaluators.opening import evaluating
from zerofleet.library.hints import outlook_kinds
from zerofleet.library.opponents import AgentOpponent, ModelOpponent
from zerofleet.library.seated_game import SeatedGame
from zerofleet.search import RootAnalysis
from zerofleet.search.settings import default_simulations
from zerofleet.supervisor.borrowed import served
from zerofleet.supervisor.entrants import Entrants, entrants, is_model, serving_agent, version_of

__all__ = ["Seats", "Table", "Tables", "UnknownTable"]

_SEEDS = 1 << 32

log = structlog.get_logger()


class UnknownTable(ModelNotFound):
    """Id of no table: it never existed, or it ended to make room for another."""


@dataclass(frozen=True, slots=True)
class Seats:
    """Wish of the person who opens a table."""

    opponent: str
    """champion, model:N or an agent."""
    seat: int
    """Seat of the person, from 0."""
    simulations: int | None
    """Simulations per move of a model; None is the default of the game."""
    seed: int | None = None
    """Seed of the deal and of the opponent's choices; None draws one."""


class Table:
    """Game between a person and an opponent."""

    def __init__(
        self, played: SeatedGame, opponent: ModelOpponent | AgentOpponent, resources: contextlib.AsyncExitStack
    ) -> None:
        """Create it; `resources` are what the opponent needs, closed with the table."""
        self.id = secrets.token_urlsafe(16)
        self.played = played
        self.opponent = opponent
        self.fault = ""
        """Error of the opponent's last move; empty for none."""
        self._resources = resources
        self._reply: asyncio.Task[None] | None = None
        self._changed = 0

    @property
    def is_thinking(self) -> bool:
        """Whether the opponent is choosing a move."""
        return self._reply is not None and not self._reply.done()

    @property
    def number(self) -> int:
        """Number of the last change of the position, for addresses of its picture."""
        return self._changed

    def change(self, act: Callable[[], None]) -> None:
        """Carry out a change by the person, then let the opponent reply. Raises `IllegalMove`, `InvalidRequest`."""
        if self.is_thinking:
            raise InvalidRequest("the opponent is choosing its move; wait for it")
        act()
        self.let_reply()

    def let_reply(self) -> None:
        """Start the opponent's moves, if it is to move."""
        self._changed += 1
        self.fault = ""
        if not self.played.is_over and not self.played.is_turn:
            self._reply = asyncio.create_task(self._play_others())

    def resign(self) -> None:
        """End the game by a resignation of the person. Raises `InvalidRequest` when it is over."""
        if self.played.is_over:
            raise InvalidRequest("the game is over")
        if self._reply is not None:
            self._reply.cancel()
        self.played.resigned = True
        self._changed += 1

    async def wait(self) -> None:
        """Wait until the opponent has moved. Cancellation: the opponent goes on."""
        if self._reply is not None:
            await asyncio.wait({self._reply})

    async def analyse(self) -> RootAnalysis | None:
        """Return the opponent's search of the person's position; None for an agent. Cancellation: nothing is kept."""
        if not self.played.is_turn:
            raise InvalidRequest("there is a hint only when it is your turn")
        if not isinstance(self.opponent, ModelOpponent):
            return None
        return await self.opponent.analyse(self.played.moves, seed=self.played.seed)

    async def outlook(self) -> dict[str, list[str]]:
        """Return the moves that win or lose soon; see `outlook_kinds`. Cancellation: the search ends by itself."""
        return await asyncio.to_thread(outlook_kinds, self.played.game, self.played.state())

    async def aclose(self) -> None:
        """End the opponent's move, and the server that was started for it."""
        if self._reply is not None:
            self._reply.cancel()
            await asyncio.gather(self._reply, return_exceptions=True)
        await self._resources.aclose()

    async def _play_others(self) -> None:
        played = self.played
        try:
            while not played.is_over and to_move(played.game, played.state()) != played.seat:
                played.moves.append(await self.opponent.choose(played.moves, seed=played.seed))
                self._changed += 1
        except (ZerofleetError, GameError) as error:
            self.fault = f"the opponent could not move: {error}"
        except Exception:
            self.fault = "the opponent could not move because of a defect; the log of zerofleet ui has it"
            log.exception("table.opponent_failed", game=played.game.spec().name)


class Tables:
    """Tables by id, the least recently used first."""

    def __init__(self, most: int) -> None:
        self._most = most
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
        async with contextlib.AsyncExitStack() as stack:
            opponent = await _opponent(stack, game, seats, run, seed)
            table = Table(SeatedGame(game, seat=seats.seat, seed=seed), opponent, stack.pop_all())
        self._tables[table.id] = table
        while len(self._tables) > self._most:
            _, oldest = self._tables.popitem(last=False)
            await oldest.aclose()
        table.let_reply()
        return table

    async def aclose(self) -> None:
        """Close every table."""
        while self._tables:
            _, table = self._tables.popitem()
            await table.aclose()


async def _opponent(
    stack: contextlib.AsyncExitStack, game: Game, seats: Seats, run: OpenRun | None, seed: int
) -> ModelOpponent | AgentOpponent:
    if not is_model(seats.opponent):
        found = await asyncio.to_thread(_entrants, seats.opponent, game, run)
        return AgentOpponent(game, await stack.enter_async_context(serving_agent(found, game)), np.random.default_rng(seed))
    if run is None:
        raise InvalidRequest(f"{seats.opponent} is a model: choose the run that it belongs to, or an agent such as random")
    version = version_of(seats.opponent, run.paths, game)
    address = await stack.enter_async_context(served(run.paths, game, versions=[version]))
    evaluator = await stack.enter_async_context(evaluating(address, game))
    simulations = default_simulations(game.spec()) if seats.simulations is None else seats.simulations
    return ModelOpponent(game, evaluator, name=seats.opponent, version=version, simulations=simulations)


def _entrants(name: str, game: Game, run: OpenRun | None) -> Entrants:
    return entrants([name], game, None if run is None else run.paths.root, note=lambda text: None)
