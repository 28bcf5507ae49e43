"""Samples of games with secret choices: what the others chose in the same round, and what would have beaten it."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.core import Game
from trainer.samples import extract
from zerofleet.contracts.records import ValidatedGame, decode_record, encode_record, validate
from zerofleet.contracts.records.samples import random_game
from zerofleet.presets import TrainSettings

CARDS = games.make("take_six", players=3)
DUEL = games.make("rock_paper_scissors", turns=6)


def validated(game: Game, seed: int = 3) -> ValidatedGame:
    return validate(decode_record(encode_record(random_game(game, seed), worker_id="w", uid="0" * 32)))


@pytest.mark.parametrize("game", [CARDS, DUEL])
def test_opponents_choices_of_a_round_are_listed_by_distance_in_seats(game: Game) -> None:
    played = validated(game)
    samples = extract(played, TrainSettings())
    players = game.spec().num_players
    rounds = [core.round_of(game, state) for state in played.states[:-1]]
    for row, ply in enumerate(played.search.ply):
        wanted = np.full(players - 1, -1)
        for other, round_number in enumerate(rounds):
            if round_number == rounds[ply] >= 0 and played.movers[other] != played.movers[ply]:
                wanted[(played.movers[other] - played.movers[ply]) % players - 1] = played.record.moves[other]
        assert samples.opponents[row].tolist() == wanted.tolist()
        assert (samples.opponents[row] >= 0).all() == (rounds[ply] >= 0)


def test_the_counter_target_is_the_action_that_beats_the_other_choice() -> None:
    played = validated(DUEL)
    samples = extract(played, TrainSettings(policy_target="counter"))
    beats = {0: 1, 1: 2, 2: 0}  # rock is beaten by paper, and so on
    for row in range(len(samples)):
        wanted = [float(action == beats[int(samples.opponents[row, 0])]) for action in range(3)]
        assert samples.policy[row].tolist() == wanted


def test_the_encoding_for_the_mover_does_not_depend_on_other_hands() -> None:
    played = validated(CARDS)
    samples = extract(played, TrainSettings())
    for row, ply in enumerate(played.search.ply):
        other = np.zeros_like(played.states[ply])
        mover = int(played.movers[ply])
        core.determinise(CARDS, played.states[ply], mover, 99, other)
        np.testing.assert_array_equal(samples.states[row], games.encode_for(CARDS, other, mover))
