"""Options of a search: read in the notation of agents, and refused where they would have no effect."""

from __future__ import annotations

import pytest

import games
from zerofleet.agents.model.search_options import SearchOptions, parse_search
from zerofleet.errors import InvalidRequest
from zerofleet.search import SearchSettings
from zerofleet.strength.matches import MatchSettings

TIC_TAC_TOE = games.make("tic_tac_toe").spec()
TAKE_SIX = games.make("take_six").spec()
RHOMBUS = games.make("chinese_checkers_rhombus").spec()


def test_no_option_leaves_the_search_of_a_match() -> None:
    for spec in (TIC_TAC_TOE, TAKE_SIX, RHOMBUS):
        settings = SearchSettings.for_match(spec, 30)
        assert SearchOptions().applied(settings, spec) == settings


def test_every_option_sets_its_setting() -> None:
    def changed(text: str, spec: games.core.GameSpec = TIC_TAC_TOE) -> dict[str, object]:
        base = SearchSettings.for_match(spec, 30)
        after = parse_search(text).applied(base, spec).model_dump()
        return {name: value for name, value in after.items() if value != getattr(base, name)}

    assert changed("c=2.5,base=100,fpu=0.5,prove=false") == {
        "puct_init": 2.5,
        "puct_base": 100.0,
        "fpu_reduction": 0.5,
        "prove_values": False,
    }
    assert changed("root=gumbel,considered=4") == {"gumbel_considered": 4}
    assert changed("considered=4") == {"gumbel_considered": 4}
    assert changed("root=puct") == changed("u=puct,root=puct") == {"root_policy": "puct"}
    assert changed("u=literal,information=predict", TAKE_SIX) == {"exploration": "literal", "information": "predict"}
    assert changed("repetition=history", RHOMBUS) == {"repetition": "history"}
    assert changed("replies=false") == {"prove_replies": False}
    assert changed("temperature=1") == {"temperature": 1.0, "temperature_end": 1.0, "root_policy": "puct"}
    assert changed("u=literal") == {"exploration": "literal", "root_policy": "puct"}


def test_options_are_written_in_one_order_whatever_the_order_read() -> None:
    assert str(parse_search("information=predict,u=literal")) == "u=literal,information=predict"
    assert str(parse_search(" prove=False , c=2 ")) == "c=2.0,prove=false"
    assert str(parse_search("")) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("c=0", "option 'c': Input should be greater than 0"),
        ("u=ucb", "option 'u': Input should be 'puct' or 'literal'"),
        ("depth=3", "option 'depth': Extra inputs are not permitted. Options and their defaults: root=None"),
        ("c", "'c' in 'search,c' is not an option; write OPTION=VALUE"),
        ("considered=4,root=puct", "considered needs root=gumbel"),
        ("u=literal,c=2", "u=literal has no c; leave out c"),
        ("prove=false,replies=true", "replies=true needs prove=true"),
        ("root=gumbel,temperature=1", "temperature needs root=puct"),
    ],
)
def test_an_option_that_is_wrong_or_without_effect_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse_search(text)
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "spec", "said"),
    [
        ("information=predict", TIC_TAC_TOE, "information=predict: tic_tac_toe hides nothing; leave out information"),
        ("replies=true", TAKE_SIX, "replies: values are proven in games of perfect information only, not take_six"),
        ("prove=true", TAKE_SIX, "prove: values are proven in games of perfect information only, not take_six"),
        ("repetition=path", TIC_TAC_TOE, "repetition=path: no position of tic_tac_toe recurs; leave out repetition"),
        ("considered=4", TAKE_SIX, "search options considered=4: considered needs root=gumbel"),
    ],
)
def test_an_option_that_does_not_suit_the_game_is_refused(text: str, spec: games.core.GameSpec, said: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        MatchSettings(options=parse_search(text)).search(spec)
    assert said in str(refusal.value)


def test_records_name_a_gumbel_root_though_it_is_not_written_and_never_the_root_of_older_records() -> None:
    def recorded(text: str, spec: games.core.GameSpec, simulations: int = 8) -> tuple[str, str]:
        options = parse_search(text).resolved(spec, simulations)
        return str(options), options.identity

    assert recorded("", TIC_TAC_TOE) == ("root=gumbel", "root=gumbel")
    assert recorded("c=2", TIC_TAC_TOE) == ("root=gumbel,c=2.0", "root=gumbel,c=2.0")
    assert recorded("root=puct", TIC_TAC_TOE) == ("root=puct", "")
    assert recorded("temperature=1", TIC_TAC_TOE) == ("temperature=1.0", "temperature=1.0")
    assert recorded("", TIC_TAC_TOE, simulations=0) == ("", "")
    assert recorded("", TAKE_SIX) == ("", "")


def test_the_search_of_measurements_is_stated_by_options_that_choose_it() -> None:
    stated = {
        (spec.name, simulations): SearchOptions.of_match(spec, simulations)
        for spec in (TIC_TAC_TOE, TAKE_SIX)
        for simulations in (0, 8)
    }
    assert {at: str(options) for at, options in stated.items()} == {
        ("tic_tac_toe", 8): "root=gumbel,replies=true",
        ("tic_tac_toe", 0): "",
        ("take_six", 8): "root=puct",
        ("take_six", 0): "",
    }
    for spec in (TIC_TAC_TOE, TAKE_SIX):
        usual = SearchSettings.for_match(spec, 8)
        assert stated[spec.name, 8].applied(usual, spec) == usual


def test_the_terms_of_a_match_name_its_search() -> None:
    told = MatchSettings(simulations=16, options=parse_search("root=gumbel,c=2.5,replies=false")).terms(TIC_TAC_TOE)
    assert told["search"] == "root=gumbel,c=2.5,replies=false"
    assert (told["root_policy"], told["prove_replies"]) == ("gumbel", False)
    assert MatchSettings().terms(TIC_TAC_TOE)["search"] == ""


def test_a_gumbel_root_without_simulations_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="search options root=gumbel: root_policy=gumbel needs simulations of at least 1"):
        MatchSettings(simulations=0, options=parse_search("root=gumbel")).search(TIC_TAC_TOE)
