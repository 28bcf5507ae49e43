"""Random game in which the laws of `games.core` are checked, and its images under the symmetries.

Every array passed to a rule is surrounded by guard bytes, to detect out-of-bounds writes. Symmetries that preserve the
starting position are checked through whole games, others for their form only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from games import core
from games.compiled import compiled
from games.conformance_arrays import Guarded
from games.conformance_notation import notation_fault
from games.conformance_pictures import picture_fault
from games.conformance_record import Record
from games.core import Game, GameSpec, Symmetry
from games.errors import GameContractError, GameError
from games.faults import fault_of
from games.kit.bits import unpack
from games.laws import broken, is_whole
from games.views import first_to_move, seen_by_first

__all__ = ["SEEDS", "Walk"]

SEEDS = 2**63
"""Seeds lie below it, as those of games do: rules that fit small ones alone are found."""
_PICTURE_PLIES = 10  # a drawing costs as much as all other checks of a position


@dataclass(frozen=True)
class _Look:
    """Output of the rules for a position."""

    over: bool
    mover: int
    actions: list[int]
    planes: list[np.ndarray]  # per viewer, uint8 [C, H, W]
    scores: list[float]  # empty until the game is over


class Walk:
    """One random game, and its images under the symmetries."""

    def __init__(self, game: Game, spec: GameSpec, seed: int, record: Record) -> None:
        self.game, self.spec, self.seed, self.record = game, spec, seed, record
        self.moves: list[int] = []
        self.last = ""  # notation of the last move
        self.state = Guarded(spec.state_size, spec.state_dtype)
        with self._faults_reported():
            self.state = self._start()
            self.images = [(symmetry, self._start().array) for symmetry in spec.symmetries]

    def play_out(self, rng: np.random.Generator) -> None:
        """Play to the end and check every position."""
        with self._faults_reported():
            self._play_out(rng)

    @contextmanager
    def _faults_reported(self) -> Iterator[None]:
        """Report an exception of the game's own code with the moves and the position."""
        try:
            yield
        except GameContractError:
            raise
        except Exception as error:
            if (fault := error if isinstance(error, GameError) else fault_of(error)) is None:
                raise
            self._fail(11, str(fault))

    def _play_out(self, rng: np.random.Generator) -> None:
        look = self._look(self.state.array)
        self._check_position(look)
        self.images = [(s, image) for s, image in self.images if _same_planes(look, self._look(image), s, self.spec)]
        self.record.symmetries_followed.update(symmetry.name for symmetry, _ in self.images)
        while not look.over:
            if len(self.moves) == self.spec.max_plies:
                self._fail(2, f"the game is not over after max_plies = {self.spec.max_plies} moves")
            chosen = int(rng.integers(len(look.actions)))
            self._check_secrecy(look, look.actions[chosen], look.actions[chosen - 1])
            self.last = self.game.action_name(self.state.array, look.actions[chosen])
            self._play(look.actions[chosen])
            look = self._look(self.state.array)
            self._check_position(look)
            for symmetry, image in self.images:
                self._check_image(look, symmetry, image)

    def _fail(self, law: int, what: str) -> NoReturn:
        try:
            picture = self.game.draw(self.state.array)
        except Exception as error:  # the game is broken; report as much as possible
            picture = f"(draw raised {error!r})"
        where = f"\nafter the moves {self.moves} from the start with seed {self.seed}\nstate {self.state.array}\n{picture}"
        broken(self.game, law, what, where)

    def _start(self) -> Guarded:
        start = Guarded(self.spec.state_size, self.spec.state_dtype)
        other = Guarded(self.spec.state_size, self.spec.state_dtype, inside=0)
        for state in (start, other):
            with self.record.call("reset"):
                core.reset(self.game, state.array, self.seed)
        if not np.array_equal(start.array, other.array):
            self._fail(
                2,
                f"reset left entries unwritten, or draws chance from elsewhere than its seed: {start.array} over old contents, "
                f"{other.array} over zeros",
            )
        if not start.is_intact():
            self._fail(2, "reset wrote outside the state")
        return start

    def _play(self, action: int) -> None:
        again = Guarded(self.spec.state_size, self.spec.state_dtype)
        again.array[:] = self.state.array
        with self.record.call("play"):
            core.play(self.game, self.state.array, action)
        core.play(self.game, again.array, action)
        self.moves.append(action)
        if not np.array_equal(again.array, self.state.array):
            self._fail(2, f"play of action {action} from the same position led to another state, {again.array}")
        if not self.state.is_intact():
            self._fail(2, "play wrote outside the state")
        for symmetry, image in self.images:
            core.play(self.game, image, int(symmetry.actions[action]))

    def _ask(self, name: str, state: np.ndarray, *arguments: Any) -> Any:
        """Return the result of a rule other than `play`, after checking that it is repeatable and the state is unchanged."""
        before = state.tobytes()
        outputs = [argument for argument in arguments if isinstance(argument, np.ndarray)]
        old = [output.copy() for output in outputs]
        with self.record.call(name):
            answer = getattr(core, name)(self.game, state, *arguments)
        if state.tobytes() != before:
            self._fail(2, f"{name} changed the state")
        first = [output.copy() for output in outputs]
        for output, content in zip(outputs, old, strict=True):
            output[:] = content
        again = getattr(core, name)(self.game, state, *arguments)
        if repr(again) != repr(answer):
            self._fail(2, f"{name} returned {answer}, and {again} when it was called again in the same position")
        used = answer if name == "legal_actions" and isinstance(answer, int | np.integer) else None  # the rest may be anything
        for one, other in zip(first, outputs, strict=True):
            if one[:used].tobytes() != other[:used].tobytes():
                self._fail(2, f"{name} wrote {one}, and {other} when it was called again in the same position")
        return answer

    def _ask_number(self, name: str, state: np.ndarray, *arguments: Any) -> int:
        """Return the result of a rule that is a whole number."""
        answer = self._ask(name, state, *arguments)
        if not is_whole(answer):
            self._fail(11, f"{name} returned {answer!r}; expected a whole number")
        return int(answer)

    def _look(self, state: np.ndarray) -> _Look:
        over, mover = bool(self._ask("is_over", state)), self._ask_number("to_move", state)
        if not 0 <= mover < self.spec.num_players:
            self._fail(1, f"to_move is {mover}; there are {self.spec.num_players} players, counted from 0")
        planes = [self._planes(state, viewer) for viewer in range(self.spec.num_players)]
        return _Look(over, mover, self._actions(state, over), planes, self._scores(state) if over else [])

    def _actions(self, state: np.ndarray, over: bool) -> list[int]:
        out = Guarded(self.spec.max_legal, np.int16)
        count = self._ask_number("legal_actions", state, out.array)
        if not out.is_intact() or count > self.spec.max_legal:
            self._fail(1, f"legal_actions wrote {count} actions into a buffer for max_legal = {self.spec.max_legal}")
        if over != (count == 0):
            self._fail(1, f"is_over is {over}, but {count} actions are listed")
        actions = [int(action) for action in out.array[:count]]
        if actions != sorted(set(actions)):
            self._fail(1, f"the actions {actions} are not distinct and ascending")
        if actions and not 0 <= actions[0] <= actions[-1] < self.spec.num_actions:
            self._fail(1, f"the actions {actions} are not all in 0 .. {self.spec.num_actions - 1}")
        return actions

    def _scores(self, state: np.ndarray, name: str = "scores") -> list[float]:
        out = Guarded(self.spec.num_players, np.float32)
        out.array[:] = np.nan
        self._ask(name, state, out.array)
        scores = [float(score) for score in out.array]
        if not out.is_intact():
            self._fail(3, f"{name} wrote outside its output")
        if not all(-1.0 <= score <= 1.0 for score in scores):
            self._fail(3, f"the {name} are {scores}" if name == "scores" else f"the {name} is {scores}")
        if name in {"scores", "estimate"} and len(scores) == 2 and abs(sum(scores)) > 1e-6:
            self._fail(3, f"the {name} {scores} {'do' if name == 'scores' else 'does'} not sum to 0")
        return scores

    def _planes(self, state: np.ndarray, viewer: int) -> np.ndarray:
        out = Guarded(self.spec.packed_bytes, np.uint8)
        other = Guarded(self.spec.packed_bytes, np.uint8, inside=0)
        packed = other.array
        self._ask("encode", state, viewer, out.array)
        core.encode(self.game, state, viewer, packed)
        if not out.is_intact():
            self._fail(4, f"encode wrote outside its {self.spec.packed_bytes} bytes")
        if not np.array_equal(out.array, packed):
            self._fail(4, "encode left bits of its output unwritten")
        bits = int(np.prod(self.spec.planes))
        if np.unpackbits(packed, bitorder="little")[bits:].any():
            self._fail(4, f"encode set padding bits after the {bits} bits of the planes")
        return unpack(packed, self.spec.planes)

    def _check_position(self, look: _Look) -> None:
        state = self.state.array
        self.record.positions += 1
        key = self._ask_number("key", state)
        if (earlier := self.record.other_key(state, key)) is not None:
            self._fail(5, f"the key is {key} now and was {earlier} for the same state")
        if (actions := self.record.other_actions(key, look.planes[look.mover], look.actions)) is not None:
            self._fail(5, f"the key {key} also belongs to a position with other planes, or with the legal actions {actions}")
        self._check_notation(look.actions)
        if look.over or len(self.moves) % _PICTURE_PLIES == 0:
            self._check_picture(look)
        self._check_optional(look)
        self._check_other_view(look)
        if self.spec.information != "perfect":
            for viewer in range(self.spec.num_players):
                self._check_hidden(look, viewer)

    def _check_optional(self, look: _Look) -> None:
        """Check the range of the results of optional rules."""
        if core.has_rule(type(self.game), "standing"):
            self._scores(self.state.array, "standing")
        if core.has_rule(type(self.game), "estimate"):
            self._scores(self.state.array, "estimate")
        if core.has_rule(type(self.game), "repetition_key"):
            self._ask("repetition_key", self.state.array)
        if core.has_rule(type(self.game), "move_value"):
            values = [float(self._ask("move_value", self.state.array, action)) for action in look.actions]
            if not np.isfinite(values).all():
                self._fail(2, f"move_value returned {values} for the actions {look.actions}")
        if core.has_rule(type(self.game), "may_end") and not look.over:
            self._check_end()

    def _check_other_view(self, look: _Look) -> None:
        """Check that the view of the player to move gives the first player's, and who is to move."""
        if self.spec.other_view is None or look.over:
            return
        seen = look.planes[look.mover][None]
        if bool(first_to_move(seen)[0]) != (look.mover == 0):
            self._fail(4, f"planes 0 and 1 have {seen[0, :2].sum(axis=(1, 2))} stones, and to_move is {look.mover}")
        if not np.array_equal(seen_by_first(seen, self.spec.other_view)[0], look.planes[0]):
            self._fail(4, f"the planes that the first player sees are not those that {self.spec.other_view} gives")

    def _check_end(self) -> None:
        """Play all single moves, and all pairs of moves, unless `may_end` is true."""
        for plies in (1, 2):
            scratch = np.empty((plies, self.spec.state_size), dtype=self.spec.state_dtype)
            legal = np.empty((plies, self.spec.max_legal), dtype=np.int16)
            if self._ask("may_end", self.state.array, plies):
                continue
            with self.record.call("trials of may_end"):
                can_end = _ends(self.game, self.state.array, plies, scratch, legal)
            if can_end:
                self._fail(10, f"may_end denies that the game can end within {plies} moves")

    def _check_notation(self, actions: Sequence[int]) -> None:
        before = self.state.array.copy()
        if (fault := notation_fault(self.game, self.state.array, actions, last=self.last)) is not None:
            self._fail(7, fault)
        if not np.array_equal(before, self.state.array):
            self._fail(2, "action_name, parse_action or draw changed the state")

    def _check_picture(self, look: _Look) -> None:
        before = self.state.array.copy()
        if (fault := picture_fault(self.game, self.state.array, look.actions, look.mover)) is not None:
            self._fail(12, fault)
        if not np.array_equal(before, self.state.array):
            self._fail(2, "a method of the picture changed the state")

    def _check_hidden(self, look: _Look, viewer: int) -> None:
        """Check that `viewer` cannot distinguish a determinised position from the true one."""
        dealt = self._dealt(self.state.array, viewer, (self.seed + len(self.moves)) % SEEDS)
        other = self._look(dealt)
        if other.over != look.over or (viewer == look.mover and other.mover != viewer):
            self._fail(9, f"determinise for viewer={viewer} changed whose turn it is, or whether the game is over")
        if not np.array_equal(other.planes[viewer], look.planes[viewer]):
            self._fail(9, f"determinise for viewer={viewer} returned a position that this player sees differently: {dealt}")
        if viewer == look.mover and other.actions != look.actions:
            self._fail(9, f"determinise for viewer={viewer} changed the legal actions to {other.actions}")
        again, twice = (self._dealt(state, viewer, self.seed) for state in (self.state.array, dealt))
        if not np.array_equal(again, twice):
            self._fail(
                9, f"determinise for viewer={viewer} depends on what they cannot see: {again} here, {twice} from {dealt}"
            )
        self.record.deals_differ |= not np.array_equal(again, dealt)
        if viewer == look.mover and not look.over and core.has_rule(type(self.game), "foresee"):
            self._check_foresight(look, dealt)

    def _dealt(self, state: np.ndarray, viewer: int, seed: int) -> np.ndarray:
        """Return a determinised position for `viewer`."""
        dealt = Guarded(self.spec.state_size, self.spec.state_dtype)
        self._ask("determinise", state, viewer, seed, dealt.array)
        if not dealt.is_intact():
            self._fail(9, "determinise wrote outside its output")
        return np.asarray(dealt.array)

    def _check_foresight(self, look: _Look, dealt: np.ndarray) -> None:
        """Check that foreseen plays and their outcome depend only on the view of the player to move."""
        rng = np.random.default_rng([self.seed, len(self.moves)])
        likelihood = rng.random(self.spec.num_actions, dtype=np.float32)
        action = look.actions[rng.integers(len(look.actions))]
        found = []
        for state in (self.state.array, dealt):
            plays = Guarded(self.spec.num_players - 1, np.int16)
            self._ask("foresee", state, look.mover, likelihood, plays.array)
            if not plays.is_intact() or not all(-1 <= play < self.spec.num_actions for play in plays.array):
                self._fail(
                    9, f"foresee wrote {plays.array}; expected one action in -1 .. {self.spec.num_actions - 1} per opponent"
                )
            after = Guarded(self.spec.state_size, self.spec.state_dtype)
            after.array[:] = state
            with self.record.call("play_foreseen"):
                core.play_foreseen(self.game, after.array, action, plays.array)
            if not after.is_intact():
                self._fail(2, "play_foreseen wrote outside the state")
            seen = self._look(after.array)
            if not seen.over and seen.mover != look.mover:
                self._fail(9, f"after play_foreseen with action {action} and {plays.array} to_move is {seen.mover}")
            found.append((plays.array.tolist(), seen.over, seen.actions, seen.planes[look.mover].tobytes()))
        if found[0] != found[1]:
            self._fail(9, f"foresee or play_foreseen with action {action} depends on what viewer={look.mover} cannot see")

    def _check_secrecy(self, look: _Look, action: int, other_action: int) -> None:
        """Check that no player can distinguish two secret moves of the current round from each other, or from none."""
        this_round = self._round(self.state.array)
        if this_round < 0:
            return
        states = [self.state.array.copy(), self.state.array.copy()]
        core.play(self.game, states[0], action)
        core.play(self.game, states[1], other_action)
        if any(self._round(state) != this_round for state in states):
            return
        self.record.secret_pairs += 1
        views = [self._look(state) for state in states]
        if (views[0].mover, views[0].actions) != (views[1].mover, views[1].actions):
            self._fail(9, f"the secret moves {action} and {other_action} give the next player different choices")
        for viewer in range(self.spec.num_players):
            if any(not np.array_equal(view.planes[viewer], look.planes[viewer]) for view in views):
                self._fail(9, f"viewer={viewer} sees the secret move {action} or {other_action} before the round ends")
            first, second = (self._dealt(state, viewer, self.seed) for state in states)
            if not np.array_equal(first, second):
                self._fail(9, f"determinise for viewer={viewer} depends on the secret moves {action} and {other_action}")

    def _round(self, state: np.ndarray) -> int:
        """Return the number of the round, or -1 if there is none or the game is over."""
        return -1 if core.is_over(self.game, state) else self._ask_number("round_of", state)

    def _check_image(self, look: _Look, symmetry: Symmetry, image: np.ndarray) -> None:
        seen = self._look(image)
        mapped = sorted(int(symmetry.actions[action]) for action in look.actions)
        if seen.actions != mapped:
            self._fail(6, f"under {symmetry.name!r} the legal actions become {mapped}, but the image has {seen.actions}")
        if (seen.over, seen.mover, seen.scores) != (look.over, look.mover, look.scores):
            self._fail(
                6, f"under {symmetry.name!r} the player to move, the end or the scores {look.scores} change to {seen.scores}"
            )
        if not _same_planes(look, seen, symmetry, self.spec):
            self._fail(6, f"under {symmetry.name!r} the planes do not become those of the image:\n{self.game.draw(image)}")


