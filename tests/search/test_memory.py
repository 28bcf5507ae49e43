"""Memory of a worker's search: 512 games of 400 simulations a move, measured in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from search_bench import CONNECT_FOUR

from zerofleet.errors import ConfigurationError
from zerofleet.search import SearchBlock, SearchSettings
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.search.afterstates.settings import AfterstateSettings

MIB = 1 << 20


def figures_of_a_process(slots, simulations, moves):
    command = [sys.executable, str(Path(__file__).with_name("memory_process.py")), *map(str, (slots, simulations, moves))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=250)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_512_games_of_400_simulations_take_less_than_500_mb():
    figures_of_a_process(1, 2, 1)  # compiles, should nobody have done so: the compiler's memory is not what is measured
    figures = figures_of_a_process(512, 400, 3)
    assert figures["moves"] >= 512 * 3
    assert figures["peak_bytes"] < 500_000_000


@pytest.mark.parametrize(
    ("allocation", "made"),
    [
        ("zerofleet.search.block.allocate", lambda: SearchBlock(CONNECT_FOUR, SearchSettings(), slots=8)),
        ("zerofleet.search.afterstates.kernel.allocate", lambda: AfterstateBlock(CONNECT_FOUR, AfterstateSettings(), slots=8)),
    ],
)
def test_a_block_that_does_not_fit_into_memory_is_refused_with_the_bounds_of_the_game(allocation, made, monkeypatch):
    def refuse(*_arguments):
        raise MemoryError("Unable to allocate 46.6 GiB")

    monkeypatch.setattr(allocation, refuse)
    with pytest.raises(
        ConfigurationError, match=r"a block of 8 games of connect_four, with up to 42 plies .*46\.6 GiB; lower the"
    ):
        made()


def test_the_arrays_of_a_block_grow_with_games_and_simulations():
    sizes = {
        (slots, simulations): SearchBlock(CONNECT_FOUR, SearchSettings(simulations=simulations), slots=slots).nbytes
        for slots in (8, 64)
        for simulations in (50, 400)
    }
    assert 7 < sizes[64, 50] / sizes[8, 50] <= 8
    assert 4 < sizes[64, 400] / sizes[64, 50] < 8
    assert sizes[64, 400] < 64 * 150 * 1024
    assert (
        SearchBlock(CONNECT_FOUR, SearchSettings(simulations=50, cache_positions=1000), slots=8).nbytes
        > sizes[8, 50] + 1024 * 44
    )


def test_an_empty_block_takes_little_memory():
    block = SearchBlock(CONNECT_FOUR, SearchSettings(simulations=100_000), slots=64)
    assert block.nbytes > 500 * MIB
    block.begin(0, seed=0, versions=[1, 1])
    assert len(block.advance().batch) == 1
