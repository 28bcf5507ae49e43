"""Search of single positions, each with a new tree, whose root is the result.

    analysis = await search_position(game, evaluator, moves, settings=settings, version=7, seed=0)
    analysis.best_action, analysis.value, analysis.principal_variation

Used by players, agents, analysis and the measurement of accuracy; self-play and matches, which play whole games, drive a
`SearchBlock` directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from games.core import Game, State
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.evaluators.by_version import evaluate_by_version
from zerofleet.search.block import Leaves, SearchBlock
from zerofleet.search.root import RootAnalysis
from zerofleet.search.settings import SearchSettings

__all__ = ["search_position", "search_positions", "search_state"]

SLOTS = 128  # positions searched together, for large requests


async def search_position(
    game: Game, evaluator: Evaluator, moves: Sequence[int], *, settings: SearchSettings, version: int, seed: int
) -> RootAnalysis:
    """Search the position after `moves` of the game with this seed; see `search_positions`.

    Cancellation: nothing is kept.
    """
    return (await search_positions(game, evaluator, [moves], settings=settings, version=version, seed=seed))[0]


async def search_positions(
    game: Game,
    evaluator: Evaluator,
    positions: Sequence[Sequence[int]],
    *,
    settings: SearchSettings,
    version: int,
    seed: int,
) -> list[RootAnalysis]:
    """Search positions, each given by the moves that lead to it, with one version of a model.

    Results are independent of each other. All compiled code runs in a thread, so that it does not block the event loop, also
    where it has to be compiled first. Raises
    `IllegalMove` for moves that are illegal or end the game; the evaluator's exceptions propagate.
    Cancellation: nothing is kept.
    """
    block = await asyncio.to_thread(SearchBlock, game, settings, slots=min(SLOTS, max(1, len(positions))))
    waiting = list(enumerate(positions))
    numbers: dict[int, int] = {}  # index of the position, by slot
    found: dict[int, RootAnalysis] = {}

    def turn(answer: Evaluation | None) -> Leaves:
        """Absorb an evaluation, collect the searches that ended, begin others; return the next leaves."""
        if answer is not None:
            block.absorb(answer.policy, answer.value, answer.extra_heads)
        for slot in block.waiting():
            found[numbers[slot]] = block.analysis(slot)
            block.abandon(slot)
        for slot in block.idle()[: len(waiting)]:
            numbers[slot], moves = waiting.pop()
            block.begin(slot, seed=seed, versions=_seats(game, version), opening=moves, hold=True)
        return block.advance()

    answer = None
    while len(found) < len(positions):
        leaves = await asyncio.to_thread(turn, answer)
        answer = None
        if len(leaves.batch):
            answer = await evaluate_by_version(evaluator.evaluate, leaves.batch, leaves.versions)
    return [found[number] for number in range(len(positions))]


def search_state(
    game: Game,
    evaluate: Callable[[LeafBatch, ModelVersion], Evaluation],
    state: State,
    *,
    settings: SearchSettings,
    version: int,
    seed: int,
    is_time_up: Callable[[], bool] = lambda: False,
) -> RootAnalysis:
    """Search a state, independent of the moves that led to it; runs in the calling thread.

    `is_time_up` is called before each evaluation. Once it returns true the search stops with its current tree, after the
    evaluation of the root at the earliest. Raises `IllegalMove` for a position that is over; exceptions of `evaluate`
    propagate.
    """
    block = SearchBlock(game, settings, slots=1)
    block.begin(0, seed=seed, versions=_seats(game, version), position=state, hold=True)
    evaluations = 0
    while len(batch := block.advance().batch):
        if is_time_up() and evaluations:
            break
        answer = evaluate(batch, ModelVersion(version))
        block.absorb(answer.policy, answer.value, answer.extra_heads)
        evaluations += 1
    return block.analysis(0)


def _seats(game: Game, version: int) -> list[int]:
    return [version] * game.spec().num_players
