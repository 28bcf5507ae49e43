"""Meetings of a stage: games of a player on each of its seats against another, counted by score.

Each side is an agent, with a network of its own and, if the network reads the game in another encoding, a game of its own.
Games depend on the seed of the stage, the training so far, the meeting and their number alone.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice

import numpy as np

from games.core import Game, State
from games.positions import new_state, replay
from games.rock_paper_scissors import RockPaperScissors
from laboratory.evaluation import MemoryEvaluator
from laboratory.models import ModelEvaluator
from zerofleet.agents import Agent, make_agent
from zerofleet.agents.base import Choice, Evaluate
from zerofleet.agents.model.search_options import parse_search
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluator
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.presets.theses.stages import CURRENT, PREVIOUS, Meeting
from zerofleet.strength.behaviour.catalogue import new_collector
from zerofleet.strength.behaviour.collector import Collector, Reading, table_of
from zerofleet.strength.behaviour.finished import of_moves
from zerofleet.strength.behaviour.rock_paper_scissors import turn_results
from zerofleet.strength.behaviour.tables import as_stored
from zerofleet.strength.claims.tallies import Tally
from zerofleet.strength.matches import Effort, GameResult, MatchSettings, Opening, Pairing, Player, draw_openings, play_games

__all__ = ["Side", "Table", "meet"]

SLOTS = 64
_SUBJECT, _OPPONENT = "subject", "opponent"
_SIDE = "|"  # separates the side from the agent in the name of a player


@dataclass(frozen=True, slots=True)
class Side:
    """Network of a side, and the game as that network reads it."""

    game: Game
    evaluator: MemoryEvaluator | ModelEvaluator


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Conditions of the meetings of a stage."""

    game: Game
    seed: int
    at: int = 0
    """Games of training so far."""
    trained: bool = False
    sides: Mapping[str, Side]
    """Networks of the sides `subject` and `opponent`, as far as they have one in this process."""
    version: int | None = None
    """Version in play where the subject is a searched network."""
    version_before: int | None = None
    """Newest stored version before it: the player `PREVIOUS`."""
    evaluator: Evaluator | None = None
    """Evaluator of that version."""


