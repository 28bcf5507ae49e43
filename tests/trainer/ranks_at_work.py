"""Steps of a learner on made-up samples: what each rank of a process group does, started by `test_process_group.py`.

    torchrun --nproc-per-node 2 ranks_at_work.py DIRECTORY

Writes what every step reported and what the network became as DIRECTORY/<case>-<rank>.json, for every case.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from games.core import make
from trainer.checkpoint import pack
from trainer.checkpoint_files import save
from trainer.follower import Follower, invitation
from trainer.learner import Learner
from trainer.learners.contract import Accounts
from trainer.network import new_network
from trainer.process_group import ProcessGroup
from trainer.ranks import Ranks, place_in
from trainer.samples import Samples
from trainer.settings import TrainerSettings
from trainer.window import SampleWindow
from zerofleet.contracts.encodings import sample_positions
from zerofleet.presets import NetworkSettings, TrainSettings

SMALL = {"blocks": 2, "channels": 8, "policy_channels": 2, "value_channels": 2, "value_hidden": 8}


RICH = {**SMALL, "global_pooling": 3, "squeeze": 4, "heads": ["reply"]}


@dataclass(frozen=True)
class Case:
    """A game, a network, a way to train it."""

    game: str
    network: dict
    train: dict
    steps: int = 20
    bad_step: int = -1
    """In which the gradient of the last rank is not finite."""


OVER_PLAN = {"schedule": "linear", "schedule_over": "plan"}
CASES = {
    # 33 positions do not divide by two, and the extra heads have targets in some of them only
    "sgd": Case(
        "tic_tac_toe", {**SMALL, "heads": ["opponents", "plies_left"]}, {"batch_size": 33, "optimizer": "sgd", **OVER_PLAN}
    ),
    "adamw": Case("connect_four", SMALL, {"batch_size": 32, "schedule": "cosine", "schedule_steps": 40}, bad_step=7),
    "weights": Case("tic_tac_toe", RICH, {"batch_size": 33, "merge_equal": "log", "surprise_share": 0.5}, steps=5),
    "perceptron": Case("tic_tac_toe", {"kind": "perceptron", "hidden": [16]}, {"batch_size": 7}, steps=3),
}


def learner_of(case: Case, ranks: Ranks | None = None) -> Learner:
    """Return a new learner of a case, its window full of made-up samples."""
    spec = make(case.game).spec()
    train = TrainSettings(min_samples=1, warmup_steps=5, learning_rate=5e-3, max_reuse=1e9, average_decay=0.9)
    train = train.model_copy(update=case.train)
    window = SampleWindow(spec, train)
    window.add(made_up(case.game))
    network = new_network(spec, NetworkSettings.model_validate(case.network), seed=3)
    return Learner(spec, network, train, window, seed=3, ranks=ranks)


def made_up(name: str) -> Samples:
    """Return samples of random games with random targets, some of them without targets for the extra heads."""
    game = make(name)
    states, legal = sample_positions(game, games=12, seed=0)
    rng = np.random.default_rng(0)
    policy = np.where(legal >= 0, rng.random(legal.shape), 0)
    won = rng.choice([-1.0, 0.0, 1.0], len(states)).astype(np.float32)
    opponents = rng.integers(-3, game.spec().num_actions, (len(states), 1)).clip(-1).astype(np.int16)
    plies_left = rng.uniform(-0.5, 1, len(states)).clip(-0.25).astype(np.float32)
    policy = (policy / policy.sum(axis=1, keepdims=True)).astype(np.float16)
    plies_left, weight = np.where(plies_left < 0, -1, plies_left), rng.uniform(0.2, 1.0, len(states)).astype(np.float32)
    reply = rng.integers(-3, game.spec().num_actions, len(states)).clip(-1).astype(np.int16)
    return Samples(states, legal, policy, np.stack([won, -won], axis=1), opponents, plies_left, reply, weight)


def spoil(learner: Learner) -> None:
    """Make the next gradient of this rank infinite."""
    weight = next(learner.network.parameters())
    hook = weight.register_hook(lambda gradient: [hook.remove(), gradient * float("inf")][1])


def work(case: Case, learner: Learner) -> list[dict]:
    """Take the steps of a case on rank 0, or alone; return the reports."""
    reports = []
    for step in range(case.steps):
        if step == case.bad_step and not isinstance(learner._ranks, ProcessGroup):
            spoil(learner)
        learner.progress = step / case.steps
        report = learner.step()
        reports.append({name: getattr(report, name) for name in ("total", "policy", "value", "gradient_norm", "skipped")})
        reports[-1] |= report.extra
    return reports


def state_of(learner: Learner) -> dict:
    """Return what must be the same on every rank, tensors as a hash."""
    tensors = {f"network.{name}": tensor for name, tensor in learner.network.state_dict().items()}
    tensors |= {f"average.{number}": tensor for number, tensor in enumerate(learner.average.weights)}
    for number, (_, state) in enumerate(sorted(learner.optimizer.state_dict()["state"].items())):
        tensors |= {f"optimizer.{number}.{name}": tensor for name, tensor in state.items() if tensor is not None}
    hashes = {name: hashlib.sha256(t.detach().contiguous().numpy().tobytes()).hexdigest() for name, t in tensors.items()}
    return {**hashes, "counts": str(learner.state), "rate": str(learner.optimizer.param_groups[0]["lr"])}


def main() -> None:
    """Do every case."""
    directory = Path(sys.argv[1])
    torch.set_num_threads(1)
    place = place_in(os.environ)
    group = ProcessGroup.join(place, torch.device("cpu"), timeout_s=60)
    for name, case in CASES.items():
        reports: list[dict] = []
        if place.rank == 0:
            learner = learner_of(case, group)
            game, network = make(case.game), NetworkSettings.model_validate(case.network)
            told = TrainerSettings(game=case.game, network=network, train=learner.settings, seed=3)
            group.invite(invitation(game, told, learner, Accounts()))
            reports = work(case, learner)
            learner.candidate()  # which rank 0 makes alone
            save(directory / name, *pack(game, network, learner, Accounts()))
        else:
            follower = Follower(group, torch.device("cpu"))
            follower.obey()
            learner = follower.learner
            for step in range(case.steps):
                if step == case.bad_step:
                    spoil(learner)
                follower.obey()
        (directory / f"{name}-{place.rank}.json").write_text(json.dumps({"reports": reports, "state": state_of(learner)}))
    if place.rank == 0:
        group.end()
    else:
        follower.obey()
    group.leave()


if __name__ == "__main__":
    main()
