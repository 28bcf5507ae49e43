"""The other player's view: restored from the bits of the view of the player to move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from games import check_game, positions
from games.core import Game, make
from games.errors import GameContractError
from games.views import OtherView, first_to_move, seen_by_first

GAMES = [
    make("tic_tac_toe"),
    make("tic_tac_toe", encoding="one_hot"),
    *(make("connect_four", encoding=encoding) for encoding in ("planes", "naive", "extended", "feature")),
    make("connect_four", columns=25, encoding="feature"),
]


def played(game: Game, seed: int) -> list[tuple[np.ndarray, int]]:
    """Positions of a random game, each with its player to move."""
    rng = np.random.default_rng(seed)
    found, moves = [], list[int]()
    while True:
        state = positions.replay(game, moves)
        legal = positions.legal(game, state)
        if not len(legal):
            return found
        found.append((state, len(moves) % 2))
        moves.append(int(rng.choice(legal)))


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_the_first_players_view_follows_from_the_bits_that_the_player_to_move_sees(game: Game) -> None:
    spec = game.spec()
    assert spec.other_view is not None
    found = [one for seed in range(3) for one in played(game, seed)]
    size = int(np.prod(spec.planes))

    def planes(viewers: list[int]) -> np.ndarray:
        packed = [positions.encode_for(game, state, seat) for (state, _), seat in zip(found, viewers, strict=True)]
        return np.unpackbits(np.array(packed), axis=1, count=size, bitorder="little").reshape(-1, *spec.planes)

    movers = [mover for _, mover in found]
    as_sent = planes(movers)
    np.testing.assert_array_equal(first_to_move(as_sent), [mover == 0 for mover in movers])
    np.testing.assert_array_equal(seen_by_first(as_sent, spec.other_view), planes([0] * len(found)))
    assert set(movers) == {0, 1}


@pytest.mark.parametrize(
    ("name", "other", "fault"),
    [
        ("tic_tac_toe", OtherView((0, 1), (False, False)), "the planes that the first player sees are not those"),
        ("tic_tac_toe", OtherView((1, 0), (False, True)), "the planes that the first player sees are not those"),
        ("tic_tac_toe", OtherView((1, 2), (False, False)), r"must have a source in 0 \.\. 1"),
        ("tic_tac_toe", OtherView((1,), (False,)), r"must have a source in 0 \.\. 1"),
        ("chinese_checkers_rhombus", OtherView((1, 0), (False, False)), r"have \[.*\] stones, and to_move is"),
        ("take_six", OtherView((1, 0), (False, False)), "other_view is for two with perfect"),
    ],
)
def test_a_wrong_view_of_the_other_player_is_found(
    name: str, other: OtherView, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    game = make(name)
    spec = replace(game.spec(), other_view=other)
    monkeypatch.setattr(type(game), "spec", lambda _self: spec)
    with pytest.raises(GameContractError, match=fault):
        check_game(game)
