"""Contract of a game: a parameter tuple, a static specification, and compiled rules.

A game is a `NamedTuple` of its parameters (`ConnectFour(rows=6, columns=7, connect=4)`). A position is a flat vector
(`state`), read and updated by a few functions, the rules. Search, encoding, validation and drawing share them, so there
is one implementation, in the subset of Python that numba compiles.

    @register("my_game")                    makes the class available as `games.make("my_game", size=5)`
    class MyGame(NamedTuple):
        size: int = 5
        def spec(self) -> GameSpec: ...     static specification
        def action_name(...), parse_action(...), draw(...)       human-readable forms; ordinary Python

    @rule(MyGame)                           one for each function below, under the same name
    def play(game, state, action): ...

Axes: S state entries, A actions, L maximum number of legal actions of any position, P players, C x H x W planes.
Laws (tested by `check_game` on random games):

  1. `legal_actions` is empty if and only if `is_over`; otherwise distinct actions, ascending, in [0, A), at most L.
  2. `reset` writes every entry of `state`. Every rule is deterministic; `play` changes only `state`, which no other rule
     changes. A game ends within `max_plies`.
  3. `scores` are in [-1, 1] and sum to 0 in two-player games. They are defined only when the game is over. `standing` and
     `estimate` are in [-1, 1] at any time, and `estimate` sums to 0 in two-player games.
  4. `encode` writes every byte and depends only on information visible to `viewer`, who is always encoded as "me".
     The `other_view` of a spec keeps the promises of `games.views`.
  5. Equal states have equal keys; positions with different planes or legal actions have different keys.
  6. A symmetry maps legal actions to legal actions and planes to planes, and preserves the scores. It differs from
     the identity and from the other symmetries.
  7. `parse_action(s, action_name(s, a)) == a` for legal `a`, written without space or comma; other text raises `IllegalMove`.
  8. Every required rule exists, `spec` is within bounds, and `make` with the parameters as text returns an equal game.
  9. `determinise` resamples only information hidden from `viewer`: the viewer's planes are unchanged, and so are, on the
     viewer's turn, the legal actions and the player to move. Secret moves of the current round are undone; until the round
     ends, they appear in no view and affect no player's choices. The view and the seed determine the sample; the view alone
     determines the plays of `foresee` and the outcome of `play_foreseen`: the same player's turn, or the end of the game.
 10. `may_end` is true wherever one legal move, or two in succession, end the game.
 11. No rule raises an exception in a position that legal moves reach, and every rule can be compiled.
 12. A picture is SVG. `cells` have different ids; an action's path is of such ids and, unless empty, no other begins with it.

Optional rules, from `standing` on, have the defaults defined below.

Polymorphism: a call of `play(game, ...)` in compiled code selects the rule by the *type* of `game` when the caller is
compiled (numba's `@overload`), so a kernel compiles once per game class and serves every board size.
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
from games.compiled import BODY_OPTIONS, INTERPRETED, compiled
from games.declarations import require_game_class, require_opponent, require_rule
from games.errors import InvalidParameters, UnknownGame
from games.parameters import Choices, converted, in_words
from games.reading import Reading, num_inputs
from games.views import OtherView

State: TypeAlias = np.ndarray  # spec.state_dtype [S]
Information: TypeAlias = Literal["perfect", "hidden", "simultaneous"]
Lattice: TypeAlias = Literal["square", "hexagonal"]

ENTRY_POINT_GROUP = "zerofleet.games"
"""Entry point group under which packages offer games: name of the game, and the module that registers it."""


class Symmetry(NamedTuple):
    """Relabelling of cells and actions that leaves the game unchanged."""

    name: str
    cells: np.ndarray  # int32 [H*W]; cell i of the image is cell cells[i] of the original
    actions: np.ndarray  # int16 [A]; action a becomes action actions[a]


@dataclass(frozen=True, slots=True)
class GameSpec:
    """Static specification of a game with given parameters."""

    name: str
    rules_version: int
    """Version, incremented if and only if the rules or the meaning of an action change."""
    num_players: int  # 2 to 127
    num_actions: int
    max_legal: int
    """L: upper bound on the number of legal actions in any position."""
    state_dtype: np.dtype[Any]
    state_size: int
    planes: tuple[int, int, int]
    """Shape (C, H, W) of the encoded position."""
    max_plies: int
    symmetries: tuple[Symmetry, ...] = ()
    """Symmetries, excluding the identity."""
    information: Information = "perfect"
    """`hidden`: dealt information is partly private; `simultaneous`: only the moves of a round are secret, until it ends."""
    lattice: Lattice = "square"
    """Adjacency of the cells of a plane. `hexagonal`: the neighbours of (y, x) are (y, x +- 1), (y +- 1, x), (y - 1, x + 1) and
    (y + 1, x - 1); a plane of the encoding marks the on-board cells of the H x W rectangle."""
    action_cells: np.ndarray | None = None
    """Int16 [A, 2]: source and target cells (y * W + x) of each action, -1 if absent, for networks that score moves by their
    two cells. None where actions are not such moves. Cells are in the view that `encode` gives to the player to move."""
    repeats: bool = False
    """Whether positions can recur within a game (`repetition_key`)."""
    counters: np.ndarray | None = None
    """Int16 [A]: the action that beats each action, in games where each round is one simultaneous choice; else None."""
    score_parameters: tuple[str, ...] = ()
    """Names of the parameters that change `scores` alone, which are no part of a model's identity (`model_parameters`)."""
    reading: Reading | None = None
    """Numbers that a network reads in place of the planes' bits; None: the bits."""
    other_view: OtherView | None = None
    """How the planes become those of the player who is not to move, with the promises of `games.views`; None: not known."""

    @property
    def num_inputs(self) -> int:
        """Number of inputs of a network without a board."""
        return num_inputs(self.planes, self.reading)

    @property
    def packed_bytes(self) -> int:
        """Size of one encoded position in bytes: C*H*W bits, padded to whole bytes."""
        channels, height, width = self.planes
        return (channels * height * width + 7) // 8


