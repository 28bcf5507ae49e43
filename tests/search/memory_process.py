"""A process that searches 512 games of 400 simulations a move for a while and says how much memory it took."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import games
from zerofleet.search import SearchBlock, SearchSettings

sys.path.insert(0, str(Path(__file__).parents[1]))
from peak_memory import peak_bytes
from search_bench import answer_uniform

if __name__ == "__main__":
    slots, simulations, moves = (int(argument) for argument in sys.argv[1:])
    game = games.make("connect_four")
    block = SearchBlock(game, SearchSettings(simulations=simulations), slots=slots)
    for slot in range(slots):
        block.begin(slot, seed=slot, versions=[1, 1])
    while block.counters.moves < slots * moves:
        block.absorb(*answer_uniform(block.advance(), 2))
    sys.stdout.write(json.dumps({"peak_bytes": peak_bytes(), "array_bytes": block.nbytes, "moves": block.counters.moves}))
