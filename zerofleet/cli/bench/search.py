"""`zerofleet bench search`: how fast is the search when the network costs nothing."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import numpy as np
import psutil
import typer

from games.core import Game, available, make
from zerofleet.cli import screen
from zerofleet.cli.options import Json, Parameters, Save, Seed, chosen_game
from zerofleet.cli.planning.costs import save_figures
from zerofleet.contracts.naming import model_name
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.uniform import uniform_policy
from zerofleet.search import SearchBlock, SearchSettings

__all__ = ["SearchFigures", "measure", "search"]

Information = Literal["open", "predict", "determinise"]

VERSION = 1  # any model version: the uniform network does not look


@dataclass(frozen=True, slots=True)
class SearchFigures:
    """What one measurement found. Everything runs on one thread."""

    game: str
    games: int
    simulations: int
    information: str
    """How hidden information is searched; `open` where there is none, or no search."""
    network: str
    seconds: float
    simulations_done: int
    moves_done: int
    games_done: int
    simulations_per_second_per_core: float
    """By the clock on the wall; on a machine that does nothing else this equals the next."""
    simulations_per_cpu_second: float
    positions_per_second: float
    """Leaves that asked for an evaluation; the other simulations ended in a finished game. With information=determinise the
    choices of opponents ask as well."""
    moves_per_second: float
    start_seconds: float
    """Until one game had made one move: compilation, or loading of what was compiled before."""
    bytes_per_game: int
    """Arrays of the block; pages no game has reached take no memory."""
    resident_bytes_per_game: int
    """Growth of the process during the measurement."""


class UniformTable:
    """Uniform answers by table: the evaluator of a benchmark must cost next to nothing."""

    def __init__(self, game: Game, rows: int) -> None:
        spec = game.spec()
        listed = np.tril(np.ones((spec.max_legal + 1, spec.max_legal), dtype=np.int16), -1)
        self._policies = uniform_policy(np.where(listed, 0, -1)).astype(np.float32)  # [L + 1, L], row n: n legal actions
        self._values = np.zeros((rows, spec.num_players), dtype=np.float32)
        self._head = np.broadcast_to(np.float32(1.0 / spec.num_actions), (rows, spec.num_actions))

    def answer(self, batch: LeafBatch) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """Return policy float32 [B, L], value float32 [B, P], and the extra heads asked for, float32 [B, A]."""
        policy = self._policies[np.count_nonzero(batch.legal >= 0, axis=1)]
        return policy, self._values[: len(batch)], [self._head[: len(batch)]] * batch.extra_heads


class Bench:
    """A block of games that begins a new one wherever one ends."""

    def __init__(self, game: Game, settings: SearchSettings, *, games: int, seed: int) -> None:
        self.block = SearchBlock(game, settings, slots=games)
        self.games_done = 0
        self.positions = 0
        self._table = UniformTable(game, games * settings.leaves_per_game)
        self._versions = [VERSION] * game.spec().num_players
        self._next_seed = seed
        for slot in range(games):
            self._begin(slot)

    def step(self) -> None:
        """Search until every game waits for the network, and answer."""
        leaves = self.block.advance()
        if len(leaves.batch):
            self.block.absorb(*self._table.answer(leaves.batch))
            self.positions += len(leaves.batch)
        for slot in self.block.finished():
            self.block.take(slot)
            self.games_done += 1
            self._begin(slot)

    def play_first_moves(self) -> None:
        """Go on until as many moves were made as there are games."""
        while self.block.counters.moves < len(self.block):
            self.step()

    def _begin(self, slot: int) -> None:
        self.block.begin(slot, seed=self._next_seed, versions=self._versions)
        self._next_seed += 1


def measure(
    game: Game,
    *,
    games: int,
    simulations: int,
    seconds: float,
    seed: int = 0,
    reuse: bool = False,
    information: Information | None = None,
) -> SearchFigures:
    """Search `games` games side by side for `seconds` after every game has made its first move.

    Raises `ValueError` for a game that cannot be searched with `information`.
    """
    settings = _settings(game, simulations, reuse=reuse, information=information)
    began = time.perf_counter()
    Bench(game, settings, games=1, seed=seed).play_first_moves()
    start_seconds = time.perf_counter() - began
    process = psutil.Process()
    resident = process.memory_info().rss
    bench = Bench(game, settings, games=games, seed=seed)
    bench.play_first_moves()
    first, positions, finished = bench.block.counters, bench.positions, bench.games_done
    began, cpu = time.perf_counter(), time.process_time()
    with screen.meter("searching") as meter:
        while (elapsed := time.perf_counter() - began) < seconds:
            for _ in range(max(1, simulations)):  # about one move of every game between two looks at the clock
                bench.step()
            meter.advance(games, "moves")
    cpu = time.process_time() - cpu
    last = bench.block.counters
    done, moves = last.simulations - first.simulations, last.moves - first.moves
    return SearchFigures(
        game=model_name(game),
        games=games,
        simulations=simulations,
        information=settings.information,
        network="uniform",
        seconds=round(elapsed, 3),
        simulations_done=done,
        moves_done=moves,
        games_done=bench.games_done - finished,
        simulations_per_second_per_core=round(done / elapsed),
        simulations_per_cpu_second=round(done / cpu),
        positions_per_second=round((bench.positions - positions) / elapsed),
        moves_per_second=round(moves / elapsed, 1),
        start_seconds=round(start_seconds, 3),
        bytes_per_game=bench.block.nbytes // games,
        resident_bytes_per_game=max(0, process.memory_info().rss - resident) // games,
    )


def _settings(game: Game, simulations: int, *, reuse: bool, information: Information | None) -> SearchSettings:
    """Return the settings of self-play with what the kind of game asks for; secret choices are only evaluated, unless told."""
    spec = game.spec()
    if spec.information == "simultaneous" and information is None:
        return SearchSettings(simulations=0, fast_simulations=0, temperature_end=1.0)
    wanted = SearchSettings.for_play(spec, simulations)
    return SearchSettings(
        simulations=simulations,
        reuse_subtree=reuse,
        repetition=wanted.repetition,
        information=information or wanted.information,
    )


def search(
    *,
    every_game: Annotated[bool, typer.Option("--all", help="A table over all games instead of --game.")] = False,
    game: Annotated[str, typer.Option("--game", metavar="GAME", help="Game to search.")] = "connect_four",
    games: Annotated[int, typer.Option("--games", metavar="N", min=1, help="Games searched side by side.")] = 256,
    simulations: Annotated[int, typer.Option("--simulations", metavar="N", min=2, help="Simulations a move.")] = 400,
    network: Annotated[
        Literal["uniform"], typer.Option("--network", help="uniform: all moves equally good, value 0; costs nothing.")
    ] = "uniform",
    seconds: Annotated[float, typer.Option("--seconds", metavar="S", min=0.0, help="Length of the measurement.")] = 5.0,
    reuse: Annotated[bool, typer.Option("--reuse", help="Keep the subtree of the move played, as self-play does.")] = False,
    information: Annotated[
        Information | None, typer.Option("--information", help="How to search what is hidden; by default as the game asks.")
    ] = None,
    parameters: Parameters = None,
    seed: Seed = 0,
    save: Save = None,
    json: Json = False,
) -> None:
    """Measure the search alone: simulations a second on one core, with a network that costs nothing.

    The block is warmed up until every game has made a move, then measured while games go on, end and begin anew.
    """
    asked: dict[str, Any] = {"games": games, "simulations": simulations, "seconds": seconds, "seed": seed, "reuse": reuse}
    if every_game and save:
        raise typer.BadParameter("a file of costs is about one game; leave out --all", param_hint="--save")
    if every_game:
        _measure_all(asked, information=information, json=json)
        return
    rules = chosen_game(game, parameters)
    try:
        figures = measure(rules, information=information, **asked)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--information") from None
    if save:
        save_figures(save, "search", asdict(figures))
    if json:
        screen.emit_json(asdict(figures))
        return
    searched = f"{simulations} simulations a move, {figures.information} information, {network} network"
    rows = screen.table("figure", ">value", title=f"{figures.game}: {games} games, {searched}")
    rows.add_row("simulations a second and core", f"{figures.simulations_per_second_per_core:,}")
    rows.add_row("simulations a second of CPU time", f"{figures.simulations_per_cpu_second:,}")
    rows.add_row("positions asked for a second", f"{figures.positions_per_second:,}")
    rows.add_row("moves a second", f"{figures.moves_per_second:,.0f}")
    rows.add_row("games finished", f"{figures.games_done:,}")
    rows.add_row("seconds to the first move", f"{figures.start_seconds:.2f}")
    rows.add_row("bytes a game", f"{figures.bytes_per_game:,}")
    rows.add_row("bytes a game, resident", f"{figures.resident_bytes_per_game:,}")
    screen.out().print(rows)


def _measure_all(asked: dict[str, Any], *, information: Information | None, json: bool) -> None:
    """Measure every game and print a line for each; `information` says how those are searched that hide something."""
    found = []
    for game in map(make, available()):
        hides = game.spec().information != "perfect"
        found.append(measure(game, information=information if hides else None, **asked))
    if json:
        screen.emit_json({"games": [asdict(figures) for figures in found]})
        return
    columns = (">simulations a second", ">of CPU time", ">positions", ">moves", ">games done", ">bytes a game")
    title = f"{asked['games']} games, {asked['simulations']} simulations a move, uniform network, one core"
    rows = screen.table("game", *columns, title=title)
    for figures in found:
        rows.add_row(
            figures.game,
            f"{figures.simulations_per_second_per_core:,}",
            f"{figures.simulations_per_cpu_second:,}",
            f"{figures.positions_per_second:,}",
            f"{figures.moves_per_second:,.0f}",
            f"{figures.games_done:,}",
            f"{figures.bytes_per_game:,}",
        )
    screen.out().print(rows)
