"""The learner `sarsa_lambda`: features from records and their pools, each game once, export, kill and resume."""

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch

from games import core, positions
from games.core import make
from trainer.learners.conformance import check_learner
from trainer.learners.contract import Accounts
from trainer.learners.sarsa_lambda.experience import Experience, read_experience
from trainer.learners.sarsa_lambda.learner import SarsaLambda
from trainer.learners.sarsa_lambda.leaves import with_leaves
from trainer.learners.sarsa_lambda.rule import ENDED, NONE, Episode
from trainer.learners.sarsa_lambda.served import LinearModule
from trainer.replay import AcceptedGame
from trainer.settings import TrainerSettings
from trainer.start import open_training
from zerofleet.agents.by_game.rhombus.agent import SearchOptions, searcher_room
from zerofleet.agents.by_game.rhombus.features import count_features
from zerofleet.agents.by_game.rhombus.root import set_frame
from zerofleet.agents.by_game.rhombus.values import LINEAR, SCALES, describe, load_values, new_seen
from zerofleet.contracts.model_checks import MODEL_FILE
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.errors import ConfigurationError, CorruptModel, InvalidRequest, RecordRejected, VersionSkew
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.in_process.evaluator import InProcessEvaluator
from zerofleet.presets.sarsa_lambda import SarsaLambdaSettings
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.search.afterstates.settings import AfterstateSettings

NAME = "chinese_checkers_rhombus"
GAME = make(NAME, ply_cap=60)
WEIGHTS = np.array([[1.0, -0.1, 0.2, 0.1, -0.2], [2.0, -0.2, 0.4, 0.5, 0.1], [3.0, 0.0, 0.5, 1.0, 0.2]])


def play(count, *, seed=1, **changes):
    """Records of games chosen by the linear evaluation."""
    settings = AfterstateSettings(**{"policy": "epsilon_greedy", "epsilon": 0.3, "pool": 6, "draw_value": 0.5, **changes})
    block, evaluate = AfterstateBlock(GAME, settings, slots=count), load_values({}, {"weights": WEIGHTS})
    for slot in range(count):
        block.begin(slot, seed=seed + slot, versions=[1, 1])
    while len(block.finished()) < count:
        mine = evaluate(block.advance().batch.states)
        block.absorb(np.empty(0), np.stack([mine, -mine], axis=1))
    games = [block.take(slot) for slot in range(count)]
    return [encode_record(one, worker_id="w", uid=f"{seed + slot:032x}") for slot, one in enumerate(games)]


@pytest.fixture(scope="module")
def records():
    return play(8)


def settings_of(tmp_path, **sarsa_lambda):
    return TrainerSettings(
        run_dir=tmp_path,
        game=NAME,
        game_parameters={"ply_cap": "60"},
        preset="tiny",
        train={"learner": "sarsa_lambda"},
        sarsa_lambda={"publish_every_games": 3, **sarsa_lambda},
    )


def keep(training, records):
    games = [
        AcceptedGame(decode_record(record).uid, record, training.replay.window.read(validate(decode_record(record))))
        for record in records
    ]
    training.replay.keep(games)


def read(record, **settings):
    return read_experience(validate(decode_record(record)), SarsaLambdaSettings(**settings)).episode


def described(state):
    """Features of a position for the player who has just moved."""
    seen = new_seen()
    describe(positions.encode_for(GAME, state, int(core.to_move(GAME, state))), seen)
    return seen.features.copy(), int(seen.phase[0])


def test_the_features_of_the_start_are_even_and_those_of_an_advance_are_worth_its_levels():
    state = positions.new_state(GAME)
    features, phase = described(state)
    assert (features.tolist(), phase) == ([0.0] * 5, 0)
    core.play(GAME, state, GAME.parse_action(state, "c1-e1"))
    features, phase = described(state)
    assert features[0] == pytest.approx(2 / 120)  # for the mover, who has two levels less to go
    assert phase == 0


