"""The same search without compilation, as a debugger wants it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import numpy as np
import games
from zerofleet.search import SearchBlock, SearchSettings

block = SearchBlock(games.make("tic_tac_toe"), SearchSettings(simulations=10, cache_positions=64), slots=2)
for slot in range(2):
    block.begin(slot, seed=slot, versions=[1, 1])
played = []
while len(played) < 2:
    legal = block.advance().batch.legal >= 0
    if len(legal):
        block.absorb(legal / legal.sum(axis=1, keepdims=True), np.zeros((len(legal), 2)))
    played += [block.take(slot).moves.tolist() for slot in block.finished()]
print(sorted(played))
"""


HIDDEN = """
import sys
sys.path.insert(0, {folder!r})
from hidden_bench import THREE, search
from zerofleet.search import SearchBlock, SearchSettings

for mode in ("predict", "determinise"):
    block = SearchBlock(THREE, SearchSettings(simulations=10, information=mode), slots=2)
    for slot in range(2):
        block.begin(slot, seed=slot, versions=[1, 2, 3])
    search(block)
    print([block.take(slot).moves.tolist() for slot in range(2)])
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [PROGRAM, HIDDEN.format(folder=str(Path(__file__).parent))], ids=["open", "hidden"])
def test_plain_python_and_compiled_code_play_the_same_games(program):
    outputs = []
    for disabled in ("0", "1"):
        environment = {**os.environ, "NUMBA_DISABLE_JIT": disabled}
        command = [sys.executable, "-W", "error", "-c", program]
        outputs.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert outputs[0] == outputs[1] != "[]\n"
