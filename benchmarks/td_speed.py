"""Speed of TD(lambda) on one core: play without a tree, records, validation and learning, in one process in turn.

    python benchmarks/td_speed.py --games 2000 --encoding feature

One block of games is played with the weights as they were when it began; its records are encoded, decoded, validated and
learned from in order; then the next block begins. The figures are per second of processor time of this process.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from games.core import make
from trainer.learners.td_lambda.learner import TdLambda
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.evaluators.in_process.kernels import values
from zerofleet.evaluators.in_process.perceptrons import bit_perceptron
from zerofleet.presets.td_lambda import TdLambdaSettings
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.search.afterstates.settings import AfterstateSettings


class Parts:
    """Processor time by part, and counts."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.evaluations = self.positions = self.games = 0

    def charge(self, part: str, began: float) -> float:
        """Add the time since `began` to a part; return the time now."""
        now = time.process_time()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - began
        return now


def play_and_learn(learner: TdLambda, parts: Parts, *, slots: int, seed: int) -> None:
    """Play a block of games to their ends, and learn from them."""
    game = learner.game
    began = time.process_time()
    block = AfterstateBlock(game, AfterstateSettings(), slots=slots)
    for slot in range(slots):
        block.begin(slot, seed=seed + slot, versions=[1, 1])
    network = bit_perceptron(learner.net, game.spec(), sign=-1.0)
    while len(block.finished()) < slots:
        leaves = block.advance()
        began = parts.charge("play", began)
        chances = np.empty(len(leaves.batch), np.float32)
        values(network.net, leaves.batch.states & network.read, chances)
        began = parts.charge("evaluation", began)
        parts.evaluations += len(chances)
        mine = 1.0 - 2.0 * chances
        block.absorb(np.empty(0), np.stack([mine, -mine], axis=1))
        began = parts.charge("play", began)
    records = [encode_record(block.take(slot), worker_id="bench", uid=f"{seed + slot:032x}") for slot in range(slots)]
    began = parts.charge("records", began)
    for record in records:
        learner.window.add(learner.window.read(validate(decode_record(record))))
    began = parts.charge("validation", began)
    while learner.steps_allowed():
        parts.positions += learner.step().samples
    parts.charge("learning", began)
    parts.games += slots


def main() -> int:
    """Measure and print a line for each part."""
    parser = argparse.ArgumentParser(description="Measure TD(lambda) on one core.")
    parser.add_argument("--games", type=int, default=2_000)
    parser.add_argument("--slots", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=100)
    parser.add_argument("--layers", type=int, default=1, help="hidden layers")
    parser.add_argument("--encoding", default="planes", help="planes, naive, extended or feature")
    given = parser.parse_args()
    settings = TdLambdaSettings(hidden=given.hidden, layers=given.layers)
    learner = TdLambda(make("connect_four", encoding=given.encoding), settings, seed=0)
    play_and_learn(learner, Parts(), slots=given.slots, seed=0)  # compiles
    parts = Parts()
    while parts.games < given.games:
        play_and_learn(learner, parts, slots=given.slots, seed=1_000_000 + parts.games)
    total = sum(parts.seconds.values())
    for part, seconds in parts.seconds.items():
        sys.stdout.write(f"{part:12} {1e6 * seconds / parts.games:8.0f} us a game\n")
    sys.stdout.write(f"{'all':12} {1e6 * total / parts.games:8.0f} us a game, {parts.games / total:.0f} games a second\n")
    sys.stdout.write(f"evaluations  {parts.evaluations / parts.seconds['evaluation']:,.0f} a second\n")
    sys.stdout.write(f"100,000 games {total / parts.games * 1e5:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
