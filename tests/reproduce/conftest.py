"""The stages and the report of the thesis of the tests, and modules for the tests of this folder."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from laboratory.stage import run_stage
from zerofleet.cli.reproduce.report import build_report
from zerofleet.cli.reproduce.results import StageResults
from zerofleet.presets.theses.catalogue import load_thesis
from zerofleet.presets.theses.planning import plan

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the results of the profile tiny, run in this process."""
    results = StageResults(tmp_path_factory.mktemp("reproduction"))
    for planned in plan(load_thesis("self_test"), "tiny"):
        found = asyncio.run(run_stage(planned.stage, results.folder, emit=lambda *_: None))
        results.keep(planned.stage, found, seconds=1.0)
    return results.folder


@pytest.fixture
def report(tiny: Path) -> dict[str, Any]:
    """Return the report on these results."""
    thesis = load_thesis("self_test")
    return build_report(thesis, "tiny", plan(thesis, "tiny"), StageResults(tiny), seeds=None)
