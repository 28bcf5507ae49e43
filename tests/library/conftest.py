"""One small trained run for all tests of the library, and the modules of this folder for its tests."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import zerofleet as zf

sys.path.insert(0, str(Path(__file__).parent))

SMALL = {
    "network.channels": 8,
    "search.simulations": 8,
    "search.fast_simulations": 4,
    "train.min_samples": 100,
    "train.samples_per_candidate": 300,
    "train.batch_size": 32,
    "gate.simulations": 8,
    "gate.max_pairs": 4,
    "gate.ladder_games": 2,
    "gate.ladder_depth": 1,
    "selfplay.slots": 16,
}


@pytest.fixture(scope="session")
def small() -> Mapping[str, object]:
    """Settings of a loop that is whole and small."""
    return SMALL


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a stopped run of tic-tac-toe, `runs/tic_tac_toe-tiny`, with a champion, games and steps."""
    root = tmp_path_factory.mktemp("trained") / "runs" / "tic_tac_toe-tiny"
    with zf.train("tic_tac_toe", preset="tiny", run_dir=root, seed=7, settings=SMALL, progress=False) as run:
        while not (_has_champion(run) and any(run.games()) and (root / "models/tic_tac_toe/2").exists()):  # 1 is untrained
            assert not run.wait(0.2)
        run.stop()
        run.stop()  # the end of the block stops it once more
        assert run.wait(0)
    return root


def _has_champion(run: zf.Run) -> bool:
    try:
        return run.champion().version > 0
    except zf.ZerofleetError:
        return False
