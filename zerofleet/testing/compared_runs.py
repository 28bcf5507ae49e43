"""A small stopped run with stored games and two perceptrons whose difference is known, made without torch.

The second version has the weights of the first one, with other biases of its heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from games.core import Game, make
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.manifests import Golden
from zerofleet.contracts.model_checks import WEIGHTS_FILE
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.records import encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.in_process.layers import PerceptronNetwork
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.runs import RunDirectory
from zerofleet.testing.models import manifest_of, sample_files, uniform_golden

__all__ = ["game_uid", "make_compared_run", "perceptron_tensors", "publish_perceptron"]

HIDDEN = 6
CREATED_AT_MS = 1_795_399_200_000  # 2026-11-23T02:00:00Z


def game_uid(number: int) -> str:
    """Return the uid of stored game `number`."""
    return f"{number:04x}" + "ab" * 14


def perceptron_tensors(game: Game, seed: int = 0) -> dict[str, np.ndarray]:
    """Return random weights of a perceptron with one hidden layer and heads for policy and value."""
    rng, spec = np.random.default_rng(seed), game.spec()
    shapes = {
        "trunk.layers.0": (HIDDEN, spec.num_inputs),
        "policy.out": (spec.num_actions, HIDDEN),
        "value.out": (spec.num_players, HIDDEN),
    }
    tensors = {f"{name}.weight": rng.normal(0.0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    return tensors | {f"{name}.bias": np.zeros(shape[0], np.float32) for name, shape in shapes.items()}


def publish_perceptron(
    store: DirectoryStore, game: Game, tensors: Mapping[str, np.ndarray], *, parent: int = 0, steps: int = 100
) -> int:
    """Publish a perceptron with these weights; return its version."""
    manifest = manifest_of(
        game,
        uniform_golden(game),
        parent_version=parent,
        train_steps=steps,
        games_seen=10 * steps,
        created_at_ms=CREATED_AT_MS + steps,
        network={"kind": "perceptron", "hidden": (HIDDEN,)},
    )
    states, legal = sample_positions(game, games=1, seed=3)
    policy, value, _ = PerceptronNetwork(manifest, tensors, game.spec())(LeafBatch(states, legal))
    files = sample_files() | {WEIGHTS_FILE: save(dict(tensors))}
    return store.publish(model_name(game), files, replace(manifest, golden=Golden.of(states, legal, policy, value)))


def make_compared_run(root: Path, name: str = "tic_tac_toe", *, action: int = 4, shift: float = 2.0, games: int = 9) -> None:
    """Make a run with random games and two versions, of which the second is champion.

    Version 2 adds `shift` to the logit of one action, and half of it to the value's of the player to move.
    """
    game = make(name)
    with RunDirectory.create_or_open(root, name, {}, preset="tiny", seed=1) as run:
        with GameLog.open(run.paths.replay, writer=True) as log:
            log.append(
                [
                    (game_uid(n), encode_record(random_game(game, n), worker_id="worker-0", uid=game_uid(n), finished_at_ms=0))
                    for n in range(games)
                ]
            )
        store, tensors = DirectoryStore(run.paths.models), perceptron_tensors(game)
        publish_perceptron(store, game, tensors)
        moved = {head: tensor.copy() for head, tensor in tensors.items()}
        moved["policy.out.bias"][action] += shift
        moved["value.out.bias"][0] += shift / 2
        publish_perceptron(store, game, moved, parent=1, steps=200)
        store.write_champion(model_name(game), 2, epoch=1, reason="the newest")
