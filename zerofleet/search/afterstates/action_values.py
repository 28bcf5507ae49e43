"""Block of games played side by side by the values of moves; its interface is that of `AfterstateBlock`.

    leaves = block.advance()                    the position of every slot, with its legal moves
    block.absorb(policy, value, heads)          every slot plays a move of the model's pool

The model returns its pool and the values of the moves in it as two heads (`zerofleet.contracts.heads`), so that the pool is the
same here and wherever else the model plays. Moves are not looked ahead: one that ends the game has the value of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from games import core
from games.core import Game
from zerofleet.contracts.heads import MOVE_HEADS
from zerofleet.contracts.played import Searches, starts
from zerofleet.evaluators.base import LeafBatch
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.search.afterstates.choice import Policy, choose
from zerofleet.search.afterstates.kernel import PLAYING
from zerofleet.search.afterstates.opponents import Opponents
from zerofleet.search.afterstates.settings import AfterstateSettings
from zerofleet.search.block import Leaves
from zerofleet.search.outputs import CHANCES, checked

__all__ = ["ActionValueBlock", "pool_of"]

_LEAST = 1e-7  # keeps the inverse of the logistic function finite


class ActionValueBlock(AfterstateBlock):
    """Block of `slots` games of two players with perfect information, chosen by a model of action values. Not thread-safe."""

    MODE = "action_values"

    def __init__(self, game: Game, settings: AfterstateSettings, *, slots: int, opponents: Opponents | None = None) -> None:
        """See `AfterstateBlock`."""
        super().__init__(game, settings.model_copy(update={"pool": 0}), slots=slots, opponents=opponents)
        self._rows: list[int] = []  # slot of each row of the request
        self._pools: list[dict[int, tuple[np.ndarray, np.ndarray]]] = [{} for _ in range(slots)]  # by slot and ply

    def advance(self) -> Leaves:
        """Return the positions that need an evaluation; idempotent until `absorb`."""
        if not self._used:
            self._let_agents_move()
            self._rows = np.flatnonzero(self._arena.status == PLAYING).tolist()
            for row, slot in enumerate(self._rows):
                self._list_position(row, slot)
            self._used = len(self._rows)
        arena, used = self._arena, self._used
        legal = arena.legal[:used]
        batch = LeafBatch(arena.packed[:used], legal, len(MOVE_HEADS), legal.shape[1])
        return Leaves(batch, arena.row_versions[:used])

    def absorb(self, policy: np.ndarray, value: np.ndarray, extra_heads: Sequence[np.ndarray] = ()) -> None:
        """Play a move in every slot; `extra_heads`, two of float [B, L], hold the pools and the values of their moves.

        Raises `ValueError` for wrong shapes, entries outside [0, 1] and a position without a pool; the block then still waits
        for the same leaves.
        """
        del policy, value
        want = [(self._used, self._arena.legal.shape[1])] * len(MOVE_HEADS)
        if (got := [head.shape for head in extra_heads]) != want:
            raise ValueError(f"heads {got} do not fit {self._used} positions; want {want}: a model of action values")
        pools, values = (checked(f"head {name}", head, CHANCES) for name, head in zip(MOVE_HEADS, extra_heads, strict=True))
        if not ((pools > 0.0) & (self._arena.legal[: self._used] >= 0)).any(axis=1).all():
            raise ValueError("the head pool has no move of a position; want one at least above 0")
        for row, slot in enumerate(self._rows):
            self._choose(slot, row, pools[row], values[row])
        self._used = 0

    def _list_position(self, row: int, slot: int) -> None:
        arena, game = self._arena, self.game
        state = arena.states[slot]
        mover = int(core.to_move(game, state))
        arena.counts[slot] = core.legal_actions(game, state, arena.legal[row])
        arena.legal[row, arena.counts[slot] :] = -1
        core.encode(game, state, mover, arena.packed[row])
        arena.row_versions[row] = arena.versions[slot, mover]

    def _choose(self, slot: int, row: int, ranks: np.ndarray, chances: np.ndarray) -> None:
        arena, ply = self._arena, int(self._arena.plies[slot])
        mover = int(core.to_move(self.game, arena.states[slot]))
        version = int(arena.row_versions[row])
        pool, scores, values = pool_of(arena.legal[row, : arena.counts[slot]], ranks, chances)
        policy = self._policy_of(slot, mover, version)
        chosen, probability, is_exploratory = choose(values, len(pool), policy, arena.words[slot])
        arena.move_versions[slot, ply] = version
        arena.behaviour[slot, ply] = probability
        arena.exploratory[slot, ply] = is_exploratory
        mine = min(max(float(values[chosen]), -1.0), 1.0)
        arena.values[slot, ply, mover], arena.values[slot, ply, 1 - mover] = mine, -mine
        self._pools[slot][ply] = pool, scores
        self._play(slot, int(pool[chosen]))

    def _policy_of(self, slot: int, mover: int, version: int) -> Policy:
        """Return the policy of a model; a frozen opponent explores as the last version does."""
        if self.settings.policy != "epsilon_greedy":
            return self._policy
        is_frozen = self._seated[slot].version and mover == self._opponent_seat(slot)
        return self._policy._replace(epsilon=self.settings.epsilon if is_frozen else self.settings.epsilon_of(version))

    def _chosen(self, slot: int, opening: int, moves: np.ndarray) -> Searches:
        """Return the moves with their pools."""
        made, self._pools[slot] = self._pools[slot], {}
        chosen = super()._chosen(slot, opening, moves)
        pools = [made[ply] for ply in chosen.ply.tolist()]
        return replace(
            chosen,
            pool_start=starts([len(pool) for pool, _ in pools]),
            pool=np.concatenate([chosen.pool, *(pool for pool, _ in pools)]),
            pool_scores=np.concatenate([chosen.pool_scores, *(scores for _, scores in pools)]),
        )

    def abandon(self, slot: int) -> None:
        """See `AfterstateBlock.abandon`."""
        super().abandon(slot)
        self._pools[slot] = {}


def pool_of(legal: np.ndarray, ranks: np.ndarray, chances: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a pool as a model's heads describe it.

    Args:
        legal: int16 [n], the listed moves.
        ranks: float [L], head `pool` of the position.
        chances: float [L], head `action_values`.

    Returns:
        Actions, int32 [m], best first by the source of the pool; their scores, float32 [m], in [-1, 1]; and their values Q,
        float64 [m].
    """
    ranks = ranks[: len(legal)].astype(np.float32)
    members = np.flatnonzero(ranks > 0.0)
    members = members[np.argsort(-ranks[members], kind="stable")]
    chance = np.clip(chances[members].astype(np.float64), _LEAST, 1.0 - _LEAST)
    return legal[members].astype(np.int32), 2.0 * ranks[members] - np.float32(1.0), 0.5 * np.log(chance / (1.0 - chance))
