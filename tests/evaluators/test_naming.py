"""Names on the wire."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

import games
from games import core
from games.core import GameSpec, make
from zerofleet.contracts.naming import is_version, model_name, parse_version, require_model_name
from zerofleet.errors import InvalidRequest


class Odd(NamedTuple):
    """A game with parameters that do not fit into a name as they are."""

    rows: int = 3
    variant: str = "plain"
    share: float = 0.5

    def spec(self) -> GameSpec:
        any_spec: Any = make("tic_tac_toe").spec()
        return GameSpec(**{**{f: getattr(any_spec, f) for f in GameSpec.__slots__}, "name": "naming_test_game"})


class Alike(NamedTuple):
    """A game whose parameters have names that begin alike."""

    size: int = 1
    size2: int = 1
    size2_b: int = 1
    text: str = "x"
    b: int = 1

    def spec(self) -> GameSpec:
        return replace(make("tic_tac_toe").spec(), name="alike")


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    monkeypatch.setitem(core._CLASSES, "naming_test_game", Odd)
    monkeypatch.setitem(core._CLASSES, "alike", Alike)


def test_a_game_with_its_defaults_gives_its_name_to_the_model():
    assert model_name(make("connect_four")) == "connect_four"


def test_parameters_that_differ_from_their_defaults_are_spelt_out():
    assert model_name(make("connect_four", rows=6, columns=25)) == "connect_four_columns25"
    assert model_name(Odd(rows=4)) == "naming_test_game_rows4"


def test_parameters_that_change_the_scores_alone_are_not_part_of_the_name():
    assert model_name(make("rock_paper_scissors", score="margin")) == "rock_paper_scissors"
    assert model_name(make("rock_paper_scissors", turns=50, score="margin")) == "rock_paper_scissors_turns50"


def test_what_does_not_fit_is_cut_and_still_told_apart():
    names = [
        model_name(Odd(variant=text, share=share)) for text in ("Big", "big", "x" * 100, "x" * 101) for share in (0.25, 1.5)
    ]
    assert len(set(names)) == len(names)
    for name in names:
        assert require_model_name(name) == name


def test_names_that_could_be_read_as_other_parameters_are_told_apart():
    numbers, texts = (1, 2, 3, 22, 23), ("x", "", "x_b2", "x_b", "x_b2_b3", "b2")
    games_ = [Alike(*values) for values in itertools.product(numbers, numbers, numbers, texts, numbers)]
    names = [model_name(game) for game in games_]
    assert len(set(names)) == len(names)
    assert model_name(Alike(size=23)).startswith("alike_size23_")
    assert model_name(Alike(size2=3)) == "alike_size23"
    assert model_name(Alike(size=5, b=2)) == "alike_size5_b2"
    assert all(require_model_name(name) == name for name in names)


@pytest.mark.parametrize(
    ("game", "name"),
    [
        (make("tic_tac_toe", encoding="one_hot"), "tic_tac_toe_encodingone_hot"),
        (make("take_six", rows=5, row_choice="after"), "take_six_rows5_row_choiceafter"),
        (make("chinese_checkers", players=3, places=True), "chinese_checkers_players3_placestrue_784ff477"),
    ],
)
def test_names_of_stored_models_do_not_change(game, name):
    assert model_name(game) == name


def test_no_parameter_of_a_built_in_game_is_read_as_another():
    built_in = [game for game in map(make, games.available()) if type(game).__module__.startswith("games.")]
    assert built_in
    for game in built_in:
        assert not [pair for pair in itertools.permutations(game._asdict(), 2) if pair[1].startswith(pair[0])]


@pytest.mark.parametrize("name", ["", "../az", "az/../az", "az\0", "Az", "a-z", "\u0430z", "1az", "_az", "a" * 64, "az\n"])
def test_what_is_no_model_name_is_refused(name):
    with pytest.raises(InvalidRequest, match="want a lower-case letter"):
        require_model_name(name)


def test_a_long_name_is_not_repeated_in_full():
    with pytest.raises(InvalidRequest) as caught:
        require_model_name("x" * 5000)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("text", ["0", "-1", "01", "1e3", "+1", "1 ", "\uff11", "", "1.0", str(2**63), "9" * 400])
def test_what_is_no_version_is_refused(text):
    with pytest.raises(InvalidRequest, match="is not a version"):
        parse_version(text)


def test_versions_are_read():
    assert [parse_version(text) for text in ("1", "17", str(2**63 - 1))] == [1, 17, 2**63 - 1]


@pytest.mark.parametrize(
    ("text", "is_one"), [("1", True), (str(2**63 - 1), True), (str(2**63), False), ("0", False), ("01", False), ("v1", False)]
)
def test_stores_and_requests_agree_on_what_a_version_is(text, is_one):
    assert is_version(text) == is_one
    if not is_one:
        with pytest.raises(InvalidRequest):
            parse_version(text)
