"""The learners `dqn` and `deep_sarsa`: transitions, memory, targets, gradients, export, kill and resume."""

import math

import numpy as np
import pytest
import torch

from games import positions
from games.core import make
from trainer.export import script
from trainer.learners.contract import Accounts
from trainer.learners.deep_q.learner import DeepSarsa, Dqn
from trainer.learners.deep_q.memory import Memory
from trainer.learners.deep_q.served import TEMPERATURE
from trainer.learners.deep_q.shaping import BoardValue
from trainer.learners.deep_q.transitions import NO_MOVE, Transitions
from trainer.learners.deep_q.values import planes_of, targets_of, values_of
from trainer.ranks import Place, Ranks
from trainer.replay import AcceptedGame
from trainer.settings import TrainerSettings
from trainer.start import open_training
from zerofleet.agents import make_agent
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.errors import ConfigurationError, CorruptModel, RecordRejected, VersionSkew
from zerofleet.evaluators.base import Evaluation
from zerofleet.presets.deep_q import DeepQSettings
from zerofleet.search.afterstates.action_values import ActionValueBlock
from zerofleet.search.afterstates.settings import AfterstateSettings

SMALL = make("tic_tac_toe")
RHOMBUS = make("chinese_checkers_rhombus", encoding="signed")
SPEC = SMALL.spec()


class TwoRanks(Ranks):
    place = Place(0, 2, 0)


def settings_of(tmp_path, learner="dqn", *, network=None, game="tic_tac_toe", parameters=None, **deep_q):
    return TrainerSettings(
        run_dir=tmp_path,
        game=game,
        game_parameters=parameters or {},
        preset="tiny",
        train={"learner": learner},
        network={"kind": "q_pool", "pool": 9, "q_channels": (8, 8)} if network is None else network,
        deep_q={"pool_by": "listed", "batch_size": 8, "draws": 8, "publish_every_games": 3, **deep_q},
    )


def on_rhombus(tmp_path, *, kind="q_pool", learner="dqn", padding="same", **deep_q):
    network = {"kind": kind, "pool": 6, "q_padding": padding}
    changes = {"pool_by": "heuristic", **deep_q}
    return settings_of(
        tmp_path, learner, network=network, game="chinese_checkers_rhombus", parameters={"encoding": "signed"}, **changes
    )


def opened(settings, game=SMALL):
    return (Dqn if settings.train.learner == "dqn" else DeepSarsa).open(game, settings)


def play(count, *, seed=1, **changes):
    """Records of games with random values of the moves."""
    settings = AfterstateSettings(**{"policy": "greedy", "learner_seat": "alternate", **changes})
    block, rng = ActionValueBlock(SMALL, settings, slots=count), np.random.default_rng(seed)
    for slot in range(count):
        block.begin(slot, seed=seed + slot, versions=[1, 1])
    while len(block.finished()) < count:
        legal = block.advance().batch.legal
        heads = [np.full(legal.shape, 0.5, np.float32), rng.random(legal.shape).astype(np.float32)]
        block.absorb(np.empty(0), np.empty(0), heads)
    games = [block.take(slot) for slot in range(count)]
    return [encode_record(one, worker_id="w", uid=f"{seed + slot:032x}") for slot, one in enumerate(games)]


@pytest.fixture(scope="module")
def records():
    return play(12)


def read(learner, record):
    return learner.window.read(validate(decode_record(record)))


def keep(training, records):
    training.replay.keep([AcceptedGame(decode_record(one).uid, one, read(training.learner, one)) for one in records])


def random_batch(game, count, *, pool, seed=1):
    """Transitions of random positions; half of them end the game."""
    spec, rng = game.spec(), np.random.default_rng(seed)
    batch = Transitions.empty(count, packed_bytes=spec.packed_bytes, pool=pool)
    batch.states[:] = rng.integers(256, size=batch.states.shape)
    batch.next_states[:] = rng.integers(256, size=batch.states.shape)
    batch.actions[:] = rng.integers(spec.num_actions, size=count)
    batch.ranks[:] = rng.integers(pool, size=count)
    batch.rewards[:] = rng.uniform(-1, 1, size=count)
    batch.ended[:] = np.arange(count) % 2
    batch.next_pools[:] = rng.integers(spec.num_actions, size=batch.next_pools.shape)
    batch.next_ranks[:] = rng.integers(pool, size=count)
    return batch


