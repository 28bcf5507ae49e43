"""Play of the missing games of `zerofleet ladder`: the plan for a run, and its games with a borrowed inference server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from games.core import Game
from zerofleet.agents import make_agent
from zerofleet.agents.model.search_options import parse_search
from zerofleet.contracts.manifests import Champion
from zerofleet.contracts.naming import model_name
from zerofleet.errors import ModelNotFound
from zerofleet.evaluators.base import Evaluator
from zerofleet.evaluators.opening import evaluating
from zerofleet.library.ladder_table import LadderTable, ladder_table
from zerofleet.presets.experiment import kept_experiment
from zerofleet.search.settings import default_simulations
from zerofleet.service.settings import open_run_store
from zerofleet.storage.runs import RunHeader, RunPaths, read_header
from zerofleet.strength.ladders import LadderBook, LadderPlan, default_rungs, parse_rungs, spaced
from zerofleet.strength.ladders.play import climb, missing_games
from zerofleet.strength.ladders.rungs import require_rungs
from zerofleet.strength.matches import GameResult, MatchSettings
from zerofleet.supervisor.borrowed import served

__all__ = ["GAMES_PER_PAIR", "RunLadder", "run_ladder"]

GAMES_PER_PAIR = 100
SLOTS = 128  # games at once, as in `zerofleet match`


@dataclass(frozen=True, slots=True)
class RunLadder:
    """Ladder of one run: its plan and its players."""

    paths: RunPaths
    header: RunHeader
    champions: tuple[Champion, ...]
    """In order of their first promotion."""
    plan: LadderPlan

    def book(self, *, is_writer: bool) -> LadderBook:
        """Return the book of the run's games. Raises `RunDirectoryError`, `OSError`."""
        return LadderBook(self.paths.root, self.plan.game, model=model_name(self.plan.game), is_writer=is_writer)

    def missing(self, book: LadderBook) -> int:
        """Return the number of games of the plan that the book lacks."""
        return sum(missing_games(book, match, self.plan.groups) for match in self.plan.matches()) if self.plan.games else 0

    def table(self, book: LadderBook, *, newest: int | None = None) -> LadderTable:
        """Return the ratings of the plan's players by the games of the book; of its champions the `newest`, by default all."""
        champions = self.champions if newest is None else self.champions[-newest:]
        return ladder_table(self.plan, book, champions, self.header, self.paths)

    async def play(self, book: LadderBook, *, note: Callable[[GameResult], None]) -> None:
        """Play the missing games into the book; `note` is called with each result.

        Raises `ModelNotFound`, `CorruptModel`, `Unavailable` and the errors of the agents; the book keeps the finished games.
        Cancellation: likewise, and a server that was started is stopped.
        """
        missing = self.missing(book)
        if not missing:
            return

        @asynccontextmanager
        async def lend(versions: Sequence[int]) -> AsyncIterator[Evaluator]:
            async with AsyncExitStack() as stack:
                borrowed = served(self.paths, self.plan.game, versions=versions) if versions else None
                address = None if borrowed is None else await stack.enter_async_context(borrowed)
                yield await stack.enter_async_context(evaluating(address, self.plan.game))

        settings = _settings(self.plan, slots=min(SLOTS, missing))
        await climb(self.plan, book, lend=lend, settings=settings, make_agent=make_agent, note=note)


def run_ladder(
    game: Game,
    paths: RunPaths,
    *,
    rungs: str | None = None,
    games: int = GAMES_PER_PAIR,
    simulations: int | None = None,
    search: str = "",
    every: int = 1,
    opening_plies: int | None = None,
    seed: int = 0,
) -> RunLadder:
    """Return the ladder of a run.

    Args:
        game: Game of the run.
        paths: Its directory.
        rungs: Classical players, separated by commas; None for those of the game.
        games: Games per pair of players; 0 plays none.
        simulations: Simulations per move of a model; None for the default of the game.
        search: Options of the models' search.
        every: Distance of the champions that are rated, counted from the last; the first is always one of them.
        opening_plies: Random plies of each opening; None for those of the run's gate.
        seed: Seed of every random choice.

    Raises:
        ModelNotFound: The run has no champion yet.
        ZerofleetError: A rung or an option is unknown or unsuitable, or the directory is no run.
    """
    header = read_header(paths.root)
    champions = spaced(_champions(paths, game), every)
    budget = default_simulations(game.spec()) if simulations is None else simulations
    plan = LadderPlan(
        game=game,
        rungs=_rungs(rungs, game),
        versions=tuple(champion.version for champion in champions),
        games=games,
        simulations=budget,
        opening_plies=_opening_plies(paths) if opening_plies is None else opening_plies,
        seed=seed,
        search=str(parse_search(search).resolved(game.spec(), budget)),  # rejects options that do not suit the game
    )
    return RunLadder(paths, header, tuple(champions), plan)


def _rungs(text: str | None, game: Game) -> tuple[str, ...]:
    if text is None:
        return default_rungs(game, make_agent=make_agent)
    return require_rungs(parse_rungs(text), game, make_agent=make_agent)


def _opening_plies(paths: RunPaths) -> int:
    """Return those of the run's gate. Raises `ConfigurationError` for an unreadable experiment file."""
    experiment = kept_experiment(paths.root)
    assert experiment is not None  # noqa: S101 - the header has been read
    return experiment.build_preset().gate.opening_plies


def _champions(paths: RunPaths, game: Game) -> list[Champion]:
    """Return the champions in order of their first promotion, each version once. Raises `ModelNotFound` if there is none."""
    model = model_name(game)
    found = {champion.version: champion for champion in reversed(open_run_store(paths).history(model))}
    if not found:
        raise ModelNotFound(f"{paths.root} has no champion of {model} yet; continue the run until the first promotion")
    return sorted(found.values(), key=lambda champion: champion.epoch)


def _settings(plan: LadderPlan, *, slots: int) -> MatchSettings:
    return MatchSettings(simulations=plan.simulations, options=parse_search(plan.search), slots=slots)
