"""Matches between models, of one run or two, and agents."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from rich.console import Console

from games.core import Game, make
from zerofleet.contracts.naming import model_name
from zerofleet.errors import InvalidRequest
from zerofleet.library import background
from zerofleet.library.runs import Model, Run, require_within
from zerofleet.search.block import LAST_SEED
from zerofleet.search.deadline import MOST_SIMULATIONS
from zerofleet.search.settings import default_simulations
from zerofleet.strength.matches import MatchSummary, Scoreboard
from zerofleet.strength.matches.meeting import meet, terms_of_games
from zerofleet.supervisor.borrowed import served
from zerofleet.supervisor.entrants import entrants

__all__ = ["match", "match_async"]

LINE_EVERY_S = 5.0

Player = Model | str


def match(
    first: Player,
    second: Player,
    *,
    game: str | Game | None = None,
    games: int = 100,
    simulations: int | None = None,
    opening_plies: int = 2,
    seed: int = 0,
    progress: bool = True,
) -> MatchSummary:
    """Play a match and return wins, draws and losses of the first player, its share of the points and Elo, with intervals.

    Every opening is played from each seat. The result is that of `zerofleet match`.

    Args:
        first: A model of a run, an agent such as `"alpha_beta:5"` (`zerofleet agents` lists them), or a player's name as in
            `zerofleet match`, such as `"champion@runs/other"`.
        second: The opponent.
        game: Name of the game, or a game from `games.make`; that of the models' runs unless given.
        games: Games at least, in whole groups; fewer where two models run out of different openings.
        simulations: Simulations a move of a model; None is the default of the game, 100 or 0.
        opening_plies: Random plies from which each group of games starts.
        seed: Seed of openings and luck.
        progress: Whether a line is shown every few seconds.

    Raises:
        GameError: No such game.
        ZerofleetError: `InvalidRequest` for an agent that does not exist or does not play the game, for models of different
            games, and for a player against itself; `ModelNotFound`, `CorruptModel`, `Unavailable`.
    """
    return background.wait_for(_match((first, second), game, games, simulations, opening_plies, seed, progress=progress))


async def match_async(
    first: Player,
    second: Player,
    *,
    game: str | Game | None = None,
    games: int = 100,
    simulations: int | None = None,
    opening_plies: int = 2,
    seed: int = 0,
    progress: bool = True,
) -> MatchSummary:
    """As `match`, for coroutines. Cancellation: the games are lost."""
    work = _match((first, second), game, games, simulations, opening_plies, seed, progress=progress)
    return await background.in_background(work)


async def _match(
    players: tuple[Player, Player],
    game: str | Game | None,
    games: int,
    simulations: int | None,
    opening_plies: int,
    seed: int,
    *,
    progress: bool,
) -> MatchSummary:
    if games < 1:
        raise InvalidRequest(f"a match has at least 1 game, got games={games}")
    for player in players:
        if not isinstance(player, str | Model):
            raise InvalidRequest(
                f"a player is a model of a run or the name of an agent, got {player!r}; an agent of your own gets a name in "
                "zerofleet.agents.AGENTS"
            )
    runs = {player.run.path.resolve(): player.run for player in players if isinstance(player, Model)}
    played = _game_of(list(runs.values()), game)
    bounds = {"seed": LAST_SEED, "opening_plies": played.spec().max_plies, "simulations": MOST_SIMULATIONS}
    for (name, most), value in zip(bounds.items(), (seed, opening_plies, simulations), strict=True):
        if value is not None:
            require_within(name, value, most)
    names = [player if isinstance(player, str) else _name_of(player, among=len(runs)) for player in players]
    default = next(iter(runs.values())).path if len(runs) == 1 else None
    chosen = await asyncio.to_thread(entrants, names, played, default, note=_nothing, several_runs=True)
    terms = terms_of_games(played, chosen.players, games=games, seed=seed, opening_plies=opening_plies)
    budget = default_simulations(played.spec()) if simulations is None else simulations
    async with AsyncExitStack() as stack:
        addresses = []
        for one in chosen.runs:
            if (open_run := runs.get(one.run.root.resolve())) is not None:
                server = open_run.serving(one.versions)
            else:
                server = served(one.run, played, versions=one.versions)
            addresses.append(await stack.enter_async_context(server))
        shown = _lines(terms.max_groups * terms.games_per_group) if progress else _nothing
        return (await meet(terms, addresses, simulations=budget, progress=shown)).summary()


def _name_of(model: Model, *, among: int) -> str:
    """Return the name of a model in a match with models of `among` runs."""
    return f"model:{model.version}" if among == 1 else f"model:{model.version}@{model.run.path}"


def _game_of(runs: Sequence[Run], game: str | Game | None) -> Game:
    named = make(game) if isinstance(game, str) else game
    if not runs:
        if named is None:
            raise InvalidRequest('two players without a run, and without a game; add one, such as game="connect_four"')
        return named
    wanted = named or runs[0].game  # `named` may score the same games differently
    for run in runs:
        if model_name(wanted) != model_name(run.game):
            advice = "leave out game=" if named is not None else "models of one game can meet"
            raise InvalidRequest(f"{run.path} is a run of {model_name(run.game)}, not of {model_name(wanted)}; {advice}")
    return wanted


def _lines(games: int) -> Callable[[Scoreboard], None]:
    """Return a callback that prints the score to standard error every few seconds."""
    console, shown_s = Console(stderr=True, highlight=False, force_jupyter=False), time.monotonic()

    def show(board: Scoreboard) -> None:
        nonlocal shown_s
        if time.monotonic() - shown_s >= LINE_EVERY_S and board.groups:
            shown_s = time.monotonic()
            standing = board.standing()
            first, second = (player.name for player in board.terms.players)
            console.print(
                f"{first} against {second}: {standing.games} of {games} games, {100 * standing.share:.1f} % of points",
                markup=False,
                soft_wrap=True,
            )

    return show


def _nothing(_: object) -> None:
    """Show nothing."""
