"""Matches from Python: the players, the game, and the requests that are refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import zerofleet as zf
from games import Game, IllegalMove, State, UnknownGame, legal, make
from zerofleet.agents import AGENTS, AgentKind, Choice
from zerofleet.errors import InvalidRequest
from zerofleet.storage.runs import RunDirectory


@pytest.fixture
def models(tmp_path: Path) -> tuple[zf.Model, zf.Model]:
    """Models of two runs of different games; the files are not there."""
    for name, game in (("one", "tic_tac_toe"), ("two", "connect_four")):
        RunDirectory.create_or_open(tmp_path / name, game, {}, preset="tiny", seed=1).close()
    return zf.Model(zf.open_run(tmp_path / "one"), 1), zf.Model(zf.open_run(tmp_path / "two"), 1)


@pytest.mark.parametrize(
    "wrong", [{"seed": -1}, {"seed": 1 << 63}, {"opening_plies": -1}, {"opening_plies": 10**6}, {"simulations": -5}]
)
def test_a_number_out_of_range_is_refused_by_its_name(wrong: dict[str, int]) -> None:
    (name,) = wrong
    with pytest.raises(InvalidRequest, match=f"{name}=.* is out of range; give 0 to "):
        zf.match("random", "alpha_beta:1", game="tic_tac_toe", games=2, progress=False, **wrong)


def test_two_agents_meet(capsys: pytest.CaptureFixture[str]) -> None:
    result = zf.match("perfect", "random", game="tic_tac_toe", games=8, seed=3)
    assert isinstance(result, zf.MatchSummary)
    assert (result.first, result.second, result.games) == ("perfect", "random", 8)
    assert result.share > 0.5
    assert result.share_low < result.share <= result.share_high
    assert str(result).splitlines()[0] == f"8 games: {result.wins} won, {result.draws} drawn, {result.losses} lost"
    assert f"perfect took {result.share:.1%} of the points against random" in str(result)
    assert capsys.readouterr().out == ""
    again = zf.match("perfect", "random", game=make("tic_tac_toe"), games=8, seed=3, progress=False)
    assert again.verdict == result.verdict


def test_an_agent_registered_by_a_script_plays_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class First:
        name = "first_listed"

        def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
            return Choice(legal(game, state)[0])

    monkeypatch.setitem(AGENTS, "first_listed", AgentKind("first_listed", "", lambda spelling, game, evaluate: First()))
    assert zf.match("first_listed", "random", game="tic_tac_toe", games=2, progress=False).games == 2


def test_an_illegal_move_of_an_agent_names_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck:
        name = "stuck"

        def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
            return Choice(4)

    monkeypatch.setitem(AGENTS, "stuck", AgentKind("stuck", "", lambda spelling, game, evaluate: Stuck()))
    with pytest.raises(IllegalMove, match="stuck chose no legal move: action 4 is not legal here"):
        zf.match("stuck", "random", game="tic_tac_toe", games=2, progress=False)


def test_requests_that_make_no_match_are_refused(models: tuple[zf.Model, zf.Model]) -> None:
    one, of_connect_four = models
    with pytest.raises(InvalidRequest, match="two players without a run, and without a game"):
        zf.match("perfect", "random")
    with pytest.raises(InvalidRequest, match=r"got 7; an agent of your own gets a name in zerofleet\.agents\.AGENTS"):
        zf.match(7, "random", game="tic_tac_toe")  # type: ignore[arg-type]
    with pytest.raises(UnknownGame, match="no game is called 'chess'"):
        zf.match("perfect", "random", game="chess")
    with pytest.raises(InvalidRequest, match="no agent is called 'bob'"):
        zf.match("bob", "random", game="tic_tac_toe")
    with pytest.raises(InvalidRequest, match="is a run of tic_tac_toe, not of connect_four; leave out game="):
        zf.match(one, "random", game="connect_four")
    with pytest.raises(InvalidRequest, match="is a run of connect_four, not of tic_tac_toe; models of one game can meet"):
        zf.match(one, of_connect_four)
    with pytest.raises(InvalidRequest, match="model:1 cannot play itself"):
        zf.match(one, one)
    with pytest.raises(InvalidRequest, match="got games=0"):
        zf.match(one, "random", games=0)


@pytest.mark.slow
async def test_a_champion_meets_an_agent_inside_a_running_event_loop(trained: Path) -> None:
    with zf.open_run(trained) as run:
        champion = run.champion()
        result = zf.match(champion, "random", games=7, simulations=8)
        assert (result.first, result.games) == (f"model:{champion.version}", 8)


@pytest.mark.slow
def test_champions_of_two_runs_meet(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, other := tmp_path / "other", ignore=shutil.ignore_patterns("sockets"))
    with zf.open_run(trained) as one, zf.open_run(other) as two:
        version = one.champion().version
        result = zf.match(one.champion(), two.champion(), games=8, simulations=8, progress=False)
        assert (result.first, result.second) == (f"model:{version}@{one.path}", f"model:{version}@{two.path}")
        assert (result.games, result.share) == (8, 0.5)  # the same weights
        named = zf.match(one.champion(), f"champion@{other}", games=8, simulations=8, progress=False)
        assert (named.share, named.second) == (0.5, f"model:{version}@{other}")
