"""Value targets: hand-computed games, and a slow second implementation from the definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from games.core import make
from trainer.samples import extract
from zerofleet.contracts.played import FULL_SEARCH
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.contracts.records.samples import random_game
from zerofleet.presets import TrainSettings

UID = "0" * 32
FIRST_WINS = [0, 3, 1, 4, 2]  # the top row, in five plies
ROOT_VALUES = [0.1, 0.2, -0.3, 0.4, 0.5]  # of the first player


def validated(played, **given):
    return validate(decode_record(encode_record(played, worker_id="w", uid=UID, **given)))


def short_game(**changes):
    """A game of tic-tac-toe that the first player wins in five plies, with the root values above."""
    seed = next(s for s in range(100) if len(random_game(make("tic_tac_toe"), s).moves) >= 5)
    drawn = random_game(make("tic_tac_toe"), seed)
    searched = []
    for ply, value in enumerate(ROOT_VALUES):
        legal = np.setdiff1d(np.arange(9), FIRST_WINS[:ply]).astype(np.int32)
        visits, root = np.ones(len(legal), np.int32), np.array([value, -value], np.float32)
        searched.append(
            replace(drawn.searched[ply], actions=legal, visits=visits, target=np.empty(0, np.uint16), root_value=root)
        )
    moves = np.array(FIRST_WINS, np.int32)
    return replace(drawn, moves=moves, searched=tuple(searched), scores=(1.0, -1.0), **changes)


def targets(played, **settings):
    """Value targets for the first player, whichever player is to move."""
    value = extract(played, TrainSettings(**settings)).value
    own = [row[0] if played.movers[ply] == 0 else row[1] for row, ply in zip(value, _sample_plies(played), strict=True)]
    return [float(v) for v in own]


def _sample_plies(played):
    return played.search.ply[(played.search.flags & FULL_SEARCH) != 0]


def test_a_hand_computed_game_has_the_root_values_of_later_moves_and_then_the_result():
    played = validated(short_game())
    n_step = {"search_value_share": 1.0, "search_value": "n_step"}
    assert targets(played, **n_step, search_value_steps=2) == pytest.approx([-0.3, 0.4, 0.5, 1.0, 1.0])
    assert targets(played, **n_step, search_value_steps=0) == pytest.approx(ROOT_VALUES)
    assert targets(played, **n_step, search_value_steps=9) == [1.0] * 5
    half = targets(played, search_value_share=0.5, search_value="n_step", search_value_steps=2)
    assert half == pytest.approx([0.35, 0.7, 0.75, 1.0, 1.0])


def test_a_hand_computed_game_has_the_lambda_returns_of_its_root_values():
    played = validated(short_game())
    wanted = [0.0] * 5
    wanted[4] = 0.5 * 0.5 + 0.5 * 1.0
    wanted[3] = 0.5 * 0.4 + 0.5 * wanted[4]  # 0.575
    wanted[2] = 0.5 * -0.3 + 0.5 * 0.575  # 0.1375
    wanted[1] = 0.5 * 0.2 + 0.5 * 0.1375  # 0.16875
    wanted[0] = 0.5 * 0.1 + 0.5 * 0.16875  # 0.134375
    settings = {"search_value_share": 1.0, "search_value": "lambda"}
    assert targets(played, **settings, search_value_lambda=0.5) == pytest.approx(wanted)
    assert targets(played, **settings, search_value_lambda=0.0) == pytest.approx(ROOT_VALUES)
    assert targets(played, **settings, search_value_lambda=1.0) == pytest.approx([1.0] * 5)


def test_a_hand_computed_quick_win_is_worth_more_near_the_end():
    played = validated(short_game())  # max_plies is 9; the first move is 5 plies before the end
    assert targets(played, quick_win=0.9) == pytest.approx([0.5, 0.6, 0.7, 0.8, 0.9])
    own = targets(played, quick_win=0.9, search_value_share=1.0)
    assert own == pytest.approx(ROOT_VALUES)  # they contain the preference already
    later = targets(played, quick_win=0.9, search_value_share=1.0, search_value="n_step", search_value_steps=2)
    assert later == pytest.approx([-0.3 * 0.8, 0.4 * 0.8, 0.5 * 0.8, 0.8, 0.9])


def test_a_resigned_game_counts_as_ended_by_its_resignation():
    whole = short_game()
    given_up = replace(whole, moves=whole.moves[:3], searched=whole.searched[:3], resigned_seat=1)
    assert targets(validated(given_up), quick_win=0.9) == pytest.approx([0.7, 0.8, 0.9])


def test_moves_searched_with_a_small_budget_contribute_their_root_values():
    whole = short_game()
    searched = tuple(replace(move, flags=0 if move.ply % 2 else FULL_SEARCH) for move in whole.searched)
    played = validated(replace(whole, searched=searched))
    settings = {"search_value_share": 1.0, "search_value": "n_step", "search_value_steps": 1}
    assert targets(played, **settings) == pytest.approx([0.2, 0.4, 1.0])


def test_moves_of_agents_have_the_result_as_target_and_are_skipped_between_root_values():
    whole = short_game(versions=(1, 0))
    searched = tuple(move if move.ply % 2 == 0 else replace(move, model_version=0) for move in whole.searched)
    played = validated(replace(whole, searched=searched), agents=("", "uct:10"))
    settings = {"search_value_share": 1.0, "search_value": "n_step", "search_value_steps": 1}
    assert targets(played, **settings) == pytest.approx([-0.3, 1.0, 0.5, 1.0, 1.0])
    settings = {"search_value_share": 1.0, "search_value": "lambda", "search_value_lambda": 0.5}
    assert targets(played, **settings) == pytest.approx(
        [0.1 / 2 - 0.3 / 4 + 0.5 / 8 + 1 / 8, 1.0, -0.15 + 0.125 + 0.25, 1.0, 0.75]
    )


def slow_targets(played, settings):
    """The definition, one sum at a time, for every player of every sample."""
    search, spec = played.search, played.game.spec()
    known = [m for m in range(len(search.ply)) if search.model_version[m] > 0]
    sequence = [(int(search.ply[m]), search.root_value[m]) for m in known] + [(len(played.movers), played.scores)]
    rows = []
    for m in range(len(search.ply)):
        if not search.flags[m] & FULL_SEARCH:
            continue
        ply, mover = int(search.ply[m]), int(played.movers[search.ply[m]])
        row = []
        for step in range(spec.num_players):
            seat = (mover + step) % spec.num_players

            def worth(entry, ply=ply, seat=seat):
                known_at, value = entry
                return float(value[seat]) * (1 - settings.quick_win * (known_at - ply) / spec.max_plies)

            target = worth(sequence[-1])
            if m in known:
                here, last = known.index(m), len(known)
                if settings.search_value == "root":
                    searched = worth(sequence[here])
                elif settings.search_value == "n_step":
                    searched = worth(sequence[min(here + settings.search_value_steps, last)])
                else:
                    decay = settings.search_value_lambda
                    searched = sum((1 - decay) * decay ** (j - here) * worth(sequence[j]) for j in range(here, last))
                    searched += decay ** (last - here) * worth(sequence[last])
                target = (1 - settings.search_value_share) * target + settings.search_value_share * searched
            row.append(target)
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("game", ["tic_tac_toe", "connect_four", "chinese_checkers_star37"])
@pytest.mark.parametrize("search_value", ["root", "n_step", "lambda"])
def test_targets_equal_a_slow_second_implementation(game, search_value):
    rng = np.random.default_rng(0)
    for seed in range(3):
        whole = random_game(make(game), seed)
        kept = [move for move in whole.searched if rng.random() < 0.8]  # openings and others have no search
        searched = tuple(replace(move, flags=FULL_SEARCH if rng.random() < 0.5 else 0) for move in kept)
        played = validated(replace(whole, searched=searched))
        for quick_win in (0.0, 0.7):
            settings = TrainSettings(
                search_value=search_value,
                search_value_share=0.6,
                search_value_steps=3,
                search_value_lambda=0.85,
                quick_win=quick_win,
            )
            value = extract(played, settings).value
            np.testing.assert_allclose(value, slow_targets(played, settings), atol=1e-6)
            assert np.abs(value).max() <= 1.0
