"""Plans, the book and playing what is missing, with a network that knows nothing."""

import re
import shutil
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from games import core
from games.core import make
from games.positions import final_scores, legal, replay
from zerofleet.agents import make_agent
from zerofleet.agents.model.search_options import parse_search
from zerofleet.errors import RunDirectoryError, Unavailable
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.strength.ladders import LadderBook, LadderPlan, evidence, spaced
from zerofleet.strength.ladders.play import climb, missing_games
from zerofleet.strength.matches import GameResult, MatchSettings
from zerofleet.strength.ratings import Placement, Tally

GAME = make("tic_tac_toe")
OLD = Path(__file__).parents[1] / "golden" / "old_formats"
PLAN = LadderPlan(
    game=GAME, rungs=("random", "alpha_beta:1"), versions=(2, 5, 9), games=4, simulations=2, opening_plies=2, seed=7
)


def open_book(root, game=GAME, model="tic_tac_toe"):
    return LadderBook(root, game, model=model)


class Lender:
    """Lends an evaluator that knows nothing; notes for whom, and may fail after some answers."""

    def __init__(self, game=GAME, answers=None):
        self.asked, self.answers = [], answers
        self._evaluator = UniformEvaluator(game.spec().num_players)

    @asynccontextmanager
    async def __call__(self, versions):
        self.asked.append(tuple(versions))
        yield self

    async def evaluate(self, batch, *, version):
        if self.answers is not None:
            if self.answers == 0:
                raise Unavailable("gone")
            self.answers -= 1
        return await self._evaluator.evaluate(batch, version=version)


async def play(plan, book, lend=None):
    """Play a plan to its end; returns the results and the lender."""
    lend, ended = lend or Lender(plan.game), []
    settings = MatchSettings(simulations=plan.simulations, options=parse_search(plan.search), slots=8)
    await climb(plan, book, lend=lend, settings=settings, make_agent=make_agent, note=ended.append)
    return ended, lend


def elos(plan, book):
    conditions = {"seed": plan.seed, "simulations": plan.simulations, "opening_plies": plan.opening_plies}
    matches = book.matches(**conditions, search=plan.search)
    return {rating.name: rating for rating in book.ratings(matches)}


def test_champions_play_every_rung_and_the_previous_champion_and_rungs_the_two_above():
    rungs = replace(PLAN, rungs=("a", "b", "c", "d")).rung_matches()
    assert [m.first + m.second for m in rungs] == ["ab", "bc", "cd", "ac", "bd"]
    assert [(m.first, m.second) for m in PLAN.matches()] == [
        ("random", "alpha_beta:1"),
        *(("model:2", rung) for rung in PLAN.rungs),
        *(("model:5", rung) for rung in (*PLAN.rungs, "model:2")),
        *(("model:9", rung) for rung in (*PLAN.rungs, "model:5")),
    ]


def test_shares_fit_the_versions_of_a_server_and_hold_every_match_once():
    plan = replace(PLAN, versions=tuple(range(1, 26)))
    rounds = list(plan.rounds(6))
    assert [versions[0] for versions, _ in rounds] == [25, 19, 13, 7, 1]
    assert sorted(m.match_id for _, matches in rounds for m in matches) == sorted(m.match_id for m in plan.matches())
    for versions, matches in rounds:
        assert len(versions) <= 7
        named = {name for m in matches for name in (m.first, m.second) if name.startswith("model:")}
        assert named <= {f"model:{version}" for version in versions}


def test_a_ladder_without_champions_plays_the_rungs():
    ((versions, matches),) = replace(PLAN, versions=()).rounds(6)
    assert (versions, len(matches)) == ((), 1)


def test_every_nth_champion_includes_the_first_and_the_last():
    assert spaced(list(range(10)), 4) == [0, 1, 5, 9]
    assert spaced([1, 2, 3], 1) == [1, 2, 3]
    assert spaced([], 3) == []


@pytest.mark.slow
async def test_missing_games_are_played_once_and_rated(tmp_path):
    with open_book(tmp_path) as book:
        ended, lend = await play(PLAN, book)
        assert len(ended) == 9 * 4
        assert lend.asked == [(9, 5, 2)]
        assert (await play(PLAN, book, Lender(answers=0)))[0] == []
        rated = elos(PLAN, book)
    assert set(rated) == {"random", "alpha_beta:1", "model:2", "model:5", "model:9"}
    assert rated["random"].low == rated["random"].elo == 0.0
    assert (rated["model:2"].games, rated["random"].games) == (12, 16)
    with open_book(tmp_path) as book:
        assert elos(PLAN, book) == rated


