"""Pool of threads for the agents of many games: a game continues as soon as its agent has answered.

    async with AgentPool(game, make_agent, evaluate, threads=4) as pool:
        pool.ask([Question(slot, player, state, luck)])
        for answer in await pool.answers():
            block.play(answer.slot, answer.action)

Compiled agents release the GIL, hence one thread per core. Agents that use a model mostly wait for it; they have separate
threads, so that their requests share batches at the server. A game has one pending question and its own random numbers, hence
results do not depend on the number of threads.

A search cannot be interrupted. The threads are daemons and a cancelled pool waits for none, so that Ctrl-C ends a match while
an agent searches.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from games import core
from games.core import Game, State
from zerofleet.agents import Agent, AgentMaker, Choice, Evaluate
from zerofleet.errors import InvalidRequest
from zerofleet.search.block import LAST_SEED
from zerofleet.search.daemon_thread import DaemonPool, in_daemon_thread
from zerofleet.strength.matches.effort import Effort
from zerofleet.strength.matches.terms import Player

__all__ = ["AgentPool", "Answer", "Question", "seen_by_mover"]

ASKING_THREADS = 32
"""Threads for agents that wait for a model, which occupies no core."""


_LOADED: set[tuple[type, str]] = set()
"""Games and kinds of agents whose compiled code is loaded."""


class Question(NamedTuple):
    """Request for a move."""

    slot: int
    player: Player
    state: State
    luck: np.random.Generator
    """Random numbers of the game, owned by the agent until it answers."""


class Answer(NamedTuple):
    """Chosen move."""

    slot: int
    action: int
    effort: Effort


@dataclass(slots=True)
class _Crew:
    """Threads that share one queue of questions."""

    threads: int
    waiting: deque[Question] = field(default_factory=deque)
    active: int = 0


class AgentPool:
    """Agents of some games, one per name. Created and used in one event loop, within `async with`."""

    def __init__(
        self, game: Game, make_agent: AgentMaker, evaluate: Evaluate, *, threads: int, asking: int = ASKING_THREADS
    ) -> None:
        """Create a pool of `threads` for agents that search alone and `asking` for agents that use a model."""
        self._game = game
        self._make_agent = make_agent
        self._evaluate = evaluate
        self._made: dict[str, Agent] = {}
        self._making = threading.Lock()
        self._lock = threading.Lock()
        self._crews = {False: _Crew(threads), True: _Crew(asking)}  # by `Player.asks_model`
        self._pool = DaemonPool(threads + asking, name="agents")
        self._answered: deque[Answer | Exception] = deque()
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._asked: set[int] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Drop queued questions and wait for running searches, which may need the event loop.

        Cancellation: the wait ends, or does not begin if the task was cancelled before; running searches end in the background.
        """
        with self._lock:
            for crew in self._crews.values():
                crew.waiting.clear()
        self._pool.close()
        task = asyncio.current_task()
        if task is None or not task.cancelling():
            await in_daemon_thread(self._pool.join)

    @property
    def asked(self) -> frozenset[int]:
        """Slots whose answer has not been fetched."""
        return frozenset(self._asked)

    def ask(self, questions: Sequence[Question]) -> None:
        """Queue questions; a slot has at most one unanswered question."""
        with self._lock:
            for question in questions:
                self._asked.add(question.slot)
                self._crews[question.player.asks_model].waiting.append(question)
            for crew in self._crews.values():
                for _ in range(min(crew.threads - crew.active, len(crew.waiting))):
                    crew.active += 1
                    self._pool.call(functools.partial(self._work, crew))

    async def answers(self, *, at_least: int = 0) -> list[Answer]:
        """Return the answers since the last call, waiting for `at_least` of them.

        Propagates the error of an agent. Cancellation: answers are kept for the next call.
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
        """Answer questions until the queue is empty; runs in a thread."""
        while True:
            with self._lock:
                if not crew.waiting:
                    crew.active -= 1
                    return
                question = crew.waiting.popleft()
            try:
                answer: Answer | Exception = self._answer(question)
            except Exception as error:  # raised in `answers`
                answer = error
            self._answered.append(answer)
            if not self._news.is_set():
                # The loop is closed after a cancellation: nothing waits for the answer.
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._news.set)

    def _answer(self, question: Question) -> Answer:
        shown = seen_by_mover(self._game, question.state, question.luck)
        agent = self._agent(question.player, shown)
        began_s, spent_s = time.perf_counter(), time.thread_time()
        choice = agent.choose(self._game, shown, question.luck)
        if not isinstance(choice, Choice):
            raise InvalidRequest(f"{question.player.name} chose {choice!r}; expected a zerofleet.agents.Choice with an action")
        effort = Effort(1, choice.nodes, time.perf_counter() - began_s, time.thread_time() - spent_s)
        return Answer(question.slot, choice.action, effort)

    def _agent(self, player: Player, state: State) -> Agent:
        """Return the agent of a player; the first of its kind makes an untimed move.

        That move loads or compiles the code, which is not part of the cost of a move.
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
    """Return the position, or with hidden information a determinisation consistent with the view of the player to move.

    `luck` redeals the hidden part, and secret moves of the round are undone; the same player is to move.
    """
    spec = game.spec()
    if spec.information == "perfect":
        return state
    shown = np.zeros_like(state)
    core.determinise(game, state, core.to_move(game, state), int(luck.integers(LAST_SEED)), shown)
    return shown
