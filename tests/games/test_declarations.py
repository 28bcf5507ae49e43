"""The class and the rules of a game are checked at its import, the types of a specification by `check_game`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

import games
from games import core
from games.core import GameSpec, register, rule
from games.reading import Reading
from games.tic_tac_toe import TicTacToe


class _Complete(NamedTuple):
    size: int = 3

    def spec(self) -> GameSpec:
        return TicTacToe().spec()

    def action_name(self, state: np.ndarray, action: int) -> str:
        return str(action)

    def parse_action(self, state: np.ndarray, text: str) -> int:
        return int(text)

    def draw(self, state: np.ndarray) -> str:
        return "board"


def _without(name: str) -> type:
    """Return a copy of the complete class without one method."""
    members = {key: value for key, value in vars(_Complete).items() if key not in {name, "__dict__", "__weakref__"}}
    return type("Board", (tuple,), members)


@pytest.mark.parametrize("method", ["spec", "action_name", "parse_action", "draw"])
def test_a_class_without_a_method_is_not_registered(method: str) -> None:
    with pytest.raises(games.GameContractError, match=rf"Board, registered as the game 'incomplete', has no method {method};"):
        register("incomplete")(_without(method))
    assert "incomplete" not in games.available()


def test_a_parameter_without_a_default_is_named() -> None:
    class Board(NamedTuple):
        size: int
        rows: int

    with pytest.raises(games.GameContractError, match="has no default for size, rows; give every parameter one"):
        register("incomplete")(Board)


@pytest.mark.parametrize("default", [(1, 2), [], None, np.int64(3)])
def test_a_parameter_that_no_text_can_give_is_named_with_its_type(default: object) -> None:
    board = type("Board", (_Complete,), {"_fields": ("walls",), "_field_defaults": {"walls": default}})
    with pytest.raises(
        games.GameContractError, match=rf"has the parameter walls=.* of type {type(default).__name__}; parameters"
    ):
        register("incomplete")(board)
    assert "incomplete" not in games.available()


def test_a_class_that_is_no_named_tuple_is_not_registered() -> None:
    class Board:
        size = 5

    with pytest.raises(games.GameContractError, match=r"is no NamedTuple; write `class Board\(NamedTuple\):`"):
        register("incomplete")(Board)


def test_a_misspelt_rule_is_named_with_all_rules() -> None:
    def legal_action(game: Any, state: np.ndarray, out: np.ndarray) -> int:
        return 0

    with pytest.raises(
        games.GameContractError, match=r"@rule\(_Complete\) is above legal_action, which is no rule; rules: reset, .*estimate"
    ):
        rule(_Complete)(legal_action)


def test_a_rule_with_another_number_of_arguments_is_named_with_both() -> None:
    def to_move(state: np.ndarray) -> int:
        return 0

    expected = r"to_move of _Complete has the arguments \(state\); the rule has \(game, state\)"
    with pytest.raises(games.GameContractError, match=expected):
        rule(_Complete)(to_move)
    assert not core.has_rule(_Complete, "to_move")


MIRROR = TicTacToe().spec().symmetries[0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"planes": (2, 9)}, r"spec\(\).planes is \(2, 9\); it must be a tuple of three ints"),
        ({"planes": [2, 3, 3]}, r"spec\(\).planes is \[2, 3, 3\]; it must be a tuple of three ints"),
        ({"num_actions": 9.0}, r"spec\(\).num_actions is 9.0; it must be an int"),
        ({"state_dtype": np.int64}, r"spec\(\).state_dtype is <class 'numpy.int64'>; it must be a np.dtype"),
        ({"information": "Hidden"}, r"spec\(\).information is 'Hidden'; it must be one of perfect, hidden, simultaneous"),
        ({"lattice": "hex"}, r"spec\(\).lattice is 'hex'; it must be one of square, hexagonal"),
        ({"symmetries": MIRROR}, r"spec\(\).symmetries is a Symmetry; it must be a tuple of Symmetry"),
        ({"symmetries": (MIRROR._replace(name="listed", cells=list(range(9))),)}, "cells of the symmetry 'listed' are not a"),
        ({"action_cells": [[0, 1]] * 9}, r"spec\(\).action_cells is a list; it must be a numpy array, int16 \(9, 2\)"),
        ({"reading": Reading(cells=((1.0,),))}, "must have a row of 2 weights"),
        ({"reading": Reading(cells=())}, "must have a row of 2 weights"),
        ({"reading": Reading(cells=((1.0, 0.0),), position=((1.0, 0.0),))}, "an offset for each number of the position"),
    ],
)
def test_a_specification_of_wrong_types_breaks_law_8(wrong: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _specify(monkeypatch, lambda spec: replace(spec, **wrong))
    with pytest.raises(games.GameContractError, match=said):
        games.check_game(TicTacToe(), games=1)


def test_a_game_of_one_player_is_refused_by_name_and_breaks_law_8(monkeypatch: pytest.MonkeyPatch) -> None:
    _specify(monkeypatch, lambda spec: replace(spec, num_players=1))
    with pytest.raises(games.InvalidParameters, match=r"TicTacToe\(.*\) has one player; games have at least two"):
        games.make("tic_tac_toe")
    with pytest.raises(games.GameContractError, match=r"spec\(\).num_players is 1; it must be between 2 and 127"):
        games.check_game(TicTacToe(), games=1)


def test_a_spec_that_returns_nothing_breaks_law_8(monkeypatch: pytest.MonkeyPatch) -> None:
    _specify(monkeypatch, lambda spec: None)
    with pytest.raises(games.GameContractError, match=r"spec\(\) returned None; it must return a GameSpec"):
        games.check_game(TicTacToe(), games=1)


@pytest.mark.parametrize(
    ("name", "member", "said"),
    [
        (
            "max_positions",
            lambda game: 5478,
            r"max_positions is <bound method .*; it must be an int, as a field or below @property",
        ),
        ("player_marks", lambda game: "X", r"player_marks returned 'X'; it must return a text of 2 characters"),
        ("player_marks", lambda game: ("X", "O"), r"player_marks returned \('X', 'O'\); it must return a text of 2 characters"),
    ],
)
def test_an_optional_member_of_another_form_breaks_law_8(
    name: str, member: Callable[..., Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TicTacToe, name, member)
    with pytest.raises(games.GameContractError, match=said):
        games.check_game(TicTacToe(), games=1)


def _specify(monkeypatch: pytest.MonkeyPatch, change: Callable[[GameSpec], Any]) -> None:
    """Let the game return another specification."""
    changed = change(TicTacToe().spec())
    monkeypatch.setattr(TicTacToe, "spec", lambda game: changed)
