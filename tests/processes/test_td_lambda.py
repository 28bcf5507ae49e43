"""The experiment of TD(lambda) on Connect Four as a run: it ends with a champion, a ladder and a player."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import games
from zerofleet.contracts.naming import model_name
from zerofleet.storage.model_store import DirectoryStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1100)]  # a machine that is loaded takes minutes

EXAMPLE = Path(__file__).parents[2] / "examples" / "connect_four_td.toml"
START = "from zerofleet.cli import main; main()"
INPUTS = 212  # of the thesis: 5 for each of 42 cells, and 2 for the turn
# The example leaves the processors to learning: its measurements take a small share of the time, and its ladder of searches
# begins late and rests. Here both go on from the first champion, with the two lowest rungs.
SET = (
    "td_lambda.publish_every_games=100",
    "gate.simulations=4",
    "gate.watch_share=1",
    "gate.rungs=random,alpha_beta:1",
    "gatekeeper.ladder_delay_s=0",
    "gatekeeper.ladder_time_share=1",
)
WORDS = [word for item in SET for word in ("--set", item)]


async def zerofleet(*words: str, typed: str = "") -> str:
    """Return the output of a command, which must succeed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", START, *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate(typed.encode())
    assert process.returncode == 0, out.decode()
    return out.decode()


async def test_the_example_of_td_lambda_ends_with_a_champion_a_ladder_and_a_player(
    start_run: Callable[..., AbstractAsyncContextManager[Any]], check_promises: Callable[..., Any], tmp_path: Path
) -> None:
    name = model_name(games.make("connect_four", encoding="feature"))
    async with start_run("--config", str(EXAMPLE), "--seed", "1", *WORDS, game="connect_four", preset="laptop") as run:
        await run.until(r"candidate 1 promoted: first champion")
        await run.until(r"candidate [2-9]\d* promoted")
        await run.until(r"  champion .*\d+ Elo")  # rated on the run's own ladder
        text = await run.end()
    assert run.process.returncode == 0, text
    await check_promises(run.paths, name)

    root, store = str(tmp_path / "run"), DirectoryStore(run.paths.models)
    champion = store.champion(name)
    assert champion is not None
    network = store.verify(name, champion.version).network
    assert (network["inputs"], list(network["hidden"])) == (INPUTS, [100])

    words = ("--games", "2", "--simulations", "2", "--rungs", "random", "--every", "1000", "--json")
    rated = json.loads(await zerofleet("ladder", "--run-dir", root, *words))["champions"]
    assert champion.version in [entry["version"] for entry in rated]
    assert all([row["rung"] for row in entry["against"]] == ["random"] for entry in rated)

    played = await zerofleet(
        "play", "connect_four", "--set", "encoding=feature", "--run-dir", root, "--simulations", "8", typed="d\nquit\n"
    )
    assert f"O (champion {champion.version}) plays" in played
