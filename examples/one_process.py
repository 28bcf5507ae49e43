"""The whole loop on one page: tic-tac-toe is learnt from nothing in one process, with the parts of which the fleet is made.

    $ python examples/one_process.py
    version  games   loss  value of the position kept by the policy alone
          1      0    nan  45% of 197 positions
          2    256  1.977  65% of 197 positions
          ...
          9   2048  0.793  90% of 197 positions

In a fleet each function below is a process: `self_play` the worker with its inference server, `learn` the trainer. Between
them a stream carries the records, and a gatekeeper lets a candidate play only when it beats the champion.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import structlog
import torch

import games
from games import Game
from trainer.export import Lineage, export_network
from trainer.learner import Learner
from trainer.network import new_network
from trainer.samples import extract
from trainer.window import SampleWindow
from zerofleet.contracts.model_checks import MODEL_FILE
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.records import decode_record, encode_record, new_uid, validate
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.presets import NetworkSettings, TrainSettings
from zerofleet.search import PlayedGame, SearchBlock, SearchSettings
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.strength.accuracy import grade, model_chooser, random_positions, yardstick
from zerofleet.testing import FunctionEvaluator

SEARCH = SearchSettings(simulations=40, temperature_plies=9)  # always some luck: a game that is repeated teaches nothing new
NETWORK = NetworkSettings(blocks=1, channels=16, policy_channels=4, value_channels=4, value_hidden=32)
TRAIN = TrainSettings(batch_size=128, learning_rate=5e-3, warmup_steps=10, average_decay=0.95, window_min=5_000)


@dataclass(frozen=True, slots=True)
class Round:
    """Result of one turn of the loop."""

    version: int
    games: int
    """Games played so far."""
    loss: float
    """Mean of the round's steps; nan for the untrained network."""
    kept: int
    """Positions, out of `positions`, in which the network's likeliest move keeps a win a win and a draw a draw."""
    positions: int


def evaluate(model: torch.jit.ScriptModule, batch: LeafBatch) -> tuple[np.ndarray, np.ndarray]:
    """Return policy [B, L] and value [B, P] of positions: the work of an inference server, without batches of many clients."""
    with torch.inference_mode():
        policy, value = model(torch.from_numpy(batch.states.copy()), torch.from_numpy(batch.legal.copy()))
    return policy.numpy(), value.numpy()


def self_play(game: Game, model: torch.jit.ScriptModule, version: int, *, count: int, seed: int) -> list[PlayedGame]:
    """Play games of a version against itself, side by side, so that their positions are evaluated together."""
    block = SearchBlock(game, SEARCH, slots=count)
    for slot in range(count):
        block.begin(slot, seed=seed + slot, versions=[version, version])
    while len(block.finished()) < count:
        leaves = block.advance()  # each search goes on until it needs the network
        block.absorb(*evaluate(model, leaves.batch))
    return [block.take(slot) for slot in range(count)]


def learn(game: Game, directory: Path, *, rounds: int, count: int, steps: int, seed: int) -> Iterator[Round]:
    """Yield the untrained network's round and one for each turn of the loop."""
    torch.set_num_threads(1)  # for a network as small as this one, threads wait for each other
    window = SampleWindow(game.spec(), TRAIN)
    learner = Learner(game.spec(), new_network(game.spec(), NETWORK, seed=seed), TRAIN, window, seed=seed)
    store = DirectoryStore(directory)
    network, losses, played = learner.network, [float("nan")], 0
    for turn in range(rounds + 1):
        # Export checks that the TorchScript answers as the network does; verify checks the files against their manifest.
        version = export_network(store, game, network, NETWORK, lineage=Lineage(turn, learner.state.step, played))
        store.verify(model_name(game), version, game=game)
        path = store.directory(model_name(game), version) / MODEL_FILE
        model: torch.jit.ScriptModule = torch.jit.load(path)  # type: ignore[no-untyped-call]
        yield Round(version, played, float(np.mean(losses)), *asyncio.run(accuracy(game, model, version)))
        if turn == rounds:
            return
        for one in self_play(game, model, version, count=count, seed=seed + played):
            # A record holds moves and searches, no planes: validation replays it by the rules, and rejects a false claim.
            payload = encode_record(one, worker_id="example", uid=new_uid(seed, "example", played, nonce=0))
            window.add(extract(validate(decode_record(payload)), TRAIN))
            played += 1
        losses = [learner.step().total for _ in range(steps)]
        network = learner.candidate()  # averaged weights: less noise than the last step's


async def accuracy(game: Game, model: torch.jit.ScriptModule, version: int) -> tuple[int, int]:
    """Return in how many positions, of how many, the policy alone keeps the value: games of tic-tac-toe can be solved."""
    evaluator = FunctionEvaluator(lambda batch, _: evaluate(model, batch))
    choose = model_chooser(game, evaluator, version=ModelVersion(version), simulations=0, seed=0)
    # Positions in which every move is as good as the next measure nothing, and are left out.
    positions = random_positions(game, count=300, seed=1)
    (graded,) = grade(yardstick(game), game, positions, [await choose(positions)])
    telling = [move.kept for move in graded if move.decides]
    return sum(telling), len(telling)


def main() -> None:
    """Learn for eight rounds and print a line for each."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("warning"))  # no log lines within the table
    print("version  games   loss  value of the position kept by the policy alone")
    with tempfile.TemporaryDirectory() as directory:
        for row in learn(games.make("tic_tac_toe"), Path(directory), rounds=8, count=256, steps=60, seed=0):
            share = f"{row.kept / row.positions:.0%} of {row.positions} positions"
            print(f"{row.version:>7}  {row.games:>5}  {row.loss:>5.3f}  {share}", flush=True)


if __name__ == "__main__":
    main()