async def test_only_the_missing_games_are_played_for_more_games_or_another_champion(tmp_path):
    with open_book(tmp_path) as book:
        await play(PLAN, book)
    wider = replace(PLAN, games=6, versions=(2, 5, 9, 10))
    with open_book(tmp_path) as book:
        ended, _ = await play(wider, book)
    assert len(ended) == 9 * 2 + 3 * 6


@pytest.mark.slow
async def test_games_that_two_models_repeat_with_another_seed_count_once(tmp_path):
    plan = replace(PLAN, rungs=("random",), versions=(2, 5), games=18, opening_plies=1)  # all nine openings
    with open_book(tmp_path) as book:
        await play(plan, book)
        rated = elos(plan, book)
        other = replace(plan, seed=plan.seed + 1)
        ended, _ = await play(other, book)
        assert sum("random" not in result.players for result in ended) == 18  # the same games once more
        assert elos(plan, book) == rated
        assert elos(other, book)["model:2"].games == rated["model:2"].games == 36


async def test_a_plan_of_fewer_games_than_played_plays_nothing(tmp_path):
    with open_book(tmp_path) as book:
        await play(PLAN, book)
        assert (await play(replace(PLAN, games=2), book))[0] == []


async def test_an_interrupted_ladder_resumes_with_its_finished_games(tmp_path):
    with open_book(tmp_path) as book, pytest.raises(Unavailable):
        await play(PLAN, book, Lender(answers=60))
    with (tmp_path / "ladder" / "games.jsonl").open("ab") as file:
        file.write(b'{"line":"game","match_id":"la')  # killed in the middle of a line
    with open_book(tmp_path) as book:
        left = sum(missing_games(book, match, PLAN.groups) for match in PLAN.matches())
        assert 0 < left < 9 * 4
        assert len((await play(PLAN, book))[0]) == left
        whole = elos(PLAN, book)
    with open_book(tmp_path / "other") as book:
        await play(PLAN, book)
        assert elos(PLAN, book) == whole


async def test_models_with_other_simulations_are_different_players(tmp_path):
    with open_book(tmp_path) as book:
        await play(PLAN, book)
        deeper = replace(PLAN, simulations=3)
        ended, _ = await play(deeper, book)
        assert len(ended) == 8 * 4  # the rungs have met
        assert elos(deeper, book)["model:2"].games == 12


async def test_games_of_the_policy_alone_do_not_rate_a_model_that_searches(tmp_path):
    alone = replace(PLAN, simulations=0)
    with open_book(tmp_path) as book:
        await play(alone, book)
        assert elos(alone, book)["model:2"].games == 12
        assert "model:2" not in elos(PLAN, book)
        assert "random" in elos(PLAN, book)


async def test_games_of_a_book_that_names_no_root_are_those_of_root_puct(tmp_path):
    with open_book(tmp_path) as book:
        await play(PLAN, book)  # as in a book from before the root was named
        ended, _ = await play(replace(PLAN, search="root=puct"), book)
        assert not ended
        ended, _ = await play(replace(PLAN, search="root=gumbel"), book)
        assert len(ended) == 8 * 4  # the rungs have met


async def test_models_with_another_search_are_different_players(tmp_path):
    literal = replace(PLAN, search="u=literal")
    with open_book(tmp_path) as book:
        await play(PLAN, book)
        ended, _ = await play(literal, book)
        assert len(ended) == 8 * 4  # the rungs have met
        rated = elos(literal, book)
        assert rated["model:2"].games == elos(PLAN, book)["model:2"].games == 12
    with open_book(tmp_path) as book:
        ended, _ = await play(literal, book)
        assert not ended
        assert elos(literal, book) == rated


def test_games_under_other_scores_have_a_book_of_their_own(tmp_path):
    names = []
    for score in ("result", "margin"):
        with open_book(tmp_path, make("rock_paper_scissors", score=score), "rock_paper_scissors") as book:
            names.append(book.path.name)
    assert names == ["games.jsonl", "games-scoremargin.jsonl"]


