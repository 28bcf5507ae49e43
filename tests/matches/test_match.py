import asyncio
from dataclasses import replace

import pytest

from games.core import make
from zerofleet.errors import Unavailable
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.strength.matches import (
    FixedGames,
    MatchSettings,
    Scoreboard,
    SequentialTest,
    ShareOfPoints,
    play_games,
    play_match,
)
from zerofleet.strength.matches.match import paced
from zerofleet.strength.ratings import Sprt


class FailsAfter:
    """An evaluator that answers `calls` times and then is gone."""

    def __init__(self, inner, calls):
        self.inner, self.calls = inner, calls

    async def evaluate(self, batch, *, version):
        if self.calls == 0:
            raise Unavailable("gone")
        self.calls -= 1
        return await self.inner.evaluate(batch, version=version)


async def run(terms, evaluator, settings, make_agent, rule=None, board=None, record=None):
    board = board or Scoreboard(terms)
    rule = rule or FixedGames()
    return await play_match(board, rule, evaluator, settings=settings, make_agent=make_agent, record=record), board


async def test_a_sensible_player_beats_a_stubborn_one(terms, evaluator, settings, make_agent):
    outcome, board = await run(terms(), evaluator, settings, make_agent)
    assert outcome.decision.first_wins
    assert outcome.standing.share > 0.7
    assert outcome.standing.games == 16
    assert board.closed


async def test_equal_match_terms_give_equal_games(terms, evaluator, settings, make_agent):
    games = []
    for slots in (3, 8):
        _, board = await run(terms(), evaluator, replace(settings, slots=slots), make_agent)
        games.append(sorted(board.results(), key=lambda r: (r.group, r.seating)))
    assert games[0] == games[1]


async def test_agents_and_models_play_in_one_search_block(terms, evaluator, settings, make_agent):
    outcome, board = await run(terms(second="random"), evaluator, settings, make_agent)
    assert outcome.standing.share > 0.5
    assert {r.players for r in board.results()} == {("model:1", "random"), ("random", "model:1")}


async def test_a_match_of_agents_needs_no_evaluation(terms, settings, make_agent):
    outcome, _ = await run(terms("random", "other"), FailsAfter(None, 0), settings, make_agent)
    assert outcome.standing.games == 16


async def test_the_random_choices_of_agents_follow_from_the_seed(terms, evaluator, settings, make_agent):
    boards = [(await run(terms("random", "other", seed=s), evaluator, settings, make_agent))[1] for s in (1, 1, 2)]
    moves = [sorted(r.moves for r in board.results()) for board in boards]
    assert moves[0] == moves[1] != moves[2]


async def test_the_sequential_test_stops_before_the_last_game(terms, evaluator, settings, make_agent):
    rule = SequentialTest(Sprt(elo0=0.0, elo1=200.0))
    outcome, _ = await run(terms(max_groups=40), evaluator, settings, make_agent, rule)
    assert outcome.decision.first_wins
    assert outcome.log_likelihood_ratio >= rule.sprt.upper
    assert outcome.standing.groups < 40


async def test_the_outcome_does_not_depend_on_the_number_of_concurrent_games(terms, evaluator, settings, make_agent):
    rule = SequentialTest(Sprt(elo0=0.0, elo1=200.0))
    outcomes = [
        (await run(terms(max_groups=40), evaluator, replace(settings, slots=slots), make_agent, rule))[0]
        for slots in (2, 9, 80)
    ]
    assert outcomes[0] == outcomes[1] == outcomes[2]


async def test_identical_players_are_not_promoted(terms, evaluator, settings, make_agent):
    rule = SequentialTest(Sprt(elo0=0.0, elo1=60.0))
    outcome, _ = await run(terms(second=3, max_groups=70), evaluator, settings, make_agent, rule)
    assert outcome.standing.share == 0.5
    assert not outcome.decision.first_wins


async def test_a_match_resumes_after_its_evaluator_failed(terms, evaluator, settings, make_agent):
    whole, _ = await run(terms(), evaluator, settings, make_agent)
    board = Scoreboard(terms())
    failures = 0
    while True:
        try:
            outcome, _ = await run(None, FailsAfter(evaluator, 60), settings, make_agent, board=board)
        except Unavailable:
            failures += 1
        else:
            break
    assert failures > 0
    assert outcome == whole


async def test_a_match_with_all_results_plays_no_game(terms, evaluator, settings, make_agent):
    outcome, board = await run(terms(), evaluator, settings, make_agent)
    again = Scoreboard(board.terms)
    for result in board.results():
        again.record(result)
    repeated, _ = await run(None, FailsAfter(None, 0), settings, make_agent, board=again)
    assert repeated == outcome


async def test_a_result_can_be_stored_before_it_counts(terms, evaluator, settings, make_agent):
    board = Scoreboard(terms())
    counted = []

    async def note(result):
        counted.append(len(board.results()))
        board.record(result)

    await run(None, evaluator, settings, make_agent, board=board, record=note)
    assert counted == list(range(16))


async def test_a_result_that_cannot_be_stored_does_not_count(terms, evaluator, settings, make_agent):
    board = Scoreboard(terms())

    async def refuse(result):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await run(None, evaluator, settings, make_agent, board=board, record=refuse)
    assert board.results() == []
    assert not board.closed


