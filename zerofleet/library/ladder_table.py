"""Ladder of `zerofleet ladder`: the champions of a run among classical players, by the games of its book.

`zerofleet ladder --json` prints these values, and the page of the ladder receives the same ones. The ladder of the gatekeeper
is another one (`zerofleet.library.ladder_list`): its models search differently, so the two do not share games.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from games.positions import parameters_text
from zerofleet.contracts.manifests import Champion
from zerofleet.library.times import time_of, time_text
from zerofleet.library.values import Value
from zerofleet.storage.runs import RunHeader, RunPaths
from zerofleet.strength.ladders import LadderBook, LadderPlan
from zerofleet.strength.ratings import Rating

__all__ = ["AgainstRung", "ChampionStanding", "LadderTable", "RungRating", "ladder_table"]


class AgainstRung(Value):
    """Games of a champion against one rung."""

    rung: str
    games: int
    share: float | None
    """Share of the points, a draw counting half; None without games. `share_low` and `share_high` are its 95 % interval."""
    share_low: float | None
    share_high: float | None


class ChampionStanding(Value):
    """Champion on the ladder."""

    version: int
    promoted_at: str | None
    """UTC, ISO 8601; None for an unknown time."""
    hours: float | None
    """Hours from the start of the run to its promotion; None for an unknown time."""
    elo: float | None
    """None before its first game. `elo_low` and `elo_high` are its 95 % interval."""
    elo_low: float | None
    elo_high: float | None
    games: int
    against: tuple[AgainstRung, ...]


class RungRating(Value):
    """Classical player on the ladder."""

    name: str
    elo: float
    low: float
    """`low` and `high` are the 95 % interval."""
    high: float
    games: int


class LadderTable(Value):
    """The whole ladder, under the conditions of its games."""

    game: str
    parameters: dict[str, str]
    run_dir: str
    seed: int
    simulations: int
    """Simulations per move of a model."""
    search: str
    opening_plies: int
    games_per_pair: int
    champions: tuple[ChampionStanding, ...]
    """Oldest first."""
    rungs: tuple[RungRating, ...]
    """In the given order, weakest first."""


def ladder_table(
    plan: LadderPlan,
    book: LadderBook,
    champions: Sequence[Champion],
    header: RunHeader,
    paths: RunPaths,
) -> LadderTable:
    """Return the ratings of champions and rungs by all games in the book under the plan's conditions."""
    conditions = {"seed": plan.seed, "simulations": plan.simulations, "opening_plies": plan.opening_plies}
    ratings = book.ratings(book.matches(**conditions, search=plan.recorded_search))
    by_name = {rating.name: rating for rating in ratings}
    return LadderTable(
        game=plan.game.spec().name,
        parameters=parameters_text(plan.game),
        run_dir=str(paths.root),
        seed=plan.seed,
        simulations=plan.simulations,
        search=plan.search,
        opening_plies=plan.opening_plies,
        games_per_pair=plan.games,
        champions=tuple(_standing(one, plan, book, by_name, header) for one in champions),
        rungs=tuple(_rung(by_name[rung]) for rung in plan.rungs if rung in by_name),
    )


def _rung(rating: Rating) -> RungRating:
    return RungRating(name=rating.name, elo=rating.elo, low=rating.low, high=rating.high, games=rating.games)


def _standing(
    champion: Champion, plan: LadderPlan, book: LadderBook, ratings: dict[str, Rating], header: RunHeader
) -> ChampionStanding:
    promoted_at = time_of(champion.promoted_at_ms)
    rating = ratings.get(f"model:{champion.version}")
    return ChampionStanding(
        version=champion.version,
        promoted_at=time_text(champion.promoted_at_ms),
        hours=None if promoted_at is None else (promoted_at - header.created_at).total_seconds() / 3600.0,
        elo=rating.elo if rating else None,
        elo_low=rating.low if rating else None,
        elo_high=rating.high if rating else None,
        games=rating.games if rating else 0,
        against=tuple(_against(champion.version, plan, book)),
    )


def _against(version: int, plan: LadderPlan, book: LadderBook) -> Iterable[AgainstRung]:
    for match in plan.champion_matches(version):
        if match.second in plan.rungs:
            standing = book.board(match, 1).standing()
            low, high = standing.interval
            known = standing.groups > 0
            yield AgainstRung(
                rung=match.second,
                games=standing.games,
                share=standing.share if known else None,
                share_low=low if known else None,
                share_high=high if known else None,
            )
