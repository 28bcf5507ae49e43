"""Process that plays the missing games of a run's ladder, as `zerofleet ladder` does, and reports each step as a line of JSON.

    python -m ui.climbing --run-dir runs/connect_four-laptop --games 20 --every 1 --most 480

Search and classical players take a whole core for long, so they have a process of their own beside that of the pages. It ends
with SIGTERM, or with `--parent-pid`; the book then keeps the finished games.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from games.core import make
from games.errors import GameError
from ui.compiling import CompilingNow, compiling_now
from ui.endpoints import StrictValue
from zerofleet.errors import InvalidRequest, ZerofleetError
from zerofleet.library.ladder_play import RunLadder, run_ladder
from zerofleet.service.compilation import CompilationMeter, compilation_meter
from zerofleet.service.compilation_note import Compilation
from zerofleet.service.process_end import end_process, end_with
from zerofleet.storage.runs import RunPaths, read_header
from zerofleet.strength.ladders import LadderBook
from zerofleet.strength.matches import GameResult

__all__ = ["REFUSED", "Step", "compilation_steps", "main"]

SPEAK_EVERY_S = 0.25
COMPILATION_EVERY_S = 1.0
REFUSED, CANCELLED = 2, 130  # exit codes, those of the command line


class Step(StrictValue):
    """Line of the process."""

    missing: int = 0
    """Games to play, counted at the start."""
    played: int = 0
    """Games played since."""
    at: str = ""
    """Player whose games are being played, such as `model:7`."""
    fault: str = ""
    """Error that ended the games; empty for none."""
    compiling: CompilingNow | None = None
    """Compilation in this process; None in a line about games."""


def main(arguments: Sequence[str]) -> int:
    """Play the missing games of a run; return the exit code."""
    asked = _asked(arguments)
    if asked.parent_pid and not end_with(asked.parent_pid):
        return CANCELLED
    try:
        header, paths = read_header(asked.run_dir), RunPaths(asked.run_dir)
        chosen = run_ladder(make(header.game, **header.parameters), paths, games=asked.games, every=asked.every)
        with chosen.book(is_writer=True) as book:
            return asyncio.run(_climb(chosen, book, most=asked.most))
    except (ZerofleetError, GameError, OSError) as error:
        _say(Step(fault=str(error)))
        return REFUSED


async def _climb(chosen: RunLadder, book: LadderBook, *, most: int) -> int:
    """Play until the end or SIGTERM; return the exit code. Raises `InvalidRequest` if more than `most` games are missing."""
    now, spoke_at_s = Step(missing=chosen.missing(book)), 0.0
    if now.missing > most:
        raise InvalidRequest(f"{now.missing} games are missing by now, {most} were confirmed: confirm again")
    _say(now)

    def note(result: GameResult) -> None:
        nonlocal now, spoke_at_s
        player = next((name for name in result.players if name.startswith("model:")), "rungs")
        now = now.model_copy(update={"played": now.played + 1, "at": player})
        if time.monotonic() - spoke_at_s >= SPEAK_EVERY_S:
            spoke_at_s = time.monotonic()
            _say(now)

    work = asyncio.create_task(chosen.play(book, note=note))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await work
    finally:
        _say(now)
    return CANCELLED if work.cancelled() else 0


def compilation_steps(looks: Iterable[Compilation | None]) -> Iterator[Step]:
    """Yield a line for each look at a compilation that a person notices, and one after its end."""
    was_compiling = False
    for look in looks:
        now = compiling_now(look)
        if now.is_compiling or was_compiling:
            yield Step(compiling=now)
        was_compiling = now.is_compiling


def _report_compilation(meter: CompilationMeter) -> None:
    """Look at the compilation once a second until the process ends."""

    def looks() -> Iterator[Compilation | None]:
        while True:
            yield meter.now()
            time.sleep(COMPILATION_EVERY_S)

    with contextlib.suppress(BrokenPipeError):  # the application has ended, and this process ends with it
        for step in compilation_steps(looks()):
            _say(step)


def _asked(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ui.climbing", description="Play the missing games of a ladder.")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--games", type=int, required=True, help="games per pair of players")
    parser.add_argument("--every", type=int, required=True, help="distance of the champions that are rated")
    parser.add_argument("--most", type=int, required=True, help="confirmed games; if more are missing, none is played")
    parser.add_argument("--parent-pid", type=int, default=0, help="process whose end stops this one")
    return parser.parse_args(arguments)


def _say(step: Step) -> None:
    sys.stdout.write(step.model_dump_json() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    threading.Thread(target=_report_compilation, args=(compilation_meter(),), name="compilation", daemon=True).start()
    end_process(main(sys.argv[1:]))
