"""Playing the games of matches: many at once in one search block, models by search and agents by themselves.

    async for pairing, result in play_games(game, scoreboard.open_pairings(), evaluator, slots=128, simulations=64):
        scoreboard.record(result)

Pairings are taken when a slot is free, not before, so whoever stops reading starts no further game. Games of several
matches may be played together.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from games import core, positions
from games.core import Game, GameSpec, State
from zerofleet.agents import Agent, AgentMaker, Evaluate
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.evaluators.fakes import uniform_answer
from zerofleet.matches.scoreboard import GameResult
from zerofleet.matches.terms import Pairing, Player
from zerofleet.search import EXTERNAL, SearchBlock, SearchSettings, step
from zerofleet.search.block import LAST_SEED

__all__ = ["Agent", "AgentMaker", "MatchSettings", "play_games", "seen_by_mover", "waiting_for"]


@dataclass(frozen=True, slots=True)
class MatchSettings:
    """How games are played."""

    simulations: int = 64
    """Visits of each move of a model."""
    slots: int = 128
    """Games at once; more make larger requests, fewer waste less when the match ends early."""
    cache_positions: int = 1 << 14
    """Evaluation cache: the two games of a pair share many positions."""
    before_step: Callable[[], Awaitable[None]] | None = None
    """Awaited before each step: lets others go first. The time it takes is not counted by anybody."""

    def search(self, spec: GameSpec) -> SearchSettings:
        """Return the search settings: no noise, the most visited move, no resignation.

        Where moves are secret and nothing is searched, they are drawn from the policy: the likeliest one could be guessed.
        """
        changes: dict[str, object] = {"cache_positions": self.cache_positions}
        if spec.information == "simultaneous" and self.simulations == 0:
            changes |= {"temperature": 1.0, "temperature_end": 1.0}
        return SearchSettings.for_match(spec, self.simulations).model_copy(update=changes)


@dataclass(slots=True)
class _Table:
    """A game under way."""

    pairing: Pairing
    luck: np.random.Generator


@dataclass(slots=True)
class _Agents:
    """The classical players, one of each name; called in one thread at a time.

    Where something is hidden they are shown a position that they cannot tell from the true one: none can peek.
    """

    game: Game
    make: AgentMaker
    evaluate: Evaluate
    made: dict[str, Agent] = field(default_factory=dict)

    def choose(self, requests: list[tuple[int, Player, State, np.random.Generator]]) -> list[tuple[int, int]]:
        """Return (slot, action) for each request."""
        chosen = []
        for slot, player, state, luck in requests:
            if player.name not in self.made:
                self.made[player.name] = self.make(player.name, self.game, evaluate=self.evaluate)
            shown = seen_by_mover(self.game, state, luck)
            chosen.append((slot, self.made[player.name].choose(self.game, shown, luck).action))
        return chosen


def seen_by_mover(game: Game, state: State, luck: np.random.Generator) -> State:
    """Return the position, or where something is hidden another that the player to move cannot tell from it.

    What they cannot see is dealt anew by `luck`, and secret moves of the round are taken back; they are to move there too.
    """
    spec = game.spec()
    if spec.information == "perfect":
        return state
    shown = np.zeros_like(state)
    core.determinize(game, state, core.to_move(game, state), int(luck.integers(LAST_SEED)), shown)
    return shown


async def play_games(
    game: Game,
    pairings: Iterator[Pairing],
    evaluator: Evaluator,
    *,
    settings: MatchSettings,
    make_agent: AgentMaker,
) -> AsyncGenerator[GameResult]:
    """Play every pairing and yield the results as games end.

    Raises what the evaluator and the agents raise; games under way are then lost, play their pairings again.
    Cancellation: likewise. The iterator reads `pairings` between awaits only.
    """
    await asyncio.to_thread(_warm_up, cast("Hashable", game), min(settings.simulations, 2))
    block = SearchBlock(game, settings.search(game.spec()), slots=settings.slots)
    tables: dict[int, _Table] = {}
    agents = _Agents(game, make_agent, waiting_for(evaluator))
    while True:
        for slot in block.idle():
            pairing = next(pairings, None)
            if pairing is None:
                break
            tables[slot] = _seat(block, slot, pairing)
        if not tables:
            return
        if settings.before_step is not None:
            await settings.before_step()
        await _move(block, tables, agents, evaluator)
        for slot in block.finished():
            played = block.take(slot)
            pairing = tables.pop(slot).pairing
            yield GameResult(
                match_id=pairing.match_id,
                group=pairing.group,
                seating=pairing.seating,
                players=tuple(player.name for player in pairing.players),
                moves=tuple(int(move) for move in played.moves),
                scores=played.scores,
            )


def waiting_for(evaluator: Evaluator) -> Evaluate:
    """Return how agents, which think in threads, ask an evaluator of the event loop that runs now."""
    loop = asyncio.get_running_loop()

    def evaluate(batch: LeafBatch, version: ModelVersion) -> Evaluation:
        return asyncio.run_coroutine_threadsafe(evaluator.evaluate(batch, version=version), loop).result()

    return evaluate


@functools.lru_cache(typed=True)
def _warm_up(game: Any, simulations: int) -> None:
    """Load, or the first time compile, what a game needs, by playing one: so that the event loop need not stand still."""
    spec = game.spec()
    block = SearchBlock(game, MatchSettings(simulations=simulations, cache_positions=2).search(spec), slots=1)
    block.begin(0, seed=0, versions=[1, *[EXTERNAL] * (spec.num_players - 1)])
    while not block.finished():
        block.absorb(*uniform_answer(block.advance().batch, spec))
        for slot in block.waiting():
            block.play(slot, positions.legal(game, block.state(slot))[0])


def _seat(block: SearchBlock, slot: int, pairing: Pairing) -> _Table:
    versions = [EXTERNAL if player.version is None else player.version for player in pairing.players]
    block.begin(slot, seed=pairing.opening.seed, versions=versions, opening=pairing.opening.moves)
    return _Table(pairing, np.random.default_rng(pairing.seed))


async def _move(block: SearchBlock, tables: dict[int, _Table], agents: _Agents, evaluator: Evaluator) -> None:
    """Search every model's game one step and play every agent's move that is due, both at the same time."""
    requests = []
    for slot in block.waiting():
        table, state = tables[slot], block.state(slot)
        requests.append((slot, table.pairing.players[core.to_move(block.game, state)], state, table.luck))
    try:
        async with asyncio.TaskGroup() as group:
            choosing = group.create_task(asyncio.to_thread(agents.choose, requests)) if requests else None
            await step(block, evaluator)
    except ExceptionGroup as failures:
        raise _first(failures) from failures
    for slot, action in choosing.result() if choosing else ():
        block.play(slot, action)


def _first(failure: Exception) -> Exception:
    """Return one error of a group: several versions asked of one server fail for the same reason."""
    while isinstance(failure, ExceptionGroup):
        failure = failure.exceptions[0]
    return failure