def test_the_features_are_those_of_the_linear_search_agent_for_either_player():
    state = positions.new_state(GAME)
    rng = np.random.default_rng(3)
    work = searcher_room(GAME, SearchOptions(), 1)
    for _ in range(12):
        core.play(GAME, state, int(rng.choice(positions.legal(GAME, state))))
        mover = 1 - int(core.to_move(GAME, state))
        work.stack[0] = state
        set_frame(work, np.int64(mover))
        counted = [np.array(count_features(work.frames[0].cells, work.stack[0], np.int64(side))) for side in range(2)]
        np.testing.assert_allclose(described(state)[0], (counted[1 - mover] - counted[mover]) / SCALES, atol=1e-12)


def test_phases_follow_from_the_levels_of_the_armies():
    def phase_of(mine, other):
        state = positions.new_state(GAME)
        for player, cells in enumerate((mine, other)):
            for parity in range(2):
                state[1 + 2 * player + parity] = sum(1 << (cell >> 1) for cell in cells if cell & 1 == parity)
        return described(state)[1]

    home = [r * 9 + c for r in range(9) for c in range(9) if r + c <= 3]
    away = [80 - cell for cell in home]
    assert phase_of(home, away) == 0
    assert phase_of(away, home) == 2
    near = [*home[:9], 9 * 5 + 6]  # one piece on level 11, two below the other side's front
    assert phase_of(near, away) == 0
    assert phase_of([*home[:9], 9 * 6 + 6], away) == 1  # on level 12 it touches the front


def test_moves_become_features_of_the_positions_after_them(records):
    record = decode_record(records[0])
    found = read(records[0])
    assert found.seats.tolist() == [ply % 2 for ply in range(len(record.moves))]
    for row in range(0, len(record.moves) - 1, 7):
        features, phase = described(positions.replay(GAME, record.moves[: row + 1], record.seed))
        np.testing.assert_array_equal(found.features[row], features)
        assert found.phases[row] == phase
    assert found.phases[-1] == ENDED
    assert found.rewards.tolist() == list(record.scores)
    assert found.pool_phases.shape == (len(record.moves), 0)


def test_the_pool_is_written_with_its_scores_and_read_as_features(records):
    record = decode_record(records[0])
    found = read(records[0], method="q_learning")
    for row in range(0, len(record.moves) - 1, 9):
        move, state = record.searched[row], positions.replay(GAME, record.moves[:row], record.seed)
        assert len(move.pool) == min(6, len(positions.legal(GAME, state)))
        assert record.moves[row] in move.pool
        worth = {}
        for action in positions.legal(GAME, state):
            after = state.copy()
            core.play(GAME, after, action)
            features, phase = described(after)
            worth[action] = float(np.tanh(WEIGHTS[phase] @ features))
        assert list(move.pool_scores) == pytest.approx(sorted(worth.values(), reverse=True)[: len(move.pool)], abs=1e-6)
        for rank, action in enumerate(move.pool):
            assert move.pool_scores[rank] == pytest.approx(worth[action], abs=1e-6)
            after = state.copy()
            core.play(GAME, after, action)
            np.testing.assert_array_equal(found.pool_features[row, rank], described(after)[0])


def test_one_seat_alone_learns_where_the_record_names_it():
    assert set(read(play(1, learner_seat="second")[0]).seats.tolist()) == {1}


def test_q_learning_refuses_a_record_without_pools():
    with pytest.raises(RecordRejected, match=r"set afterstates\.pool"):
        read(play(1, pool=0)[0], method="q_learning")


