"""The contract of a game: a parameter tuple, static facts, and rules that compile.

A game is a `NamedTuple` of its parameters (`ConnectFour(rows=6, columns=7, connect=4)`). Its position is a flat vector
(`state`), and a handful of functions read and change that vector. The same functions serve search, encoding, validation
and drawing, so there is one set of rules; they are written in the part of Python that numba compiles.

    @register("my_game")                    the class gets a name for `games.make("my_game", size=5)`
    class MyGame(NamedTuple):
        size: int = 5
        def spec(self) -> GameSpec: ...     static facts
        def action_name(...), parse_action(...), draw(...)       for people; ordinary Python

    @rule(MyGame)                           one for each function below, under the same name
    def play(game, state, action): ...

Axes: S state entries, A actions, L most legal actions of any position, P players, C x H x W planes.

The laws (`check_game` tests them on random games):

  1. `legal_actions` lists nothing exactly when `is_over`; else distinct actions, ascending, in [0, A), at most L.
  2. `reset` writes every entry of `state`; `play` changes `state` and nothing else, always in the same way; no other
     rule changes it. A game ends within `max_plies`.
  3. `scores` are in [-1, 1] and, in a two-player game, sum to 0. They are defined only when the game is over. `standing` is
     in [-1, 1] at any time; so is `estimate`, which in a two-player game sums to 0 as well.
  4. `encode` writes every byte and depends on what `viewer` may see and nothing else; `viewer` is always drawn as "me".
  5. Equal states have equal keys; positions with other planes or legal actions have other keys.
  6. A symmetry maps legal actions to legal actions and planes to planes, and keeps the scores.
  7. `parse_action(s, action_name(s, a)) == a` for every legal `a`; other text raises `IllegalMove`.
  8. Every rule is there, `spec` is within bounds, and `make` with the parameters as text gives the game back.
  9. `determinise` deals anew what `viewer` cannot see and nothing else: their view is unchanged, and so are, if it is their
     move, their legal actions and that it is their move. Secret moves of a round under way are taken back; until it ends,
     they show in no view and change nobody's choice. The view and the seed decide the deal; the view alone decides what
     `foresee` names and what `play_foreseen` leads to: the same player's turn, or the end of the game.

Some rules are optional; what stands below is what a game without its own does: `standing` and `repetition_key` (games whose
positions recur), `round_of`, `foresee` and `play_foreseen` (secret moves), `move_value` (a first guess for greedy players),
`estimate` (what a position is worth, for searches that stop before the end).

Polymorphism: calling `play(game, ...)` from compiled code picks the rule by the *type* of `game` when the caller is
compiled (numba's `@overload`), so a kernel compiles once for a game class and serves every board size.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numba.core import types
from numba.extending import overload

from games.code_sources import add_rule
from games.compiled import INTERPRETED, compiled
from games.errors import InvalidParameters, UnknownGame

State: TypeAlias = np.ndarray  # spec.state_dtype [S]
Information: TypeAlias = Literal["perfect", "hidden", "simultaneous"]
Lattice: TypeAlias = Literal["square", "hexagonal"]

ENTRY_POINT_GROUP = "zerofleet.games"
"""Packages offer games under this group: the name of the game, and the module that registers it."""


class Symmetry(NamedTuple):
    """A relabelling of the board under which the game is the same game."""

    name: str
    cells: np.ndarray  # int32 [H*W]; cell i of the image holds what cell cells[i] held
    actions: np.ndarray  # int16 [A]; action a becomes action actions[a]


@dataclass(frozen=True, slots=True)
class GameSpec:
    """What is true of every position of a game with given parameters."""

    name: str
    rules_version: int
    """Changes when, and only when, the rules or the meaning of an action change."""
    num_players: int
    num_actions: int
    max_legal: int
    """L: upper bound on the number of legal actions in any position."""
    state_dtype: np.dtype[Any]
    state_size: int
    planes: tuple[int, int, int]
    """(C, H, W) of the encoded position."""
    max_plies: int
    symmetries: tuple[Symmetry, ...] = ()
    """Without the identity."""
    information: Information = "perfect"
    """`hidden`: not all see what was dealt; `simultaneous`: they do, but the moves of a round are secret until its end."""
    lattice: Lattice = "square"
    """How the cells of a plane touch. `hexagonal`: the neighbours of (y, x) are (y, x +- 1), (y +- 1, x), (y - 1, x + 1) and
    (y + 1, x - 1); off-board cells of the H x W rectangle are told by a plane of the encoding."""
    action_cells: np.ndarray | None = None
    """Int16 [A, 2]: the cells (y * W + x) an action moves from and to, -1 where it has none; for networks that score moves by
    their two cells. None where actions are no such moves. Cells are seen as `encode` shows them to the player to move."""
    repeats: bool = False
    """Whether a position can recur in a game (`repetition_key`)."""
    counters: np.ndarray | None = None
    """Int16 [A]: the action that beats each action, in games that one simultaneous choice decides; else None."""

    @property
    def packed_bytes(self) -> int:
        """Bytes of one encoded position: C*H*W bits, padded to whole bytes."""
        channels, height, width = self.planes
        return (channels * height * width + 7) // 8


class Game(Protocol):
    """What a game class offers besides its compiled rules. Fields of the tuple are its parameters."""

    def spec(self) -> GameSpec:
        """Return the static facts; raises `InvalidParameters` when a parameter is out of range."""
        ...

    def action_name(self, state: State, action: int) -> str:
        """Return the notation of a legal action, such as `d1`."""
        ...

    def parse_action(self, state: State, text: str) -> int:
        """Return the action meant by `text`; raises `IllegalMove` naming the legal ones."""
        ...

    def draw(self, state: State) -> str:
        """Return a picture of the position for a terminal, several lines, without colours.

        A game may also have `draw_svg(self, state) -> str`, a picture as SVG (`games.kit.svg`), and, if it hides something,
        `draw_for(self, state, viewer) -> str` with what that player sees (`games.drawing`).
        """
        ...

    def _asdict(self) -> dict[str, Any]: ...


GameClass = TypeVar("GameClass", bound=type)
Rule = TypeVar("Rule", bound=Callable[..., Any])

_CLASSES: dict[str, Any] = {}
_RULES: dict[str, dict[type, Callable[..., Any]]] = {}


def register(name: str) -> Callable[[GameClass], GameClass]:
    """Class decorator: make a game class known by `name` to `make` and `available`."""

    def add(cls: GameClass) -> GameClass:
        _CLASSES[name] = cls
        return cls

    return add


def available() -> tuple[str, ...]:
    """Return the names of all games that `make` knows, sorted: those registered and those that packages offer."""
    return tuple(sorted({*_CLASSES, *_offered()}))


def parameters_of(name: str) -> dict[str, Any]:
    """Return the parameters of a game with their default values; raises `UnknownGame`."""
    return dict(_class_of(name)()._asdict())


def make(name: str, /, **parameters: Any) -> Game:
    """Build a game by name. Parameter values may be given as text, as a command line or a record has them.

    Raises `UnknownGame` or `InvalidParameters`; both say what exists.
    """
    cls = _class_of(name)
    defaults: dict[str, Any] = cls()._asdict()
    if unknown := sorted(set(parameters) - set(defaults)):
        raise InvalidParameters(f"{name} has no parameter {', '.join(unknown)}; it takes {', '.join(defaults) or 'none'}")
    game: Game = cls(**{key: _converted(name, key, value, defaults[key]) for key, value in parameters.items()})
    game.spec()
    return game


def _converted(name: str, key: str, value: Any, default: Any) -> Any:
    """Return a parameter value in the type of its default; raises `InvalidParameters` rather than lose something."""
    kind = type(default)
    try:
        if kind is bool and isinstance(value, str):
            return {"true": True, "false": False}[value.strip().lower()]
        converted = kind(value)
        if not isinstance(value, str) and converted != value:
            raise ValueError(value)
    except (KeyError, OverflowError, TypeError, ValueError):
        raise InvalidParameters(f"{name}: {key}={value!r} is not {kind.__name__}; the default is {default!r}") from None
    return converted


def _class_of(name: str) -> Any:
    if name not in _CLASSES and (offer := _offered().get(name)):
        try:
            offer.load()  # importing the module registers the game
        except Exception as error:
            raise UnknownGame(f"the game {name!r} cannot be loaded from {offer.value!r}: {error!r}") from error
        if name not in _CLASSES:
            raise UnknownGame(f"{offer.value!r} is offered as the game {name!r} but registers no game of that name")
    try:
        return _CLASSES[name]
    except KeyError:
        raise UnknownGame(f"no game is called {name!r}; there are {', '.join(available())}") from None


def _offered() -> dict[str, EntryPoint]:
    """Return the games that installed packages offer, by name."""
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def _optional(stub: Rule) -> Rule:
    """As `_generic`, for a rule a game need not have: the stub is what such a game does."""
    return _generic(stub, fallback=compiled(stub))


def _generic(stub: Rule, fallback: Callable[..., Any] | None = None) -> Rule:
    """Turn a documented stub into a function that calls the rule registered for the type of its first argument."""
    name = stub.__name__
    rules = _RULES.setdefault(name, {})
    parameters = list(inspect.signature(stub).parameters)

    def dispatch(game: Any, *arguments: Any) -> Any:
        found = rules.get(type(game), fallback)
        if found is None:
            raise NotImplementedError(f"{type(game).__name__} has no rule {name}; write it under @rule({type(game).__name__})")
        return found(game, *arguments)

    dispatch.__name__ = dispatch.__qualname__ = name
    dispatch.__doc__ = stub.__doc__
    dispatch.__module__ = stub.__module__

    def choose(game: Any, *arguments: Any) -> Callable[..., Any] | None:
        cls = getattr(game, "instance_class", None) if isinstance(game, types.BaseNamedTuple) else None
        chosen = rules.get(cls, fallback) if cls is not None else None
        return None if chosen is None else getattr(chosen, "py_func", chosen)

    choose.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(p, inspect.Parameter.POSITIONAL_OR_KEYWORD) for p in parameters]
    )
    if not INTERPRETED:
        options: Any = {"error_model": "numpy", "_nrt": True}  # numba's stubs do not know _nrt
        overload(dispatch, strict=False, jit_options=options)(choose)
    return dispatch  # type: ignore[return-value]


def rule(cls: type) -> Callable[[Rule], Rule]:
    """Function decorator: this is the rule of that name for the game class `cls`; the result is compiled."""

    def add(function: Rule) -> Rule:
        fast = compiled(function)
        add_rule(cls, function)
        _RULES[function.__name__][cls] = fast
        return fast

    return add


def has_rule(cls: type, name: str) -> bool:
    """Return whether the game class `cls` has a rule called `name`."""
    return cls in _RULES.get(name, {})


@_generic
def reset(game: Any, state: State, seed: int) -> None:
    """Write the starting position into `state`; `seed` decides what chance decides at the start (a deal)."""


@_generic
def to_move(game: Any, state: State) -> int:
    """Return the player to move, 0 .. P-1."""
    return 0


@_generic
def legal_actions(game: Any, state: State, out: np.ndarray) -> int:
    """Write the legal actions into `out` (int16 [L]), ascending, and return how many there are; 0 only when over."""
    return 0


@_generic
def play(game: Any, state: State, action: int) -> None:
    """Play a legal action in place. Legality is the caller's duty: see `games.advance` for the checked form."""


