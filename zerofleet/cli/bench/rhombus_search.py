"""`zerofleet bench rhombus_search`: ablation of the search on the rhombus, and comparison with plain Python."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
import typer

from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from zerofleet.agents.by_game.rhombus import SearchOptions
from zerofleet.agents.by_game.rhombus.agent import searcher_room
from zerofleet.agents.by_game.rhombus.root import run
from zerofleet.agents.by_game.rhombus.work import Work
from zerofleet.cli import screen
from zerofleet.cli.bench.rhombus_plain import plain_score, read_plain
from zerofleet.cli.bench.rhombus_trials import count_replies, sample_positions
from zerofleet.cli.compilation import announce_compilation
from zerofleet.cli.options import Json, Seed, check_finite

__all__ = ["GeneratorFigures", "PlainFigures", "StepFigures", "measure_generators", "measure_plain", "measure_steps"]

GAME = ChineseCheckersRhombus()
NO_LIMIT = 2**62
ROUNDS = 5  # of all generators; the fastest time counts
PLAIN_DEPTH = 2
BRANCHING = 50  # approximate number of moves of a position

MINIMAX: dict[str, object] = {
    "algorithm": "minimax",
    "generation": "fresh",
    "order": "listed",
    "table": "off",
    "keying": "exact",
    "history": "off",
    "ties": "fixed",
}
STEPS: tuple[tuple[str, dict[str, object]], ...] = (
    ("minimax", {}),
    ("+ alpha-beta", {"algorithm": "alpha_beta"}),
    ("+ order by gain", {"order": "gain"}),
    ("+ NegaScout", {"algorithm": "negascout"}),
    ("+ table", {"table": "on"}),
    ("+ history", {"history": "on"}),
    ("+ reductions", {"reductions": "on"}),
    ("+ upward", {"generation": "upward"}),
    ("+ hub-channel", {"generation": "channels"}),
    ("floods instead", {"generation": "flood"}),
    ("without history", {"history": "off"}),
    ("without reductions", {"reductions": "off"}),
    ("selective, top 6", {"top": 6}),
)
"""Rows of the ablation: each changes options of the row above."""


@dataclass(frozen=True, slots=True)
class DepthFigures:
    """Searches of one depth; means over the positions."""

    depth: int
    nodes: float
    ms: float
    """CPU time."""
    same_values: int
    """Number of positions whose value equals that of the first row measured at this depth."""


@dataclass(frozen=True, slots=True)
class StepFigures:
    """A row of the ablation."""

    step: str
    depths: tuple[DepthFigures, ...]
    """Depths within the time limit."""


@dataclass(frozen=True, slots=True)
class GeneratorFigures:
    """Cost of a generator for the replies to every move, generated as in the search."""

    moves: str
    generation: str
    replies: int
    us_per_list: float
    """CPU time in microseconds per position listed, including playing the move to it."""


@dataclass(frozen=True, slots=True)
class PlainFigures:
    """Plain Python against the compiled search at the same depth; means over the positions."""

    depth: int
    positions: int
    same_values: int
    plain_ms: float
    minimax_ms: float
    """Compiled minimax, which visits the same nodes."""
    search_ms: float
    """The agent with its default options."""


def measure_steps(positions: np.ndarray, depths: range, limit_s: float) -> list[StepFigures]:
    """Search all positions with each row's options, to the depth expected to take at most `limit_s` per cell."""
    options = dict(MINIMAX)
    first: dict[int, list[int]] = {}
    found = []
    with screen.meter("searching", len(STEPS)) as meter:
        for step, change in STEPS:
            options |= change
            found.append(StepFigures(step, tuple(_deepen(positions, depths, limit_s, options, first))))
            meter.advance(1, step)
    return found


def measure_generators(positions: np.ndarray) -> list[GeneratorFigures]:
    """Time every generator in every move mode on the replies to all moves of the positions."""
    found = []
    for moves in ("full", "net", "mono"):
        names = ("fresh", "upward", "channels", "flood")
        rooms = [_room({"generation": name, "moves": moves}, 2) for name in names]
        seconds = [1e9] * len(names)
        for _ in range(ROUNDS):
            for i, room in enumerate(rooms):
                replies, taken = _timed(functools.partial(count_replies, GAME, room, positions))
                seconds[i] = min(seconds[i], taken)
        lists = len(positions) + sum(_moves_of(rooms[0], state) for state in positions)
        found += [
            GeneratorFigures(moves, name, replies, round(1e6 * taken / lists, 3))
            for name, taken in zip(names, seconds, strict=True)
        ]
    return found


def measure_plain(positions: np.ndarray, depth: int = PLAIN_DEPTH) -> PlainFigures:
    """Search positions with plain Python and with the compiled search."""
    minimax, agent = _room({**MINIMAX, "generation": "flood"}, depth), _room({"ties": "fixed"}, depth)
    plain_scores, plain_s = _timed(lambda: [plain_score(read_plain(state), depth)[0] for state in positions])
    scores = [run(GAME, state, agent, [depth]).score for state in positions]
    _, minimax_s = _timed(lambda: [run(GAME, state, minimax, [depth]).score for state in positions])
    _, agent_s = _timed(lambda: [run(GAME, state, agent, [depth]).score for state in positions])
    same = sum(plain == score for plain, score in zip(plain_scores, scores, strict=True))
    ms = [round(1e3 * seconds / len(positions), 4) for seconds in (plain_s, minimax_s, agent_s)]
    return PlainFigures(depth, len(positions), same, ms[0], ms[1], ms[2])