def random_result(pairing, game, rng):
    """Play a pairing at random, by the rules alone."""
    moves, state = list(pairing.opening.moves), replay(game, pairing.opening.moves, pairing.opening.seed)
    while not core.is_over(game, state):
        moves.append(int(rng.choice(legal(game, state))))
        core.play(game, state, moves[-1])
    names = tuple(player.name for player in pairing.players)
    return GameResult(pairing.match_id, pairing.group, pairing.seating, names, tuple(moves), final_scores(game, state))


def test_the_games_of_a_plan_are_whole_groups():
    four = LadderPlan(make("take_six", players=4), ("random", "greedy"), (), 1, simulations=0, opening_plies=0, seed=1)
    assert (len(four.matches()), four.groups, four.most_games) == (1, 1, 14)  # every share of the seats but all and none


@pytest.mark.slow
def test_games_of_more_seats_are_rated_by_placements(tmp_path):
    game, rng = make("take_six", players=3), np.random.default_rng(5)
    plan = LadderPlan(game, ("random", "take_six_comparison"), (), games=7, simulations=0, opening_plies=0, seed=1)
    assert plan.groups == 2
    with open_book(tmp_path, game, "take_six") as book:
        (match,) = plan.matches()
        for pairing in book.board(match, plan.groups).open_pairings():
            book.record(match, random_result(pairing, game, rng))
        found = evidence(book.board(match, 1))
        assert all(isinstance(one, Placement) and len(one.players) == 3 for one in found)
        assert sum(one.games for one in found) == 12
        assert sum(one.games for one in evidence(book.board(match, 1), 1)) == 6
        assert evidence(book.board(match, 1), 0) == []
        rated = elos(plan, book)["take_six_comparison"]
        assert rated.low < 0.0 < rated.high
        assert rated.games == 12


async def test_games_of_two_are_rated_by_points(tmp_path):
    with open_book(tmp_path) as book:
        await play(replace(PLAN, versions=()), book)
        (found,) = evidence(book.board(PLAN.rung_matches()[0], 1))
    assert isinstance(found, Tally)
    assert (found.first, found.second, found.games) == ("random", "alpha_beta:1", 4)


def test_only_one_process_can_open_the_book(tmp_path):
    with open_book(tmp_path), pytest.raises(RunDirectoryError, match="in use"):
        open_book(tmp_path)


def test_a_damaged_book_or_one_of_another_model_is_rejected(tmp_path):
    open_book(tmp_path).close()
    with pytest.raises(RunDirectoryError, match="is the ladder of tic_tac_toe"):
        open_book(tmp_path, model="connect_four")
    path = tmp_path / "ladder" / "games.jsonl"
    path.write_bytes(path.read_bytes() + b"nonsense\n")
    with pytest.raises(RunDirectoryError, match="line 2 cannot be read"):
        open_book(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"schema_version":1', b'"schema_version":9').replace(b"nonsense\n", b""))
    with pytest.raises(RunDirectoryError, match="another version"):
        open_book(tmp_path)


@pytest.mark.parametrize("field", ["group", "opening_plies", "seed", "simulations"])
def test_a_number_below_zero_in_the_book_is_rejected_with_its_line(tmp_path, field):
    shutil.copytree(OLD / "run" / "ladder", tmp_path / "ladder")
    path = tmp_path / "ladder" / "games.jsonl"
    path.write_text(re.sub(rf'"{field}":\d+', f'"{field}":-1', path.read_text(), count=1))
    with pytest.raises(RunDirectoryError, match=r"line \d+ cannot be read"):
        open_book(tmp_path)


@pytest.mark.parametrize("group", [100_000, 2**63 - 1, 2**64])
def test_a_group_far_beyond_the_games_of_the_book_is_rejected_and_draws_no_openings(tmp_path, group):
    shutil.copytree(OLD / "run" / "ladder", tmp_path / "ladder")
    path = tmp_path / "ladder" / "games.jsonl"
    path.write_text(re.sub(r'"group":\d+', f'"group":{group}', path.read_text(), count=1))
    with open_book(tmp_path) as book:
        damaged = next(match for match in book._known if any(result.group == group for result in book._known[match]))
        with pytest.raises(RunDirectoryError, match=rf"has group {group} of .*remove that line"):
            book.board(damaged, 1)