class _Reader:
    """Agent that reads every position with a game of its own, such as another encoding."""

    def __init__(self, agent: Agent, game: Game) -> None:
        self.name = agent.name
        self._agent = agent
        self._game = game

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`; `game` has the same rules."""
        del game
        return self._agent.choose(self._game, state, rng)


async def meet(meeting: Meeting, table: Table, *, on_game: Callable[[], None]) -> list[Tally]:
    """Play a meeting and return a tally for each seat; `on_game` is called after each game.

    Raises `InvalidRequest` if every opening ends the game; propagates the errors of agents and evaluators. Cancellation: the
    games are lost.
    """
    players = _player(_SUBJECT, meeting.subject, table), _player(_OPPONENT, meeting.opponent, table)
    options = parse_search(meeting.search)
    if options.root is None:  # that of the theses, whatever matches have
        options = options.model_copy(update={"root": "puct"})
    settings = MatchSettings(simulations=meeting.simulations, options=options, slots=SLOTS, agent_threads=1)
    scores: dict[int, Counter[str]] = {seat: Counter() for seat in meeting.seats}
    first_moves: dict[int, Counter[str]] = {seat: Counter() for seat in meeting.seats}
    turns: dict[int, Counter[str]] = {seat: Counter() for seat in meeting.seats}
    efforts = {seat: (Effort(), Effort()) for seat in meeting.seats}
    maker = _Maker(table.sides, asks_version=table.evaluator is not None)
    pairings = list(_pairings(meeting, table, players))
    if table.evaluator is None:
        await asyncio.to_thread(_warm_up, meeting, table, pairings[0].opening, maker)
    deals = {(pairing.seating, pairing.group): pairing.opening.seed for pairing in pairings}
    collected = {seat: _collectors(meeting, table.game, seat) for seat in meeting.seats}
    begins = meeting.opening_plies == 0 and table.game.spec().information == "perfect"
    games = play_games(
        table.game,
        iter(pairings),
        _evaluator(table),
        settings=settings,
        make_agent=maker,
    )
    async for result in games:
        seat = result.seating.index(0) + 1
        scores[seat][_text(result.scores[seat - 1])] += 1
        if begins and seat == 1:
            first_moves[seat][table.game.action_name(new_state(table.game), result.moves[0])] += 1
        if isinstance(table.game, RockPaperScissors):
            turns[seat][_turns(table.game, result, seat)] += 1
        if collected[seat]:
            deal = deals[result.seating, result.group]
            finished = of_moves(table.game, result.moves, seed=deal, scores=tuple(result.scores))
            for collector in collected[seat]:
                collector.add(finished)
        efforts[seat] = _added(efforts[seat], result)
        on_game()
    return [
        replace(
            _tally(meeting, table, seat, scores[seat], first_moves[seat], efforts[seat]),
            turns=dict(sorted(turns[seat].items())),
            tables=[as_stored(table_of(collector, games=meeting.games)) for collector in collected[seat]],
        )
        for seat in meeting.seats
    ]


def _collectors(meeting: Meeting, game: Game, seat: int) -> list[Collector]:
    """Return the empty tables of a meeting, with the results of the subject's seat; raises `InvalidRequest`."""
    return [new_collector(name, game, Reading(seat=seat - 1)) for name in meeting.tables]


def _warm_up(meeting: Meeting, table: Table, opening: Opening, make: _Maker) -> None:
    """Let each agent choose a move where the first game begins, so that no move of a game is charged with compilation."""
    first = replay(table.game, opening.moves, opening.seed)
    for side, written in ((_SUBJECT, meeting.subject), (_OPPONENT, meeting.opponent)):
        make(f"{side}{_SIDE}{written}", table.game).choose(table.game, first.copy(), np.random.default_rng(0))


def _player(side: str, written: str, table: Table) -> Player:
    """Return the player of a side: the version in play if nothing is written, the one before it (`PREVIOUS`), or an agent."""
    version = None if written else table.version
    if table.version is not None:
        version = table.version_before if written == PREVIOUS else version
        written = written.replace(CURRENT, f"model={table.version}")
    return Player(side, version, None if version else f"{side}{_SIDE}{written}")


def _tally(
    meeting: Meeting, table: Table, seat: int, scores: Counter[str], first_moves: Counter[str], efforts: tuple[Effort, Effort]
) -> Tally:
    own, other = efforts
    network = f"network, {meeting.simulations} simulations{',' * bool(meeting.search)}{meeting.search}"
    return Tally(
        meeting=meeting.name,
        subject=_name(meeting.subject, network),
        opponent=_name(meeting.opponent, network),
        seat=seat,
        seed=table.seed,
        trained=table.trained,
        at=table.at,
        scores=dict(sorted(scores.items(), key=lambda item: float(item[0]))),
        first_moves=dict(sorted(first_moves.items())),
        subject_ms=round(own.ms_per_move, 4),
        subject_nodes=round(own.nodes_per_move, 2),
        subject_cpu_ms=round(own.cpu_ms_per_move, 4),
        opponent_ms=round(other.ms_per_move, 4),
        opponent_nodes=round(other.nodes_per_move, 2),
        opponent_cpu_ms=round(other.cpu_ms_per_move, 4),
    )


def _name(written: str, network: str) -> str:
    return f"{network}, version before" if written == PREVIOUS else written or network


def _pairings(meeting: Meeting, table: Table, players: tuple[Player, Player]) -> Iterator[Pairing]:
    name = int.from_bytes(hashlib.blake2b(meeting.name.encode(), digest_size=4).digest(), "little")
    for seat in meeting.seats:
        seating = tuple(0 if place == seat - 1 else 1 for place in range(table.game.spec().num_players))
        seated = tuple(players[player] for player in seating)
        root = np.random.SeedSequence([table.seed, table.at, name, seat])
        first, *seeds = (int(word) >> 2 for word in root.generate_state(1 + 2 * meeting.games, np.uint64))
        openings = _openings(meeting, table.game, first, deals=seeds[::2])
        for index, (opening, seed) in enumerate(zip(openings, seeds[1::2], strict=True)):
            yield Pairing(meeting.name, index, seating, seated, opening, seed)


def _openings(meeting: Meeting, game: Game, seed: int, *, deals: Sequence[int]) -> list[Opening]:
    """Return an opening for each deal; there may be fewer different ones.

    Where hands are hidden, random plies keep the deal for which they were drawn. Raises `InvalidRequest` if all of them end the
    game.
    """
    if not meeting.opening_plies:
        return [Opening(deal, ()) for deal in deals]
    drawn = list(islice(draw_openings(game, plies=meeting.opening_plies, seed=seed), len(deals)))
    if not drawn:
        raise InvalidRequest(
            f"meeting {meeting.name}: every opening of {meeting.opening_plies} plies ends the game, want one that goes on; "
            "lower opening_plies"
        )
    keeps_deal = game.spec().information == "hidden"
    return [
        Opening(opening.seed if keeps_deal else deal, opening.moves) for deal, opening in zip(deals, cycle(drawn), strict=False)
    ]


def _evaluator(table: Table) -> Evaluator:
    """Return the evaluator of the network in play, or else that of a side: agents then need no threads to wait in."""
    if table.evaluator is not None:
        return table.evaluator
    for side in table.sides.values():
        return side.evaluator
    return UniformEvaluator(table.game.spec().num_players)


def _added(before: tuple[Effort, Effort], result: GameResult) -> tuple[Effort, Effort]:
    return before[0] + result.efforts[0], before[1] + result.efforts[1]


def _turns(game: RockPaperScissors, result: GameResult, seat: int) -> str:
    """Return the numbers of turns that a seat won, drew and lost."""
    results = turn_results(of_moves(game, result.moves, seed=0, scores=result.scores), seat - 1)
    lost, drawn, won = np.bincount(results, minlength=3)
    return f"{won} {drawn} {lost}"


def _text(score: float) -> str:
    return f"{round(float(score), 6) + 0.0:g}"


class _Maker:
    """Factory of the agents of both sides; see `zerofleet.agents.AgentMaker`."""

    def __init__(self, sides: Mapping[str, Side], *, asks_version: bool) -> None:
        """`asks_version`: whether an agent of a side without a network may ask the evaluator of the version in play."""
        self._sides = sides
        self._asks_version = asks_version

    def __call__(self, text: str, game: Game, *, evaluate: Evaluate | None = None) -> Agent:
        """Return the agent written after its side; raises `InvalidRequest`."""
        name, _, written = text.partition(_SIDE)
        side = self._sides.get(name)
        if side is None:
            return make_agent(written, game, evaluate=evaluate if self._asks_version else None)
        return _Reader(make_agent(written, side.game, evaluate=side.evaluator), side.game)
