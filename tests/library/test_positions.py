"""Positions of the library: moves, pictures in a notebook, and what a picture leaves out."""

from __future__ import annotations

import re
from typing import Any

import pytest

import games
import zerofleet as zf
from games import GameError, InvalidParameters
from games.kit import svg
from zerofleet.contracts.wire.records_pb2 import GameRecord
from zerofleet.library.runs import _stored_game

PLIES = 3  # of Take 6!: two rounds of two players, the second of which is in progress


def other_hand(position: zf.Position) -> set[str]:
    """Return the cards that the game's own text without a viewer adds to the view of a seat."""
    whole, seen = (set(re.findall(r"\b\d+\b", text)) for text in (position.game.draw(position.state), str(position)))
    return whole - seen


def texts(picture: str) -> set[str]:
    """Return the words that a picture shows."""
    return set(re.findall(r">([^<>]+)</text>", picture))


def test_a_position_is_drawn_by_its_game() -> None:
    position = zf.position("tic_tac_toe", ["b2", "a1"])
    assert position._repr_svg_() == svg.picture(position.game, position.state)
    assert str(position) == position.game.draw(position.state)
    assert repr(position) == "<Position of tic_tac_toe after 2 moves>"


def test_moves_lead_from_a_position_to_the_next_and_to_the_end() -> None:
    first = zf.position("tic_tac_toe")
    assert (first.to_move, first.is_over, first.scores, len(first.legal())) == (0, False, None, 9)
    last = first.play("b2", "a1", "a2").play("c1", "c2")
    assert last.moves == ("b2", "a1", "a2", "c1", "c2")
    assert (last.is_over, last.scores, last.legal()) == (True, (1.0, -1.0), [])
    assert first.moves == ()
    assert last == zf.position(first.game, "b2, a1, a2, c1, c2")


def test_wrong_moves_and_seats_are_refused() -> None:
    with pytest.raises(GameError, match="move 2: "):
        zf.position("tic_tac_toe", ["b2", "b2"])
    with pytest.raises(GameError, match="between 0 and 1, got viewer=2"):
        zf.position("tic_tac_toe", viewer=2)
    for seed in (-1, 1 << 63):
        with pytest.raises(InvalidParameters, match=f"seed={seed} is out of range"):
            zf.position("take_six", seed=seed)
    with pytest.raises(GameError, match="no game is called"):
        zf.position("tictactoe")


@pytest.mark.slow
@pytest.mark.parametrize("viewer", [0, 1])
def test_a_picture_contains_no_card_of_another_hand(viewer: int) -> None:
    game = games.make("take_six", players=2)
    position = zf.position(game, seed=7, viewer=viewer)
    for _ in range(PLIES):
        position = position.play(position.legal()[0])
    hidden = other_hand(position)
    assert len(hidden) >= 8
    for text in (position._repr_svg_() or "", str(position)):
        assert not hidden & set(re.findall(r"\b\d+\b", " ".join(texts(text) or {text})))
    assert hidden <= set(re.findall(r"\b\d+\b", " ".join(texts(svg.picture(game, position.state)))))


@pytest.mark.slow
def test_by_default_a_picture_is_that_of_the_player_to_move() -> None:
    position = zf.position(games.make("take_six", players=2), seed=7)
    later = position.play(position.legal()[0])
    assert (position.to_move, later.to_move) == (0, 1)
    assert later._repr_svg_() == later.seen_by(1)._repr_svg_() != later.seen_by(0)._repr_svg_()
    assert repr(later).endswith("after 1 move, seen by player 2>")


@pytest.mark.slow
def test_a_game_that_does_not_draw_the_view_of_a_player_has_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    game: Any = games.make("take_six", players=2)
    monkeypatch.delattr(type(game), "draw_for")
    position = zf.position(game, seed=7)
    assert position._repr_svg_() is None
    assert str(position) == repr(position)


def test_a_stored_game_is_drawn_at_its_end_and_at_every_ply() -> None:
    record = GameRecord(uid="ab", game="tic_tac_toe", moves=[4, 0, 3], scores=[1.0, -1.0], seat_versions=[1, 2], seed=5)
    stored = _stored_game(record)
    assert stored.position() == zf.position("tic_tac_toe", stored.moves, seed=5)
    assert stored._repr_svg_() == stored.position(3)._repr_svg_() != stored.position(2)._repr_svg_()
    assert stored.position(0).moves == ()
