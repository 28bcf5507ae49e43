"""Training by `dqn` and `deep_sarsa`: steps that transitions allow, candidates, kill and resume."""

import numpy as np
import pytest
import torch
from deep_q_at_work import RHOMBUS, SMALL, keep, on_rhombus, opened, random_batch, read, settings_of, weights
from structlog.testing import capture_logs

from games.core import make
from trainer.learners.conformance import check_learner
from trainer.learners.contract import Accounts
from trainer.learners.deep_q.learner import Dqn
from trainer.start import open_training
from zerofleet.contracts.naming import model_name
from zerofleet.errors import ConfigurationError, VersionSkew


@pytest.mark.parametrize("sampling", ["uniform", "poisson", "sweep"])
@pytest.mark.parametrize("learner", ["dqn", "deep_sarsa"])
def test_the_learners_keep_the_laws_of_the_contract(records, learner, sampling):
    check_learner(
        lambda run_dir: settings_of(run_dir, learner, sampling=sampling, replay=10, target_period=4, draws=3), records
    )


def test_a_checkpoint_of_another_memory_is_refused(tmp_path):
    open_training(settings_of(tmp_path, replay=10), SMALL).replay.close()
    with pytest.raises(VersionSkew, match="the checkpoint has replay 10"):
        open_training(settings_of(tmp_path, replay=11), SMALL)


def test_a_trainer_resumed_without_a_planned_end_keeps_the_rate_that_it_had_reached(tmp_path, records):
    settings = settings_of(tmp_path, rate_floor=0.05)
    first = open_training(settings.model_copy(update={"planned_end_s": 1.0}), SMALL)  # which has passed
    keep(first, records[:6])
    first.train(0.05, lambda: False)
    reached = first.learner.step().learning_rate
    first.save()
    first.replay.close()
    with capture_logs() as logged:
        second = open_training(settings, SMALL)
    keep(second, records[6:])
    second.train(0.05, lambda: False)
    resumed = second.learner.step().learning_rate
    second.replay.close()
    assert reached == resumed == pytest.approx(0.05 * settings.deep_q.learning_rate)
    assert "schedule.without_plan" in [line["event"] for line in logged]


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


@pytest.mark.parametrize("score_weight", [0.0, 2.0])
def test_a_checkpoint_keeps_margins_where_they_have_a_weight(tmp_path, score_weight):
    settings = on_rhombus(tmp_path, kind="q_sa", replay=5, score_weight=score_weight)
    first = open_training(settings, RHOMBUS)
    batch = random_batch(RHOMBUS, 5, pool=6)
    for row in range(5):
        first.learner.memory.insert(batch.rows(slice(row, row + 1)))
    first.save()
    first.replay.close()
    second = open_training(settings, RHOMBUS)
    second.replay.close()
    kept = second.learner.memory.ring
    np.testing.assert_array_equal(kept.states, batch.states)
    np.testing.assert_array_equal(kept.margins, batch.margins if score_weight else 0)
    np.testing.assert_array_equal(kept.next_margins, batch.next_margins if score_weight else 0)
    with pytest.raises(VersionSkew, match="score_weight"):
        open_training(on_rhombus(tmp_path, kind="q_sa", replay=5, score_weight=score_weight + 1), RHOMBUS)


def test_the_learners_refuse_what_they_cannot_learn(tmp_path, two_ranks):
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
    with pytest.raises(ConfigurationError, match="set score_weight=0, or another pool_by"):
        opened(on_rhombus(tmp_path, kind="q_sa", pool_by="values", score_weight=1.0), RHOMBUS)
    with pytest.raises(ConfigurationError, match="the game is tic_tac_toe; set 0"):
        opened(settings_of(tmp_path, shaping=1.0))
    with pytest.raises(ConfigurationError, match="in one process"):
        Dqn.open(SMALL, settings_of(tmp_path), ranks=two_ranks)
    with pytest.raises(ConfigurationError, match="without torchrun"):
        opened(settings_of(tmp_path)).invited(Accounts())
