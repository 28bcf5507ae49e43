"""Answer questions about positions as the inference server does; print, as JSON, what its event loop loaded or compiled."""

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from inference_server.analysis import Analyst, Question

sys.path.insert(0, str(Path(__file__).parents[1]))

from event_loop import watch


class Plane:
    """Uniform evaluations in memory that cannot be written, in place of the device's."""

    def find(self, model, version):
        return SimpleNamespace(version=1, manifest=SimpleNamespace(model=model))

    async def evaluate(self, served, states, legal, *, patience_s, priority):
        policy = (legal >= 0) / (legal >= 0).sum(axis=1, keepdims=True)
        value = np.frombuffer(np.zeros((len(states), 2), np.float32).tobytes(), np.float32).reshape(-1, 2)
        return SimpleNamespace(output=(policy.astype(np.float16), value))


async def main():
    seen, analyst, found = watch(), Analyst(Plane(), max_simulations=100, max_searches=1), []
    for moves, simulations in (("a1", 0), ("a1", 20), ("a1 b1 a2 b2 a3", 20)):
        asked = Question(game="tic_tac_toe", parameters={}, moves=moves.split(), version=1, simulations=simulations, seed=0)
        found.append(len((await analyst.opinion(asked)).moves))
    print(json.dumps({"moves": found, "on the event loop": seen}))


if __name__ == "__main__":
    asyncio.run(main())