def test_a_transition_leads_to_the_players_next_turn_and_ends_with_the_score(tmp_path, records):
    learner = opened(settings_of(tmp_path))
    for record in records:
        found, message = read(learner, record), decode_record(record)
        seat = message.learner_seat - 1
        plies = list(range(seat, len(message.moves), 2))
        assert len(found) == len(plies)
        for row, ply in enumerate(plies):
            state = positions.replay(SMALL, message.moves[:ply], message.seed)
            np.testing.assert_array_equal(found.states[row], positions.encode_for(SMALL, state, seat))
            legal = positions.legal(SMALL, state)
            assert (found.actions[row], legal[found.ranks[row]]) == (message.moves[ply], message.moves[ply])
            if ply != plies[-1]:
                after = positions.replay(SMALL, message.moves[: ply + 2], message.seed)
                np.testing.assert_array_equal(found.next_states[row], positions.encode_for(SMALL, after, seat))
                moves = positions.legal(SMALL, after)
                assert found.next_pools[row].tolist() == moves + [NO_MOVE] * (9 - len(moves))
                assert moves[found.next_ranks[row]] == message.moves[ply + 2]
        assert found.ended.tolist() == [False] * (len(plies) - 1) + [True]
        assert found.rewards.tolist() == [0.0] * (len(plies) - 1) + [message.scores[seat]]


def test_both_seats_learn_where_the_record_names_none(tmp_path):
    found = read(opened(settings_of(tmp_path)), play(1, learner_seat="all")[0])
    assert found.ended.sum() == 2


def test_a_record_without_pools_or_with_larger_ones_is_refused(tmp_path, records):
    message = decode_record(records[0])
    for move in message.searched:
        del move.pool[:], move.pool_scores[:]
    with pytest.raises(RecordRejected, match=r"selfplay\.mode=action_values"):
        read(opened(settings_of(tmp_path)), message.SerializeToString())
    with pytest.raises(RecordRejected, match=r"a pool of [89] moves, want 1 to 6"):
        read(opened(on_rhombus(tmp_path), RHOMBUS), records[0])


def numbered(count, *, replay=100, **settings):
    memory = Memory(DeepQSettings(replay=replay, **settings), packed_bytes=1, pool=1)
    for number in range(count):
        row = Transitions.empty(1, packed_bytes=1, pool=1)
        row.actions[0] = number
        memory.insert(row)
    return memory


def test_the_memory_holds_the_last_transitions_first_in_first_out():
    memory = numbered(250)
    assert sorted(memory.ring.actions.tolist()) == list(range(150, 250))
    assert memory.ring.actions[memory.by_age(np.arange(100))].tolist() == list(range(249, 149, -1))
    assert len(numbered(7)) == 7


@pytest.mark.parametrize("count", [30, 100, 137])
def test_uniform_draws_are_equally_frequent(count):
    drawn = numbered(count).draw(50_000, np.random.default_rng(5))
    counts = np.bincount(drawn, minlength=min(count, 100))
    assert len(counts) == min(count, 100)
    expected = counts.sum() / len(counts)
    statistic = float(((counts - expected) ** 2 / expected).sum())  # chi-square with n - 1 degrees of freedom
    freedom = len(counts) - 1
    assert abs(statistic - freedom) < 3.3 * math.sqrt(2 * freedom)


def test_poisson_draws_have_the_truncated_distribution_of_the_age():
    memory = numbered(137, replay=30, sampling="poisson", poisson_age=12)
    ages = 136 - memory.ring.actions[memory.draw(50_000, np.random.default_rng(5))]
    shares = np.array([12**age / math.factorial(age) for age in range(30)])
    np.testing.assert_allclose(np.bincount(ages, minlength=30) / 50_000, shares / shares.sum(), atol=0.006)


