"""P5 in one process: a match is decided by its own results, each counted once as it was first reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from promise_tools import GAME, borrowed

from games import positions
from games.core import make
from gatekeeper.referee import Referee
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.errors import InvalidRequest, RecordRejected
from zerofleet.strength.matches import (
    Decision,
    GameResult,
    MatchTerms,
    Player,
    Scoreboard,
    SequentialTest,
    decide,
    points,
)
from zerofleet.strength.ratings import Sprt

gatekeeper_tests = borrowed("promise_gatekeeper", "gatekeeper/conftest.py")
MODEL = gatekeeper_tests.MODEL
TEST = SequentialTest(Sprt(0.0, 200.0, 0.05, 0.05))


def new_board(groups: int = 40) -> Scoreboard:
    players = (Player.model(2), Player.model(1))
    return Scoreboard(MatchTerms("gate/2/1/1", make(GAME), players, seed=7, opening_plies=2, max_groups=groups))


def played(pairing, *, share: float) -> GameResult:
    """Return a game by the rules in which the first player gets this share of the points."""
    game, names = make(GAME), tuple(player.name for player in pairing.players)
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        state = positions.replay(game, pairing.opening.moves, pairing.opening.seed)
        moves = list(pairing.opening.moves)
        while legal := positions.legal(game, state):
            moves.append(legal[int(rng.integers(len(legal)))])
            positions.advance(game, state, moves[-1])
        scores = positions.final_scores(game, state)
        if points(pairing.seating, scores) == share:
            return GameResult(pairing.match_id, pairing.group, pairing.seating, names, tuple(moves), scores)
    raise AssertionError(f"no game with a share of {share}")


def pairings(board: Scoreboard, groups: int):
    return [pairing for pairing, _ in zip(board.open_pairings(), range(2 * groups), strict=False)]


FORGERIES = {
    "conflict": lambda honest, other: other,
    "wrong_result": lambda honest, other: replace(honest, scores=tuple(-score for score in honest.scores)),
    "wrong_seats": lambda honest, other: replace(honest, players=honest.players[::-1]),
    "unknown_seating": lambda honest, other: replace(honest, seating=(0, 0)),
    "unknown_group": lambda honest, other: replace(honest, group=10_000),
    "foreign_match": lambda honest, other: replace(honest, match_id="gate/9/9/9"),
    "illegal_game": lambda honest, other: replace(honest, moves=honest.moves[:-1]),
    "wrong_opening": lambda honest, other: replace(honest, moves=honest.moves[::-1]),
}


@pytest.mark.parametrize("kind", FORGERIES)
def test_p5_a_forged_result_changes_no_standing(kind):
    board, clean = new_board(), new_board()
    first, second = pairings(board, 1)
    honest, other = played(first, share=0.0), played(first, share=1.0)
    if kind == "conflict":
        board.record(honest)  # the forgery comes while the pair is incomplete, and again when it counts
    forged = FORGERIES[kind](honest, other)
    for following in (None, played(second, share=0.0)):
        with pytest.raises(RecordRejected) as refused:
            board.record(forged)
        assert refused.value.reason == kind
        if following is not None:
            board.record(following)
    with pytest.raises(RecordRejected):
        board.record(forged)
    board.record(honest)
    for result in (honest, played(second, share=0.0)):
        clean.record(result)
    assert board.standing() == clean.standing()
    assert board.standing().group_scores == (0.0,)


def test_p5_a_repeated_result_counts_once_and_a_late_one_not_at_all():
    board = new_board()
    results = [played(pairing, share=1.0) for pairing in pairings(board, 2)]
    assert [board.record(result) for result in [*results[:3], *results[:3]]] == [True] * 3 + [False] * 3
    assert board.standing().group_scores == (1.0,)
    board.close()
    with pytest.raises(RecordRejected, match="is over"):
        board.record(results[3])
    assert board.standing().group_scores == (1.0,)


def test_p5_results_after_the_decision_do_not_count_even_if_they_arrive_with_it(tmp_path):
    board, groups = new_board(), 30
    wins = [played(pairing, share=1.0) for pairing in pairings(board, groups)]
    for result in wins[: 2 * groups // 2]:
        board.record(result)
    outcome = decide(board, TEST)
    assert outcome is not None
    assert outcome.decision.first_wins
    assert outcome.standing.groups < groups // 2
    for pairing in pairings(board, groups // 2):  # those without a result
        board.record(played(pairing, share=0.0))
    late = decide(board, TEST)
    assert late == outcome
    settings = gatekeeper_tests.make_settings(tmp_path)
    referee = Referee(make(GAME), settings, ledger=None, pointer=None, make_agent=None, budget=None)
    assert referee.standing(board) == decide(board, referee._rule).standing


def test_p5_an_undecided_test_promotes_no_candidate():
    board = new_board(groups=1)
    for result in (played(pairing, share=1.0) for pairing in pairings(board, 1)):
        board.record(result)
    decision = TEST.decide(board.standing(), is_last=True)
    assert decision.undecided
    assert not decision.first_wins
    assert TEST.decide(board.standing(), is_last=False) is None


def opened(tmp_path, models):
    inference = gatekeeper_tests.FakeInference(stubborn={1})
    return gatekeeper_tests.running(gatekeeper_tests.make_settings(tmp_path), models, inference)


async def test_p5_a_candidate_is_offered_with_the_content_that_is_stored(tmp_path, quick_retries):
    models = gatekeeper_tests.Models(tmp_path / "models")
    async with opened(tmp_path, models) as gate:
        version, sha256 = models.publish()
        with pytest.raises(InvalidRequest, match="stored with manifest"):
            await gate.client.submit(MODEL, version, "0" * 64)
        await gate.client.submit(MODEL, version, sha256)
        with pytest.raises(InvalidRequest, match="offered before"):
            await gate.client.submit(MODEL, version, models.edit(version, train_steps=99))


async def test_p5_a_match_against_a_former_champion_promotes_no_candidate(tmp_path, monkeypatch, quick_retries):
    models = gatekeeper_tests.Models(tmp_path / "models")
    first, second, third = (models.publish() for _ in range(3))
    async with opened(tmp_path, models) as gate:
        await gate.client.promote(MODEL, first[0], reason="")

        async def win_against_a_former_champion(self, version, champion, evaluator, *, opponent=None):
            await gate.client.promote(MODEL, third[0], reason="by hand, during the match")
            return Decision(True, "won")

        monkeypatch.setattr(Referee, "play", win_against_a_former_champion)
        await gate.client.submit(MODEL, *second)
        assert (await gate.settled(second[0])).status is CandidateStatus.REJECTED
        assert gate.pointer.champion.version == third[0]
