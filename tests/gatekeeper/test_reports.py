"""The report of a verdict."""

from types import SimpleNamespace

from games.core import make
from gatekeeper.referee import Referee
from zerofleet.strength.matches import MatchTerms, Player, Scoreboard


def test_the_report_is_of_the_match_against_the_present_champion_if_an_earlier_one_was_left_open(settings_of):
    game = make("tic_tac_toe")
    boards = [
        Scoreboard(
            MatchTerms(
                match_id=f"gate/3/{champion}/{epoch}",
                game=game,
                players=(Player.model(3), Player.model(champion)),
                seed=1,
                opening_plies=2,
                max_groups=4,
            )
        )
        for epoch, champion in ((1, 1), (2, 2))
    ]
    ledger = SimpleNamespace(boards=lambda purpose: boards)
    referee = Referee(game, settings_of(), ledger=ledger, pointer=None, make_agent=None, budget=None)
    assert referee.report_of(3).champion_version == 2