@pytest.mark.parametrize("kind", ["q_pool", "q_sa"])
def test_targets_are_the_reward_at_the_end_and_else_the_best_or_the_played_move(tmp_path, kind):
    learner = opened(on_rhombus(tmp_path, kind=kind), RHOMBUS)
    batch, spec = random_batch(RHOMBUS, 8, pool=6), RHOMBUS.spec()
    batch.next_pools[0, 2:] = NO_MOVE
    batch.next_ranks[0] = 1
    with torch.no_grad():
        planes = planes_of(spec, batch.next_states)
        if kind == "q_pool":
            ahead = learner.network(planes).numpy()
        else:
            columns = [learner.network(planes, torch.from_numpy(batch.next_pools[:, k]).long().clamp(min=0)) for k in range(6)]
            ahead = torch.stack(columns, 1).numpy()
    best = [ahead[0, :2].max(), *ahead[1:].max(axis=1)]
    played = ahead[np.arange(8), batch.next_ranks]
    for on_policy, following in ((False, np.array(best)), (True, played)):
        found = targets_of(learner.network, spec, batch, discount=0.9, on_policy=on_policy).numpy()
        np.testing.assert_allclose(found, np.where(batch.ended, batch.rewards, batch.rewards + 0.9 * following), atol=1e-6)


@pytest.mark.parametrize("kind", ["q_pool", "q_sa"])
def test_the_first_update_is_the_learning_rate_times_the_measured_gradient(tmp_path, kind):
    """Central differences of half the mean squared error, at constant targets."""
    learner = opened(on_rhombus(tmp_path, kind=kind, learning_rate=0.01), RHOMBUS)
    batch, spec = random_batch(RHOMBUS, 4, pool=6), RHOMBUS.spec()
    wanted = targets_of(learner.target, spec, batch, discount=0.99, on_policy=False)
    parameters = dict(learner.network.named_parameters())
    before = {name: tensor.detach().clone() for name, tensor in parameters.items()}

    def loss():
        with torch.no_grad():
            return float((values_of(learner.network, spec, batch).double() - wanted).square().mean() / 2)

    rng, measured = np.random.default_rng(2), {}
    for name, tensor in parameters.items():
        flat = tensor.data.view(-1)
        for place in rng.choice(len(flat), min(4, len(flat)), replace=False):
            start, losses = float(flat[place]), []
            for change in (2e-4, -2e-4):
                flat[place] = start + change
                losses.append(loss())
            flat[place] = start
            measured[name, place] = (losses[0] - losses[1]) / 4e-4
    learner.update(batch)
    for (name, place), slope in measured.items():
        moved = float(parameters[name].data.view(-1)[place] - before[name].view(-1)[place])
        assert moved == pytest.approx(-0.01 * slope, abs=2e-5)
    assert max(abs(slope) for slope in measured.values()) > 1e-2


@pytest.mark.parametrize("learner", ["dqn", "deep_sarsa"])
@pytest.mark.parametrize("kind", ["q_pool", "q_sa"])
def test_one_batch_is_learned_by_heart(tmp_path, kind, learner):
    chosen = opened(on_rhombus(tmp_path, kind=kind, learner=learner, learning_rate=0.05), RHOMBUS)
    batch = random_batch(RHOMBUS, 4, pool=6)
    batch.ended[:] = True
    for _ in range(400):
        report = chosen.update(batch)
    assert report.squared_error < 1e-3


def test_targets_stay_the_same_between_two_refreshes_of_the_target_network(tmp_path, records):
    learner = opened(settings_of(tmp_path, target_period=5))
    for record in records:
        learner.window.add(read(learner, record))
    probe, seen = random_batch(SMALL, 6, pool=9), []
    for _ in range(11):
        learner.step()
        seen.append(targets_of(learner.target, SPEC, probe, discount=0.99, on_policy=False).tolist())
    assert [seen[k] == seen[k - 1] for k in range(1, 11)] == [k % 5 != 0 for k in range(1, 11)]
    every = opened(settings_of(tmp_path, target_period=1))
    for record in records:
        every.window.add(read(every, record))
    for _ in range(3):
        before = {name: tensor.clone() for name, tensor in every.network.state_dict().items()}
        every.step()
        assert all(torch.equal(tensor, before[name]) for name, tensor in every.target.state_dict().items())


