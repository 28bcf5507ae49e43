"""Block of games played side by side without a tree; its interface is that of `zerofleet.search.SearchBlock`.

    leaves = block.advance()          the afterstates of every slot's position, except those that end the game
    block.absorb(policy, value)       every slot plays one move

A move that ends the game is valued by the rules; all others by the evaluation of the position they lead to, seen by its player
to move. Policies of evaluations are not used. A game depends on its seed, its evaluations and its opponent only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from games import core
from games.core import Game
from games.errors import IllegalMove
from games.positions import legal
from zerofleet.contracts.played import EXPLORATORY, PlayedGame, Searches, starts
from zerofleet.errors import ConfigurationError
from zerofleet.evaluators.base import LeafBatch
from zerofleet.search.afterstates import kernel
from zerofleet.search.afterstates.choice import policy_of
from zerofleet.search.afterstates.kernel import FINISHED, IDLE, PLAYING
from zerofleet.search.afterstates.opponents import SELF, Opponent, Opponents
from zerofleet.search.afterstates.settings import AfterstateSettings
from zerofleet.search.arena import memory_refused
from zerofleet.search.block import Leaves, SearchCounters
from zerofleet.search.kernel import EXTERNAL
from zerofleet.search.outputs import VALUES, checked

__all__ = ["AfterstateBlock"]

_STREAM = 6  # separates the agents' randomness from other draws from the seed of a game


class AfterstateBlock:
    """Block of `slots` games of two players with perfect information, each with its own seed. Not thread-safe."""

    MODE = "afterstates"
    """Its `selfplay.mode`."""

    def __init__(self, game: Game, settings: AfterstateSettings, *, slots: int, opponents: Opponents | None = None) -> None:
        """Allocate the block; `opponents`: by default those of the settings, which then are no agents.

        Raises `ConfigurationError` for another kind of game, and for too little memory.
        """
        spec = game.spec()
        if spec.num_players != 2 or spec.information != "perfect":
            raise ConfigurationError(
                f"selfplay.mode={self.MODE} plays games of two players with perfect information; {spec.name} has "
                f"{spec.num_players} players and {spec.information} information; set selfplay.mode=search"
            )
        self.game = game
        self.settings = settings
        self._policy = policy_of(settings)
        with memory_refused(spec, slots):
            self._arena = kernel.allocate(spec, slots, settings.pool)
        self._seeds = [0] * slots
        self._first_versions: list[tuple[int, ...]] = [()] * slots
        self._openings = [0] * slots
        self._tags: list[object] = [None] * slots
        self._opponents = Opponents(settings) if opponents is None else opponents
        self._seated: list[Opponent] = [SELF] * slots
        self._ways: list[dict[int, list[int]]] = [{} for _ in range(slots)]  # moves to come of the solver, by seat
        self._luck = [np.random.default_rng(0)] * slots  # of the agents
        self._used = 0

    def __len__(self) -> int:
        return len(self._arena.status)

    @property
    def counters(self) -> SearchCounters:
        """Totals since the creation of the block; there are no simulations and no cache."""
        return SearchCounters(0, 0, int(self._arena.moves_played[0]))

    def begin(self, slot: int, *, seed: int, versions: Sequence[int], opening: Sequence[int] = (), tag: object = None) -> None:
        """Begin a game in an idle slot; see `SearchBlock.begin`.

        Raises `IllegalMove` for an opening that is illegal or ends the game, `ValueError` for a slot in use.
        """
        arena = self._arena
        if arena.status[slot] != IDLE:
            raise ValueError(f"slot {slot} is in use; take or abandon its game first")
        state = arena.states[slot]
        core.reset(self.game, state, seed)
        room = np.empty(arena.actions.shape[1], dtype=np.int16)
        for ply, action in enumerate(opening):
            listed = room[: core.legal_actions(self.game, state, room)]
            if action not in listed:
                raise IllegalMove(f"move {ply + 1} of the opening is {action}; legal: {listed.tolist()}")
            core.play(self.game, state, action)
            arena.moves[slot, ply] = action
        if core.is_over(self.game, state):
            raise IllegalMove(f"the opening {list(opening)} ends the game")
        arena.words[slot] = np.uint64(seed)
        arena.plies[slot] = len(opening)
        arena.status[slot] = PLAYING
        self._seated[slot] = self._opponents.of_game(seed)
        self._ways[slot] = {}
        if self._seated[slot].choose is not None:
            self._luck[slot] = np.random.default_rng([seed, _STREAM])
        self._seeds[slot], self._openings[slot], self._tags[slot] = seed, len(opening), tag
        self.set_versions(slot, versions)
        self._first_versions[slot] = tuple(arena.versions[slot].tolist())

    def advance(self) -> Leaves:
        """Return the afterstates that need an evaluation; idempotent until `absorb`.

        A position whose every move ends the game needs none, and is played at once.
        """
        if not self._used:
            self._let_agents_move()
            self._used = kernel.expand(self.game, self._arena, self._policy)
        arena, used = self._arena, self._used
        return Leaves(LeafBatch(arena.packed[:used], arena.legal[:used]), arena.row_versions[:used])

    def absorb(self, policy: np.ndarray, value: np.ndarray, extra_heads: Sequence[np.ndarray] = ()) -> None:
        """Play a move in every slot; `value` (float32 [B, 2], player to move first) evaluates the last leaves.

        Raises `ValueError` for a wrong shape or a value outside [-1, 1]; the block then still waits for the same leaves.
        """
        del policy, extra_heads
        if value.shape != (self._used, 2):
            raise ValueError(f"value {value.shape} does not fit {self._used} afterstates")
        kernel.commit(self.game, self._arena, self._policy, checked("value", value, VALUES))
        self._used = 0

    def finished(self) -> list[int]:
        """Return the slots with a finished game."""
        return self._with_status(FINISHED)

    def idle(self) -> list[int]:
        """Return the slots without a game."""
        return self._with_status(IDLE)

    def _with_status(self, status: int) -> list[int]:
        return np.flatnonzero(self._arena.status == status).tolist()

    def moves(self, slot: int) -> list[int]:
        """Return the moves played so far in a slot, including the opening."""
        return [int(move) for move in self._arena.moves[slot, : self._arena.plies[slot]]]

    def last_values(self, slot: int) -> tuple[float, ...] | None:
        """Return the value after the last move for each seat, in [-1, 1]; None before a move, and after one without a model."""
        ply = int(self._arena.plies[slot]) - 1
        if ply < self._openings[slot] or self._arena.move_versions[slot, ply] == EXTERNAL:
            return None
        return tuple(self._arena.values[slot, ply].tolist())

    def versions(self, slot: int) -> tuple[int, ...]:
        """Return the model versions of a slot's seats for their next moves."""
        return tuple(self._arena.versions[slot].tolist())

    def set_versions(self, slot: int, versions: Sequence[int]) -> None:
        """Set the model versions of a slot's seats from their next move on; that of an opponent other than the model stays."""
        self._arena.versions[slot] = versions
        opponent = self._seated[slot]
        if opponent is not SELF:
            self._arena.versions[slot, self._opponent_seat(slot)] = opponent.version or EXTERNAL

    def set_exploration(self, share: float) -> None:
        """Multiply epsilon and temperature of the settings by a share in (0, 1], for every game's next move."""
        self._policy = policy_of(self.settings, share)

    def set_resign_threshold(self, threshold: float) -> None:
        """Do nothing: games without a tree have no resignation."""

    def abandon(self, slot: int) -> None:
        """Discard a slot's game, between `absorb` and the next `advance`; raises `ValueError` while afterstates wait."""
        if self._used:
            raise ValueError("afterstates of this block wait for evaluations; absorb them first")
        self._arena.status[slot] = IDLE

    def take(self, slot: int) -> PlayedGame:
        """Return a finished game and free its slot. Raises `ValueError` if it is not finished."""
        arena = self._arena
        if arena.status[slot] != FINISHED:
            raise ValueError(f"the game of slot {slot} is not over")
        plies, opening = int(arena.plies[slot]), self._openings[slot]
        moves = arena.moves[slot, :plies].copy()
        played = PlayedGame(
            game=self.game,
            seed=self._seeds[slot],
            versions=self._first_versions[slot],
            opening_plies=opening,
            moves=moves,
            searched=self._chosen(slot, opening, moves),
            scores=tuple(arena.scores[slot].tolist()),
            resigned_seat=None,
            resignation_control=False,
            tag=self._tags[slot],
            learner_seat=self._learner_seat(self._seeds[slot]),
            agents=self._agents_of(slot),
        )
        arena.status[slot] = IDLE
        self._tags[slot] = None
        return played

    def _chosen(self, slot: int, opening: int, moves: np.ndarray) -> Searches:
        """Return the moves after the opening as searched moves: one action with one visit, its value and probability."""
        arena, plies = self._arena, len(moves)
        rows = opening + np.flatnonzero(arena.move_versions[slot, opening:plies] != EXTERNAL)
        pools = arena.pool[slot, rows]
        is_pooled = pools >= 0
        return Searches(
            ply=rows.astype(np.int32),
            model_version=arena.move_versions[slot, rows],
            flags=np.where(arena.exploratory[slot, rows], EXPLORATORY, 0).astype(np.uint8),
            root_value=arena.values[slot, rows],
            behaviour=arena.behaviour[slot, rows],
            start=np.arange(len(rows) + 1),
            actions=moves[rows],
            visits=np.ones(len(rows), dtype=np.int32),
            target_start=np.zeros(len(rows) + 1, dtype=np.int64),
            target=np.empty(0, dtype=np.uint16),
            pool_start=starts(is_pooled.sum(axis=1)),
            pool=pools[is_pooled].astype(np.int32),
            pool_scores=arena.pool_scores[slot, rows][is_pooled],
        )

    def _let_agents_move(self) -> None:
        """Play the moves of agents and of the solver of the endgame, up to a move by values or the end of the game."""
        arena = self._arena
        if self._opponents.find_way is None and all(opponent.choose is None for opponent in self._seated):
            return
        for slot in range(len(self)):
            while arena.status[slot] == PLAYING and (action := self._given(slot)) is not None:
                arena.move_versions[slot, arena.plies[slot]] = EXTERNAL
                self._play(slot, action)

    def _given(self, slot: int) -> int | None:
        """Return the move of an agent or of the solver; None where the values choose."""
        game, state, opponent = self.game, self._arena.states[slot], self._seated[slot]
        if opponent.choose is None and self._opponents.find_way is None:
            return None
        seat = int(core.to_move(game, state))
        if opponent.choose is not None and seat == self._opponent_seat(slot):
            return opponent.choose(game, state.copy(), self._luck[slot])
        if self._opponents.find_way is None:
            return None
        way = self._ways[slot].get(seat, [])
        if not way or way[0] not in legal(game, state):  # the other side has moved since: it may block the way
            way = list(self._opponents.find_way(game, state.copy()) or ())
            self._ways[slot][seat] = way
        return way.pop(0) if way else None

    def _play(self, slot: int, action: int) -> None:
        """Play a move that was chosen outside of the kernel."""
        arena, ply = self._arena, int(self._arena.plies[slot])
        arena.moves[slot, ply] = action
        core.play(self.game, arena.states[slot], action)
        arena.plies[slot] = ply + 1
        arena.moves_played[0] += 1
        if core.is_over(self.game, arena.states[slot]):
            core.scores(self.game, arena.states[slot], arena.scores[slot])
            arena.status[slot] = FINISHED

    def _opponent_seat(self, slot: int) -> int:
        """Return the seat that does not learn."""
        learner = self._learner_seat(self._seeds[slot])
        return 1 - (self._seeds[slot] & 1 if learner is None else learner)

    def _agents_of(self, slot: int) -> tuple[str, ...]:
        """Return the names of the agents by seat; empty if there are none."""
        name, seat = self._seated[slot].agent, self._opponent_seat(slot)
        return ("", name)[:: 1 if seat else -1] if name else ()

    def _learner_seat(self, seed: int) -> int | None:
        return {"all": None, "alternate": seed & 1, "first": 0, "second": 1}[self.settings.learner_seat]
