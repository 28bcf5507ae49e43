"""`zerofleet match`: two players meet in many games, from paired openings, each from every seat."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from games.core import Game
from games.positions import parameters_text
from zerofleet.agents import make_agent
from zerofleet.cli import screen
from zerofleet.cli.opponents import is_model, version_of
from zerofleet.cli.options import Json, Parameters, RunDir, Seed, Simulations, chosen_game, chosen_simulations
from zerofleet.cli.runs import find_run
from zerofleet.evaluators.base import Evaluator
from zerofleet.evaluators.fakes import UniformEvaluator
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.matches import (
    FixedGames,
    GameResult,
    LoneTally,
    MatchSettings,
    MatchTerms,
    Player,
    Scoreboard,
    SeatTally,
    Standing,
    lone_tally,
    play_match,
    seatings,
)
from zerofleet.naming import model_name
from zerofleet.ratings import elo_from_share
from zerofleet.serving import served

__all__ = ["MatchSummary", "SeatSummary", "match", "summarise"]

SLOTS = 128  # games at once: large requests, and still many opponents' moves between two of them


@dataclass(frozen=True, slots=True)
class SeatSummary:
    """Games of the first player on some seats."""

    seats: tuple[int, ...]  # counted from 1
    wins: int
    draws: int
    losses: int


@dataclass(frozen=True, slots=True)
class MatchSummary:
    """What a match says of its first player."""

    first: str
    second: str
    games: int
    openings: int
    wins: int
    draws: int
    losses: int
    share: float
    """Share of the points, a draw counting half, with its 95 % interval beside it."""
    share_low: float
    share_high: float
    elo: float | None
    """Elo difference; None where a share of 0 or 1 puts it out of bounds."""
    elo_low: float | None
    elo_high: float | None
    by_seat: tuple[SeatSummary, ...]
    alone: tuple[LoneTally, ...] = ()
    """In games of more than two seats: the first player alone against several of the second, and the other way round."""


def match(
    first: Annotated[str, typer.Argument(metavar="A", help="champion, model:N, alpha_beta:DEPTH, random or perfect.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Whom A meets.")],
    *,
    game_name: Annotated[str, typer.Option("--game", metavar="GAME", help="Game, such as connect_four.")] = "connect_four",
    games: Annotated[int, typer.Option("--games", metavar="N", min=1, help="Games, in groups with every seating.")] = 100,
    simulations: Simulations = None,
    opening_plies: Annotated[
        int, typer.Option("--opening-plies", metavar="K", min=0, help="Random plies from which each group starts.")
    ] = 2,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Let two players meet and show wins, draws and losses by seat, the share of points with its interval, and Elo.

    Every opening is played from each seat, with the same deal. Two models, which always play alike, never meet in the same
    position twice. Of games for more than two, it also says how each did alone against several of the other.
    """
    game = chosen_game(game_name, parameters)
    searched = chosen_simulations(game, simulations)
    request = _Request(game, (first, second), games, searched, opening_plies, seed)
    summary = asyncio.run(_play(request, run_dir))
    if summary.games < games and not json:
        screen.note(f"{summary.games} games: {game_name} offers {summary.openings} different openings of {opening_plies} plies")
    if json:
        about = {"game": game_name, "parameters": parameters_text(game), "simulations": searched, "seed": seed}
        screen.emit_json({**about, "opening_plies": opening_plies, **asdict(summary)})
    else:
        _show(summary)


def summarise(terms: MatchTerms, standing: Standing, results: Sequence[GameResult] = ()) -> MatchSummary:
    """Return what a standing says, and the results it stands on, in numbers that a script can read."""
    names = (terms.players[0].name, terms.players[1].name)
    low, high = standing.interval
    total = standing.total
    return MatchSummary(
        first=names[0],
        second=names[1],
        games=standing.games,
        openings=standing.groups,
        wins=total.wins,
        draws=total.draws,
        losses=total.losses,
        share=standing.share,
        share_low=low,
        share_high=high,
        elo=_finite(elo_from_share(standing.share)),
        elo_low=_finite(elo_from_share(low)),
        elo_high=_finite(elo_from_share(high)),
        by_seat=tuple(_seat_summary(seating, tally) for seating, tally in standing.seats.items()),
        alone=tuple(lone_tally(results, names, lone) for lone in (0, 1)) if terms.game.spec().num_players > 2 else (),
    )


@dataclass(frozen=True, slots=True)
class _Request:
    game: Game
    names: tuple[str, str]
    games: int
    simulations: int
    opening_plies: int
    seed: int