class Game(Protocol):
    """Python interface of a game class, besides its compiled rules. The fields of the tuple are the parameters."""

    def spec(self) -> GameSpec:
        """Return the static specification; raises `InvalidParameters` if a parameter is out of range."""
        ...

    def action_name(self, state: State, action: int) -> str:
        """Return the notation of a legal action, such as `d1`."""
        ...

    def parse_action(self, state: State, text: str) -> int:
        """Return the action written as `text`; raises `IllegalMove` listing the legal ones."""
        ...

    def draw(self, state: State) -> str:
        """Return a multi-line text drawing of the position, without colours.

        A game may also define `draw_svg` (`games.kit.svg`), `cells` and `action_path` (`games.kit.cells`), with hidden hands
        `draw_for(self, state, viewer) -> str`, and `player_marks(self) -> str`, the players' characters by seat.
        """
        ...

    def _asdict(self) -> dict[str, Any]: ...


GameClass = TypeVar("GameClass", bound=type)
Rule = TypeVar("Rule", bound=Callable[..., Any])

_CLASSES: dict[str, Any] = {}
_CHOICES: dict[type, Choices] = {}
_RULES: dict[str, dict[type, Callable[..., Any]]] = {}
_ARGUMENTS: dict[str, list[str]] = {}


def register(name: str, *, choices: Choices | None = None) -> Callable[[GameClass], GameClass]:
    """Register a game class under `name` for `make` and `available` (decorator); raises `GameContractError` if incomplete.

    `choices`: words of the integer parameters that are one of a few (`games.parameters`); their default is 0.
    """

    def add(cls: GameClass) -> GameClass:
        require_game_class(name, cls)
        _CLASSES[name] = cls
        _CHOICES[cls] = choices or {}
        return cls

    return add


def available() -> tuple[str, ...]:
    """Return the names of all games that `make` accepts, sorted: registered ones and those offered by packages."""
    return tuple(sorted({*_CLASSES, *_offered()}))


