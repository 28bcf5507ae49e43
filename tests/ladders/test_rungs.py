import pytest

from games.core import make
from zerofleet.agents import make_agent
from zerofleet.errors import InvalidRequest
from zerofleet.strength.ladders import default_rungs, parse_rungs
from zerofleet.strength.ladders.rungs import RUNGS, require_rungs
from zerofleet.testing import built_in_games


@pytest.mark.parametrize("name", built_in_games())
def test_every_game_has_a_ladder_of_players_that_can_play_it(name):
    game = make(name)
    rungs = default_rungs(game, make_agent=make_agent)
    assert rungs[0] == "random"
    assert len(rungs) >= 2
    assert len(set(rungs)) == len(rungs)
    assert all(make_agent(rung, game).name == rung for rung in rungs)


def test_no_search_is_deeper_than_asked_for():
    assert default_rungs(make("connect_four"), make_agent=make_agent, depth=2)[:3] == ("random", "alpha_beta:1", "alpha_beta:2")
    assert not [r for r in default_rungs(make("othello"), make_agent=make_agent, depth=0) if r.startswith("alpha_beta")]


def test_the_list_names_games_that_exist():
    assert set(RUNGS) <= set(built_in_games())


def test_options_stay_with_the_player_before_them():
    assert parse_rungs("random, uct:200,final=visits,alpha_beta:5") == ["random", "uct:200,final=visits", "alpha_beta:5"]


@pytest.mark.parametrize("text", ["", "random,,alpha_beta:1", "final=visits,random"])
def test_what_is_no_list_is_refused(text):
    with pytest.raises(InvalidRequest, match="is not a list of rungs"):
        parse_rungs(text)


def test_the_anchor_is_added_and_nobody_stands_twice():
    rungs = require_rungs(["alpha_beta:1", "alpha_beta:1"], make("connect_four"), make_agent=make_agent)
    assert rungs == ("random", "alpha_beta:1")


@pytest.mark.parametrize(
    ("name", "said"), [("bob", "no agent is called"), ("model:3", "is not a rung"), ("champion", "is not a rung")]
)
def test_a_rung_that_cannot_be_is_refused_with_the_reason(name, said):
    with pytest.raises(InvalidRequest, match=said):
        require_rungs(["random", name], make("connect_four"), make_agent=make_agent)
