"""Play of match games: many at once, searches with models in blocks and other agents in separate threads.

    async for pairing, result in play_games(game, scoreboard.open_pairings(), evaluator, slots=128, simulations=64):
        scoreboard.record(result)

A pairing is taken only when a slot is free: no further game starts once the caller stops iterating. Where `pairings` yields
None, no game starts before the next step. Games of several matches may be played together.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from games import core, positions
from games.core import Game, GameSpec
from zerofleet.agents import Agent, AgentMaker, Evaluate
from zerofleet.agents.model.mcts import match_search
from zerofleet.agents.model.search_options import SearchOptions, parse_search
from zerofleet.contracts.gate_events import ModelPlay
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.evaluators.in_process.perceptrons import PerceptronSource
from zerofleet.search import PlayedGame, SearchSettings
from zerofleet.search.daemon_thread import in_daemon_thread
from zerofleet.strength.matches.agent_pool import ASKING_THREADS, AgentPool, Question, seen_by_mover
from zerofleet.strength.matches.effort import Effort
from zerofleet.strength.matches.openings import draw_openings
from zerofleet.strength.matches.scoreboard import GameResult
from zerofleet.strength.matches.tables import PlayerSearch, Table, Tables
from zerofleet.strength.matches.terms import Pairing, Player
from zerofleet.strength.processors import usable_cores

__all__ = [
    "Agent",
    "AgentMaker",
    "MatchSettings",
    "play_games",
    "seen_by_mover",
    "waiting_for",
    "warm_up_rules",
]


@dataclass(frozen=True, slots=True)
class MatchSettings:
    """Settings of play."""

    simulations: int = 64
    """Simulations per move of a model."""
    leaves_per_game: int = 1
    """Leaves of one game in a request; more than 1 uses virtual loss, which changes the search (Segal 2010). Games with hidden
    information use 1."""
    prove_values: bool = True
    """Whether models prove values (`SearchSettings.prove_values`)."""
    options: SearchOptions = field(default_factory=SearchOptions)
    """Other settings of the search of the models; they take precedence."""
    slots: int = 128
    """Concurrent games; more make larger requests, fewer waste less when the match ends early. Results do not depend on it."""
    lead_games: int = 0
    """Concurrent games of a match that may stop early, until the first groups count; see `paced`. 0: as many as `slots`."""
    cache_positions: int = 1 << 14
    """Evaluation cache: the two games of a pair share many positions."""
    before_step: Callable[[], Awaitable[None]] | None = None
    """Awaited before each step, to yield to other work. Its time is not measured as effort, and no agent searches meanwhile."""
    agent_threads: int = field(default_factory=usable_cores)
    """Concurrent agents; results do not depend on it."""

    @classmethod
    def recorded(cls, play: ModelPlay) -> MatchSettings:
        """Return the settings with which models play as the terms of a match record. Raises `InvalidRequest`."""
        return cls(simulations=play.simulations, leaves_per_game=play.leaves_per_game, options=parse_search(play.search))

    def search(self, spec: GameSpec) -> SearchSettings:
        """Return the search settings: those of every match, changed by `options`.

        Secret moves without a search are sampled from the policy: the likeliest one would be predictable. Raises
        `InvalidRequest` for options that do not suit the game.
        """
        changes: dict[str, object] = {"cache_positions": self.cache_positions, "prove_values": self.prove_values}
        if spec.information == "perfect":
            changes["leaves_per_game"] = self.leaves_per_game
        if spec.information == "simultaneous" and self.simulations == 0:
            changes |= {"temperature": 1.0, "temperature_end": 1.0}
        return self.options.applied(SearchSettings.for_match(spec, self.simulations).model_copy(update=changes), spec)

    def search_of(self, player: Player, spec: GameSpec) -> PlayerSearch | None:
        """Return the search that plays for a player in a block of games, None for an agent in a thread.

        That of a model has these settings; `mcts` with a number of simulations has its own.
        """
        if player.version is not None:
            return PlayerSearch(self.search(spec), player.version)
        own = match_search(player.text, spec)
        if own is None:
            return None
        settings, version = own
        return PlayerSearch(settings.model_copy(update={"cache_positions": self.cache_positions}), version)

    def terms(self, spec: GameSpec) -> dict[str, object]:
        """Return the settings that influence the moves of a model, as plain values."""
        search = self.search(spec)
        names = ("simulations", "leaves_per_game", "root_policy", "prove_values", "prove_replies")
        return {name: getattr(search, name) for name in names} | {"search": str(self.options)}


async def play_games(
    game: Game,
    pairings: Iterator[Pairing | None],
    evaluator: Evaluator,
    *,
    settings: MatchSettings,
    make_agent: AgentMaker,
) -> AsyncGenerator[GameResult]:
    """Play every pairing and yield the results as games end.

    Propagates errors of the evaluator and the agents; games in progress are lost and their pairings must be repeated.
    Cancellation: likewise. The iterator reads `pairings` between awaits only; it ends when no game is in progress and none
    may start.
    """
    spec = game.spec()
    tables = Tables(game, settings.search(spec), slots=settings.slots)
    searches = functools.cache(functools.partial(settings.search_of, spec=spec))
    threads = settings.agent_threads
    asking = threads if isinstance(evaluator, PerceptronSource) else ASKING_THREADS  # the former do not wait for a server
    await in_daemon_thread(functools.partial(warm_up_rules, game))
    async with AgentPool(game, make_agent, waiting_for(evaluator), threads=threads, asking=asking) as agents:
        while True:
            for slot in tables.idle():
                pairing = next(pairings, None)
                if pairing is None:
                    break
                await tables.seat(slot, pairing, [searches(player) for player in pairing.players])
            if not len(tables):
                return
            if settings.before_step is not None:
                await settings.before_step()
            await _move(tables, agents, evaluator, together=settings.before_step is not None)
            for slot in tables.finished():
                yield _result(*tables.take(slot))


def waiting_for(evaluator: Evaluator) -> Evaluate:
    """Return a blocking evaluation function for agents in threads.

    It runs `evaluator` in the current event loop, or in the agent's own thread if it can answer there.
    """
    if isinstance(evaluator, PerceptronSource):
        return evaluator  # compiled searches take the network itself
    loop = asyncio.get_running_loop()

    def evaluate(batch: LeafBatch, version: ModelVersion) -> Evaluation:
        work = evaluator.evaluate(batch, version=version)
        try:
            answer = asyncio.run_coroutine_threadsafe(work, loop)
        except RuntimeError:  # the loop was closed: the match was cancelled while the agent searched
            work.close()
            raise
        return answer.result()

    return evaluate


def warm_up_rules(game: Game) -> None:
    """Load or compile the rules that matches call by themselves, on the event loop: of openings, seats and results.

    Once per game; a service that reports on matches calls it, in a thread, before it answers.
    """
    _warm_up_rules(cast("Hashable", game))


@functools.lru_cache(typed=True)
def _warm_up_rules(game: Any) -> None:
    next(draw_openings(game, plies=1, seed=0), None)
    state = positions.new_state(game)
    while not core.is_over(game, state):
        core.to_move(game, state)
        core.play(game, state, positions.legal(game, state)[0])
    positions.final_scores(game, state)


async def _move(tables: Tables, agents: AgentPool, evaluator: Evaluator, *, together: bool) -> None:
    """Advance every search one step while agents search, and play the agents' moves that are ready.

    With `together`, wait for all agents; otherwise a slow agent delays no other game.
    """
    asked = agents.asked
    agents.ask([_question(tables, slot) for slot in tables.asking() if slot not in asked])
    searched = await tables.step(evaluator)
    wanted = len(agents.asked) if together else 0 if searched else 1
    for slot, action, effort in await agents.answers(at_least=wanted):
        tables.play(slot, action, effort)


def _question(tables: Tables, slot: int) -> Question:
    table = tables[slot]
    return Question(slot, table.pairing.players[tables.mover(slot)], tables.state(slot), table.luck)


def _result(table: Table, played: PlayedGame) -> GameResult:
    pairing = table.pairing
    return GameResult(
        match_id=pairing.match_id,
        group=pairing.group,
        seating=pairing.seating,
        players=tuple(player.name for player in pairing.players),
        moves=tuple(int(move) for move in played.moves),
        scores=played.scores,
        efforts=_efforts(table, played),
    )


def _efforts(table: Table, played: PlayedGame) -> tuple[Effort, ...]:
    """Return the cost of each player's moves; search time is divided in proportion to visits.

    A model does not search where only one move is legal.
    """
    efforts, pairing = list(table.efforts), table.pairing
    if not any(table.searches):
        return tuple(efforts)
    visits = {move.ply: int(move.visits.sum()) for move in played.searched}
    weight = sum(visits.values()) + len(visits)  # the root is evaluated too
    for ply, seat in enumerate(positions.movers(played.game, played.moves, played.seed)):
        if ply >= played.opening_plies and table.searches[seat] is not None:
            nodes = visits.get(ply, 0)
            time_s = table.search_s * (nodes + 1) / weight if ply in visits else 0.0
            efforts[pairing.seating[seat]] += Effort(1, nodes, time_s)
    return tuple(efforts)
