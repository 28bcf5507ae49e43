"""Agents of many games, thinking in threads: whoever has an answer may play on while others still think.

    async with AgentPool(game, make_agent, evaluate, threads=4) as pool:
        pool.ask([Question(slot, player, state, luck)])
        for answer in await pool.answers():
            block.play(answer.slot, answer.action)

Compiled agents let go of Python's lock, so as many threads as cores think at once. Agents that ask a model mostly wait for
it; they have threads of their own, so that their requests meet at the server. A game has one question at a time and random
numbers of its own, hence how many threads there are changes nothing but the time.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from games import core
from games.core import Game, State
from zerofleet.agents import Agent, AgentMaker, Evaluate
from zerofleet.search.block import LAST_SEED
from zerofleet.strength.matches.effort import Effort
from zerofleet.strength.matches.terms import Player

__all__ = ["AgentPool", "Answer", "Question", "seen_by_mover"]

ASKING_THREADS = 32
"""Threads for agents that wait for a model; they need no core while they do."""


_LOADED: set[tuple[type, str]] = set()
"""Games and kinds of agents whose compiled code is there."""


class Question(NamedTuple):
    """A move that is due."""

    slot: int
    player: Player
    state: State
    luck: np.random.Generator
    """Of the game, used by nobody else meanwhile."""


class Answer(NamedTuple):
    """A move that was chosen."""

    slot: int
    action: int
    effort: Effort


@dataclass(slots=True)
class _Crew:
    """Threads that take questions from one queue."""

    threads: int
    waiting: deque[Question] = field(default_factory=deque)
    active: int = 0


class AgentPool:
    """The classical players of some games, one of each name. Made and used in one event loop, within `async with`."""

    def __init__(self, game: Game, make_agent: AgentMaker, evaluate: Evaluate, *, threads: int) -> None:
        self._game = game
        self._make_agent = make_agent
        self._evaluate = evaluate
        self._made: dict[str, Agent] = {}
        self._making = threading.Lock()
        self._lock = threading.Lock()
        self._crews = {False: _Crew(threads), True: _Crew(ASKING_THREADS)}  # by whether they ask a model
        self._executor = ThreadPoolExecutor(threads + ASKING_THREADS, thread_name_prefix="agents")
        self._answered: deque[Answer | Exception] = deque()
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._asked: set[int] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Forget questions nobody thinks about yet and wait for thoughts under way: they may need the event loop."""
        with self._lock:
            for crew in self._crews.values():
                crew.waiting.clear()
        await asyncio.to_thread(self._executor.shutdown)

    @property
    def asked(self) -> frozenset[int]:
        """The slots whose answer has not been fetched."""
        return frozenset(self._asked)

    def ask(self, questions: Sequence[Question]) -> None:
        """Put questions to the agents; a slot must not be asked twice before it answered."""
        with self._lock:
            for question in questions:
                self._asked.add(question.slot)
                self._crews[question.player.asks_model].waiting.append(question)
            for crew in self._crews.values():
                for _ in range(min(crew.threads - crew.active, len(crew.waiting))):
                    crew.active += 1
                    self._executor.submit(self._work, crew)

    async def answers(self, *, at_least: int = 0) -> list[Answer]:
        """Return what has been answered since the last call, and wait until it is `at_least` so many.

        Raises the error of an agent. Cancellation: answers are kept for the next call.
        """
        while len(self._answered) < min(at_least, len(self._asked)):
            await self._news.wait()
            self._news.clear()
        found = []
        while self._answered:
            answer = self._answered.popleft()
            if isinstance(answer, Exception):
                raise answer
            self._asked.discard(answer.slot)
            found.append(answer)
        return found

    def _work(self, crew: _Crew) -> None:
        """Answer questions until there are none; runs in a thread."""
        while True:
            with self._lock:
                if not crew.waiting:
                    crew.active -= 1
                    return
                question = crew.waiting.popleft()
            try:
                answer: Answer | Exception = self._answer(question)
            except Exception as error:  # told to whoever waits for the answer
                answer = error
            self._answered.append(answer)
            if not self._news.is_set():
                self._loop.call_soon_threadsafe(self._news.set)

    def _answer(self, question: Question) -> Answer:
        shown = seen_by_mover(self._game, question.state, question.luck)
        agent = self._agent(question.player, shown)
        began_s = time.perf_counter()
        choice = agent.choose(self._game, shown, question.luck)
        effort = Effort(1, choice.nodes, time.perf_counter() - began_s)
        return Answer(question.slot, choice.action, effort)

    def _agent(self, player: Player, state: State) -> Agent:
        """Return the agent of a player; the first time, it has chosen a move already.

        Compiled code is loaded then, if need be compiled, and that is no part of what a move costs.
        """
        if player.text not in self._made:
            with self._making:
                if player.text not in self._made:
                    agent = self._make_agent(player.text, self._game, evaluate=self._evaluate)
                    kind = (type(self._game), re.split("[:,]", player.text)[0])
                    if kind not in _LOADED and not player.asks_model:
                        agent.choose(self._game, state.copy(), np.random.default_rng(0))
                        _LOADED.add(kind)
                    self._made[player.text] = agent
        return self._made[player.text]


def seen_by_mover(game: Game, state: State, luck: np.random.Generator) -> State:
    """Return the position, or where something is hidden another that the player to move cannot tell from it.

    What they cannot see is dealt anew by `luck`, and secret moves of the round are taken back; they are to move there too.
    """
    spec = game.spec()
    if spec.information == "perfect":
        return state
    shown = np.zeros_like(state)
    core.determinise(game, state, core.to_move(game, state), int(luck.integers(LAST_SEED)), shown)
    return shown
