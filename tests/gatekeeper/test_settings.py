"""Settings of the gatekeeper: search and openings of its matches."""

import pytest
from pydantic import ValidationError

from gatekeeper.settings import GatekeeperSettings
from zerofleet.agents.model.search_options import SearchOptions
from zerofleet.errors import ConfigurationError


def settings(**gate):
    return GatekeeperSettings(game="tic_tac_toe", preset="tiny", address="127.0.0.1:0", gate=gate)


def test_the_search_of_the_gate_is_written_as_options_of_the_agent_mcts():
    gate = settings(search="prove=false, c=2").gate
    assert gate.search == "c=2.0,prove=false"
    assert gate.search_options == SearchOptions(c=2.0, prove=False)
    assert settings().gate.search_options == SearchOptions()


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ("information=predict", "gate.search: information=predict: tic_tac_toe hides nothing"),
        ("depth=2", "option 'depth': Extra inputs are not permitted"),
    ],
)
def test_a_search_that_is_misspelt_or_does_not_suit_the_game_is_refused(search, said):
    with pytest.raises(ValidationError) as refusal:
        settings(search=search)
    assert said in str(refusal.value)


def test_a_gumbel_root_needs_simulations():
    with pytest.raises(ValidationError, match="root_policy=gumbel needs simulations of at least 1"):
        settings(search="root=gumbel", simulations=0)


def test_openings_as_long_as_the_game_are_refused_unless_nothing_is_played():
    with pytest.raises(ValidationError, match=r"gate\.opening_plies=9 ends every game of tic_tac_toe, .* 9 plies"):
        settings(opening_plies=9)
    assert settings(opening_plies=9, mode="off", ladder_games=0).gate.opening_plies == 9


async def test_a_start_refuses_openings_that_random_play_never_survives(open_gate, monkeypatch):
    monkeypatch.setattr("gatekeeper.composition.draw_openings", lambda game, **_: iter(()))
    with pytest.raises(ConfigurationError, match=r"gate\.opening_plies=8: .* to fewer plies"):
        async with open_gate(opening_plies=8):
            pass