def rhombus_search(
    *,
    positions: Annotated[
        int, typer.Option("--positions", metavar="N", min=1, help="Number of positions, from random games.")
    ] = 20,
    depth: Annotated[int, typer.Option("--depth", metavar="N", min=2, max=8, help="Deepest search, in plies.")] = 6,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            metavar="S",
            min=0.0,
            callback=check_finite,
            help="Time limit for one cell of the table; deeper searches are left out.",
        ),
    ] = 60.0,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Measure the search agent of Chinese Checkers on the rhombus: nodes and time as each part of the search is added.

    All times are CPU time. Generators are timed separately; the search is compared with minimax in plain Python.
    """
    announce_compilation(GAME.spec().name)
    states = sample_positions(GAME, _room({}, 3), count=positions, seed=seed)
    steps = measure_steps(states, range(2, depth + 1), seconds)
    generators = measure_generators(states)
    plain = [measure_plain(states, PLAIN_DEPTH)]
    if plain[0].plain_ms * BRANCHING <= 1e3 * seconds:
        plain.append(measure_plain(states[:1], PLAIN_DEPTH + 1))
    if json:
        rows: dict[str, list[Any]] = {"steps": steps, "generators": generators, "plain": plain}
        about: dict[str, Any] = {"positions": positions, "seed": seed}
        screen.emit_json(about | {name: [asdict(row) for row in figures] for name, figures in rows.items()})
        return
    _show_steps(steps, range(2, depth + 1), positions)
    _show_generators(generators)
    _show_plain(plain)


def _room(options: dict[str, Any], plies: int) -> Work:
    room = searcher_room(GAME, SearchOptions.model_validate(options), plies)
    room.control[0].limit = NO_LIMIT
    return room


def _moves_of(room: Work, state: np.ndarray) -> int:
    """Return the number of searched moves of a position."""
    run(GAME, state, room, [1])
    return int(room.control[0].count)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of `work` and its CPU time in seconds."""
    began = time.thread_time()
    result = work()
    return result, time.thread_time() - began


def _deepen(
    positions: np.ndarray, depths: range, limit_s: float, options: dict[str, object], first: dict[int, list[int]]
) -> list[DepthFigures]:
    """Search to increasing depths while time allows; `first` holds the values of the first row of each depth."""
    room = _room(options, depths[-1])
    run(GAME, positions[0], room, [1])  # compiles, or loads the compiled code
    measured: list[DepthFigures] = []
    for depth in depths:
        plies = [2, depth] if options["history"] == "on" and depth > 2 else [depth]
        results, seconds = _timed(lambda: [run(GAME, state, room, plies) for state in positions])  # noqa: B023
        values = [result.score for result in results]
        same = sum(a == b for a, b in zip(values, first.setdefault(depth, values), strict=True))
        nodes = sum(result.nodes for result in results) / len(positions)
        growth = nodes / measured[-1].nodes if measured else nodes**0.5
        measured.append(DepthFigures(depth, round(nodes, 1), round(1e3 * seconds / len(positions), 4), same))
        if seconds * growth > limit_s:
            break
    return measured


def _show_steps(steps: list[StepFigures], depths: range, positions: int) -> None:
    columns = [f">{depth} plies, {what}" for depth in depths for what in ("nodes", "ms")]
    rows = screen.table("search", *columns, ">same values", title=f"means over {positions} positions, CPU time")
    for step in steps:
        cells = [f"{number:,.{digits}f}" for found in step.depths for number, digits in ((found.nodes, 0), (found.ms, 2))]
        same = f"{sum(found.same_values for found in step.depths)} of {positions * len(step.depths)}"
        rows.add_row(step.step, *cells, *["-"] * (len(columns) - len(cells)), same)
    screen.out().print(rows)


def _show_generators(figures: list[GeneratorFigures]) -> None:
    rows = screen.table("moves", "generator", ">replies", ">us per list", ">relative to fresh")
    for row in figures:
        fresh = next(other for other in figures if (other.moves, other.generation) == (row.moves, "fresh"))
        share = row.us_per_list / fresh.us_per_list
        rows.add_row(row.moves, row.generation, f"{row.replies:,}", f"{row.us_per_list:.3f}", f"{share:.0%}")
    screen.out().print(rows)


def _show_plain(figures: list[PlainFigures]) -> None:
    columns = (">plain Python, ms", ">compiled minimax, ms", ">speed-up", ">agent, ms", ">speed-up", ">same values")
    rows = screen.table(">plies", ">positions", *columns)
    for row in figures:
        minimax, agent = row.plain_ms / row.minimax_ms, row.plain_ms / row.search_ms
        times = (f"{row.plain_ms:,.1f}", f"{row.minimax_ms:.3f}", f"{minimax:,.0f}", f"{row.search_ms:.3f}", f"{agent:,.0f}")
        rows.add_row(str(row.depth), str(row.positions), *times, f"{row.same_values} of {row.positions}")
    screen.out().print(rows)
