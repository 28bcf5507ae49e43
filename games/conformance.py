"""Does a game keep the laws of `games.core`? Random games tell, with the moves and the picture that show where not.

    from games import check_game, make
    check_game(make("my_game", size=5))

Every array that a rule gets lies between guard bytes, so a rule that writes beside it is caught as well.
A symmetry is followed through whole games if it leaves the starting position as it is; of others only the form is checked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from games import core
from games.bits import unpack
from games.core import Game, GameSpec, Symmetry
from games.errors import GameContractError, GameError, IllegalMove
from games.positions import parameters_text

__all__ = ["LAWS", "check_game"]

LAWS = {
    1: "`legal_actions` lists nothing exactly when `is_over`; else distinct actions, ascending, in [0, A), at most L.",
    2: "`reset` writes every entry of `state`; `play` changes `state` and nothing else, always in the same way; "
    "no other rule changes it. A game ends within `max_plies`.",
    3: "`scores` are in [-1, 1] and, in a two-player game, sum to 0. They are defined only when the game is over.",
    4: '`encode` writes every byte and depends on what `viewer` may see and nothing else; `viewer` is always drawn as "me".',
    5: "Equal states have equal keys; positions with other planes or legal actions have other keys.",
    6: "A symmetry maps legal actions to legal actions and planes to planes, and keeps the scores.",
    7: "`parse_action(s, action_name(s, a)) == a` for every legal `a`; other text raises `IllegalMove`.",
    8: "Every rule is there, `spec` is within bounds, and `make` with the parameters as text gives the game back.",
}
"""The laws by number, as the docstring of `games.core` has them."""

_RULES = ("reset", "to_move", "legal_actions", "play", "is_over", "scores", "encode", "key")
_GUARD_BYTES = 64
_GUARD = 0xA5
_NONSENSE = "no such move!"
_SEEDS = 2**31


def check_game(game: Game, *, games: int = 100, seed: int = 0) -> None:
    """Play random games and check every law of `games.core` in every position.

    Args:
        game: The rules to check, with the parameters to check them for.
        games: How many random games to play.
        seed: Decides the games.

    Raises:
        GameContractError: A law is broken; the text names the law, the moves that led there and the position.
    """
    spec = _checked_spec(game)
    rng = np.random.default_rng(seed)
    memory = _Memory()
    for _ in range(games):
        _Walk(game, spec, int(rng.integers(_SEEDS)), memory).play_out(rng)


def _broken(game: Game, law: int, what: str, where: str = "") -> NoReturn:
    raise GameContractError(f"{game} breaks law {law} of games.core: {LAWS[law]}\n{what}{where}")


def _checked_spec(game: Game) -> GameSpec:
    """Return the spec after checking law 8 and the form of the symmetries."""
    spec = game.spec()
    names = _RULES if spec.information == "perfect" else (*_RULES, "determinize")
    if missing := [name for name in names if not core.has_rule(type(game), name)]:
        _broken(game, 8, f"no rule for {', '.join(missing)}; write it under @rule({type(game).__name__})")
    bounds = {
        "rules_version": (spec.rules_version, 1, 2**31 - 1),
        "num_players": (spec.num_players, 1, 127),
        "num_actions": (spec.num_actions, 1, 2**15 - 1),
        "max_legal": (spec.max_legal, 1, spec.num_actions),
        "state_size": (spec.state_size, 1, 2**31 - 1),
        "max_plies": (spec.max_plies, 1, 2**31 - 1),
        "planes": (min(spec.planes), 1, 2**31 - 1),
    }
    for name, (value, lowest, highest) in bounds.items():
        if not lowest <= value <= highest:
            _broken(game, 8, f"spec().{name} is {value}; it must be between {lowest} and {highest}")
    if not re.fullmatch("[a-z][a-z0-9_]*", spec.name):
        _broken(game, 8, f"the name {spec.name!r} is not made of small letters, digits and underscores")
    try:
        again = core.make(spec.name, **parameters_text(game))
    except GameError as error:
        _broken(game, 8, f"make({spec.name!r}, ...) refused its parameters as text: {error}")
    if type(again) is not type(game) or again != game:
        _broken(game, 8, f"make({spec.name!r}, ...) with its parameters as text gave {again}")
    for symmetry in spec.symmetries:
        _check_form(game, spec, symmetry)
    return spec


def _check_form(game: Game, spec: GameSpec, symmetry: Symmetry) -> None:
    _, height, width = spec.planes
    wanted = {"cells": (symmetry.cells, height * width, np.int32), "actions": (symmetry.actions, spec.num_actions, np.int16)}
    for name, (image, size, dtype) in wanted.items():
        if image.dtype != dtype or not np.array_equal(np.sort(image), np.arange(size)):
            _broken(
                game,
                6,
                f"{name} of the symmetry {symmetry.name!r} are not a permutation of 0 .. {size - 1} in {dtype.__name__}",
            )


@dataclass
class _Memory:
    """What the positions seen so far said, for law 5."""

    key_of: dict[bytes, int] = field(default_factory=dict)
    """Key by state."""
    look_of: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """Planes for the player to move and legal actions, by key."""


class _Guarded:
    """An array between guard bytes."""

    def __init__(self, size: int, dtype: Any, *, inside: int = _GUARD) -> None:
        item = np.dtype(dtype).itemsize
        self._bytes = np.full(size * item + 2 * _GUARD_BYTES, _GUARD, dtype=np.uint8)
        self.array = self._bytes[_GUARD_BYTES : _GUARD_BYTES + size * item].view(dtype)
        """The array itself, full of the byte `inside` at first."""
        self.array.view(np.uint8)[:] = inside

    def is_intact(self) -> bool:
        """Return whether nothing was written beside the array."""
        return bool((self._bytes[:_GUARD_BYTES] == _GUARD).all() and (self._bytes[-_GUARD_BYTES:] == _GUARD).all())


@dataclass(frozen=True)
class _Look:
    """All that the rules say about a position."""

    over: bool
    mover: int
    actions: list[int]
    planes: list[np.ndarray]  # per viewer, uint8 [C, H, W]
    scores: list[float]  # empty while the game goes on


class _Walk:
    """One random game, and the images of it under the symmetries."""

    def __init__(self, game: Game, spec: GameSpec, seed: int, memory: _Memory) -> None:
        self.game, self.spec, self.seed, self.memory = game, spec, seed, memory
        self.moves: list[int] = []
        self.state = _Guarded(spec.state_size, spec.state_dtype)
        self.state = self._start()
        self.images = [(symmetry, self._start().array) for symmetry in spec.symmetries]

    def play_out(self, rng: np.random.Generator) -> None:
        """Play to the end and check every position on the way."""
        look = self._look(self.state.array)
        self._check_position(look)
        self.images = [(s, image) for s, image in self.images if _same_planes(look, self._look(image), s, self.spec)]
        while not look.over:
            if len(self.moves) == self.spec.max_plies:
                self._fail(2, f"the game goes on after max_plies = {self.spec.max_plies} moves")
            self._play(look.actions[rng.integers(len(look.actions))])
            look = self._look(self.state.array)
            self._check_position(look)
            for symmetry, image in self.images:
                self._check_image(look, symmetry, image)
        again = self._start().array
        for action in self.moves:
            core.play(self.game, again, action)
        if not np.array_equal(again, self.state.array):
            self._fail(2, f"the same moves led to the state {again} at another time")

    def _fail(self, law: int, what: str) -> NoReturn:
        try:
            picture = self.game.draw(self.state.array)
        except Exception as error:  # the game is broken; show what can be shown
            picture = f"(draw raised {error!r})"
        where = f"\nafter the moves {self.moves} from the start with seed {self.seed}\nstate {self.state.array}\n{picture}"
        _broken(self.game, law, what, where)

    def _start(self) -> _Guarded:
        start = _Guarded(self.spec.state_size, self.spec.state_dtype)
        other = _Guarded(self.spec.state_size, self.spec.state_dtype, inside=0)
        core.reset(self.game, start.array, self.seed)
        core.reset(self.game, other.array, self.seed)
        if not np.array_equal(start.array, other.array):
            self._fail(2, f"reset left entries as they were: {start.array} over old contents, {other.array} over zeros")
        if not start.is_intact():
            self._fail(2, "reset wrote beside the state")
        return start

    def _play(self, action: int) -> None:
        core.play(self.game, self.state.array, action)
        self.moves.append(action)
        if not self.state.is_intact():
            self._fail(2, "play wrote beside the state")
        for symmetry, image in self.images:
            core.play(self.game, image, int(symmetry.actions[action]))

    def _ask(self, name: str, state: np.ndarray, *arguments: Any) -> Any:
        """Return what a rule other than `play` says, after checking that it left the position alone."""
        before = state.tobytes()
        answer = getattr(core, name)(self.game, state, *arguments)
        if state.tobytes() != before:
            self._fail(2, f"{name} changed the state")
        return answer

    def _look(self, state: np.ndarray) -> _Look:
        over, mover = bool(self._ask("is_over", state)), int(self._ask("to_move", state))
        if not 0 <= mover < self.spec.num_players:
            self._fail(1, f"to_move is {mover}; there are {self.spec.num_players} players, counted from 0")
        planes = [self._planes(state, viewer) for viewer in range(self.spec.num_players)]
        return _Look(over, mover, self._actions(state, over), planes, self._scores(state) if over else [])

    def _actions(self, state: np.ndarray, over: bool) -> list[int]:
        out = _Guarded(self.spec.max_legal, np.int16)
        count = int(self._ask("legal_actions", state, out.array))
        if not out.is_intact() or count > self.spec.max_legal:
            self._fail(1, f"legal_actions wrote {count} actions into room for max_legal = {self.spec.max_legal}")
        if over != (count == 0):
            self._fail(1, f"is_over is {over} and {count} actions are listed")
        actions = [int(action) for action in out.array[:count]]
        if actions != sorted(set(actions)):
            self._fail(1, f"the actions {actions} are not distinct and ascending")
        if actions and not 0 <= actions[0] <= actions[-1] < self.spec.num_actions:
            self._fail(1, f"the actions {actions} are not all in 0 .. {self.spec.num_actions - 1}")
        return actions

    def _scores(self, state: np.ndarray) -> list[float]:
        out = _Guarded(self.spec.num_players, np.float32)
        out.array[:] = np.nan
        self._ask("scores", state, out.array)
        scores = [float(score) for score in out.array]
        if not out.is_intact():
            self._fail(3, "scores wrote beside its output")
        if not all(-1.0 <= score <= 1.0 for score in scores):
            self._fail(3, f"the scores are {scores}")
        if len(scores) == 2 and abs(sum(scores)) > 1e-6:
            self._fail(3, f"the scores {scores} do not sum to 0")
        return scores

    def _planes(self, state: np.ndarray, viewer: int) -> np.ndarray:
        out = _Guarded(self.spec.packed_bytes, np.uint8)
        other = _Guarded(self.spec.packed_bytes, np.uint8, inside=0)
        packed = other.array
        self._ask("encode", state, viewer, out.array)
        self._ask("encode", state, viewer, packed)
        if not out.is_intact():
            self._fail(4, f"encode wrote beside its {self.spec.packed_bytes} bytes")
        if not np.array_equal(out.array, packed):
            self._fail(4, "encode left bits of its output as they were")
        bits = int(np.prod(self.spec.planes))
        if np.unpackbits(packed, bitorder="little")[bits:].any():
            self._fail(4, f"encode set padding bits after the {bits} bits of the planes")
        return unpack(packed, self.spec.planes)

    def _check_position(self, look: _Look) -> None:
        state = self.state.array
        planes = look.planes[look.mover].tobytes()
        key = int(self._ask("key", state))
        if self.memory.key_of.setdefault(state.tobytes(), key) != key:
            self._fail(5, f"the key is {key} now and was {self.memory.key_of[state.tobytes()]} for the same state")
        seen = self.memory.look_of.setdefault(key, (planes, tuple(look.actions)))
        if seen != (planes, tuple(look.actions)):
            self._fail(5, f"the key {key} belonged to another position: other planes, or the legal actions {seen[1]}")
        self._check_notation(look.actions)
        if self.spec.information != "perfect":
            for viewer in range(self.spec.num_players):
                self._check_hidden(look, viewer)

    def _check_notation(self, actions: Sequence[int]) -> None:
        before = self.state.array.copy()
        for action in actions:
            name = self.game.action_name(self.state.array, action)
            try:
                read = self.game.parse_action(self.state.array, name)
            except IllegalMove as error:
                self._fail(7, f"action {action} is written {name!r}, which is refused: {error}")
            if read != action:
                self._fail(7, f"action {action} is written {name!r}, which is read as {read}")
        self._check_nonsense()
        if not self.game.draw(self.state.array).strip():
            self._fail(7, "draw returned an empty picture")
        if not np.array_equal(before, self.state.array):
            self._fail(2, "action_name, parse_action or draw changed the state")

    def _check_nonsense(self) -> None:
        try:
            read = self.game.parse_action(self.state.array, _NONSENSE)
        except IllegalMove:
            return
        except Exception as error:
            self._fail(7, f"the text {_NONSENSE!r} raised {error!r}")
        self._fail(7, f"the text {_NONSENSE!r} was read as action {read}")

    def _check_hidden(self, look: _Look, viewer: int) -> None:
        """Check that `viewer` cannot tell a position dealt anew from the true one."""
        dealt = _Guarded(self.spec.state_size, self.spec.state_dtype)
        self._ask("determinize", self.state.array, viewer, self.seed + len(self.moves), dealt.array)
        if not dealt.is_intact():
            self._fail(4, "determinize wrote beside its output")
        other = self._look(dealt.array)
        if (other.over, other.mover) != (look.over, look.mover):
            self._fail(4, f"determinize for player {viewer} changed whose turn it is, or whether the game is over")
        if not np.array_equal(other.planes[viewer], look.planes[viewer]):
            self._fail(4, f"determinize for player {viewer} gave a position that this player sees otherwise: {dealt.array}")
        if viewer == look.mover and other.actions != look.actions:
            self._fail(4, f"determinize for player {viewer} changed the legal actions to {other.actions}")

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


def _same_planes(look: _Look, image: _Look, symmetry: Symmetry, spec: GameSpec) -> bool:
    """Return whether the planes of every viewer become those of `image` under the symmetry."""
    shape = spec.planes
    return all(
        np.array_equal(planes.reshape(shape[0], -1)[:, symmetry.cells].reshape(shape), seen)
        for planes, seen in zip(look.planes, image.planes, strict=True)
    )
