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


def test_no_default_rung_is_deeper_than_requested():
    assert default_rungs(make("connect_four"), make_agent=make_agent, depth=2)[:3] == ("random", "alpha_beta:1", "alpha_beta:2")
    assert not [r for r in default_rungs(make("othello"), make_agent=make_agent, depth=0) if r.startswith("alpha_beta")]


def test_the_table_of_rungs_lists_existing_games_only():
    assert set(RUNGS) <= set(built_in_games())


def test_an_option_belongs_to_the_preceding_rung():
    assert parse_rungs("random, uct:200,final=visits,alpha_beta:5") == ["random", "uct:200,final=visits", "alpha_beta:5"]


@pytest.mark.parametrize("text", ["", "random,,alpha_beta:1", "final=visits,random"])
def test_an_invalid_list_of_rungs_is_rejected(text):
    with pytest.raises(InvalidRequest, match="is not a list of rungs"):
        parse_rungs(text)


def test_the_anchor_is_added_and_duplicate_rungs_are_dropped():
    rungs = require_rungs(["alpha_beta:1", "alpha_beta:1"], make("connect_four"), make_agent=make_agent)
    assert rungs == ("random", "alpha_beta:1")


@pytest.mark.parametrize(
    ("name", "said"), [("bob", "no agent is called"), ("model:3", "is not a rung"), ("champion", "is not a rung")]
)
def test_an_unsuitable_rung_is_rejected_with_the_reason(name, said):
    with pytest.raises(InvalidRequest, match=said):
        require_rungs(["random", name], make("connect_four"), make_agent=make_agent)