def test_values_of_a_small_decision_process_are_found(tmp_path):
    """Three positions in a row with two moves each: the first move goes on, or at the end wins 1; the second stops with 0.2.

    Q* is gamma^2, gamma and 1 for the first move. On policy with a coin as behaviour it is gamma V', V' the mean of both moves.
    """
    gamma, steps = 0.9, 3
    network = {"kind": "q_pool", "pool": 9, "q_channels": (16, 16)}
    chain = np.zeros((steps, SPEC.packed_bytes), np.uint8)
    for k in range(steps):
        chain[k] = positions.encode_for(SMALL, positions.replay(SMALL, [0, 4, 8][:k], 0), 0)
    for learner, ahead in (
        ("dqn", [gamma**2, gamma, 1.0]),
        ("deep_sarsa", [gamma * (gamma * 0.6 + 0.2) / 2, gamma * 0.6, 1.0]),
    ):
        chosen = opened(
            settings_of(tmp_path, learner, network=network, discount=gamma, learning_rate=0.1, target_period=20, momentum=0.5)
        )
        rng = np.random.default_rng(3)
        for _ in range(1_500):
            batch = Transitions.empty(24, packed_bytes=SPEC.packed_bytes, pool=9)
            place, stops = np.arange(24) // 2 % steps, np.arange(24) % 2
            batch.states[:], batch.ranks[:] = chain[place], stops
            batch.ended[:] = stops.astype(bool) | (place == steps - 1)
            batch.rewards[:] = np.where(stops, 0.2, np.where(place == steps - 1, 1.0, 0.0))
            batch.next_states[:] = chain[np.minimum(place + 1, steps - 1)]
            batch.next_pools[:, :2], batch.next_ranks[:] = (0, 1), rng.integers(2, size=24)
            if chosen.state.step % 20 == 0:
                chosen.target.load_state_dict(chosen.network.state_dict())
            chosen.state.step += 1
            chosen.update(batch)
        with torch.no_grad():
            found = chosen.network(planes_of(SPEC, chain))[:, :2].numpy()
        tolerance = 0.02 if learner == "dqn" else 0.06  # a coin decides the targets of the latter
        np.testing.assert_allclose(found[:, 0], ahead, atol=tolerance)
        np.testing.assert_allclose(found[:, 1], 0.2, atol=0.02)


@pytest.mark.parametrize("sampling", ["uniform", "poisson", "sweep"])
@pytest.mark.parametrize("learner", ["dqn", "deep_sarsa"])
def test_a_killed_trainer_resumes_with_the_step_that_it_would_have_taken(tmp_path, records, learner, sampling):
    settings = settings_of(tmp_path, learner, sampling=sampling, replay=10, target_period=4, draws=3)
    first = open_training(settings, SMALL)
    assert (first.newest_version, first.learner.steps_allowed()) == (1, 0)
    keep(first, records[:6])
    for _ in range(3):
        first.learner.step()
    first.save()
    saved = weights(first.learner)
    lost = [first.learner.step().squared_error for _ in range(3)]
    reached = weights(first.learner)
    assert not torch.equal(reached, saved)
    first.replay.close()
    second = open_training(settings, SMALL)
    assert torch.equal(weights(second.learner), saved)
    assert [second.learner.step().squared_error for _ in range(3)] == lost
    assert torch.equal(weights(second.learner), reached)
    allowed = second.learner.steps_allowed()
    keep(second, records[6:])
    assert second.learner.steps_allowed() > allowed
    second.replay.close()
    with pytest.raises(VersionSkew, match="the settings describe"):
        open_training(settings_of(tmp_path, learner, sampling=sampling, replay=11, draws=3), SMALL)


def weights(learner):
    return torch.cat([tensor.flatten() for tensor in learner.network.state_dict().values()])


def test_every_transition_pays_for_its_draws(tmp_path, records):
    for draws, batch in ((1, 8), (8, 8), (40, 4)):
        learner = opened(settings_of(tmp_path, draws=draws, batch_size=batch))
        for record in records:
            learner.window.add(read(learner, record))
        wanted = draws * learner.window.total // batch
        assert learner.steps_allowed() == wanted
        while learner.steps_allowed():
            learner.step()
        assert learner.state.step == wanted
        assert learner.reuse == pytest.approx(draws, abs=batch / learner.window.total)


def test_the_intake_is_held_back_from_the_bound_until_half_of_it_waits(tmp_path, records):
    training = open_training(settings_of(tmp_path).model_copy(update={"max_waiting": 10}), SMALL)
    assert not training.is_behind()
    keep(training, records)
    learner, found = training.learner, []
    while learner.window.waiting > 3:
        found.append((learner.window.waiting > 5, training.is_behind()))
        learner.step()
    training.replay.close()
    assert (True, True) in found
    assert (False, False) in found
    assert all(want == got for want, got in found)