def is_available(name: str) -> bool:
    """Return whether `make` accepts this name; packages are searched, in about 10 ms, for one that is not registered yet."""
    return name in _CLASSES or name in _offered()


def parameters_of(name: str) -> dict[str, Any]:
    """Return the parameters of a game with their defaults, words as text; raises `UnknownGame`."""
    return parameters_in(_class_of(name)())


def parameters_in(game: Game) -> dict[str, Any]:
    """Return all parameters of a game, words as text."""
    return in_words(game._asdict(), choices_of(game))


def choices_of(game: Game) -> Choices:
    """Return the words of each parameter of a game that is one of a few; the first is the default."""
    return _CHOICES.get(type(game), {})


def make(name: str, /, **parameters: Any) -> Game:
    """Return a game by name. Parameter values may be text, as on a command line or in a record.

    Raises `UnknownGame` or `InvalidParameters`; both messages state the valid choices.
    """
    cls = _class_of(name)
    defaults: dict[str, Any] = cls()._asdict()
    if unknown := sorted(set(parameters) - set(defaults)):
        raise InvalidParameters(f"{name} has no parameter {', '.join(unknown)}; expected {', '.join(defaults) or 'none'}")
    choices = _CHOICES.get(cls, {})
    game: Game = cls(**{key: converted(name, key, value, defaults[key], choices) for key, value in parameters.items()})
    require_opponent(game)
    return game


def _class_of(name: str) -> Any:
    if name not in _CLASSES and (offer := _offered().get(name)):
        try:
            offer.load()  # importing the module registers the game
        except Exception as error:
            raise UnknownGame(f"the game {name!r} cannot be loaded from {offer.value!r}: {error!r}") from error
        if name not in _CLASSES:
            raise UnknownGame(f"{offer.value!r} is offered as the game {name!r} but registers no game of that name")
    if name not in _CLASSES:
        raise UnknownGame(f"no game is called {name!r}; available: {', '.join(available())}")
    return _CLASSES[name]


def _offered() -> dict[str, EntryPoint]:
    """Return the games that installed packages offer, by name."""
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def _optional(stub: Rule) -> Rule:
    """Return the dispatcher of an optional rule, with the stub as its default implementation."""
    return _generic(stub, fallback=compiled(stub))


def _generic(stub: Rule, fallback: Callable[..., Any] | None = None) -> Rule:
    """Return a function, documented by the stub, that calls the rule registered for the type of its first argument."""
    name = stub.__name__
    rules = _RULES.setdefault(name, {})
    _ARGUMENTS[name] = list(inspect.signature(stub).parameters)

    def dispatch(game: Any, *arguments: Any) -> Any:
        found = rules.get(type(game), fallback)
        if found is None:
            raise NotImplementedError(f"{type(game).__name__} has no rule {name}; define it under @rule({type(game).__name__})")
        return found(game, *arguments)

    dispatch.__name__, dispatch.__qualname__, dispatch.__doc__, dispatch.__module__ = name, name, stub.__doc__, stub.__module__

    def choose(game: Any, *arguments: Any) -> Callable[..., Any] | None:
        cls = getattr(game, "instance_class", None) if isinstance(game, types.BaseNamedTuple) else None
        chosen = rules.get(cls, fallback) if cls is not None else None
        return None if chosen is None else getattr(chosen, "py_func", chosen)

    choose.__signature__ = inspect.signature(stub)  # type: ignore[attr-defined]
    if not INTERPRETED:
        options: Any = {"error_model": "numpy", "_nrt": True, **BODY_OPTIONS}  # numba's stubs lack _nrt
        overload(dispatch, strict=False, jit_options=options)(choose)
    return dispatch  # type: ignore[return-value]


def rule(cls: type) -> Callable[[Rule], Rule]:
    """Register a compiled function as the rule of its name for `cls` (decorator); raises `GameContractError`."""

    def add(function: Rule) -> Rule:
        require_rule(cls, function, _ARGUMENTS)
        add_rule(cls, function)
        _RULES[function.__name__][cls] = fast = compiled(function)
        return fast

    return add


