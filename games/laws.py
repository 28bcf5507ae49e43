"""Laws of `games.core` by number, and checks of those that concern a game's static specification."""

from __future__ import annotations

import re
from typing import NoReturn, get_args

import numpy as np

from games import core
from games.core import Game, GameSpec, Information, Lattice, Symmetry
from games.errors import GameContractError, GameError
from games.positions import parameters_text

__all__ = ["LAWS", "OPTIONAL_RULES", "REQUIRED_RULES", "broken", "checked_spec", "is_whole"]

LAWS = {
    1: "`legal_actions` is empty if and only if `is_over`; otherwise distinct actions, ascending, in [0, A), at most L.",
    2: "`reset` writes every entry of `state`. Every rule is deterministic; `play` changes only `state`, which no other rule "
    "changes. A game ends within `max_plies`.",
    3: "`scores` are in [-1, 1] and sum to 0 in two-player games. They are defined only when the game is over. "
    "`standing` and `estimate` are in [-1, 1] at any time, and `estimate` sums to 0 in two-player games.",
    4: '`encode` writes every byte and depends only on information visible to `viewer`, who is always encoded as "me". '
    "The `other_view` of a spec keeps the promises of `games.views`.",
    5: "Equal states have equal keys; positions with different planes or legal actions have different keys.",
    6: "A symmetry maps legal actions to legal actions and planes to planes, and preserves the scores. It "
    "differs from the identity and from the other symmetries.",
    7: "`parse_action(s, action_name(s, a)) == a` for legal `a`, written without space or comma; other text raises "
    "`IllegalMove`.",
    8: "Every required rule exists, `spec` is within bounds, and `make` with the parameters as text returns an equal game.",
    9: "`determinise` resamples only information hidden from `viewer`: the viewer's planes are unchanged, and so are, on the "
    "viewer's turn, the legal actions and the player to move. Secret moves of the current round are undone; until the round "
    "ends, they appear in no view and affect no player's choices. The view and the seed determine the sample; the view alone "
    "determines the plays of `foresee` and the outcome of `play_foreseen`: the same player's turn, or the end of the game.",
    10: "`may_end` is true wherever one legal move, or two in succession, end the game.",
    11: "No rule raises an exception in a position that legal moves reach, and every rule can be compiled.",
    12: "A picture is SVG. `cells` have different ids; an action's path is of such ids and, unless empty, no other begins with "
    "it.",
}
"""Laws by number, identical to the docstring of `games.core`."""

REQUIRED_RULES = ("reset", "to_move", "legal_actions", "play", "is_over", "scores", "encode", "key")
"""Rules of every game; games with hidden information or simultaneous choices define `determinise` as well."""
OPTIONAL_RULES = (
    "standing",
    "repetition_key",
    "round_of",
    "foresee",
    "play_foreseen",
    "may_end",
    "move_value",
    "estimate",
)
"""Rules with a default in `games.core`."""


def broken(game: Game, law: int, what: str, where: str = "") -> NoReturn:
    """Raise `GameContractError` for a broken law, with the observation and the position."""
    raise GameContractError(f"{game} breaks law {law} of games.core: {LAWS[law]}\n{what}{where}")


def checked_spec(game: Game) -> GameSpec:
    """Return the spec after checking law 8 and the form of the symmetries; raises `GameContractError`."""
    spec = game.spec()
    _check_types(game, spec)
    names = REQUIRED_RULES if spec.information == "perfect" else (*REQUIRED_RULES, "determinise")
    if missing := [name for name in names if not core.has_rule(type(game), name)]:
        broken(game, 8, f"no rule for {', '.join(missing)}; define it under @rule({type(game).__name__})")
    bounds = {
        "rules_version": (spec.rules_version, 1, 2**31 - 1),
        "num_players": (spec.num_players, 2, 127),
        "num_actions": (spec.num_actions, 1, 2**15 - 1),
        "max_legal": (spec.max_legal, 1, spec.num_actions),
        "state_size": (spec.state_size, 1, 2**31 - 1),
        "max_plies": (spec.max_plies, 1, 2**31 - 1),
        "planes": (min(spec.planes), 1, 2**31 - 1),
    }
    for name, (value, lowest, highest) in bounds.items():
        if not lowest <= value <= highest:
            broken(game, 8, f"spec().{name} is {value}; it must be between {lowest} and {highest}")
    _check_tables(game, spec)
    if not re.fullmatch("[a-z][a-z0-9_]*", spec.name):
        broken(game, 8, f"the name {spec.name!r} must consist of lower-case letters, digits and underscores")
    try:
        again = core.make(spec.name, **parameters_text(game))
    except GameError as error:
        broken(game, 8, f"make({spec.name!r}, ...) rejected its parameters as text: {error}")
    if type(again) is not type(game) or again != game:
        broken(game, 8, f"make({spec.name!r}, ...) with its parameters as text returned {again}")
    for symmetry in spec.symmetries:
        _check_form(game, spec, symmetry)
    _check_distinct(game, spec)
    _check_other_view(game, spec)
    _check_reading(game, spec)
    _check_members(game, spec)
    return spec


