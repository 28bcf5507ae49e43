"""Search of one position that shows its tree meanwhile and can be stopped: for people who watch it.

search = WatchedSearch(game, evaluator, moves, settings=settings, version=7, seed=0)
task = asyncio.create_task(search.run())
await search.node([])      # the root so far
search.stop()              # the task ends with the tree as it is

`limit_s` ends it by wall-clock time. The time begins when the search is compiled or loaded, so that a first move has all of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from games.core import Game, State
from zerofleet.evaluators.base import Evaluation, Evaluator
from zerofleet.evaluators.by_version import evaluate_by_version
from zerofleet.evaluators.uniform import uniform_answer
from zerofleet.rpc.calls import to_its_end
from zerofleet.search.block import Leaves, SearchBlock
from zerofleet.search.deadline import Deadline
from zerofleet.search.hidden.world_view import WorldStatistics
from zerofleet.search.root import RootAnalysis
from zerofleet.search.settings import SearchSettings
from zerofleet.search.tree_view import TreeNode

__all__ = ["WatchedSearch"]

Result = TypeVar("Result")

_FEW = 2  # simulations of a warm-up


class WatchedSearch:
    """One search, run once. Used in one event loop; the tree remains readable after the end."""

    def __init__(
        self,
        game: Game,
        evaluator: Evaluator,
        moves: Sequence[int],
        *,
        settings: SearchSettings,
        version: int,
        seed: int,
        position: State | None = None,
        limit_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create it for the position after `moves` of the game with this seed; nothing is searched yet.

        A `position` (state_dtype [S]) replaces the start of the game, as in `SearchBlock.begin`; `seed` deals nothing then.
        With `limit_s` the search ends at the evaluation nearest to the limit, after the first at the earliest; the
        `simulations` of the settings remain a limit.
        """
        self.game = game
        self.moves = tuple(moves)
        self.simulations = settings.simulations
        """Simulations of the complete search."""
        self.limit_s = limit_s
        """Wall-clock time of the complete search; None for no limit of time."""
        self._clock = clock
        self._deadline: Deadline | None = None
        self._evaluator = evaluator
        self._settings = settings
        self._version = version
        self._seed = seed
        self._position = position
        self._block: SearchBlock | None = None
        self._advancing = asyncio.Lock()  # held while a thread uses the tree
        self._is_stopped = False

    @property
    def elapsed_s(self) -> float:
        """Part of the time limit that has passed; 0 before the time begins, and without a limit."""
        return 0.0 if self._deadline is None else self._deadline.elapsed_s

    async def run(self) -> RootAnalysis:
        """Search to the end, or until `stop`; the root is evaluated in any case.

        Raises `IllegalMove` for moves that are illegal or end the game; the evaluator's exceptions propagate. Cancellation: the
        tree stays as it is.
        """
        if self.limit_s is not None:
            await asyncio.to_thread(self._warm_up)
        block = await asyncio.to_thread(self._begun, self._settings)
        self._block = block
        if self.limit_s is not None:
            self._deadline = Deadline(self.limit_s, self._clock)
        answer = None
        while (leaves := await self._in_thread(self._turn, block, answer)) is not None:
            answer = await evaluate_by_version(self._evaluator.evaluate, leaves.batch, leaves.versions)
        return await self._in_thread(block.analysis, 0)

    def stop(self) -> None:
        """End the search after the evaluation that it waits for."""
        self._is_stopped = True

    async def analysis(self) -> RootAnalysis | None:
        """Return the root so far; None before its evaluation. Cancellation: nothing changes."""
        return None if self._block is None else await self._in_thread(self._root, self._block)

    async def node(self, path: Sequence[int]) -> TreeNode:
        """Return the node at the end of a path of actions. Raises `ValueError` if it is not expanded.

        Cancellation: nothing changes.
        """
        if self._block is None:
            raise ValueError("the root is not evaluated yet")
        return await self._in_thread(self._block.node, 0, path)

    async def root(self) -> tuple[TreeNode, WorldStatistics | None]:
        """Return the root with its statistics over sampled worlds, at one time; None without hidden information.

        Raises `ValueError` before its evaluation. Cancellation: nothing changes.
        """
        if self._block is None:
            raise ValueError("the root is not evaluated yet")
        return await self._in_thread(_root_of, self._block)

    async def _in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Return `work(*arguments)`, which uses the tree, from a thread: compiled code may have to be compiled first.

        Cancellation: waits for the thread.
        """
        async with self._advancing:
            return await to_its_end(asyncio.create_task(asyncio.to_thread(work, *arguments)))

    def _turn(self, block: SearchBlock, answer: Evaluation | None) -> Leaves | None:
        """Absorb an evaluation; return the next leaves, None at the end."""
        if answer is not None:
            block.absorb(answer.policy, answer.value, answer.extra_heads)
            if self._is_to_end() and self._is_evaluated(block):  # with hidden information `advance` expands the root
                return None
        leaves = block.advance()
        return leaves if len(leaves.batch) else None

    def _is_to_end(self) -> bool:
        is_time_up = self._deadline is not None and self._deadline.is_time_up()
        return self._is_stopped or is_time_up

    def _root(self, block: SearchBlock) -> RootAnalysis | None:
        return block.analysis(0) if self._is_evaluated(block) else None

    def _warm_up(self) -> None:
        """Compile or load the search of this position. No model is used."""
        few = self._settings.model_copy(update={"simulations": _FEW, "fast_simulations": _FEW})
        block = self._begun(few)
        while len((leaves := block.advance()).batch):
            block.absorb(*uniform_answer(leaves.batch, self.game.spec()))
        block.analysis(0)

    def _begun(self, settings: SearchSettings) -> SearchBlock:
        block = SearchBlock(self.game, settings, slots=1)
        versions = [self._version] * self.game.spec().num_players
        block.begin(0, seed=self._seed, versions=versions, opening=self.moves, position=self._position, hold=True)
        return block

    @staticmethod
    def _is_evaluated(block: SearchBlock) -> bool:
        try:
            block.node(0, [])
        except ValueError:
            return False
        return True


def _root_of(block: SearchBlock) -> tuple[TreeNode, WorldStatistics | None]:
    return block.node(0, []), block.worlds(0)