async def test_a_cancelled_match_keeps_its_results(terms, evaluator, settings, make_agent):
    board = Scoreboard(terms())
    reported = asyncio.Event()

    async def note(result):
        if len(board.results()) == 3:
            reported.set()
            await asyncio.Event().wait()
        board.record(result)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run(None, evaluator, settings, make_agent, board=board, record=note))
        await reported.wait()
        task.cancel()
    assert len(board.results()) == 3
    outcome, _ = await run(None, evaluator, settings, make_agent, board=board)
    assert outcome.standing.games == 16


async def test_before_step_is_awaited_before_every_step(terms, evaluator, settings, make_agent):
    steps = []

    async def count():
        steps.append(1)

    polite = replace(settings, before_step=count)
    await run(terms(max_groups=2), evaluator, polite, make_agent)
    assert len(steps) > 10


async def test_a_match_with_an_undecided_share_plays_every_group(terms, evaluator, settings, make_agent):
    outcome, _ = await run(terms(second=3), evaluator, settings, make_agent, ShareOfPoints(0.55, 8))
    assert not outcome.decision.first_wins


async def test_no_game_is_started_after_the_caller_stops_reading(game, terms, settings, make_agent):
    taken = []

    def pairings():
        for pairing in Scoreboard(terms()).open_pairings():
            taken.append(pairing)
            yield pairing

    games = play_games(game, pairings(), UniformEvaluator(2), settings=replace(settings, slots=2), make_agent=make_agent)
    await anext(games)
    await games.aclose()
    assert len(taken) == 2


@pytest.mark.parametrize("leaves", [1, 4])
async def test_the_outcome_does_not_depend_on_the_games_that_begin_together(terms, evaluator, settings, make_agent, leaves):
    rule = SequentialTest(Sprt(elo0=0.0, elo1=200.0))
    several = replace(settings, leaves_per_game=leaves)
    outcomes = [
        (await run(terms(max_groups=40), evaluator, replace(several, slots=slots, lead_games=lead), make_agent, rule))[0]
        for slots, lead in ((2, 0), (80, 1), (80, 8), (9, 8), (80, 0))
    ]
    assert all(outcome == outcomes[0] for outcome in outcomes)


@pytest.mark.parametrize("leaves", [2, 5])
async def test_games_with_several_leaves_do_not_depend_on_the_number_of_concurrent_games(
    terms, evaluator, settings, make_agent, leaves
):
    games = []
    for slots, cache in ((2, 0), (16, 256)):
        changed = replace(settings, slots=slots, leaves_per_game=leaves, cache_positions=cache)
        _, board = await run(terms(), evaluator, changed, make_agent)
        games.append(sorted(board.results(), key=lambda r: (r.group, r.seating)))
    assert games[0] == games[1]


async def test_several_leaves_of_a_game_share_a_request(terms, evaluator, settings, make_agent):
    sizes = {}
    for leaves in (1, 4):
        rows = []

        async def answer(batch, *, version, rows=rows):
            rows.append(len(batch))
            return await evaluator.evaluate(batch, version=version)

        await run(terms(), Answering(answer), replace(settings, leaves_per_game=leaves, cache_positions=0), make_agent)
        sizes[leaves] = len(rows)
    assert sizes[4] < 0.6 * sizes[1]


class Answering:
    """An evaluator made of a function."""

    def __init__(self, evaluate):
        self.evaluate = evaluate


async def test_a_clear_match_plays_fewer_games_when_it_begins_with_few(terms, evaluator, settings, make_agent):
    rule = SequentialTest(Sprt(elo0=0.0, elo1=200.0))
    played = []
    for lead in (8, 0):
        changed = replace(settings, slots=80, lead_games=lead)
        _, board = await run(terms(max_groups=40), evaluator, changed, make_agent, rule)
        played.append(len(board.results()))
    assert played[0] < played[1]


def test_groups_begin_at_the_pace_of_those_that_count(terms, random_result):
    board = Scoreboard(terms(max_groups=60))
    pairings = paced(board, 8)
    begun = [next(pairings) for _ in range(8)]
    assert [pairing.group for pairing in begun] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [next(pairings) for _ in range(3)] == [None] * 3
    for pairing in begun[2:]:
        board.record(random_result(pairing))
    assert next(pairings) is None  # group 0, which has not ended, comes first
    board.record(random_result(begun[0]))
    board.record(random_result(begun[1]))
    assert board.groups == 4
    more = [next(pairings) for _ in range(25)]
    assert [pairing.group for pairing in more[:24]] == [group for group in range(4, 16) for _ in range(2)]
    assert more[24] is None


async def test_players_without_a_search_ignore_the_number_of_leaves(terms, evaluator, settings, make_agent):
    outcomes = [
        (await run(terms(), evaluator, replace(settings, simulations=0, leaves_per_game=leaves), make_agent))[0]
        for leaves in (1, 4)
    ]
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    ("name", "leaves", "root"),
    [
        ("connect_four", 4, "gumbel"),
        ("othello", 4, "gumbel"),
        ("chinese_checkers_star37", 4, "puct"),
        ("take_six", 1, "puct"),
        ("rock_paper_scissors", 1, "puct"),
    ],
)
def test_the_terms_state_the_search_of_a_match(name, leaves, root):
    settings = MatchSettings(simulations=48, leaves_per_game=4)
    assert settings.terms(make(name).spec()) == {
        "simulations": 48,
        "leaves_per_game": leaves,
        "root_policy": root,
        "prove_values": True,
        "prove_replies": True,
        "search": "",
    }
