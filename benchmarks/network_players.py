"""Processor time of players that evaluate a small network in this process: alpha-beta to a depth, and UCT with priors.

    python benchmarks/network_players.py --encoding feature --games 2000 --positions 60
    python benchmarks/network_players.py --encoding feature --columns 25 --games 2000 --positions 60

A network of TD(lambda) is trained for a few games, since move ordering depends on its values. Each agent then chooses a move
in positions of random games, twice in turn: by compiled code that evaluates the network itself, and by calls of an evaluator,
one for each batch. Both must choose the same moves. UCT runs `--simulations` simulations, and the number within 4 ms follows.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from benchmarks.td_speed import Parts, play_and_learn
from games import core
from games.core import Game, State, make
from games.positions import legal, new_state
from laboratory.evaluation import MemoryEvaluator, ValueNetwork
from trainer.learners.td_lambda.learner import TdLambda
from zerofleet.agents import make_agent
from zerofleet.agents.base import Evaluate
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.presets.td_lambda import TdLambdaSettings

LATEST_PLY = 24
BUDGET_MS = 4.0


def positions(game: Game, count: int, seed: int) -> list[State]:
    """Return positions of random games, none of them over, at plies 0 to `LATEST_PLY`."""
    rng = np.random.default_rng(seed)
    found: list[State] = []
    while len(found) < count:
        state = new_state(game)
        for _ in range(int(rng.integers(LATEST_PLY + 1))):
            if core.is_over(game, state):
                break
            core.play(game, state, int(rng.choice(legal(game, state))))
        if not core.is_over(game, state):
            found.append(state)
    return found


def milliseconds(text: str, game: Game, evaluate: Evaluate, states: list[State]) -> tuple[np.ndarray, list[int], float]:
    """Return the processor milliseconds of each move, the moves, and the mean number of nodes."""
    agent = make_agent(text, game, evaluate=evaluate)
    agent.choose(game, states[0], np.random.default_rng(0))  # compiles
    spent, moves, nodes = np.empty(len(states)), [], 0
    for i, state in enumerate(states):
        began_s = time.process_time()
        choice = agent.choose(game, state, np.random.default_rng(i))
        spent[i] = 1000.0 * (time.process_time() - began_s)
        moves.append(choice.action)
        nodes += choice.nodes
    return spent, moves, nodes / len(states)


def main() -> int:
    """Measure and print a line for each player."""
    parser = argparse.ArgumentParser(description="Measure players with a network in this process.")
    parser.add_argument(
        "--encoding", default="feature", help="naive, extended or feature: 43, 128 or 212 inputs with 7 columns"
    )
    parser.add_argument("--columns", default="7", help="width of the board")
    parser.add_argument("--hidden", type=int, default=100)
    parser.add_argument("--games", type=int, default=2_000, help="games of training before")
    parser.add_argument("--positions", type=int, default=60)
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    game = make("connect_four", encoding=given.encoding, columns=given.columns)
    learner = TdLambda(game, TdLambdaSettings(hidden=given.hidden), seed=given.seed)
    parts = Parts()
    while parts.games < given.games:
        play_and_learn(learner, parts, slots=128, seed=parts.games)
    local = MemoryEvaluator(ValueNetwork(learner.net, game.spec(), sign=-1.0))

    def by_request(batch: LeafBatch, version: ModelVersion) -> Evaluation:
        return local(batch, version)

    states = positions(game, given.positions, given.seed)
    network = f"{game.spec().num_inputs}-{given.hidden}-1"
    sys.stdout.write(f"{network}, {given.columns} columns, {len(states)} positions, processor milliseconds a move\n")
    sys.stdout.write(f"{'player':28}{'compiled: mean':>16}{'95th':>8}{'by calls: mean':>16}{'ratio':>8}{'nodes':>10}\n")
    for text in ("alpha_beta:3,model=1", "alpha_beta:5,model=1", f"uct:{given.simulations},model=1"):
        fast, moves, nodes = milliseconds(text, game, local, states)
        slow, others, _ = milliseconds(text, game, by_request, states)
        if moves != others:
            raise AssertionError(f"{text}: the compiled search chose other moves")
        means = f"{fast.mean():16.3f}{np.percentile(fast, 95):8.3f}{slow.mean():16.3f}{slow.mean() / fast.mean():8.1f}"
        sys.stdout.write(f"{text:28}{means}{nodes:10,.0f}\n")
        if text.startswith("uct"):
            sys.stdout.write(f"simulations in {BUDGET_MS:g} ms: {BUDGET_MS * given.simulations / fast.mean():,.0f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
