"""Laws of the contract of learners: every built-in learner keeps them, and one that breaks a law is named with it."""

from __future__ import annotations

import itertools
import re
from weakref import WeakKeyDictionary

import pytest
from small_trainer import settings_of
from td_games import play

from trainer.learners.conformance import LAWS, check_learner
from trainer.learners.game_by_game import Outcome
from trainer.learners.td_lambda import learner as td_learner
from trainer.learners.td_lambda.learner import TdLambda
from trainer.settings import TrainerSettings
from zerofleet.errors import LearnerContractError, UnfitModel

RECORDS = play(12)


def td_lambda(run_dir):
    given = {"train": {"learner": "td_lambda"}, "td_lambda": {"hidden": 8, "publish_every_games": 5}}
    return TrainerSettings(run_dir=run_dir, game="tic_tac_toe", preset="tiny", **given)


def test_alphazero_keeps_the_laws_of_the_contract():
    checked = check_learner(settings_of)
    assert str(checked).startswith("alphazero on tic_tac_toe: 6 laws hold; 40 games, ")
    assert checked.steps == 10


def test_a_check_needs_games_enough_for_steps_before_and_after_the_checkpoint():
    found = "after 2 steps and .* none is allowed; check with more games"
    with pytest.raises(LearnerContractError, match=f"breaks law 3 .*: {found}"):
        check_learner(td_lambda, play(2))


def draws_first_weights_anew(monkeypatch):
    draw, seeds = td_learner.first_weights, itertools.count(1)
    monkeypatch.setattr(td_learner, "first_weights", lambda inputs, settings, seed: draw(inputs, settings, seed=next(seeds)))


def learns_while_it_reads(monkeypatch):
    read = TdLambda.read

    def reading(self, played):
        self.net.hidden[:] += 0.01
        return read(self, played)

    monkeypatch.setattr(TdLambda, "read", reading)


def learns_nothing(monkeypatch):
    monkeypatch.setattr(TdLambda, "learn", lambda self, samples: Outcome(0.0, 0.0, 0.1))


def counts_a_step_twice(monkeypatch):
    step = TdLambda.step

    def stepping(self):
        self.state.step += 1
        return step(self)

    monkeypatch.setattr(TdLambda, "step", stepping)


def resumes_with_other_weights(monkeypatch):
    restore = TdLambda.restore

    def restoring(self, checkpoint, tensors):
        restore(self, checkpoint, tensors)
        self.net.hidden[:] *= 1.01

    monkeypatch.setattr(TdLambda, "restore", restoring)


def keeps_a_count_outside_of_its_arrays(monkeypatch):
    learn, calls = TdLambda.learn, WeakKeyDictionary()

    def learning(self, samples):
        calls[self] = calls.get(self, 0) + 1
        self.net.hidden[:] += 0.01 * calls[self]
        return learn(self, samples)

    monkeypatch.setattr(TdLambda, "learn", learning)


def has_a_candidate_that_is_unfit(monkeypatch):
    export = TdLambda.export

    def exporting(self):
        if self.state.step:
            raise UnfitModel("broken on purpose")
        return export(self)

    monkeypatch.setattr(TdLambda, "export", exporting)


def begins_with_fresh_weights_where_the_checkpoint_is_lost(monkeypatch):
    monkeypatch.setattr(TdLambda, "adopt", lambda self, network, tensors, *, name: None)


def learns_from_the_stored_games_again(monkeypatch):
    adopt = TdLambda.adopt

    def adopting(self, *given, **named):
        adopt(self, *given, **named)
        monkeypatch.setattr(TdLambda, "steps_allowed", lambda self: 3)

    monkeypatch.setattr(TdLambda, "adopt", adopting)


@pytest.mark.parametrize(
    ("law", "fault", "found"),
    [
        (1, draws_first_weights_anew, "two fresh learners differ"),
        (2, learns_while_it_reads, "its state has changed"),
        (3, learns_nothing, "5 steps changed no array"),
        (3, counts_a_step_twice, "step 1 left the count at 2"),
        (4, resumes_with_other_weights, "its state after the resumption is not that of the checkpoint"),
        (4, keeps_a_count_outside_of_its_arrays, "after 5 more steps it has another state"),
        (5, has_a_candidate_that_is_unfit, "the model is unfit for export"),
        (6, begins_with_fresh_weights_where_the_checkpoint_is_lost, "its weights .* are not those of version 2"),
        (6, learns_from_the_stored_games_again, "it allows 3 steps before a new game"),
    ],
)
def test_a_learner_that_breaks_a_law_is_named_with_the_law(monkeypatch, law, fault, found):
    fault(monkeypatch)
    with pytest.raises(LearnerContractError, match=f"td_lambda breaks law {law} \\({re.escape(LAWS[law])}\\): {found}"):
        check_learner(td_lambda, RECORDS)
