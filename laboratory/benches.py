"""Benchmarks of the command line as stages: their output, and the counts that claims are about."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from zerofleet.errors import Unavailable
from zerofleet.presets.theses.stages import BenchStage

__all__ = ["rhombus_measures", "run_bench"]

_COMMAND = """
import sys
from zerofleet.service.process_end import end_with
alive = end_with(int(sys.argv.pop(1)))
from zerofleet.cli import main
main() if alive else sys.exit(1)
"""


async def run_bench(stage: BenchStage) -> dict[str, Any]:
    """Return the output of a stage's command and its measures. Raises `Unavailable` with the exit code of a failed one.

    The command ends with this process, which is killed where a reproduction is terminated. Cancellation: the command is ended.
    """
    command = (sys.executable, "-c", _COMMAND, str(os.getpid()), *stage.words)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise Unavailable(f"zerofleet {' '.join(stage.words)} exited with code {process.returncode}")
    found = json.loads(output)
    return {"tallies": [], "measures": rhombus_measures(found), "output": found}


def rhombus_measures(output: dict[str, Any]) -> dict[str, float]:
    """Return the measures of `zerofleet bench rhombus_search --json`: nodes and times of one row relative to another."""
    cells = {(step["step"], depth["depth"]): depth for step in output["steps"] for depth in step["depths"]}
    lists = {(one["moves"], one["generation"]): one["us_per_list"] for one in output["generators"]}
    found = {}
    for depth in sorted({depth for _, depth in cells}):
        minimax, whole = cells.get(("minimax", depth)), cells.get(("floods instead", depth))
        if minimax and whole and whole["ms"]:
            found[f"nodes of minimax per node of the agent, {depth} plies"] = minimax["nodes"] / whole["nodes"]
            found[f"time of minimax per time of the agent, {depth} plies"] = minimax["ms"] / whole["ms"]
    for plain in output["plain"]:
        found[f"time of plain Python per time of the agent, {plain['depth']} plies"] = plain["plain_ms"] / plain["search_ms"]
    fresh = lists["full", "fresh"]
    for generation in ("upward", "channels", "flood"):
        found[f"time saved by {generation} lists, %"] = 100.0 * (1.0 - lists["full", generation] / fresh)
    return found
