"""What moves cost, in results, on scoreboards and in summaries."""

import json
from dataclasses import replace

import pytest

from zerofleet.agents import make_agent
from zerofleet.strength.matches import Effort, FixedGames, MatchTerms, Player, Scoreboard, SeatTally, play_match, summarise


def test_efforts_add_up_and_have_means():
    total = Effort(2, 100, 0.5, 0.25) + Effort(3, 50, 0.25, 0.125)
    assert (total.moves, total.nodes, total.time_s, total.cpu_s) == (5, 150, 0.75, 0.375)
    assert (total.nodes_per_move, total.ms_per_move, total.cpu_ms_per_move) == (30.0, 150.0, 75.0)
    assert (Effort().nodes_per_move, Effort().ms_per_move, Effort().cpu_ms_per_move) == (0.0, 0.0, 0.0)


async def played(terms, evaluator, settings):
    board = Scoreboard(terms)
    outcome = await play_match(board, FixedGames(), evaluator, settings=settings, make_agent=make_agent)
    return board, outcome


async def test_results_hold_the_cost_of_moves_of_models_and_agents(terms, evaluator, settings):
    board, outcome = await played(terms(second="alpha_beta:2"), evaluator, settings)
    moves = sum(len(result.moves) - 2 for result in board.results())
    model, agent = board.efforts()
    assert model.moves + agent.moves == moves
    assert 1 < model.nodes_per_move <= 12
    assert agent.nodes_per_move > 3
    assert model.time_s > 0 < agent.time_s
    assert model.cpu_s == 0 < agent.cpu_s
    summary = summarise(board.terms, outcome.standing, board.counted_results())
    assert [effort.player for effort in summary.efforts] == ["model:1", "alpha_beta:2"]
    assert summary.efforts[0].nodes == model.nodes
    assert summary.mean_plies == pytest.approx(moves / 16 + 2)


async def test_the_efforts_of_two_models_and_of_twins_are_assigned_by_seat(terms, evaluator, settings):
    board, _ = await played(terms(), evaluator, settings)
    first, second = board.efforts()
    assert first.moves + second.moves == sum(len(result.moves) - 2 for result in board.results())
    twins = replace(terms(), players=(Player.model(1), Player.model(1).twin()))
    board, _ = await played(twins, evaluator, settings)
    first, second = board.efforts()
    assert first.moves == second.moves > 0


async def test_results_that_differ_in_cost_alone_are_equal(terms, evaluator, settings):
    board, _ = await played(terms(max_groups=1), evaluator, settings)
    result = board.results()[0]
    again = replace(result, efforts=())
    assert again == result
    fresh = Scoreboard(board.terms)
    fresh.record(again)
    assert not fresh.record(result)
    assert fresh.efforts() == (Effort(), Effort())


def test_full_wins_are_counted_separately_from_partial_wins():
    tally = SeatTally()
    for share, full in ((1.0, 1), (0.75, 0), (0.5, 0), (0.25, 0), (0.0, -1)):
        tally.add(share, full)
    assert (tally.wins, tally.draws, tally.losses, tally.full_wins, tally.full_losses) == (2, 1, 2, 1, 1)
    assert tally.share == 0.5


async def test_a_capture_of_six_is_a_full_win_and_three_are_half_of_the_points(evaluator, settings):
    from games.core import make  # noqa: PLC0415

    game = make("abalone", ply_cap=150, captures=2)
    terms = MatchTerms("m", game, (Player("greedy"), Player("random")), seed=3, opening_plies=2, max_groups=3)
    board, outcome = await played(terms, evaluator, settings)
    total = outcome.standing.total
    scores = [dict(zip(r.players, r.scores, strict=True))["greedy"] for r in board.results()]
    assert total.full_wins == sum(score == 1.0 for score in scores)
    assert total.full_losses == sum(score == -1.0 for score in scores)
    assert total.wins == sum(score > 0 for score in scores)
    assert total.points == pytest.approx(sum((score + 1) / 2 for score in scores))
    summary = summarise(terms, outcome.standing, board.counted_results())
    assert sum(seat.full_wins for seat in summary.by_seat) == summary.full_wins == total.full_wins
    assert json.dumps(summary.by_seat[0].share)


async def test_the_first_place_among_three_is_a_full_win(evaluator, settings):
    from games.core import make  # noqa: PLC0415

    game = make("chinese_checkers_star37")
    terms = MatchTerms("m", game, (Player("greedy"), Player("random")), seed=1, opening_plies=0, max_groups=1)
    _, outcome = await played(terms, evaluator, settings)
    assert outcome.standing.total.full_wins == 6