@compiled
def _ends(game: Any, state: np.ndarray, plies: int, scratch: np.ndarray, legal: np.ndarray) -> bool:
    """Return whether 1 or 2 moves can end the game; scratch space for each ply: states [plies, S], actions [plies, L]."""
    for i in range(core.legal_actions(game, state, legal[0])):
        _copy(state, scratch[0])
        core.play(game, scratch[0], int(legal[0, i]))
        if core.is_over(game, scratch[0]):
            return True
        if plies < 2:
            continue
        for j in range(core.legal_actions(game, scratch[0], legal[1])):
            _copy(scratch[0], scratch[1])
            core.play(game, scratch[1], int(legal[1, j]))
            if core.is_over(game, scratch[1]):
                return True
    return False


@compiled
def _copy(source: np.ndarray, target: np.ndarray) -> None:
    """Copy entry by entry: the error text of a slice assignment would take more than a second to compile."""
    for i in range(source.size):
        target[i] = source[i]


def _same_planes(look: _Look, image: _Look, symmetry: Symmetry, spec: GameSpec) -> bool:
    """Return whether the symmetry maps the planes of every viewer to those of `image`."""
    shape = spec.planes
    return all(
        np.array_equal(planes.reshape(shape[0], -1)[:, symmetry.cells].reshape(shape), seen)
        for planes, seen in zip(look.planes, image.planes, strict=True)
    )
