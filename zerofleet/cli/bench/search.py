"""`zerofleet bench search`: throughput of the search with a network of zero cost."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import numpy as np
import psutil
import typer

from games.core import Game, available
from zerofleet.cli import screen
from zerofleet.cli.options import Json, Parameters, Save, Seed, announced_game, check_finite, chosen_game
from zerofleet.contracts.naming import model_name
from zerofleet.evaluators.base import LeafBatch
from zerofleet.library.planning.costs import save_figures
from zerofleet.search import SearchBlock, SearchSettings

__all__ = ["SearchFigures", "measure", "search"]

Information = Literal["open", "predict", "determinise"]

VERSION = 1  # any model version; the uniform network ignores it


@dataclass(frozen=True, slots=True)
class SearchFigures:
    """Results of one measurement, on one thread."""

    game: str
    games: int
    simulations: int
    leaves_per_game: int
    information: str
    """Mode of search for hidden information; `open` where there is none, or no search."""
    network: str
    seconds: float
    simulations_done: int
    moves_done: int
    games_done: int
    simulations_per_second_per_core: float
    """In wall-clock time; equal to `simulations_per_cpu_second` on an idle machine."""
    simulations_per_cpu_second: float
    positions_per_second: float
    """Evaluated leaves; the other simulations ended in a finished game. With information=determinise the choices of opponents
    are evaluated as well."""
    moves_per_second: float
    start_seconds: float
    """Time to the first move of one game: compilation, or loading of the compiled code."""
    bytes_per_game: int
    """Arrays of the block; untouched pages take no memory."""
    resident_bytes_per_game: int
    """Growth of the process during the measurement."""


class UniformAnswers:
    """Answers of a uniform evaluator, prepared in advance: they cost nothing."""

    def __init__(self, game: Game, rows: int) -> None:
        spec = game.spec()
        self._policies = np.ones((rows, spec.max_legal), dtype=np.float32)  # the search shares them among the legal actions
        self._values = np.zeros((rows, spec.num_players), dtype=np.float32)
        self._head = np.broadcast_to(np.float32(1.0 / spec.num_actions), (rows, spec.num_actions))

    def answer(self, batch: LeafBatch) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """Return policy float32 [B, L], value float32 [B, P], and the extra heads of the batch, float32 [B, A]."""
        return self._policies[: len(batch)], self._values[: len(batch)], [self._head[: len(batch)]] * batch.extra_heads


class Bench:
    """Block of games in which a new game replaces each finished one."""

    def __init__(self, game: Game, settings: SearchSettings, *, games: int, seed: int) -> None:
        self.block = SearchBlock(game, settings, slots=games)
        self.games_done = 0
        self.positions = 0
        self._answers = UniformAnswers(game, games * settings.leaves_per_game)
        self._versions = [VERSION] * game.spec().num_players
        self._next_seed = seed
        for slot in range(games):
            self._begin(slot)
        self._leaves = self.block.advance()

    def step(self) -> None:
        """Search until every game waits for the network, and supply the evaluations."""
        batch = self._leaves.batch
        if len(batch):
            self.positions += len(batch)
            self._leaves = self.block.search_on(*self._answers.answer(batch))
        else:
            self._leaves = self.block.advance()
        for slot in self.block.finished():
            self.block.take(slot)
            self.games_done += 1
            self._begin(slot)

    def play_first_moves(self) -> None:
        """Step until the number of moves reaches the number of games."""
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
    leaves: int = 1,
    information: Information | None = None,
) -> SearchFigures:
    """Search `games` games concurrently for `seconds`, with `leaves` pending in each, after a move per game on average.

    Raises `ValueError` for a game that cannot be searched with `information`, or with several leaves.
    """
    settings = _settings(game, simulations, reuse=reuse, leaves=leaves, information=information)
    began = time.perf_counter()
    Bench(game, settings, games=1, seed=seed).play_first_moves()
    start_seconds = time.perf_counter() - began
    process = psutil.Process()
    resident = process.memory_info().rss
    bench = Bench(game, settings, games=games, seed=seed)
    bench.play_first_moves()
    first, positions, finished = bench.block.counters, bench.positions, bench.games_done
    with screen.meter("searching") as meter:
        began, cpu, elapsed = time.perf_counter(), time.process_time(), 0.0
        while elapsed == 0.0 or elapsed < seconds:  # a round at least, however late the machine begins it
            for _ in range(max(1, simulations)):  # about one move per game between two readings of the clock
                bench.step()
            meter.advance(games, "moves")
            elapsed = time.perf_counter() - began
    cpu = time.process_time() - cpu
    last = bench.block.counters
    done, moves = last.simulations - first.simulations, last.moves - first.moves
    return SearchFigures(
        game=model_name(game),
        games=games,
        simulations=simulations,
        leaves_per_game=leaves,
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


def _settings(game: Game, simulations: int, *, reuse: bool, leaves: int, information: Information | None) -> SearchSettings:
    """Return self-play settings for the kind of game; simultaneous choices are searched only with `information`."""
    spec = game.spec()
    if spec.information == "simultaneous" and information is None:
        return SearchSettings(simulations=0, fast_simulations=0, temperature_end=1.0)
    wanted = SearchSettings.for_play(spec, simulations)
    return SearchSettings(
        simulations=simulations,
        reuse_subtree=reuse,
        leaves_per_game=leaves,
        repetition=wanted.repetition,
        information=information or wanted.information,
    )


def search(
    *,
    every_game: Annotated[bool, typer.Option("--all", help="Measure every game instead of --game.")] = False,
    game: Annotated[str, typer.Option("--game", metavar="GAME", help="Game to search.")] = "connect_four",
    games: Annotated[int, typer.Option("--games", metavar="N", min=1, help="Games searched concurrently.")] = 256,
    simulations: Annotated[int, typer.Option("--simulations", metavar="N", min=2, help="Simulations per move.")] = 400,
    network: Annotated[
        Literal["uniform"], typer.Option("--network", help="uniform: equal priors, value 0, at no cost.")
    ] = "uniform",
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", min=0.0, callback=check_finite, help="Length of the measurement.")
    ] = 5.0,
    reuse: Annotated[bool, typer.Option("--reuse", help="Reuse the subtree of the move played, as in self-play.")] = False,
    leaves: Annotated[int, typer.Option("--leaves", metavar="N", min=1, max=64, help="Pending leaves of each game.")] = 1,
    information: Annotated[
        Information | None,
        typer.Option("--information", help="Search of hidden information; by default that of the game's kind."),
    ] = None,
    parameters: Parameters = None,
    seed: Seed = 0,
    save: Save = None,
    json: Json = False,
) -> None:
    """Measure the search alone: simulations per second on one core, with a network of zero cost.

    After a warm-up of about one move per game, a new game replaces each finished one.
    """
    asked: dict[str, Any] = {
        "games": games,
        "simulations": simulations,
        "seconds": seconds,
        "seed": seed,
        "reuse": reuse,
        "leaves": leaves,
    }
    if every_game and save:
        raise typer.BadParameter("a cost file holds one game; omit --all", param_hint="--save")
    if every_game and leaves > 1:
        raise typer.BadParameter(
            "a search of hidden information has one leaf a game; name a game in place of --all", param_hint="--leaves"
        )
    if every_game and parameters:
        raise typer.BadParameter("parameters belong to one game; name it in place of --all", param_hint="--set")
    if every_game:
        _measure_all(asked, information=information, json=json)
        return
    rules = chosen_game(game, parameters)
    if leaves > 1 and rules.spec().information != "perfect":
        raise typer.BadParameter("a search of hidden information has one leaf a game; omit it", param_hint="--leaves")
    try:
        figures = measure(rules, information=information, **asked)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--information") from None
    if save:
        save_figures(save, "search", asdict(figures))
    if json:
        screen.emit_json(asdict(figures))
        return
    pending = f", {leaves} leaves a game" if leaves > 1 else ""
    searched = f"{simulations} simulations per move{pending}, {figures.information} information, {network} network"
    rows = screen.table("figure", ">value", title=f"{figures.game}: {games} games, {searched}")
    rows.add_row("simulations per second and core", f"{figures.simulations_per_second_per_core:,}")
    rows.add_row("simulations per second of CPU time", f"{figures.simulations_per_cpu_second:,}")
    rows.add_row("positions evaluated per second", f"{figures.positions_per_second:,}")
    rows.add_row("moves per second", f"{figures.moves_per_second:,.0f}")
    rows.add_row("games finished", f"{figures.games_done:,}")
    rows.add_row("seconds to the first move", f"{figures.start_seconds:.2f}")
    rows.add_row("bytes per game", f"{figures.bytes_per_game:,}")
    rows.add_row("resident bytes per game", f"{figures.resident_bytes_per_game:,}")
    screen.out().print(rows)


def _measure_all(asked: dict[str, Any], *, information: Information | None, json: bool) -> None:
    """Measure every game and print a row for each; `information` applies to games of imperfect information."""
    found = []
    for name in available():
        game = announced_game(name, {})
        hides = game.spec().information != "perfect"
        found.append(measure(game, information=information if hides else None, **asked))
    if json:
        screen.emit_json({"games": [asdict(figures) for figures in found]})
        return
    columns = (">simulations per second", ">per CPU second", ">positions", ">moves", ">games done", ">bytes per game")
    title = f"{asked['games']} games, {asked['simulations']} simulations per move, uniform network, one core"
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
