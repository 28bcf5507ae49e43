"""Labels from records, the held-out split, and the measures on held-out games."""

import numpy as np
import pytest
from outcome_at_work import ALL_LEARN, GAME, decided, learn_from, learner_of, play, read, same, valid, weights_of

from games import core, positions
from selfplay_worker.opposition import make_opponents
from trainer.learners.outcome.labels import is_held_out
from trainer.learners.outcome.measures import measure
from zerofleet.contracts.played import EXPLORATORY
from zerofleet.contracts.records import decode_record, encode_record
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.search.afterstates.settings import AfterstateSettings


def test_the_moves_of_an_opposing_agent_are_labelled_too_and_those_of_a_random_opening_are_not(records):
    block = AfterstateBlock(
        GAME,
        AfterstateSettings(policy="greedy", opponents=("random",), learner_seat="first"),
        slots=12,
        opponents=make_opponents(GAME, AfterstateSettings(opponents=("random",), learner_seat="first")),
    )
    for slot in range(12):
        block.begin(slot, seed=slot, versions=[1, 1], opening=[4, 0])
    while len(block.finished()) < 12:
        block.absorb(np.empty(0), np.zeros((len(block.advance().batch), 2), dtype=np.float32))
    games = [encode_record(block.take(slot), worker_id="w", uid=f"{slot:032x}") for slot in range(12)]
    record = decided(games, won_by=0)
    played = valid(record)
    assert set(played.search.ply.tolist()) == set(range(2, len(played.record.moves), 2))  # the model's moves alone
    found = read(record, **ALL_LEARN)
    assert len(found) == len(played.record.moves) - 1 - 2
    for row in range(len(found)):
        ply = 3 + row
        np.testing.assert_array_equal(found.states[row], positions.encode_for(GAME, played.states[ply], ply % 2))
        assert found.labels[row] == (1.0 if ply % 2 == 0 else 0.0)


@pytest.mark.parametrize("winner", [0, 1])
def test_positions_after_moves_are_labelled_with_the_chance_of_their_player_to_move(records, winner):
    record = decided(records, won_by=winner)
    played = valid(record)
    found = read(record, **ALL_LEARN)
    plies = len(played.record.moves)
    assert len(found) == plies - 1  # the last move ends the game, which the rules decide
    for row in range(plies - 1):
        to_move = (row + 1) % 2
        assert found.labels[row] == (1.0 if to_move == winner else 0.0)
        np.testing.assert_array_equal(found.states[row], positions.encode_for(GAME, played.states[row + 1], to_move))


def test_one_side_learns_from_the_moves_of_one_seat_that_the_record_names_or_its_seed_draws(records):
    record = decided(records, won_by=0)
    seed = decode_record(record).seed
    labels = read(record, held_out_share=0.0, sides="one").labels
    assert set(labels.tolist()) == {0.0 if seed % 2 == 0 else 1.0}  # after a move of the winner the other is to move
    for seat, name in enumerate(("first", "second")):
        named = decided(play(40, learner_seat=name), won_by=0)
        assert set(read(named, held_out_share=0.0, sides="one").labels.tolist()) == {float(seat)}


def test_all_legal_moves_have_the_label_of_the_move_that_was_played(records):
    record = decided(records, won_by=1)
    played = valid(record)
    found = read(record, **ALL_LEARN, labels="all")
    wanted, labels = [], []
    for ply in range(len(played.record.moves)):
        for action in positions.legal(GAME, played.states[ply]):
            after = played.states[ply].copy()
            core.play(GAME, after, action)
            if not core.is_over(GAME, after):
                wanted.append(positions.encode_for(GAME, after, 1 - ply % 2))
                labels.append(float(ply % 2 == 0))
    np.testing.assert_array_equal(found.states, wanted)
    assert found.labels.tolist() == labels


def test_a_game_without_a_winner_is_left_out_or_labelled_one_half(records):
    drawn = next(record for record in records if decode_record(record).scores[0] == 0.0)
    assert len(read(drawn, held_out_share=0.0)) == 0
    assert set(read(drawn, **ALL_LEARN).labels.tolist()) == {0.5}


def test_equal_games_are_on_one_side_of_the_split_whatever_their_names():
    many = [valid(record) for record in play(300, seed=1)] + [valid(record) for record in play(300, seed=5_000)]
    parts = {}
    for one in many:
        parts.setdefault(tuple(one.record.moves), set()).add(is_held_out(one, 0.3))
    assert all(len(found) == 1 for found in parts.values())
    share = np.mean([found == {True} for found in parts.values()])
    assert 0.2 < share < 0.4
    assert not any(is_held_out(one, 0.0) for one in many)


def test_a_held_out_game_is_measured_and_never_trained_on(records):
    learner = learner_of(held_out_share=0.5, sides="one")
    learn_from(learner, records)
    held_out = [record for record in records if is_held_out(valid(record), 0.5)]
    assert 5 < len(held_out) < 35
    assert len(learner.window.held_out) + learner.window.games == len(records)
    assert len(learner.window.held_out) == len(held_out)
    trained = {game.states.tobytes() for game in learner.window.take(learner.window.games)}
    for game in learner.window.held_out:
        assert game.ranked is not None
        assert game.states.tobytes() not in trained
    before = weights_of(learner)
    learner.measure()
    assert same(before, weights_of(learner))  # statistics of batch norms included
    assert learner.network.training


def test_accuracy_and_recall_are_those_counted_by_hand(records):
    record = decided(records, won_by=0)
    played, game = valid(record), read(record, held_out_share=1.0 - 1e-9)
    perfect = {state.tobytes(): label for state, label in zip(game.states, game.labels, strict=True)}
    assert measure([game], lambda states: np.array([perfect.get(one.tobytes(), 0.5) for one in states]))["accuracy"] == 1.0
    wrong = measure([game], lambda states: np.array([1.0 - perfect.get(one.tobytes(), 0.5) for one in states]))
    assert wrong["accuracy"] == 0.0
    undecided = measure([game], lambda states: np.full(len(states), 0.5))
    assert undecided["accuracy"] == 0.0
    first, six, moves = 0, 0, 0
    for ply, action in enumerate(played.record.moves):  # equal chances: the order of the legal moves, wins by the rules first
        legal = positions.legal(GAME, played.states[ply])
        if len(legal) < 2 or played.search.flags[ply] & EXPLORATORY:
            continue
        chances = []
        for one in legal:
            after = played.states[ply].copy()
            core.play(GAME, after, one)
            chances.append((positions.final_scores(GAME, after)[ply % 2] + 1) / 2 if core.is_over(GAME, after) else 0.5)
        place = sorted(range(len(legal)), key=lambda i: (-chances[i], i)).index(legal.index(action))
        first, six, moves = first + (place < 1), six + (place < 6), moves + 1
    assert undecided["recall_1"] == pytest.approx(first / moves)
    assert undecided["recall_6"] == pytest.approx(six / moves)