async def _play(request: _Request, run_dir: Path | None) -> MatchSummary:
    """Find the players, borrow an inference server if there is a model among them, and play."""
    async with AsyncExitStack() as stack:
        players, evaluator = await _players(stack, request, run_dir)
        per_group = len(seatings(request.game.spec().num_players))
        terms = MatchTerms(
            match_id="match",
            game=request.game,
            players=players,
            seed=request.seed,
            opening_plies=request.opening_plies,
            max_groups=math.ceil(request.games / per_group),
        )
        board = Scoreboard(terms)
        settings = MatchSettings(simulations=request.simulations, slots=min(SLOTS, terms.max_groups * per_group))
        with screen.meter(f"{players[0].name} against {players[1].name}", terms.max_groups * per_group) as meter:

            async def record(result: GameResult) -> None:
                board.record(result)
                meter.advance(remark=f"{board.standing().share:.1%}" if board.groups else "")

            outcome = await play_match(board, FixedGames(), evaluator, settings=settings, make_agent=make_agent, record=record)
        return summarise(terms, outcome.standing, board.counted_results())


async def _players(stack: AsyncExitStack, request: _Request, run_dir: Path | None) -> tuple[tuple[Player, Player], Evaluator]:
    """Return the two players and whoever evaluates for the models among them."""
    game, names = request.game, request.names
    for name in names:
        if not is_model(name):
            make_agent(name, game)  # says now if there is no such agent
    if not any(is_model(name) for name in names):
        return (Player.named(names[0]), Player.named(names[1])), UniformEvaluator(game.spec().num_players)
    paths = find_run(game, run_dir)
    players = [Player.model(version_of(name, paths, game)) if is_model(name) else Player.named(name) for name in names]
    if "champion" in names:
        screen.note(f"champion is {players[names.index('champion')].name} of {paths.root}")
    versions = [player.version for player in players if player.version is not None]
    address = await stack.enter_async_context(served(paths, game, versions=versions))
    evaluator = await stack.enter_async_context(KServeEvaluator(address, model_name(game)))
    return (players[0], players[1]), evaluator


def _show(summary: MatchSummary) -> None:
    rows = screen.table(f"{summary.first} sat", ">games", ">won", ">drawn", ">lost", ">points")
    for seat in summary.by_seat:
        label = f"seat {_listed(seat.seats)}" + (" (begins)" if seat.seats == (1,) else "")
        rows.add_row(label, *_numbers(seat.wins, seat.draws, seat.losses))
    rows.add_row("all", *_numbers(summary.wins, summary.draws, summary.losses), style="bold")
    console = screen.out()
    console.print(rows)
    console.print(
        f"\n{summary.first} took {summary.share:.1%} of the points against {summary.second}"
        f" (95 % interval {summary.share_low:.1%} to {summary.share_high:.1%})"
    )
    console.print(f"Elo difference {_elo(summary.elo)} ({_elo(summary.elo_low)} to {_elo(summary.elo_high)})")
    for tally in summary.alone:
        _show_lone(tally)


def _show_lone(tally: LoneTally) -> None:
    console = screen.out()
    placings = [f">{_ordinal(place)}" for place in range(1, tally.opponents + 2)]
    columns = (">games", *placings, ">first of 100", ">95 % interval", ">mean score")
    rows = screen.table(f"{tally.player} alone on", *columns)
    for seat in tally.seats:
        first = (f"{100 * seat.first:.1f}", f"{100 * seat.first_low:.1f} to {100 * seat.first_high:.1f}")
        rows.add_row(f"seat {seat.seat}", str(sum(seat.placings)), *map(str, seat.placings), *first, f"{seat.mean_score:+.3f}")
    console.print()
    console.print(rows)
    console.print(
        f"\n{tally.player} alone against {tally.opponents} {tally.against}: {tally.share:.1%} of the points"
        f" (95 % interval {tally.share_low:.1%} to {tally.share_high:.1%}; equal players have {1 / (tally.opponents + 1):.1%}),"
        f" mean score {tally.mean_score:+.3f}"
    )
    console.print(f"net score {tally.net:+.1f} in 100 games ({tally.net_low:+.1f} to {tally.net_high:+.1f})")


def _ordinal(place: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(place, f"{place}th")


def _numbers(wins: int, draws: int, losses: int) -> Sequence[str]:
    games = wins + draws + losses
    share = (wins + draws / 2) / games if games else 0.0
    return (str(games), str(wins), str(draws), str(losses), f"{share:.1%}")


def _seat_summary(seating: tuple[int, ...], tally: SeatTally) -> SeatSummary:
    seats = tuple(seat for seat, player in enumerate(seating, start=1) if player == 0)
    return SeatSummary(seats, tally.wins, tally.draws, tally.losses)


def _listed(seats: Sequence[int]) -> str:
    return " and ".join(str(seat) for seat in seats)


def _finite(elo: float) -> float | None:
    return elo if math.isfinite(elo) else None


def _elo(elo: float | None) -> str:
    return "beyond measure" if elo is None else f"{elo:+.0f}"