def test_a_learner_that_waits_for_its_first_batch_is_not_behind(tmp_path, records):
    changed = settings_of(tmp_path, draws=1, batch_size=10_000).model_copy(update={"max_waiting": 1})
    training = open_training(changed, SMALL)
    keep(training, records)
    behind, waiting = training.is_behind(), training.learner.window.waiting
    training.replay.close()
    assert waiting > 1
    assert not behind


def test_a_candidate_is_due_after_so_many_games(tmp_path, records):
    training = open_training(settings_of(tmp_path), SMALL)
    keep(training, records)
    training.train(60.0, lambda: False)
    assert training.learner.counts.games == 3
    version = training.publish_candidate()
    assert not training.candidate_due
    manifest = training.store.verify(model_name(SMALL), version, game=SMALL)
    assert (manifest.heads[2:], manifest.network["kind"]) == (("pool", "action_values"), "q_pool")
    training.train(60.0, lambda: False)
    assert training.learner.counts.games == 6
    training.replay.close()


def test_a_run_without_its_checkpoint_goes_on_from_the_stored_weights(tmp_path, records):
    first = open_training(settings_of(tmp_path), SMALL)
    stored = weights(first.learner)
    keep(first, records[:3])
    first.replay.close()
    for file in sorted((tmp_path / "replay" / "checkpoints").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    second = open_training(settings_of(tmp_path), SMALL)
    assert torch.equal(weights(second.learner), stored)
    assert (len(second.replay.log), second.learner.steps_allowed()) == (3, 0)  # no game is used twice
    keep(second, records[3:6])
    second.learner.step()
    second.save()
    second.replay.close()
    third = open_training(settings_of(tmp_path), SMALL)
    assert (len(third.learner.memory), third.learner.counts.taken) == (1, len(first.learner.window) + 1)
    third.replay.close()


def heads_of(module, states, legal):
    with torch.inference_mode():
        return module(torch.from_numpy(states), torch.from_numpy(legal))


@pytest.mark.parametrize(("kind", "pool_by"), [("q_pool", "heuristic"), ("q_sa", "heuristic"), ("q_sa", "values")])
def test_a_served_model_plays_the_best_value_of_the_six_best_moves(tmp_path, kind, pool_by):
    learner, spec = opened(on_rhombus(tmp_path, kind=kind, pool_by=pool_by), RHOMBUS), RHOMBUS.spec()
    module = script(learner.export().module)
    state = positions.replay(RHOMBUS, [], 0)
    moves = positions.legal(RHOMBUS, state)
    seen = positions.encode_for(RHOMBUS, state, 0)
    legal = np.full((1, spec.max_legal), -1, np.int16)
    legal[0, : len(moves)] = moves
    policy, value, pool, chances = (head.numpy()[0] for head in heads_of(module, seen[None], legal))
    planes, actions = planes_of(spec, seen[None]), torch.tensor(moves)
    with torch.no_grad():
        if pool_by == "values":
            worth = learner.network(planes.repeat(len(moves), 1, 1, 1), actions).numpy()
            scores = np.tanh(worth)
        else:
            scores = np.array([BoardValue(RHOMBUS)(after(seen, move)[None])[0] for move in moves])
    best = np.argsort(-scores, kind="stable")[:6]
    assert sorted(np.flatnonzero(pool)) == sorted(best)
    np.testing.assert_allclose(2 * pool[best] - 1, scores[best], atol=1e-6)
    with torch.no_grad():
        if kind == "q_pool":
            q = learner.network(planes)[0].numpy()
        else:
            q = learner.network(planes.repeat(6, 1, 1, 1), actions[best]).numpy()
    np.testing.assert_allclose(np.arctanh(2 * chances[best] - 1), q, atol=1e-5)
    np.testing.assert_allclose(value, [q.max(), -q.max()], atol=1e-6)
    assert int(policy.argmax()) == best[q.argmax()]
    shares = np.exp((q - q.max()) / TEMPERATURE)
    np.testing.assert_allclose(policy[best], shares / shares.sum(), atol=1e-3)
    assert not policy[len(moves) :].any()


@pytest.mark.parametrize("learner", ["dqn", "deep_sarsa"])
def test_the_worker_the_learner_and_the_agent_agree_on_pools_and_values(tmp_path, learner):
    chosen = opened(settings_of(tmp_path, learner), SMALL)
    module = script(chosen.export().module)

    def evaluate(batch, version):
        policy, value, *heads = (head.numpy() for head in heads_of(module, batch.states.copy(), batch.legal.copy()))
        return Evaluation(policy, value, version, tuple(heads))

    block = ActionValueBlock(SMALL, AfterstateSettings(policy="greedy"), slots=1)
    block.begin(0, seed=3, versions=[1, 1])
    agent = make_agent("network,model=1", SMALL, evaluate=evaluate)
    while not block.finished():
        state = positions.replay(SMALL, block.moves(0), 3)
        expected = agent.choose(SMALL, state, np.random.default_rng(1)).action
        found = evaluate(block.advance().batch, 1)
        block.absorb(found.policy, found.value, found.extra_heads)
        assert block.moves(0)[-1] == expected
    one = block.take(0)
    samples = read(chosen, encode_record(one, worker_id="w", uid="0" * 32))
    with torch.no_grad():
        values = values_of(chosen.network, SPEC, samples).numpy()
    order = np.argsort(np.concatenate([np.arange(seat, len(one.moves), 2) for seat in range(2)]))
    recorded = [move.root_value[move.ply % 2] for move in one.searched]
    np.testing.assert_allclose(values[order].clip(-1, 1), recorded, atol=1e-5)


def after(seen, move):
    """The viewer's encoding with a piece moved."""
    bits = np.unpackbits(seen, count=162, bitorder="little")
    bits[move // 81], bits[move % 81] = 0, 1
    return np.packbits(bits, bitorder="little")


def test_shaping_adds_the_discounted_gain_in_board_value(tmp_path):
    learner = opened(on_rhombus(tmp_path, shaping=0.5, discount=0.9), RHOMBUS)
    settings = AfterstateSettings(policy="epsilon_greedy", epsilon=1.0, learner_seat="second")
    game = make("chinese_checkers_rhombus", encoding="signed", ply_cap=11)
    block = ActionValueBlock(game, settings, slots=1)
    block.begin(0, seed=1, versions=[1, 1])
    while not block.finished():
        legal = block.advance().batch.legal
        ranks = np.where(np.arange(legal.shape[1]) < 6, 0.5, 0.0).astype(np.float32)[None]
        block.absorb(np.empty(0), np.empty(0), [ranks, ranks])
    record = encode_record(block.take(0), worker_id="w", uid="0" * 32)
    found = read(learner, record)
    worth = BoardValue(RHOMBUS)(found.states)
    base = np.append(np.zeros(len(found) - 1), decode_record(record).scores[1])
    np.testing.assert_allclose(found.rewards, base + 0.5 * (0.9 * np.append(worth[1:], 0) - worth), atol=1e-6)
    assert len(found) == 5
    assert np.abs(found.rewards[:-1]).max() > 1e-3


def test_weights_that_diverge_end_the_process(tmp_path):
    learner = opened(settings_of(tmp_path))
    with torch.no_grad():
        learner.network.layers.out.weight.fill_(float("nan"))
    with pytest.raises(CorruptModel, match="diverged"):
        learner.update(random_batch(SMALL, 4, pool=9))


def test_the_learners_refuse_what_they_cannot_learn(tmp_path):
    with pytest.raises(ConfigurationError, match="needs q_pool or q_sa"):
        opened(settings_of(tmp_path, network={"kind": "residual"}))
    with pytest.raises(ConfigurationError, match="two players with perfect information"):
        Dqn(make("rock_paper_scissors"), settings_of(tmp_path))
    with pytest.raises(ConfigurationError, match=r"set deep_q\.pool_by=values or listed"):
        opened(settings_of(tmp_path, pool_by="heuristic"))
    with pytest.raises(ConfigurationError, match=r"raise network\.pool"):
        opened(settings_of(tmp_path, network={"kind": "q_pool", "pool": 4}))
    with pytest.raises(ConfigurationError, match=r"set network\.kind=q_sa"):
        opened(on_rhombus(tmp_path, pool_by="values"), RHOMBUS)
    with pytest.raises(ConfigurationError, match="the game is tic_tac_toe; set 0"):
        opened(settings_of(tmp_path, shaping=1.0))
    with pytest.raises(ConfigurationError, match="in one process"):
        Dqn.open(SMALL, settings_of(tmp_path), ranks=TwoRanks())
    with pytest.raises(ConfigurationError, match="without torchrun"):
        opened(settings_of(tmp_path)).invited(Accounts())