def test_td_leaf_learns_the_values_of_the_positions_after_the_best_replies(records):
    record = decode_record(records[0])
    found = read(records[0], method="td_leaf")
    leaves = with_leaves(found, WEIGHTS)
    replaced = 0
    for row in range(0, len(record.moves) - 1, 7):
        state = positions.replay(GAME, record.moves[: row + 1], record.seed)
        worth = []
        for reply in positions.legal(GAME, state):
            after = state.copy()
            core.play(GAME, after, reply)
            if not core.is_over(GAME, after):
                features, phase = described(after)
                worth.append((float(WEIGHTS[phase] @ -features), tuple(-features), phase))
        value, features, phase = min(worth, key=lambda one: one[0])
        assert WEIGHTS[leaves.phases[row]] @ leaves.features[row] == pytest.approx(value, abs=1e-9)
        if sum(abs(one[0] - value) < 1e-9 for one in worth) == 1:
            assert (tuple(leaves.features[row]), leaves.phases[row]) == (features, phase)
            replaced += not np.array_equal(leaves.features[row], found.features[row])
    assert replaced > 2
    assert (leaves.phases[-1], found.phases[-1]) == (ENDED, ENDED)


def test_a_move_whose_best_reply_ends_the_game_keeps_its_own_position():
    episode = Episode(
        features=np.array([[1.0], [2.0], [3.0]]),
        phases=np.array([0, 1, ENDED]),
        seats=np.array([0, 1, 0]),
        exploratory=np.zeros(3, bool),
        pool_features=np.array([[[5.0], [0.0]], [[7.0], [4.0]], [[0.0], [0.0]]]),
        pool_phases=np.array([[0, ENDED], [1, 2], [NONE, NONE]]),
        pool_rewards=np.array([[0.0, -1.0], [0.0, 0.0], [0.0, 0.0]]),
        rewards=np.array([1.0, -1.0]),
    )
    leaves = with_leaves(episode, np.array([[1.0], [1.0], [1.0]]))
    assert (leaves.features.tolist(), leaves.phases.tolist()) == ([[1.0], [4.0], [3.0]], [0, 2, ENDED])
    won = episode._replace(pool_rewards=np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]))
    assert with_leaves(won, np.ones((3, 1))).features[0] == 5.0  # the other side does not choose to lose


@pytest.mark.parametrize("method", ["sarsa", "q_learning", "monte_carlo", "td_leaf"])
def test_the_learner_keeps_the_laws_of_the_contract(records, method):
    check_learner(partial(settings_of, method=method), records, steps=3)


def test_a_stored_version_answers_alike_on_the_server_and_in_the_worker(tmp_path, records):
    training = open_training(settings_of(tmp_path), GAME)
    keep(training, records)
    training.learner.weights[:] = WEIGHTS
    training.train(60.0, lambda: False)
    assert training.candidate_due
    version = training.publish_candidate()
    manifest = training.store.verify(model_name(GAME), version, game=GAME)
    assert (manifest.network["kind"], manifest.train_steps) == (LINEAR, 3)
    states, legal, _, golden_value = manifest.golden.arrays()
    with ThreadPoolExecutor(1) as thread:
        evaluator = InProcessEvaluator(training.store, GAME, executor=thread, others={LINEAR: load_values})
        answer = asyncio.run(evaluator.evaluate(LeafBatch(states, legal), version=version))
        refusing = InProcessEvaluator(training.store, GAME, executor=thread)
        with pytest.raises(InvalidRequest, match="or an inference server"):
            asyncio.run(refusing.evaluate(LeafBatch(states, legal), version=version))
    np.testing.assert_allclose(answer.value, golden_value, atol=1e-5)
    played = validate(decode_record(records[1]))
    late = [positions.encode_for(GAME, state, ply % 2) for ply, state in enumerate(played.states[:-1])]
    batch = LeafBatch(np.array(late), np.repeat(legal[:1], len(late), axis=0))
    module = torch.jit.load(training.store.directory(model_name(GAME), version) / MODEL_FILE)
    with torch.inference_mode():
        policy, value = module(torch.from_numpy(batch.states), torch.from_numpy(batch.legal))
    with ThreadPoolExecutor(1) as thread:
        evaluator = InProcessEvaluator(training.store, GAME, executor=thread, others={LINEAR: load_values})
        answer = asyncio.run(evaluator.evaluate(batch, version=version))
    np.testing.assert_allclose(answer.value, value.numpy(), atol=1e-5)
    np.testing.assert_allclose(answer.policy, policy.numpy(), atol=1e-3)
    training.replay.close()


