"""Self-play of Zerofleet, pgx + mctx and OpenSpiel at Connect Four on this machine: same size of network, same simulations.

    python -m benchmarks.peers.throughput --peers peers --games 64 256 1024 --blocks 4 --channels 64 --simulations 32
    python -m benchmarks.peers.throughput --peers peers --device cuda --games 1024 4096 16384

Each player is a process in its own environment below `--peers`. All compile in a first turn that is not counted; then they take
turns, in reverse order in every other round, so that other load on the machine affects all. On a CPU each has one thread, and
rates are those of a processor second; on a GPU they are those of a wall-clock second. README.md beside this file has the
environments. An absent one is named with the commands that make it, and the others are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import functools
import json
import operator
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.power import PowerMeter, Watts
from benchmarks.peers.turns import Counts, Turn
from zerofleet.cli.bench.processes import BenchProcess, started
from zerofleet.errors import Unavailable

__all__ = ["ENVIRONMENTS", "OURS", "Contestant", "Measured", "Program", "contestants", "main", "missing", "table"]

OURS = "zerofleet"
SECONDS_PER_HOUR = 3600
THREADS = 1
JAX = {"cpu": "jax==0.8.1", "cuda": "'jax[cuda12]==0.8.1'"}


@dataclass(frozen=True, slots=True)
class Program:
    """A program that is measured."""

    module: str
    """Module with its player."""
    environment: str | None = None
    """Folder of its virtual environment below that of the peers; None: that of the product."""
    packages: str = ""
    """Packages of that environment besides JAX, for pip."""
    one_game: bool = False
    """Whether it plays one game at a time."""


ENVIRONMENTS = {
    OURS: Program("zerofleet_speed"),
    "pgx_mctx": Program("pgx_mctx_speed", "pgx", "pgx==2.6.0 mctx==0.0.71 numpy==2.4.6"),
    "open_spiel": Program(
        "open_spiel_speed",
        "open_spiel",
        "open_spiel==2.0.2 flax==0.12.1 optax==0.2.6 chex==0.1.91 orbax-checkpoint==0.12.8 numpy==2.4.6",
        one_game=True,
    ),
}
"""Programs by name."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One program with a number of games at once."""

    program: str
    games: int

    def command(self, terms: argparse.Namespace) -> list[str]:
        """Return the module and its arguments."""
        size = [f"--blocks={terms.blocks}", f"--channels={terms.channels}", f"--simulations={terms.simulations}"]
        module = f"benchmarks.peers.{ENVIRONMENTS[self.program].module}"
        return [module, *size, f"--games={self.games}", f"--device={terms.device}"]


@dataclass(frozen=True, slots=True)
class Measured:
    """Turns of one contestant, one for each round."""

    contestant: Contestant
    turns: tuple[Turn, ...]
    watts: tuple[Watts, ...]

    def seconds(self, device: str) -> float:
        """Return the time of all turns: of the processor on a CPU, else of the wall clock."""
        return sum(_seconds(turn, device) for turn in self.turns)

    @property
    def counts(self) -> Counts:
        """Totals of all turns."""
        return functools.reduce(operator.add, (turn.counts for turn in self.turns))

    def rates(self, device: str) -> list[float]:
        """Return the evaluations a second of each turn."""
        return [turn.counts.evaluations / _seconds(turn, device) for turn in self.turns]


def _seconds(turn: Turn, device: str) -> float:
    return turn.cpu_s if device == "cpu" else turn.wall_s


def contestants(names: Sequence[str], games: Sequence[int]) -> list[Contestant]:
    """Return each program with each number of games; those with one game at a time once, and ours beside them with one."""
    single = [name for name in names if ENVIRONMENTS[name].one_game]
    found = [Contestant(name, count) for count in games for name in names if name not in single]
    if single and OURS in names and 1 not in games:
        found.insert(0, Contestant(OURS, 1))
    return found + [Contestant(name, 1) for name in single]


def python_of(name: str, peers: Path) -> Path:
    """Return the interpreter of a program."""
    environment = ENVIRONMENTS[name].environment
    return Path(sys.executable) if environment is None else (peers / environment / "bin" / "python").absolute()


def missing(names: Sequence[str], peers: Path, device: str) -> dict[str, str]:
    """Return the programs without an environment, with the commands that make it."""
    absent = {}
    for name in names:
        program = ENVIRONMENTS[name]
        if program.environment is not None and not python_of(name, peers).exists():
            folder = peers / program.environment
            install = f"{folder}/bin/pip install {JAX[device]} {program.packages}"
            absent[name] = f"python3.11 -m venv {folder} && {install}"
    return absent