@_generic
def is_over(game: Any, state: State) -> bool:
    """Return whether the game has ended."""
    return False


@_generic
def scores(game: Any, state: State, out: np.ndarray) -> None:
    """Write each player's final score into `out` (float32 [P]), in [-1, 1]."""


@_generic
def encode(game: Any, state: State, viewer: int, out: np.ndarray) -> None:
    """Write the planes `viewer` sees, bit-packed, into `out` (uint8 [packed_bytes]).

    Bit `c*H*W + y*W + x` of plane c, row y, column x stands in byte `bit >> 3` at position `bit & 7` (least first).
    """


@_generic
def key(game: Any, state: State) -> np.uint64:
    """Return a 64-bit key of the position: equal for equal positions, well mixed otherwise."""
    return np.uint64(0)


@_generic
def determinise(game: Any, state: State, viewer: int, seed: int, out: State) -> None:
    """Write into `out` a position that `viewer` cannot tell from `state`, with what is hidden dealt anew by `seed`."""


@_optional
def standing(game: Any, state: State, out: np.ndarray) -> None:
    """Write the scores each player would have if the game were broken off here into `out` (float32 [P]), in [-1, 1].

    What the search backs up for a position that recurs: nobody is credited with what they have not reached yet.
    """
    out[:] = 0.0


