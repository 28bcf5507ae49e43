"""Search of one position that shows its tree meanwhile and can be stopped: for people who watch it.

search = WatchedSearch(game, evaluator, moves, settings=settings, version=7, seed=0)
task = asyncio.create_task(search.run())
await search.node([])      # the root so far
search.stop()              # the task ends with the tree as it is
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from games.core import Game
from zerofleet.evaluators.base import Evaluator
from zerofleet.search.block import SearchBlock
from zerofleet.search.driver import step
from zerofleet.search.root import RootAnalysis
from zerofleet.search.settings import SearchSettings
from zerofleet.search.tree_view import TreeNode

__all__ = ["WatchedSearch"]


class WatchedSearch:
    """One search, run once. Used in one event loop; the tree remains readable after the end."""

    def __init__(
        self, game: Game, evaluator: Evaluator, moves: Sequence[int], *, settings: SearchSettings, version: int, seed: int
    ) -> None:
        """Create it for the position after `moves` of the game with this seed; nothing is searched yet."""
        self.game = game
        self.moves = tuple(moves)
        self.simulations = settings.simulations
        """Simulations of the complete search."""
        self._evaluator = evaluator
        self._settings = settings
        self._version = version
        self._seed = seed
        self._block: SearchBlock | None = None
        self._advancing = asyncio.Lock()  # held while a thread changes the tree
        self._is_stopped = False

    async def run(self) -> RootAnalysis:
        """Search to the end, or until `stop`; the root is evaluated in any case.

        Raises `IllegalMove` for moves that are illegal or end the game; the evaluator's exceptions propagate. Cancellation: the
        tree stays as it is.
        """
        block = await asyncio.to_thread(self._begun)
        self._block = block
        while True:
            async with self._advancing:
                await _to_its_end(asyncio.to_thread(block.advance))
            if not await step(block, self._evaluator) or self._is_stopped:  # the same leaves at once
                return block.analysis(0)

    def stop(self) -> None:
        """End the search after the evaluation that it waits for."""
        self._is_stopped = True

    async def analysis(self) -> RootAnalysis | None:
        """Return the root so far; None before its evaluation. Cancellation: nothing changes."""
        async with self._advancing:
            if self._block is None or not self._is_evaluated(self._block):
                return None
            return self._block.analysis(0)

    async def node(self, path: Sequence[int]) -> TreeNode:
        """Return the node at the end of a path of actions. Raises `ValueError` if it is not expanded.

        Cancellation: nothing changes.
        """
        async with self._advancing:
            if self._block is None:
                raise ValueError("the root is not evaluated yet")
            return self._block.node(0, path)

    def _begun(self) -> SearchBlock:
        block = SearchBlock(self.game, self._settings, slots=1)
        versions = [self._version] * self.game.spec().num_players
        block.begin(0, seed=self._seed, versions=versions, opening=self.moves, hold=True)
        return block

    @staticmethod
    def _is_evaluated(block: SearchBlock) -> bool:
        try:
            block.node(0, [])
        except ValueError:
            return False
        return True


async def _to_its_end(work: Coroutine[Any, Any, object]) -> None:
    """Wait for a thread, after a cancellation too: it changes the tree until it ends."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
