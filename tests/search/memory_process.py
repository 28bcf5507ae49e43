"""A process that searches 512 games of 400 simulations a move for a while and says how much memory it took."""

from __future__ import annotations

import json
import resource
import sys

from search_bench import answer_uniform

import games
from zerofleet.search import SearchBlock, SearchSettings

if __name__ == "__main__":
    slots, simulations, moves = (int(argument) for argument in sys.argv[1:])
    game = games.make("connect_four")
    block = SearchBlock(game, SearchSettings(simulations=simulations), slots=slots)
    for slot in range(slots):
        block.begin(slot, seed=slot, versions=[1, 1])
    while block.counters.moves < slots * moves:
        block.absorb(*answer_uniform(block.advance(), 2))
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sys.stdout.write(json.dumps({"peak_bytes": peak_kib * 1024, "array_bytes": block.nbytes, "moves": block.counters.moves}))