@_optional
def repetition_key(game: Any, state: State) -> np.uint64:
    """Return the 64-bit key by which positions count as the same when they recur: the player to move, no count of plies."""
    return key(game, state)


@_optional
def round_of(game: Any, state: State) -> int:
    """Return the number of the round in which the player to move chooses, or -1 where no choice is secret.

    Players who choose in the same round do not see each other's choice.
    """
    return -1


@_optional
def foresee(game: Any, state: State, viewer: int, likelihood: np.ndarray, plays: np.ndarray) -> None:
    """Write the likeliest choices of `viewer`'s opponents in this round into `plays` (int16 [P - 1], next seat first).

    `likelihood` (float32 [A]) is a network's prediction of each action, one for all opponents. Only choices that `viewer`
    cannot rule out count, and no two that exclude each other.
    """
    plays[:] = -1


@_optional
def play_foreseen(game: Any, state: State, action: int, plays: np.ndarray) -> None:
    """Play `action` for the player to move and `plays` (as `foresee` wrote them) for the others, to the end of the round.

    Hidden hands are changed so that the plays are possible. Afterwards it is the same player's turn, or the game is over.
    """
    play(game, state, action)


@_optional
def move_value(game: Any, state: State, action: int) -> float:
    """Return how good a legal action looks at first sight to the player to move; larger is better, the scale is the game's."""
    return 0.0


@_optional
def estimate(game: Any, state: State, out: np.ndarray) -> None:
    """Write what the position is worth to each player, by simple features, into `out` (float32 [P]), between -1 and 1.

    For searches that stop before the end of the game: what is won for certain is worth more than any estimate.
    """
    out[:] = 0.0
