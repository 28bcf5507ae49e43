"""Learners by name: each has the members of the contract, and a queue keeps games in order."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from small_trainer import settings_of

from games.core import make
from trainer import checkpoint_parts
from trainer.learners import learner_class
from trainer.learners.contract import Accounts, Learning
from trainer.learners.in_order import LearnerInOrder, NamedCheckpoint, Outcome
from trainer.learners.queue import GameQueue
from trainer.settings import TrainerSettings, settings_class
from zerofleet.errors import ConfigurationError, VersionSkew
from zerofleet.presets import TrainSettings
from zerofleet.presets.learners import LEARNERS
from zerofleet.presets.td_lambda import TdLambdaSettings

MEMBERS = sorted(name for name in vars(Learning) if not name.startswith("_"))


def test_a_learner_with_settings_is_a_part_of_the_trainers_settings_under_its_name():
    assert TrainSettings().learner == "alphazero"
    for name, learner in LEARNERS.items():
        if learner.settings is not None:
            assert TrainerSettings.model_fields[name].annotation is learner.settings
            assert name in TrainerSettings.PRESET_PARTS


@pytest.mark.parametrize("cls", [*map(learner_class, LEARNERS), LearnerInOrder])
def test_a_learner_has_every_member_of_the_contract(cls):
    assert MEMBERS == [
        "adopt",
        "export",
        "invited",
        "is_candidate_due",
        "open",
        "pack",
        "restore",
        "reuse",
        "snapshot",
        "step",
        "steps_allowed",
        "unpack",
    ]
    assert [name for name in MEMBERS if not hasattr(cls, name)] == []


def test_settings_name_a_learner_that_exists_and_give_out_its_own_alone():
    with pytest.raises(ConfigurationError, match="there are alphazero, td_lambda"):
        TrainerSettings(game="tic_tac_toe", preset="tiny", train={"learner": "nope"})
    settings = settings_class()(game="tic_tac_toe", preset="tiny", train={"learner": "td_lambda"}, td_lambda={"hidden": 3})
    assert settings.of_learner(TdLambdaSettings).hidden == 3
    with pytest.raises(ConfigurationError, match="no settings of class TrainSettings"):
        settings.of_learner(TrainSettings)


PARTS = {
    "alphazero": {},
    "td_lambda": {},
    "outcome": {"network": {"kind": "perceptron", "hidden": (8,), "policy_head": "none", "value_output": "win_or_loss"}},
    "dqn": {"network": {"kind": "q_pool", "pool": 9}, "deep_q": {"pool_by": "listed"}},
}


@pytest.mark.parametrize("name", PARTS)
def test_the_checkpoint_of_another_learner_is_named_and_not_called_damaged(game, tmp_path, name):
    packed = learner_class(name).open(game, settings_of(tmp_path, train={"learner": name}, **PARTS[name])).pack(Accounts())
    assert learner_class(name).unpack(*packed, where="here")[0].accounts == Accounts()
    for other in PARTS.keys() - {name}:
        with pytest.raises(
            VersionSkew, match=rf"here is .* of the learner {name}.*restore train\.learner, or start another run"
        ):
            learner_class(other).unpack(*packed, where="here")


def test_a_learner_reads_its_own_checkpoint_with_entries_besides_those_of_its_base():
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Wider(NamedCheckpoint):
        visits: int = 0

    checkpoint_parts._require_own(Wider, b'{"arrays": 1, "learner_name": "own", "visits": 3}', "here")
    with pytest.raises(VersionSkew, match="of the learner sarsa_lambda"):
        checkpoint_parts._require_own(Wider, b'{"sarsa_lambda": 1}', "here")


def test_a_batch_of_one_position_is_refused_where_a_batch_norm_would_fail_at_the_first_step(game, tmp_path):
    network = {"kind": "perceptron", "hidden": (8,)}
    alphazero = learner_class("alphazero")
    for normalisation in ("none", "layer"):
        chosen = {**network, "normalisation": normalisation}
        alphazero.open(game, settings_of(tmp_path, network=chosen, train={"batch_size": 1}))
    with pytest.raises(ConfigurationError, match=r"train\.batch_size=1 with network\.normalisation=batch"):
        alphazero.open(game, settings_of(tmp_path, network={**network, "normalisation": "batch"}, train={"batch_size": 1}))


def test_a_learner_of_another_package_needs_its_group_and_its_class(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "learner_without_class.py").write_text(
        "from pydantic import BaseModel\nfrom zerofleet.presets.learners import LearnerDeclaration\n"
        "class Own(BaseModel):\n    rate: float = 0.1\n"
        "LEARNER = LearnerDeclaration(implementation='learner_without_class:Missing', settings=Own)\n"
    )
    info = tmp_path / "half_a_learner-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: half-a-learner\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[zerofleet.learners]\nhalf = learner_without_class:LEARNER\nbroken = a_module_that_is_not_there:LEARNER\n"
    )
    given = {"game": "tic_tac_toe", "preset": "tiny", "train": {"learner": "half"}}
    with pytest.raises(ConfigurationError, match="lack that group"):
        TrainerSettings(**given)
    cls = settings_class()  # the broken one is left out
    assert cls(**given, half={"rate": 0.5}).half.rate == 0.5
    assert "broken" not in cls.model_fields
    with pytest.raises(ConfigurationError, match=r"train\.learner=half: learner_without_class:Missing cannot be imported"):
        learner_class("half")


class Tables(LearnerInOrder):
    """Learner of two tables, which counts games."""

    publish_every_games = 1

    def __init__(self, game, settings, *, first=0):
        super().__init__(game, settings, first=first)
        self.values, self.games = np.zeros(9), np.zeros(())

    @property
    def arrays(self):
        return {"values": self.values, "games": self.games}

    @property
    def network(self):
        return {"kind": "tables"}

    def read(self, played):
        return played

    def learn(self, samples):
        self.games += 1
        self.values[len(samples)] += 0.5
        return Outcome(0.25, 0.5, 1.0)

    def module(self):
        return torch.nn.Identity()


@pytest.fixture
def tables():
    """A learner that has learned from two games."""
    learner = Tables.open(make("tic_tac_toe"), TrainerSettings(game="tic_tac_toe", preset="tiny"))
    for game in ("abc", "de"):
        learner.window.add(game)
        learner.step()
    return learner


def test_arrays_of_any_shape_go_through_a_checkpoint_and_a_version(tables):
    packed = Tables.unpack(*tables.pack(Accounts()), where="a test")
    restored, adopted = (Tables.open(tables.game, tables.settings) for _ in range(2))
    restored.restore(*packed)
    adopted.adopt(tables.network, dict(tables.export().weights), name="version 1")
    for other in (restored, adopted):
        assert other.values.tolist() == [0, 0, 0.5, 0.5, 0, 0, 0, 0, 0]
        assert (other.games.shape, float(other.games)) == ((), 2.0)


class CopiedTables(Tables):
    """Learner that gives out copies, which a checkpoint cannot be loaded into."""

    @property
    def arrays(self):
        return {"values": self.values.copy(), "games": self.games}


def test_a_learner_whose_arrays_are_copies_is_refused_when_it_resumes(tables):
    copied = CopiedTables.open(tables.game, tables.settings)
    said = r"CopiedTables\.arrays returns a copy of values, so that {} cannot be loaded into it; return the array that learning"
    with pytest.raises(ConfigurationError, match=said.format("the checkpoint")):
        copied.restore(*Tables.unpack(*tables.pack(Accounts()), where="a test"))
    with pytest.raises(ConfigurationError, match=said.format("version 1")):
        copied.adopt(tables.network, dict(tables.export().weights), name="version 1")


@pytest.mark.parametrize(("written", "changed"), [(1, 3), (3, 1)])
def test_a_checkpoint_that_counts_games_without_samples_otherwise_is_refused(tables, monkeypatch, written, changed):
    def of(every):
        monkeypatch.setattr(Tables, "publish_every_games", every)
        return Tables.open(tables.game, tables.settings)

    counts, tensors = of(written).pack(Accounts())
    of(written).restore(*Tables.unpack(counts, tensors, where="a test"))
    said = rf"alphazero\.publish_every_games {'= 1' if written == 1 else 'above 1'}, the settings have {changed}.*restore the"
    with pytest.raises(VersionSkew, match=said):
        of(changed).restore(*Tables.unpack(counts, tensors, where="a test"))
    earlier = json.loads(counts)
    del earlier["counts_empty"]  # of an earlier release
    of(changed).restore(*Tables.unpack(json.dumps(earlier).encode(), tensors, where="a test"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"values": torch.ones(1)}, r"has the arrays games \[1\], values \[1\], the learner has games \[1\], values \[9\]"),
        ({"value": torch.ones(9)}, r"has the arrays games \[1\], value \[9\], values \[9\]"),
        ({"values": None}, r"has the arrays games \[1\], the learner has games"),
    ],
)
def test_arrays_of_another_shape_or_name_are_refused_and_change_nothing(tables, changes, said):
    checkpoint, tensors = Tables.unpack(*tables.pack(Accounts()), where="a test")
    wrong = {name: tensor for name, tensor in {**tensors, **changes}.items() if tensor is not None}
    fresh = Tables.open(tables.game, tables.settings)
    with pytest.raises(VersionSkew, match=f"the checkpoint {said}.*start another run"):
        fresh.restore(checkpoint, wrong)
    with pytest.raises(VersionSkew, match=f"version 1 {said}.*start another run"):
        fresh.adopt(tables.network, wrong, name="version 1")
    assert (fresh.values.any(), fresh.games.any(), fresh.state.step) == (False, False, 0)


def queue_of(*games, **options):
    queue = GameQueue(lambda played: played, **options)
    for game in games:
        queue.add(queue.read(game))
    return queue


def test_a_queue_gives_games_in_order_and_counts_their_samples():
    queue = queue_of("abc", "", "de", first=10)
    assert (queue.games, len(queue), queue.total, queue.taken) == (2, 5, 15, 10)
    assert queue.take() == "abc"
    assert (queue.games, len(queue), queue.taken) == (1, 2, 13)
    assert queue.take() == "de"


def test_a_queue_that_keeps_empty_games_counts_each_as_one_sample():
    queue = queue_of("abc", "", "de", keeps_empty=True)
    assert (queue.games, queue.total) == (3, 6)
    queue.skip_to(4)
    assert (queue.taken, queue.take()) == (4, "de")
