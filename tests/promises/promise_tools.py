"""What the promises are tested with: helpers of other tests' folders, records, and processes that may be killed."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from games.core import Game, make
from zerofleet.contracts.records import encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.storage.crash_points import VARIABLE

FOLDER = Path(__file__).parent
GAME = "tic_tac_toe"


def borrowed(name: str, path: str) -> ModuleType:
    """Load a module of another folder of tests under a name of its own."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, FOLDER.parent / path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def record(number: int, *, of: Game | None = None, version: int = 1, uid: str = "", **changes) -> tuple[str, bytes]:
    """Return uid and payload of a random game."""
    played = replace(random_game(of or make(GAME), number, version=version), **changes)
    uid = uid or f"{number:032x}"
    return uid, encode_record(played, worker_id="worker", uid=uid, finished_at_ms=1_700_000_000_000)


async def process(*command: str, crash_at: str = "", **options) -> asyncio.subprocess.Process:
    """Start a Python process; with a crash point, one that will kill itself there."""
    environment = {**os.environ, VARIABLE: crash_at} if crash_at else dict(os.environ)
    return await asyncio.create_subprocess_exec(sys.executable, "-W", "ignore", *command, env=environment, **options)


async def ends(running: asyncio.subprocess.Process, *, within_s: float = 60.0) -> int:
    """Wait for a process; return its exit code."""
    async with asyncio.timeout(within_s):
        return await running.wait()


async def until(holds, *, within_s: float = 60.0, every_s: float = 0.05) -> None:
    """Look until `holds()`, which may be a coroutine function, is true."""
    async with asyncio.timeout(within_s):
        while True:
            found = holds()
            if await found if asyncio.iscoroutine(found) else found:
                return
            await asyncio.sleep(every_s)


def announced(path: Path) -> dict[str, object] | None:
    """Return what a service has announced, None before."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