def has_rule(cls: type, name: str) -> bool:
    """Return whether the game class `cls` defines a rule called `name`."""
    return cls in _RULES.get(name, {})


@_generic
def reset(game: Any, state: State, seed: int) -> None:
    """Write the starting position into `state`; `seed` determines chance events at the start, such as a deal."""


@_generic
def to_move(game: Any, state: State) -> int:
    """Return the player to move, 0 .. P-1."""
    return 0


@_generic
def legal_actions(game: Any, state: State, out: np.ndarray) -> int:
    """Write the legal actions into `out` (int16 [L]), ascending, and return their number; 0 only when over."""
    return 0


@_generic
def play(game: Any, state: State, action: int) -> None:
    """Play a legal action in place. The caller ensures legality; `games.advance` checks it."""


@_generic
def is_over(game: Any, state: State) -> bool:
    """Return whether the game has ended."""
    return False


@_generic
def scores(game: Any, state: State, out: np.ndarray) -> None:
    """Write each player's final score into `out` (float32 [P]), in [-1, 1]."""


@_generic
def encode(game: Any, state: State, viewer: int, out: np.ndarray) -> None:
    """Write the planes visible to `viewer`, bit-packed, into `out` (uint8 [packed_bytes]).

    Bit `c*H*W + y*W + x` of plane c, row y, column x is in byte `bit >> 3` at position `bit & 7` (least significant first).
    """


@_generic
def key(game: Any, state: State) -> np.uint64:
    """Return a 64-bit hash key of the position: equal for equal positions, well mixed otherwise."""
    return np.uint64(0)


@_generic
def determinise(game: Any, state: State, viewer: int, seed: int, out: State) -> None:
    """Write a position indistinguishable from `state` to `viewer` into `out`, with hidden information resampled by `seed`."""


@_optional
def standing(game: Any, state: State, out: np.ndarray) -> None:
    """Write each player's score if the game were stopped here into `out` (float32 [P]), in [-1, 1].

    The search backs it up for a recurring position: players get credit only for achieved results.
    """
    out[:] = 0.0


@_optional
def repetition_key(game: Any, state: State) -> np.uint64:
    """Return the 64-bit key that identifies recurring positions; it includes the player to move, but no ply count."""
    return key(game, state)


@_optional
def round_of(game: Any, state: State) -> int:
    """Return the number of the current round, or -1 if the choice of the player to move is not secret.

    Players in the same round do not see each other's choices.
    """
    return -1


@_optional
def foresee(game: Any, state: State, viewer: int, likelihood: np.ndarray, plays: np.ndarray) -> None:
    """Write the likeliest choices of `viewer`'s opponents in this round into `plays` (int16 [P - 1], next seat first).

    `likelihood` (float32 [A]) is a network's prediction for each action, shared by all opponents. Only choices that `viewer`
    cannot rule out are considered, and no mutually exclusive ones.
    """
    plays[:] = -1


@_optional
def play_foreseen(game: Any, state: State, action: int, plays: np.ndarray) -> None:
    """Play `action` for the player to move and `plays` (as `foresee` wrote them) for the others, to the end of the round.

    Hidden hands are changed to make the plays possible. Afterwards it is the same player's turn, or the game is over.
    """
    play(game, state, action)


@_optional
def may_end(game: Any, state: State, plies: int) -> bool:
    """Return whether the game may end within `plies` (1 or 2) moves of a position that is not over; False must be certain.

    The search looks for wins in one before it evaluates a position, at every node of a game that has this rule and at the
    root of any other. The test should cost far less than listing and playing the legal moves.
    """
    return True


@_optional
def move_value(game: Any, state: State, action: int) -> float:
    """Return a heuristic value of a legal action for the player to move; larger is better, on a game-specific scale."""
    return 0.0


@_optional
def estimate(game: Any, state: State, out: np.ndarray) -> None:
    """Write a heuristic value for each player, between -1 and 1 and below a certain win, into `out` (float32 [P])."""
    out[:] = 0.0