def test_the_served_features_are_the_compiled_ones_in_every_phase():
    """Positions of ten pieces a side anywhere: all three phases, blocked and mobile pieces, long chains."""
    rng = np.random.default_rng(4)
    bits = np.zeros((300, 162), np.uint8)
    for row, position in enumerate(bits):
        order = np.argsort([level + rng.normal(0.0, 3.0) for level in (cell // 9 + cell % 9 for cell in range(81))])
        low, high = order[:10], order[-10:]
        mine, other = (low, high) if row % 3 == 0 else (high, low) if row % 3 == 1 else np.split(rng.permutation(81)[:20], 2)
        position[mine], position[81 + other] = 1, 1
    states = np.packbits(bits, axis=1, bitorder="little")
    seen, phases = new_seen(), []
    for state in states:
        describe(state, seen)
        phases.append(int(seen.phase[0]))
    assert min(np.bincount(phases, minlength=3)) > 10
    weights = rng.normal(size=(3, 5)).astype(np.float32)
    with torch.inference_mode():
        module = LinearModule(torch.from_numpy(weights)).eval()
        _, value = module(torch.from_numpy(states), torch.zeros(300, 1, dtype=torch.int16))
    np.testing.assert_allclose(value[:, 0].numpy(), load_values({}, {"weights": weights})(states), atol=1e-5)


def test_a_checkpoint_and_a_stored_version_of_another_network_are_refused(tmp_path):
    open_training(settings_of(tmp_path), GAME).replay.close()
    with pytest.raises(VersionSkew, match="the checkpoint has network"):
        open_training(settings_of(tmp_path, output="tanh"), GAME)
    shutil.rmtree(tmp_path / "replay" / "checkpoints")
    with pytest.raises(VersionSkew, match=f"version 1 of {model_name(GAME)} has network"):
        open_training(settings_of(tmp_path, output="tanh"), GAME)


def test_only_the_distance_is_learned_in_the_third_phase_unless_the_settings_say_otherwise(records):
    late = read(records[0])
    late.phases[:-1] = 2
    for third_phase, wanted in (("distance", [True, False, False, False, False]), ("features", [True] * 5)):
        learner = SarsaLambda(GAME, SarsaLambdaSettings(third_phase=third_phase), seed=0)
        before = learner.weights.copy()
        learner.window.add(Experience(late))
        learner.step()
        assert (learner.weights[2] != before[2]).tolist() == wanted
        np.testing.assert_array_equal(learner.weights[:2], before[:2])
        assert (before[2] != 0).tolist() == wanted


def test_weights_that_diverge_end_the_process(records):
    learner = SarsaLambda(GAME, SarsaLambdaSettings(), seed=0)
    learner.weights[:] = np.nan
    learner.window.add(learner.window.read(validate(decode_record(records[0]))))
    with pytest.raises(CorruptModel, match="diverged"):
        learner.step()


def test_the_learner_refuses_what_it_cannot_learn(tmp_path, two_ranks):
    for game in (make("connect_four"), make("chinese_checkers_star37"), make(NAME, long_hops=True)):
        with pytest.raises(ConfigurationError, match="features of chinese_checkers_rhombus"):
            SarsaLambda(game, SarsaLambdaSettings(), seed=0)
    with pytest.raises(ConfigurationError, match="in one process"):
        SarsaLambda.open(GAME, settings_of(tmp_path), ranks=two_ranks)
    with pytest.raises(ConfigurationError, match="without torchrun"):
        SarsaLambda(GAME, SarsaLambdaSettings(), seed=0).invited(Accounts())
