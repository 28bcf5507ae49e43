"""Checkpoints: exact resume, and clear words about damaged or foreign ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
import structlog
import torch

from trainer.checkpoint import pack, restore, unpack
from trainer.checkpoint_files import load_latest, save
from trainer.learner import Learner
from trainer.learners.contract import Accounts
from trainer.network import new_network
from trainer.samples import Samples
from trainer.window import SampleWindow
from zerofleet.contracts.encodings import sample_positions
from zerofleet.errors import CorruptModel, VersionSkew
from zerofleet.presets import TrainSettings

SETTINGS = TrainSettings(batch_size=16, min_samples=1, warmup_steps=15, max_reuse=1e9)


def fresh(game, small, settings=SETTINGS, *, seed=3):
    states, legal = sample_positions(game, games=4, seed=1)
    samples = Samples.empty(game.spec(), len(states))
    samples.states[:], samples.legal[:], samples.value[:] = states, legal, 0.25
    samples.policy[:] = (legal >= 0) / (legal >= 0).sum(axis=1, keepdims=True)
    samples.opponents[:], samples.plies_left[:], samples.reply[:], samples.weight[:] = -1, 0.5, -1, 1.0
    window = SampleWindow(game.spec(), settings)
    window.add(samples)
    return Learner(game.spec(), new_network(game.spec(), small, seed=seed), settings, window, seed=seed)


def resumed(directory, game, small, settings=SETTINGS, *, seed=99):
    learner = fresh(game, small, settings, seed=seed)
    checkpoint, tensors = load_latest(directory, unpack)
    restore(learner, game, small, checkpoint, tensors)
    return learner, checkpoint


@pytest.mark.parametrize(
    "changes", [{"optimizer": "adamw"}, {"optimizer": "sgd"}, {"merge_equal": "log", "surprise_share": 0.5}]
)
def test_a_resumed_learner_takes_the_same_steps_bit_by_bit(game, small, tmp_path, changes):
    settings = SETTINGS.model_copy(update=changes)
    whole = fresh(game, small, settings)
    for _ in range(20):
        whole.step()
    first = fresh(game, small, settings)
    for _ in range(10):
        first.step()
    save(tmp_path, *pack(game, small, first, Accounts()))
    second, _ = resumed(tmp_path, game, small, settings)
    for _ in range(10):
        second.step()
    assert second.state == whole.state
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, second.network.state_dict()[name]), name
    for one, two in zip(whole.average.weights, second.average.weights, strict=True):
        assert torch.equal(one, two)
    one, two = whole.rng.bit_generator.state, second.rng.bit_generator.state
    assert one == two


@pytest.mark.parametrize("changes", [{"global_pooling": 2}, {"squeeze": 4}, {"heads": ("reply", "plies_left")}], ids=str)
def test_a_resumed_learner_of_each_kind_of_network_takes_the_same_next_step(game, small, tmp_path, changes):
    network = small.model_copy(update=changes)
    whole = fresh(game, network)
    for _ in range(3):
        whole.step()
    save(tmp_path, *pack(game, network, whole, Accounts()))
    second, _ = resumed(tmp_path, game, network)
    assert whole.step() == second.step()


def test_a_resumed_learner_continues_its_schedule_over_the_plan(game, small, tmp_path):
    settings = SETTINGS.model_copy(update={"schedule": "cosine", "schedule_over": "plan"})
    whole = fresh(game, small, settings)
    whole.progress = 0.625
    whole.step()
    save(tmp_path, *pack(game, small, whole, Accounts(active_s=12.5)))
    second, checkpoint = resumed(tmp_path, game, small, settings)
    assert (second.progress, checkpoint.accounts.active_s) == (0.625, 12.5)
    one, two = whole.step(), second.step()
    assert one == two
    assert one.learning_rate < settings.learning_rate


def test_a_checkpoint_before_the_first_step_can_be_resumed(game, small, tmp_path):
    save(tmp_path, *pack(game, small, fresh(game, small), Accounts()))
    learner, _ = resumed(tmp_path, game, small)
    learner.step()


def test_accounts_survive_a_checkpoint(game, small, tmp_path):
    accounts = Accounts(candidate_version=4, candidate_samples=1234, candidate_trained=77, marks=((0, 0), (256, 8000)))
    save(tmp_path, *pack(game, small, fresh(game, small), accounts))
    assert resumed(tmp_path, game, small)[1].accounts == accounts


def test_the_newest_of_several_checkpoints_is_loaded_and_two_are_kept(game, small, tmp_path):
    learner = fresh(game, small)
    for version in range(1, 5):
        save(tmp_path, *pack(game, small, learner, Accounts(candidate_version=version)))
    assert resumed(tmp_path, game, small)[1].accounts.candidate_version == 4
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["00000003", "00000004"]


def test_an_old_checkpoint_that_cannot_be_removed_is_reported_and_the_new_one_is_in_place(game, small, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "00000001").symlink_to(tmp_path / "elsewhere")  # which no rmtree removes
    learner = fresh(game, small)
    with structlog.testing.capture_logs() as logged:
        for version in (2, 3, 4):
            path = save(tmp_path, *pack(game, small, learner, Accounts(candidate_version=version)))
    assert path == tmp_path / "00000004"
    assert resumed(tmp_path, game, small)[1].accounts.candidate_version == 4
    assert [line["event"] for line in logged] == ["checkpoint.not_removed"] * 2
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["00000001", "00000003", "00000004", "elsewhere"]


@pytest.mark.parametrize("name", ["²", "٣", "1" * 200, "notes"])
def test_a_directory_that_is_not_a_checkpoint_is_ignored(tmp_path, name):
    (tmp_path / name).mkdir()
    assert load_latest(tmp_path, unpack) is None


def test_a_pipe_in_place_of_a_checkpoint_is_an_error_and_not_waited_for(tmp_path):
    (tmp_path / "00000001").mkdir()
    os.mkfifo(tmp_path / "00000001" / "checkpoint.json")
    with pytest.raises(CorruptModel, match="Not a regular file"):
        load_latest(tmp_path, unpack)


def test_a_new_directory_has_no_checkpoint(tmp_path):
    assert load_latest(tmp_path, unpack) is None
    assert load_latest(tmp_path / "absent", unpack) is None


@pytest.mark.parametrize("name", ["state.safetensors", "checkpoint.json"])
@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, -1])
def test_a_truncated_checkpoint_is_an_error_with_advice(game, small, tmp_path, name, keep):
    learner = fresh(game, small)
    save(tmp_path, *pack(game, small, learner, Accounts(candidate_version=1)))
    path = save(tmp_path, *pack(game, small, learner, Accounts(candidate_version=2))) / name
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep) if keep == 0.5 else keep])
    with pytest.raises(CorruptModel, match=r"remove .*00000002 to resume from the previous one"):
        load_latest(tmp_path, unpack)
    shutil.rmtree(path.parent)
    assert resumed(tmp_path, game, small)[1].accounts.candidate_version == 1


def test_a_flipped_bit_in_a_checkpoint_is_detected(game, small, tmp_path):
    path = save(tmp_path, *pack(game, small, fresh(game, small), Accounts())) / "state.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 4
    path.write_bytes(content)
    with pytest.raises(CorruptModel, match="damaged"):
        load_latest(tmp_path, unpack)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"game": "go"}, "game go"),
        ({"encoder": "f" * 16}, "encoder f"),
        ({"parameters": {"size": "5"}}, "parameters"),
        ({"optimizer": "sgd"}, "optimizer sgd"),
        ({"schema": 9}, "schema 9"),
    ],
)
def test_a_checkpoint_of_another_game_or_schema_is_refused_with_the_difference(game, small, tmp_path, change, said):
    path = save(tmp_path, *pack(game, small, fresh(game, small), Accounts())) / "checkpoint.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(VersionSkew, match=said):
        resumed(tmp_path, game, small)


def test_a_checkpoint_of_another_network_is_refused(game, small, tmp_path):
    save(tmp_path, *pack(game, small, fresh(game, small), Accounts()))
    with pytest.raises(VersionSkew, match="has network"):
        resumed(tmp_path, game, small.model_copy(update={"blocks": 2}))


def test_a_failed_write_keeps_the_old_checkpoint(game, small, tmp_path, monkeypatch):
    learner = fresh(game, small)
    save(tmp_path, *pack(game, small, learner, Accounts(candidate_version=1)))

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="No space"):
            save(tmp_path, *pack(game, small, learner, Accounts(candidate_version=2)))
    assert resumed(tmp_path, game, small)[1].accounts.candidate_version == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["00000001"]


CRASHING = """
import sys
from pathlib import Path
import games
from games.core import make
from trainer.checkpoint import pack
from trainer.checkpoint_files import save
from trainer.learners.contract import Accounts
from trainer.learner import Learner
from trainer.network import new_network
from trainer.window import SampleWindow
from zerofleet.presets import NetworkSettings, TrainSettings
game = make("tic_tac_toe")
network = NetworkSettings(blocks=1, channels=8, policy_channels=2, value_channels=2, value_hidden=8)
settings = TrainSettings()
learner = Learner(game.spec(), new_network(game.spec(), network, seed=1), settings, SampleWindow(game.spec(), settings), seed=1)
for version in (1, 2):
    save(Path(sys.argv[1]), *pack(game, network, learner, Accounts(candidate_version=version)))
"""


@pytest.mark.slow
def test_a_trainer_killed_while_writing_a_checkpoint_leaves_the_previous_one(game, small, tmp_path):
    environment = {**os.environ, "ZEROFLEET_TEST_CRASH_AT": "trainer_checkpoint_before_rename:2"}
    command = [sys.executable, "-W", "ignore", "-c", CRASHING, str(tmp_path)]
    assert subprocess.run(command, env=environment, timeout=120, check=False).returncode == -9
    assert load_latest(tmp_path, unpack)[0].accounts.candidate_version == 1
    save(tmp_path, *pack(game, small, fresh(game, small), Accounts(candidate_version=3)))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["00000001", "00000002"]