def _check_types(game: Game, spec: GameSpec) -> None:
    """Check the types of the fields on which the other checks rely."""
    if not isinstance(spec, GameSpec):
        broken(game, 8, f"spec() returned {spec!r}; it must return a GameSpec")
    for name in ("rules_version", "num_players", "num_actions", "max_legal", "state_size", "max_plies"):
        if not is_whole(value := getattr(spec, name)):
            broken(game, 8, f"spec().{name} is {value!r}; it must be an int")
    if not isinstance(spec.planes, tuple) or len(spec.planes) != 3 or not all(map(is_whole, spec.planes)):
        broken(game, 8, f"spec().planes is {spec.planes!r}; it must be a tuple of three ints: planes, height and width")
    if not isinstance(spec.state_dtype, np.dtype):
        broken(game, 8, f"spec().state_dtype is {spec.state_dtype!r}; it must be a np.dtype, such as np.dtype(np.int64)")
    for name, words in {"information": get_args(Information), "lattice": get_args(Lattice)}.items():
        if (word := getattr(spec, name)) not in words:
            broken(game, 8, f"spec().{name} is {word!r}; it must be one of {', '.join(words)}")
    if not isinstance(spec.symmetries, tuple) or not all(isinstance(one, Symmetry) for one in spec.symmetries):
        broken(
            game,
            8,
            f"spec().symmetries is a {type(spec.symmetries).__name__}; it must be a tuple of Symmetry, as in `(mirror,)`",
        )


def is_whole(value: object) -> bool:
    """Return whether a value is a whole number of Python or numpy."""
    return isinstance(value, (int, np.integer))


def _check_tables(game: Game, spec: GameSpec) -> None:
    """Check the optional action tables."""
    _, height, width = spec.planes
    wanted = {
        "action_cells": (spec.action_cells, (spec.num_actions, 2), -1, height * width - 1),
        "counters": (spec.counters, (spec.num_actions,), 0, spec.num_actions - 1),
    }
    for name, (entries, shape, lowest, highest) in wanted.items():
        if entries is None:
            continue
        if not isinstance(entries, np.ndarray):
            broken(game, 8, f"spec().{name} is a {type(entries).__name__}; it must be a numpy array, int16 {shape}")
        if entries.dtype != np.int16 or entries.shape != shape:
            broken(game, 8, f"spec().{name} is {entries.dtype} {entries.shape}; it must be int16 {shape}")
        if entries.min() < lowest or entries.max() > highest:
            broken(game, 8, f"spec().{name} has entries outside {lowest} .. {highest}")


def _check_other_view(game: Game, spec: GameSpec) -> None:
    """Check that the other player's view has a source for each plane, in a game of two with perfect information."""
    if spec.other_view is None:
        return
    if spec.num_players != 2 or spec.information != "perfect":
        broken(game, 4, f"{spec.num_players} players with {spec.information} information; other_view is for two with perfect")
    planes, (sources, inverted) = spec.planes[0], (spec.other_view.sources, spec.other_view.inverted)
    if len(sources) != planes or len(inverted) != planes or not all(0 <= source < planes for source in sources):
        broken(game, 4, f"{spec.other_view} must have a source in 0 .. {planes - 1} and a bool for each plane")


def _check_reading(game: Game, spec: GameSpec) -> None:
    """Check that the numbers which a network reads are sums over all planes."""
    if spec.reading is None:
        return
    planes, (cells, position, offsets) = spec.planes[0], (spec.reading.cells, spec.reading.position, spec.reading.offsets)
    if not cells or not all(len(row) == planes for row in (*cells, *position)) or len(offsets) != len(position):
        broken(
            game,
            8,
            f"{spec.reading} must have a row of {planes} weights, one for each plane, for each number of a cell (one at least) "
            "and of the position, and an offset for each number of the position",
        )


def _check_members(game: Game, spec: GameSpec) -> None:
    """Check the optional members that hold a number or a text."""
    if not is_whole(bound := getattr(game, "max_positions", 1)):
        broken(game, 8, f"max_positions is {bound!r}; it must be an int, as a field or below @property")
    named = getattr(game, "player_marks", None)
    if named is not None and (not isinstance(marks := named(), str) or len(marks) != spec.num_players):
        broken(
            game,
            8,
            f"player_marks returned {marks!r}; it must return a text of {spec.num_players} characters, one for each player",
        )


def _check_form(game: Game, spec: GameSpec, symmetry: Symmetry) -> None:
    _, height, width = spec.planes
    wanted = {"cells": (symmetry.cells, height * width, np.int32), "actions": (symmetry.actions, spec.num_actions, np.int16)}
    for name, (image, size, dtype) in wanted.items():
        if not isinstance(image, np.ndarray) or image.dtype != dtype or not np.array_equal(np.sort(image), np.arange(size)):
            broken(
                game,
                6,
                f"{name} of the symmetry {symmetry.name!r} are not a permutation of 0 .. {size - 1} in {dtype.__name__}, "
                "as a numpy array",
            )


def _check_distinct(game: Game, spec: GameSpec) -> None:
    """Check that no symmetry is the identity or another one: positions would be sampled more often under it."""
    _, height, width = spec.planes
    identity = (np.arange(height * width, dtype=np.int32).tobytes(), np.arange(spec.num_actions, dtype=np.int16).tobytes())
    earlier: dict[tuple[bytes, bytes], str] = {}
    for symmetry in spec.symmetries:
        tables = (symmetry.cells.tobytes(), symmetry.actions.tobytes())
        if tables == identity:
            broken(game, 6, f"the symmetry {symmetry.name!r} is the identity; leave it out")
        if tables in earlier:
            broken(game, 6, f"the symmetries {earlier[tables]!r} and {symmetry.name!r} are equal; leave one out")
        earlier[tables] = symmetry.name
