"""Processes of a benchmark: figures by line, and an end that states what failed."""

import asyncio
import sys
from contextlib import AsyncExitStack

import pytest

from zerofleet.cli.bench.processes import started
from zerofleet.errors import Unavailable

PLAYERS = {
    "answering": "import sys\nfor line in sys.stdin:\n    print('{\"asked\": %s}' % line.strip(), flush=True)\n",
    "silent": "import sys\nfor line in sys.stdin:\n    pass\n",
    "failing": "import sys\nsys.stdin.readline()\nsys.exit('no such card')\n",
}


@pytest.fixture
def players(tmp_path, monkeypatch):
    for name, text in PLAYERS.items():
        (tmp_path / f"{name}_player.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return lambda name: started(tmp_path / f"{name}.log", f"{name}_player", threads=1, python=sys.executable)


async def test_a_process_answers_each_duration_with_a_line(players):
    async with players("answering") as process:
        assert await process.run_for(0.5) == {"asked": 0.5}
        assert await process.run_for(2.0) == {"asked": 2.0}


async def measured_together(first, second):
    async with AsyncExitStack() as stack:
        processes = [await stack.enter_async_context(each) for each in (first, second)]
        await asyncio.gather(*(process.run_for(1.0) for process in processes))


async def test_a_failed_process_is_named_by_its_last_lines_while_others_are_still_read(players):
    with pytest.raises(Unavailable, match="exited with code 1: no such card"):
        await measured_together(players("silent"), players("failing"))
