"""Games of agents as records: who sits where, what each move teaches, whose moves teach, and how long a game may be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import games
from games import core
from selfplay_worker.teaching import Teachers, one_hot, shares_of_target
from zerofleet.agents import make_agent
from zerofleet.contracts.played import FULL_SEARCH
from zerofleet.contracts.records import ValidatedGame, decode_record, validate
from zerofleet.errors import ConfigurationError, InvalidRequest
from zerofleet.presets import PRESETS, preset
from zerofleet.presets.warm_start import WarmStartSettings, game_of, numbered_game, seatings_of
from zerofleet.testing import built_in_games

TIC_TAC_TOE = games.make("tic_tac_toe")
STAR = games.make("chinese_checkers_star37")


def played(game: Any, number: int = 0, *, opening_plies: int = 0, **values: Any) -> ValidatedGame:
    """Play a game of a warm start and return its record as a trainer finds it."""
    settings = WarmStartSettings(games=10, **values)
    teachers = Teachers(game, settings, opening_plies=opening_plies)
    numbered = numbered_game(game, settings, run_seed=5, number=number)
    found = teachers.play(numbered)
    assert found is not None
    return validate(decode_record(teachers.record(numbered, found, worker_id="w0")))


def rows(found: ValidatedGame) -> list[tuple[int, list[int], list[float]]]:
    """Return ply, actions and policy of each move that teaches."""
    search = found.search
    parts = zip(search.start[:-1], search.start[1:], strict=True)
    return [
        (int(ply), search.actions[a:b].tolist(), search.policy[a:b].tolist())
        for ply, (a, b) in zip(search.ply, parts, strict=True)
    ]


def test_agents_change_seats_from_game_to_game() -> None:
    settings = WarmStartSettings(agents="alpha_beta:2,random")
    assert seatings_of(TIC_TAC_TOE, settings) == (("alpha_beta:2", "random"), ("random", "alpha_beta:2"))
    seats = [numbered_game(TIC_TAC_TOE, settings, run_seed=1, number=n).agents for n in range(4)]
    assert seats == [*seatings_of(TIC_TAC_TOE, settings)] * 2


def test_one_agent_takes_all_seats_and_equal_agents_have_one_seating() -> None:
    assert seatings_of(STAR, WarmStartSettings()) == (("initialize",) * 3,)
    assert len(seatings_of(STAR, WarmStartSettings(agents="greedy,initialize,initialize"))) == 3


def test_an_option_belongs_to_the_agent_before_it() -> None:
    settings = WarmStartSettings(agents="uct:100,final=visits,c=2, random")
    assert seatings_of(TIC_TAC_TOE, settings)[0] == ("uct:100,final=visits,c=2", "random")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"agents": "random,random,random"}, "names 3 agents, tic_tac_toe has 2 seats"),
        ({"agents": " , "}, "is empty"),
        ({"game_parameters": "size=9"}, "size"),
        ({"game_parameters": "moves_cap=9"}, "has no parameter moves_cap"),
    ],
)
def test_invalid_warm_start_settings_are_refused(values: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Teachers(TIC_TAC_TOE, WarmStartSettings(games=1, **values))


def test_an_agent_that_does_not_exist_or_cannot_play_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no agent is called 'nobody'"):
        Teachers(TIC_TAC_TOE, WarmStartSettings(agents="nobody"))


def test_parameters_may_lengthen_a_game_but_not_change_the_input_of_the_network() -> None:
    longer = game_of(STAR, WarmStartSettings(game_parameters="moves_cap=200"))
    assert longer.spec().max_plies == 600
    with pytest.raises(ConfigurationError, match="changes planes of chinese_checkers_star37"):
        game_of(STAR, WarmStartSettings(game_parameters="move_counter=true"))


@pytest.mark.slow
def test_number_and_seed_determine_a_game_and_its_uid() -> None:
    first, again, other = (played(TIC_TAC_TOE, number, agents="random") for number in (3, 3, 4))
    assert first.record.uid == again.record.uid != other.record.uid
    assert list(first.record.moves) == list(again.record.moves)
    assert first.record.seed == again.record.seed != other.record.seed


def test_settings_that_change_the_games_change_their_uids_and_the_number_of_games_does_not() -> None:
    uids = [
        numbered_game(TIC_TAC_TOE, WarmStartSettings(**values), run_seed=1, number=0).uid
        for values in ({}, {"games": 7, "parallel": 2}, {"agents": "random"}, {"policy": "one_hot"}, {"winner_only": True})
    ]
    assert uids[0] == uids[1]
    assert len(set(uids)) == 4


def test_the_record_names_the_agents_and_no_model() -> None:
    record = played(TIC_TAC_TOE, 1, agents="alpha_beta:2,random").record
    assert list(record.seat_agents) == ["random", "alpha_beta:2"]
    assert list(record.seat_versions) == [0, 0]
    assert {(move.model_version, move.flags, len(move.root_value)) for move in record.searched} == {(0, FULL_SEARCH, 0)}


def test_the_one_hot_target_is_the_played_move() -> None:
    found = played(TIC_TAC_TOE, agents="random", policy="one_hot")
    assert rows(found) == [(ply, [int(found.record.moves[ply])], [1.0]) for ply, *_ in rows(found)]


@pytest.mark.slow
def test_the_target_of_a_policy_agent_is_its_policy() -> None:
    agent = make_agent("initialize", STAR)
    found = played(STAR, game_parameters="moves_cap=4")
    assert rows(found)[0] == (0, games.legal(STAR, games.new_state(STAR)), pytest.approx([0.1] * 10, abs=1e-4))
    for ply, actions, policy in rows(found):
        assert actions == games.legal(STAR, found.states[ply])
        np.testing.assert_allclose(policy, agent.policy(STAR, found.states[ply]), atol=1e-4)


def test_in_one_game_the_targets_depend_on_the_agent_that_moved() -> None:
    found = played(TIC_TAC_TOE, agents="alpha_beta:2,random")
    for ply, actions, policy in rows(found):
        expected = [1.0] if ply % 2 == 0 else pytest.approx([1 / (9 - ply)] * (9 - ply), abs=1e-4)
        assert policy == expected
        assert ply % 2 or actions == [found.record.moves[ply]]


def test_a_position_with_one_legal_move_is_no_sample() -> None:
    drawn = next(found for n in range(50) if len((found := played(TIC_TAC_TOE, n, agents="random")).record.moves) == 9)
    assert [ply for ply, *_ in rows(drawn)] == list(range(8))


def test_with_winner_only_the_samples_are_the_moves_of_the_sole_winner() -> None:
    outcomes = set()
    for number in range(30):
        found = played(TIC_TAC_TOE, number, agents="random", winner_only=True)
        outcomes.add(tuple(found.scores))
        movers = {int(found.movers[ply]) for ply, *_ in rows(found)}
        assert movers == {seat for seat in (0, 1) if found.scores[seat] == 1.0}
    assert outcomes == {(1.0, -1.0), (-1.0, 1.0), (0.0, 0.0)}


def test_a_shared_first_place_has_no_sole_winner() -> None:
    game = games.make("chinese_checkers_star37", moves_cap=1)
    assert rows(played(game, winner_only=True)) == []
    assert len(rows(played(game))) == 3


def test_games_begin_with_random_plies_that_are_not_samples() -> None:
    first = [rows(played(TIC_TAC_TOE, n, agents="random", opening_plies=3))[0][0] for n in range(24)]
    assert set(first) == {0, 1, 2, 3}


@pytest.mark.slow
def test_first_games_of_three_players_need_the_longer_cap() -> None:
    short = [played(STAR, number) for number in range(12)]
    long = [played(STAR, number, game_parameters="moves_cap=200") for number in range(12)]
    assert sum(len(found.record.moves) == 120 for found in short) > 6
    assert all(len(found.record.moves) < 600 for found in long)
    assert all(max(found.scores) == 1.0 for found in long)
    assert {found.record.parameters["moves_cap"] for found in long} == {"200"}


def test_policies_become_integer_units_that_sum_to_one_exactly() -> None:
    for count in (1, 2, 3, 7, 66):
        policy = np.random.default_rng(count).dirichlet(np.full(count, 0.05))
        move = shares_of_target(4, list(range(10, 10 + count)), policy)
        assert int(move.target.astype(np.int64).sum()) == 65535
        assert (move.target > 0).all()
        np.testing.assert_allclose(move.target / 65535, policy[move.actions - 10], atol=2e-4)
    even = shares_of_target(0, list(range(450)), np.full(450, 1 / 450))
    assert sorted(set(even.target.tolist())) == [145, 146]
    assert one_hot(2, 5).visits.tolist() == [1]


def test_a_game_too_long_for_its_policies_is_stored_with_one_hot_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfplay_worker.teaching.MAX_RECORD_BYTES", 400)
    assert all(policy == [1.0] for _, _, policy in rows(played(TIC_TAC_TOE, agents="random")))


def test_a_game_is_abandoned_when_play_is_stopped() -> None:
    settings = WarmStartSettings(games=1, agents="random")
    assert (
        Teachers(TIC_TAC_TOE, settings).play(numbered_game(TIC_TAC_TOE, settings, run_seed=1, number=0), lambda: True) is None
    )


@pytest.mark.slow
def test_dealt_games_are_played_as_they_were_dealt() -> None:
    game = games.make("take_six")
    found = played(game, 2, agents="random")
    assert core.is_over(found.game, found.states[-1])
    assert len({played(game, number, agents="random").record.seed for number in range(3)}) == 3


@pytest.mark.parametrize("size", PRESETS)
@pytest.mark.parametrize("name", built_in_games())
def test_the_agents_of_every_preset_can_play(name: str, size: str) -> None:
    game = games.make(name)
    settings = preset(game, size).warm_start
    assert Teachers(game, settings).game.spec().max_plies >= game.spec().max_plies


@pytest.mark.slow
def test_the_example_of_the_document_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "warm_start.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(example, {})
