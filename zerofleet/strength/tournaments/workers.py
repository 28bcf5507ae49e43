"""Workers of a tournament: this process, or separate processes, one per core.

A separate process receives a line of JSON with the setup, then a line per portion of games; it replies with a line per result
and a final one per portion. It exits when its input closes, hence also when this process is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Protocol, Self

from pydantic import TypeAdapter

from games.core import Game, make
from games.positions import parameters_text
from zerofleet.agents import Agent, AgentMaker, Evaluate
from zerofleet.agents.model.search_options import parse_search
from zerofleet.errors import InvalidRequest, Unavailable
from zerofleet.evaluators.base import Evaluator
from zerofleet.strength.matches import GameResult, MatchSettings, Pairing, play_games

__all__ = ["PAIRINGS", "REPLY", "SETUP", "LocalWorker", "ProcessWorker", "Remembering", "Reply", "Setup", "Worker"]

LONGEST_LINE = 1 << 26  # a portion of games with long openings
AGENT_GAMES = 4
"""Concurrent games without models: one thread searches at a time, and more games would only finish later."""
STOP_TIMEOUT_S = 10.0
LOG_BYTES_SHOWN = 2000


class Worker(Protocol):
    """Player of portions of games."""

    def play(self, games: Sequence[Pairing]) -> AsyncIterator[GameResult]:
        """Play the games and yield their results as they end. Its errors abort the tournament."""
        ...


@dataclass(frozen=True, slots=True)
class Setup:
    """First message to a process."""

    game: str
    parameters: dict[str, str]
    simulations: int
    addresses: tuple[str, ...]
    """Inference server for each run of the models (`zerofleet.evaluators.of_runs`); none without models."""
    search: str = ""
    """Options of the models' search."""
    models: str = ""
    """Model store of the one run whose models the process evaluates itself, without `addresses`; empty: it does not."""
    versions: tuple[int, ...] = ()
    """Versions of these models, all loaded before the first game, so that the run may delete them meanwhile."""

    @classmethod
    def of(cls, game: Game, simulations: int, addresses: Sequence[str] = (), search: str = "") -> Self:
        """Return the setup for a game whose models inference servers evaluate."""
        return cls(game.spec().name, parameters_text(game), simulations, tuple(addresses), search)

    def made(self) -> Game:
        """Return the game."""
        return make(self.game, **self.parameters)


@dataclass(frozen=True, slots=True)
class Reply:
    """Reply of a process: a result, an error, or neither at the end of a portion."""

    result: GameResult | None = None
    error: str | None = None


SETUP, PAIRINGS, REPLY = TypeAdapter(Setup), TypeAdapter(list[Pairing]), TypeAdapter(Reply)


class LocalWorker:
    """Worker in this process, on one core beside the event loop."""

    def __init__(self, game: Game, evaluator: Evaluator, *, make_agent: AgentMaker, simulations: int, search: str = "") -> None:
        self._game = game
        self._evaluator = evaluator
        self._make_agent = Remembering(make_agent)
        self._simulations = simulations
        self._options = parse_search(search)

    async def play(self, games: Sequence[Pairing]) -> AsyncIterator[GameResult]:
        """See `Worker`. Cancellation: games in progress are lost."""
        asks = any(player.version or player.asks_model for pairing in games for player in pairing.players)
        slots = len(games) if asks else min(len(games), AGENT_GAMES)
        settings = MatchSettings(simulations=self._simulations, options=self._options, slots=slots, agent_threads=1)
        played = play_games(self._game, iter(games), self._evaluator, settings=settings, make_agent=self._make_agent)
        async with aclosing(played) as results:
            async for result in results:
                yield result


class ProcessWorker:
    """Worker in a separate process; an async context manager."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    async def __aenter__(self) -> Self:
        self._log: IO[bytes] = await asyncio.to_thread(tempfile.TemporaryFile, prefix="zerofleet-")
        # Own session: Ctrl-C at the terminal reaches only this process, which then closes the worker's input.
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "zerofleet.strength.tournaments.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            limit=LONGEST_LINE,
        )
        await self._send(SETUP.dump_json(self._setup))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._log.close()

    async def play(self, games: Sequence[Pairing]) -> AsyncIterator[GameResult]:
        """See `Worker`; raises `InvalidRequest` with the message of an agent, `Unavailable` if the process exited.

        Cancellation: the worker must not be used again.
        """
        await self._send(PAIRINGS.dump_json(list(games)))
        while True:
            reply = await self._reply()
            if reply.error is not None:
                raise InvalidRequest(reply.error)
            if reply.result is None:
                return
            yield reply.result

    async def _send(self, line: bytes) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # reported by `_reply`
                self._process.stdin.write(line + b"\n")
                await self._process.stdin.drain()

    async def _reply(self) -> Reply:
        line = b"" if self._process.stdout is None else await self._process.stdout.readline()
        if not line.endswith(b"\n"):
            code = await self._process.wait()
            raise Unavailable(f"a tournament worker exited with code {code}\n{self._last_words()}".rstrip())
        return REPLY.validate_json(line)

    def _last_words(self) -> str:
        self._log.seek(0)
        return self._log.read()[-LOG_BYTES_SHOWN:].decode(errors="replace").strip()


class Remembering:
    """Cache of agents, some of which are slow to construct."""

    def __init__(self, make_agent: AgentMaker) -> None:
        self._make_agent = make_agent
        self._made: dict[str, Agent] = {}

    def __call__(self, text: str, game: Game, *, evaluate: Evaluate | None = None) -> Agent:
        """See `AgentMaker`; all agents of a process share one evaluator."""
        if text not in self._made:
            self._made[text] = self._make_agent(text, game, evaluate=evaluate)
        return self._made[text]
