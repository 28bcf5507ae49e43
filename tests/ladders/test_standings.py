"""Standings of a long run: which games count, and that former champions change nothing."""

from __future__ import annotations

from collections.abc import Iterable

import games
from zerofleet.contracts.gate_events import MatchOpened, Placed, Tallied
from zerofleet.contracts.promotions import Champion
from zerofleet.strength.gate_record import GateRecord
from zerofleet.strength.ladders.standings import RATED_CHAMPIONS, standings

RUNGS = ("random", "alpha_beta:1")
CHAMPIONS = RATED_CHAMPIONS + 20
HISTORY = [
    Champion(model="tic_tac_toe", version=version, manifest_sha256="0" * 64, promoted_at_ms=0, reason="stronger", epoch=version)
    for version in range(1, CHAMPIONS + 1)
]


def record_of(versions: Iterable[int]) -> GateRecord:
    """Return a record in which these versions were promoted by a match with the version before, and met each rung."""
    record = GateRecord("tic_tac_toe", games.make("tic_tac_toe"))
    record.fold(Tallied(first=RUNGS[1], second=RUNGS[0], points=15.0, games=20))
    for version in versions:
        record.fold(Tallied(first=f"model:{version}", second=f"model:{version - 1}", points=12.0, games=20))
        for place, rung in enumerate(RUNGS):
            record.fold(Tallied(first=f"model:{version}", second=rung, points=19.0 - place, games=20))
    return record


def test_games_of_former_champions_change_no_rating() -> None:
    latest = range(CHAMPIONS - RATED_CHAMPIONS + 1, CHAMPIONS + 1)
    every = standings(record_of(range(2, CHAMPIONS + 1)), HISTORY)
    assert every == standings(record_of(latest), HISTORY)
    assert {rung.name for rung in every} == {*RUNGS, *(f"model:{version}" for version in latest)}


def test_a_champion_that_is_rated_again_has_all_its_games() -> None:
    record = record_of(range(2, CHAMPIONS + 1))
    earlier = standings(record, HISTORY[:RATED_CHAMPIONS])
    assert earlier == standings(record_of(range(2, RATED_CHAMPIONS + 1)), HISTORY[:RATED_CHAMPIONS])


def test_the_evidence_among_some_players_is_that_of_closed_and_open_matches_of_both() -> None:
    record = record_of([2, 3])
    record.fold(Placed(first="model:3", second="random", players=("model:3", "random", "random"), places=(0, 1, 2), games=4))
    terms = {"seed": 1, "opening_plies": 0, "max_groups": 3, "purpose": "ladder"}
    for second in RUNGS:
        record.fold(MatchOpened(match_id=f"ladder/model:2/{second}", first="model:2", second=second, **terms))
    asked: list[str] = []

    def counts(name: str) -> bool:
        asked.append(name)
        return name in {"model:3", "random"}

    found = record.evidence(counts)
    assert [one.games for one in found] == [20, 4]
    assert found == [one for one in record.evidence() if one in found]
    assert len(asked) <= 2 * (len(record.evidence()) + len(RUNGS))  # names of pairs, not those of each sum
