"""Games of a match in search blocks, one block for each search of the players.

               block of search A     block of search B
    table 0    seat 0 searches       seat 1 searches       a move of either is played in the other
    table 1    both seats            -                     two models with the search of the match
    table 2    -                     seat 1                seat 0 is an agent: `play`

A game has the same slot in every block in which one of its players searches; a game of agents alone is in the block of the
match's own search. The seats of the other players are external there.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import numpy as np

from games import core
from games.core import Game, State
from games.errors import IllegalMove
from zerofleet.evaluators.base import Evaluator
from zerofleet.rpc.calls import all_of
from zerofleet.search import EXTERNAL, PlayedGame, SearchBlock, SearchSettings, step, warm_up
from zerofleet.search.daemon_thread import in_daemon_thread
from zerofleet.strength.matches.effort import Effort
from zerofleet.strength.matches.terms import Pairing

__all__ = ["PlayerSearch", "Table", "Tables"]


class PlayerSearch(NamedTuple):
    """Search of a player that plays in a block."""

    settings: SearchSettings
    version: int
    """Model version."""


@dataclass(slots=True)
class Table:
    """Game in progress."""

    pairing: Pairing
    searches: tuple[PlayerSearch | None, ...]
    """Search by seat, None for an agent."""
    luck: np.random.Generator
    efforts: list[Effort]
    """Cost of the agents' moves so far, by player."""
    blocks: list[SearchBlock] = field(default_factory=list)
    search_s: float = 0.0
    """Share of the time of all search steps."""


class Tables:
    """Tables of games of one match or several. Created and used in one event loop."""

    def __init__(self, game: Game, own: SearchSettings, *, slots: int) -> None:
        """`own`: search of the match. `slots`: concurrent games. Blocks are allocated when a player needs them."""
        self.game = game
        self._slots = slots
        self._own = own
        self._blocks: dict[SearchSettings, SearchBlock] = {}
        self._tables: dict[int, Table] = {}
        self._warm = set[tuple[SearchSettings, bool]]()  # searches whose games of agents alone, or with a model, are compiled

    def __len__(self) -> int:
        return len(self._tables)

    def idle(self) -> list[int]:
        """Return the slots without a game."""
        return [slot for slot in range(self._slots) if slot not in self._tables]

    async def seat(self, slot: int, pairing: Pairing, searches: Sequence[PlayerSearch | None]) -> None:
        """Begin a game in an idle slot; `searches` by seat.

        The first game with a search compiles or loads it, in a thread: compilation must not block the event loop.
        """
        settings = list(dict.fromkeys(search.settings for search in searches if search is not None))
        searched = bool(settings)
        table = Table(pairing, tuple(searches), np.random.default_rng(pairing.seed), [Effort()] * (max(pairing.seating) + 1))
        for own in settings or [self._own]:
            if (own, searched) not in self._warm:
                await in_daemon_thread(functools.partial(_warm_up, cast("Hashable", self.game), own, searched=searched))
                self._warm.add((own, searched))
            if own not in self._blocks:
                self._blocks[own] = SearchBlock(self.game, own, slots=self._slots)
            block = self._blocks[own]
            versions = [EXTERNAL if one is None or one.settings != own else one.version for one in searches]
            block.begin(slot, seed=pairing.opening.seed, versions=versions, opening=pairing.opening.moves)
            table.blocks.append(block)
        _follow(table.blocks, slot)
        self._tables[slot] = table

    def __getitem__(self, slot: int) -> Table:
        return self._tables[slot]

    def state(self, slot: int) -> State:
        """Return a copy of the position of a game."""
        return self._tables[slot].blocks[0].state(slot)

    def mover(self, slot: int) -> int:
        """Return the seat to move in a game."""
        return core.to_move(self.game, self.state(slot))

    def asking(self) -> list[int]:
        """Return the slots in which an agent is to move."""
        waiting = {block: set(block.waiting()) for block in self._blocks.values()}
        return [slot for slot, table in self._tables.items() if all(slot in waiting[block] for block in table.blocks)]

    async def step(self, evaluator: Evaluator) -> bool:
        """Advance every search by one evaluation; return whether there was any.

        Propagates the evaluator's exceptions, after which the tables are unusable. Cancellation: the same.
        """
        searching = {block: slots for block in self._blocks.values() if (slots := block.searching())}
        if not searching:
            return False
        began_s = time.perf_counter()
        await all_of(step(block, evaluator) for block in searching)
        searched = [slot for slots in searching.values() for slot in slots]
        share_s = (time.perf_counter() - began_s) / len(searched)
        for slot in searched:
            table = self._tables[slot]
            table.search_s += share_s
            _follow(table.blocks, slot)
        return True

    def play(self, slot: int, action: int, effort: Effort) -> None:
        """Play the move of an agent, which cost `effort`. Raises as `SearchBlock.play`; an illegal move names the agent."""
        table, seat = self._tables[slot], self.mover(slot)
        player = table.pairing.players[seat]
        table.efforts[table.pairing.seating[seat]] += effort
        try:
            for block in table.blocks:
                block.play(slot, action)
        except IllegalMove as error:
            raise IllegalMove(f"{player.name} chose no legal move: {error}") from None
        _follow(table.blocks, slot)

    def finished(self) -> list[int]:
        """Return the slots with a finished game."""
        over = {block: set(block.finished()) for block in self._blocks.values()}
        return [slot for slot, table in self._tables.items() if slot in over[table.blocks[0]]]

    def take(self, slot: int) -> tuple[Table, PlayedGame]:
        """Return a finished game, with the searches of all players, and free its slot."""
        table = self._tables.pop(slot)
        games = [block.take(slot) for block in table.blocks]
        searched = sorted((move for played in games for move in played.searched), key=lambda move: move.ply)
        return table, replace(games[0], searched=tuple(searched))


def _follow(blocks: Sequence[SearchBlock], slot: int) -> None:
    """Play the moves of the block that is ahead in the others."""
    if len(blocks) == 1:
        return
    lines = [block.moves(slot) for block in blocks]
    longest = max(lines, key=len)
    for block, line in zip(blocks, lines, strict=True):
        for action in longest[len(line) :]:
            block.play(slot, action)


@functools.lru_cache(typed=True)
def _warm_up(game: Any, settings: SearchSettings, *, searched: bool) -> None:
    """Warm up games, once per game and search. Agents alone need no compiled search."""
    others = [EXTERNAL] * (game.spec().num_players - 1)
    warm_up(game, settings, versions=[1 if searched else EXTERNAL, *others])