async def measure(chosen: Sequence[Contestant], terms: argparse.Namespace) -> list[Measured]:
    """Start all processes, let them take turns, and return the turns of each.

    Raises `Unavailable` with the last lines of a process that exits. Cancellation: the processes are ended.
    """
    meter = PowerMeter.of_this_machine()
    turns: dict[Contestant, list[tuple[Turn, Watts]]] = {one: [] for one in chosen}
    with tempfile.TemporaryDirectory(prefix="zf-peers-") as folder:
        async with AsyncExitStack() as stack:
            processes = dict[Contestant, BenchProcess]()
            for one in chosen:
                log, python = Path(folder) / f"{one.program}-{one.games}.log", str(python_of(one.program, terms.peers))
                process = started(log, *one.command(terms), threads=THREADS, python=python)
                processes[one] = await stack.enter_async_context(process)
            await asyncio.gather(*(process.run_for(0.0) for process in processes.values()))  # compilation
            for number in range(terms.rounds):
                sys.stderr.write(f"round {number + 1} of {terms.rounds}\n")
                for one in chosen[:: -1 if number % 2 else 1]:
                    line, watts = await meter.during(processes[one].run_for(terms.seconds))
                    turns[one].append((Turn.read(line), watts))
    return [Measured(one, *map(tuple, zip(*found, strict=True))) for one, found in turns.items()]


def table(found: Sequence[Measured], device: str) -> list[str]:
    """Return the lines of a Markdown table.

    `Zerofleet to it`: evaluations a second of Zerofleet with as many games to those of the row, median and range over rounds.
    Games an hour are too few if fewer finished than are played at once: those that began near their end would count too much.
    """
    second = "processor second" if device == "cpu" else "second"
    lines = [
        f"| program | games at once | evaluations a {second} | simulations a {second} | plies a {second} | games an hour "
        "| Zerofleet to it | cores | watts CPU / GPU |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    ours = {one.contestant.games: one for one in found if one.contestant.program == OURS}
    return lines + [_row(one, ours, device) for one in found]


def _row(one: Measured, ours: Mapping[int, Measured], device: str) -> str:
    seconds, counts = one.seconds(device), one.counts
    per_second = [f"{count / seconds:,.0f}" for count in (counts.evaluations, counts.simulations, counts.plies)]
    hourly = f"{counts.games / seconds * SECONDS_PER_HOUR:,.0f}" if counts.games >= one.contestant.games else "too few"
    cores = sum(turn.cpu_s for turn in one.turns) / sum(turn.wall_s for turn in one.turns)
    power = " / ".join(_mean([getattr(watts, part) for watts in one.watts]) for part in ("cpu", "gpu"))
    own = ours.get(one.contestant.games)
    beside = "" if own is None or own is one else _ratio(own.rates(device), one.rates(device))
    cells = [one.contestant.program, f"{one.contestant.games:,}", *per_second, hourly, beside, f"{cores:.2f}", power]
    return f"| {' | '.join(cells)} |"


def _ratio(over: Sequence[float], under: Sequence[float]) -> str:
    """Return the median and the range of the ratios of each round."""
    ratios = [one / other for one, other in zip(over, under, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _mean(watts: Sequence[float | None]) -> str:
    stated = [each for each in watts if each is not None]
    return f"{statistics.mean(stated):.0f}" if stated else "not readable"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.throughput", description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=Path, default=Path("peers"), help="folder of the peers' virtual environments")
    parser.add_argument("--programs", nargs="+", choices=sorted(ENVIRONMENTS), default=list(ENVIRONMENTS))
    parser.add_argument("--device", choices=sorted(JAX), default="cpu")
    parser.add_argument("--blocks", type=int, default=4, help="residual blocks of the network")
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--simulations", type=int, default=32, help="simulations of each move")
    parser.add_argument("--games", type=int, nargs="+", default=[64, 256, 1024], help="games at once")
    parser.add_argument("--seconds", type=float, default=5.0, help="shortest turn, in the seconds of the rates")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="file for the turns, as JSON")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is installed and print the table; return the exit code."""
    terms = _parser().parse_args(arguments)
    absent = missing(terms.programs, terms.peers, terms.device)
    for name, command in absent.items():
        sys.stdout.write(f"{name} is not measured, its environment is absent; make it with: {command}\n")
    chosen = contestants([name for name in terms.programs if name not in absent], terms.games)
    if not chosen:
        return 1
    try:
        found = asyncio.run(measure(chosen, terms))
    except Unavailable as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    size = f"{terms.blocks} x {terms.channels}, {terms.simulations} simulations"
    sys.stdout.write(f"Connect Four, network {size}, device {terms.device}, {terms.rounds} rounds\n\n")
    sys.stdout.write("".join(f"{line}\n" for line in table(found, terms.device)))
    for player in dict.fromkeys(one.turns[0].player for one in found):
        sys.stdout.write(f"- {player}\n")
    if terms.out:
        terms.out.write_text(json.dumps([dataclasses.asdict(one) for one in found], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
