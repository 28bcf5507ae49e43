"""Turns of a measured player: it plays for a time, stops, and writes its totals.

For each line of its standard input, a number of seconds, a player's process plays at least one step and at least for that time,
and writes a line of JSON with the `Turn`. The first turn contains the compilation. The module needs the standard library and
NumPy alone, since the peers run in environments without the product's dependencies.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TextIO

import numpy as np

from benchmarks.peers.judge import limit_threads
from benchmarks.peers.rules import random_games

__all__ = [
    "Counts",
    "Plays",
    "Turn",
    "clock_for",
    "command_line",
    "prepare_jax",
    "random_openings",
    "require_jax_on",
    "take_turns",
]

OPENING_SEED = 1


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals of self-play."""

    evaluations: int = 0
    """Positions evaluated by the network."""
    simulations: int = 0
    """Descents of the search tree, the one that evaluates the root included."""
    plies: int = 0
    """Moves played."""
    games: int = 0
    """Finished games."""

    def __sub__(self, earlier: Counts) -> Counts:
        """Return the totals since `earlier`."""
        return Counts(*(now - then for now, then in zip(dataclasses.astuple(self), dataclasses.astuple(earlier), strict=True)))

    def __add__(self, other: Counts) -> Counts:
        """Return the totals of both."""
        return Counts(*(one + two for one, two in zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of one player."""

    counts: Counts
    cpu_s: float
    """Processor seconds of the process, all threads together."""
    wall_s: float
    player: str = ""
    """Versions, number format, device and what else identifies the player."""

    @classmethod
    def read(cls, line: dict[str, object]) -> Turn:
        """Return the turn of a line that `take_turns` wrote; raises `KeyError` or `TypeError` for another."""
        fields = dict(line)
        counts = fields.pop("counts")
        if not isinstance(counts, dict):
            raise TypeError(f"counts is {counts!r}, want an object")
        return cls(counts=Counts(**counts), **fields)  # type: ignore[arg-type]


class Plays(Protocol):
    """Self-play in steps."""

    def step(self) -> None:
        """Play on; everything that was begun on a device has ended when this returns."""
        ...

    def counts(self) -> Counts:
        """Return the totals so far."""
        ...


def take_turns(
    play: Plays,
    player: str,
    *,
    clock: Callable[[], float] = time.process_time,
    requests: Iterable[str] = sys.stdin,
    out: TextIO = sys.stdout,
) -> None:
    """Play one turn for each line of `requests` and write it to `out`; `clock` decides the length of a turn, in seconds."""
    for line in requests:
        seconds, before = float(line), play.counts()
        cpu_s, wall_s, began_s = time.process_time(), time.perf_counter(), clock()
        play.step()
        while clock() - began_s < seconds:
            play.step()
        turn = Turn(play.counts() - before, time.process_time() - cpu_s, time.perf_counter() - wall_s, player)
        out.write(json.dumps(dataclasses.asdict(turn)) + "\n")
        out.flush()


def prepare_jax(device: str) -> None:
    """Limit JAX to one thread of the CPU if that is the device; to be called before it is imported."""
    if device == "cpu":
        limit_threads()
        os.environ["JAX_PLATFORMS"] = "cpu"


def require_jax_on(device: str, backend: str) -> None:
    """Exit with a message unless `backend`, JAX's own, is that of the device."""
    if (backend == "cpu") != (device == "cpu"):
        raise SystemExit(f"error: JAX runs on {backend}, not on {device}; install jax[cuda12], or choose --device cpu")


def clock_for(device: str) -> Callable[[], float]:
    """Return the clock of turns: processor time on a CPU, which other programs disturb little, else wall-clock time."""
    return time.process_time if device == "cpu" else time.perf_counter


def random_openings(count: int) -> list[list[int]]:
    """Return the moves of `count` unfinished positions, each from a uniformly drawn ply of a random game.

    Games that begin there end at different times, as in self-play that has gone on for long.
    """
    rng = np.random.default_rng(OPENING_SEED)
    return [moves[: int(rng.integers(len(moves)))] for moves in random_games(count, seed=OPENING_SEED)]


def command_line(module: str, summary: str) -> argparse.ArgumentParser:
    """Return a parser with the options of all measured players."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=summary)
    parser.add_argument("--blocks", type=int, default=4, help="residual blocks of the network")
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--simulations", type=int, default=32, help="simulations of each move")
    parser.add_argument("--games", type=int, default=256, help="games at once")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    return parser
