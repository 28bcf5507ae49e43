"""Claims of the theses: counts of games that beat, match or miss them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zerofleet.presets.theses.catalogue import Claim, load_thesis, thesis_names
from zerofleet.presets.theses.planning import plan
from zerofleet.presets.theses.stages import AlphaZeroStage
from zerofleet.strength.claims.tallies import Estimate, Tally, difference, estimate
from zerofleet.strength.claims.verdicts import Bar, deciding_width, games_for, verdict

STAR, RULES, TTT = "chinese_checkers_3p", "comparison_players", "tictactoe_take6_rps"
STRONGER = "H6: the search of the thesis above the stronger comparison players after 10,000 games"
OWN_MOVES = "H9, own moves as inputs: above the player of patterns of three, or at least flat"
THIRD, WON = "-0.333333", "1"  # one of three points, and all of them
CONSTANT = "86 % against minimax 5 after a million games at constant rates, counted against exact depth 5"
SLOW = "86 % against minimax 5 after a million games with rates that fall slowly, counted against exact depth 5"
UCT = "21 % against MCTS at 10 ms after a million games at constant rates, counted against 1,000 simulations"
SHALLOW_AHEAD = "R5: one layer of 100 ahead of two of 250 after 100,000 games"
NETWORK_BELOW_TWO = "as two seats with search against one network without it: the points of that network, below equal"
GREEDY_BELOW_TWO = "as two networks without search against one greedy player: the points of greedy, below equal"


@pytest.mark.parametrize(
    ("name", "experiment", "text", "scores"),
    [
        # most games of random moves are drawn: half of the points, and none of the games
        ("abalone", "learning", "from nothing against random", {"0": 1_000}),
        ("abalone", "learning", "from nothing against the search of two plies", {"0": 1_000}),
        ("abalone", "learning", "warm start against the search of two plies: the mean score", {"-1": 1_000}),
        # 2 points a game are half of all 4
        ("chinese_checkers_3p", "training", "alone against two greedy players", {"1": 500, "-0.333333": 500}),
    ],
)
def test_a_player_below_the_thesis_misses_its_claim(name, experiment, text, scores):
    claim = next(claim for claim in load_thesis(name).experiment(experiment).claims if claim.text == text)
    tally = Tally(meeting=claim.meeting, subject="a", opponent="b", seat=1, seed=0, trained=True, scores=scores)
    assert verdict(estimate([tally], claim.figure), claim) == "missed"


def claim_of(name: str, experiment: str, text: str) -> Claim:
    return next(claim for claim in load_thesis(name).experiment(experiment).claims if claim.text == text)


def tally(scores: dict[str, int], *, seed: int = 0, trained: bool = True) -> Tally:
    return Tally(meeting="m", subject="a", opponent="b", seat=1, seed=seed, trained=trained, scores=scores)


@pytest.mark.parametrize(
    ("name", "experiment", "text", "scores", "wanted"),
    [
        # 4/3 of 3 points a seat are what equal players have
        (STAR, "training", "the network alone above greedy, without search", {WON: 600, "-1": 400}, "beaten"),
        (STAR, "training", "the network alone above greedy, without search", {THIRD: 500, "-1": 500}, "missed"),
        (STAR, "training", "search against two networks without it: better than equal", {WON: 700, "-1": 300}, "beaten"),
        (STAR, "training", "search against two networks without it: better than equal", {THIRD: 1000}, "missed"),
        (STAR, "training", NETWORK_BELOW_TWO, {THIRD: 150}, "beaten"),
        (STAR, "training", NETWORK_BELOW_TWO, {WON: 140, "-1": 10}, "missed"),
        (STAR, "training", GREEDY_BELOW_TWO, {WON: 30, "-1": 270}, "beaten"),
        (STAR, "training", GREEDY_BELOW_TWO, {WON: 200, "-1": 100}, "missed"),
        ("connect_four_td", "duels", SHALLOW_AHEAD, {"1": 1500, "-1": 500}, "beaten"),
        ("connect_four_td", "duels", SHALLOW_AHEAD, {"1": 1300, "-1": 700}, "matched"),
        ("connect_four_td", "duels", SHALLOW_AHEAD, {"1": 900, "-1": 1100}, "missed"),
        ("connect_four_td", "curve", CONSTANT, {"1": 905, "-1": 95}, "beaten"),
        ("connect_four_td", "curve", SLOW, {"1": 800, "-1": 200}, "missed"),
        ("connect_four_td", "curve", UCT, {"1": 180, "-1": 420}, "beaten"),
        ("connect_four_td", "curve", UCT, {"1": 60, "-1": 540}, "missed"),
        ("connect_four_td", "search", "minimax ahead at 30 ms a move", {"1": 600, "-1": 400}, "matched"),
        ("connect_four_td", "search", "minimax ahead at 30 ms a move", {"1": 400, "-1": 600}, "missed"),
        (
            "connect_four_td",
            "encoding_duels",
            "R4: feature ahead of naive after 100,000 games",
            {"1": 1600, "-1": 400},
            "beaten",
        ),
        (
            "connect_four_td",
            "encoding_duels",
            "R4: extended ahead of naive after 100,000 games",
            {"1": 900, "-1": 1100},
            "missed",
        ),
        ("abalone", "learning", "warm start wins games against the search of two plies", {"1": 10, "-1": 90}, "beaten"),
        (
            "abalone",
            "learning",
            "warm start wins games against the search of two plies",
            {"1": 0, "0": 20, "-1": 1000},
            "missed",
        ),
        ("abalone", "learning", "warm start wins games against the search of two plies", {"1": 0, "-1": 100}, "undecided"),
        (TTT, "take_six", STRONGER, {"1": 500, "0": 200, "-1": 300}, "beaten"),
        (TTT, "take_six", STRONGER, {"1": 300, "0": 200, "-1": 500}, "missed"),
        (TTT, "rock_paper_scissors", OWN_MOVES, {"0.1": 900, "-0.05": 100}, "beaten"),
        (TTT, "rock_paper_scissors", OWN_MOVES, {"0.08": 500, "-0.08": 500}, "matched"),
        (TTT, "rock_paper_scissors", OWN_MOVES, {"0.01": 300, "-0.06": 700}, "missed"),
        ("abalone", "validation", "E6: draws perfect play, both seats", {"0": 2000}, "beaten"),
        ("abalone", "validation", "E6: draws perfect play, both seats", {"0": 1900, "-1": 100}, "missed"),
        (STAR, "training", "arena: the last version, alone, above two of the version before", {WON: 100, "-1": 50}, "beaten"),
        (STAR, "training", "arena: the last version, alone, above two of the version before", {THIRD: 150}, "missed"),
        (STAR, "training", "arena: the version before, alone, below two of the last version", {THIRD: 150}, "beaten"),
        (STAR, "training", "arena: the version before, alone, below two of the last version", {WON: 140, "-1": 10}, "missed"),
        (TTT, "tic_tac_toe", "no loss against perfect play, both seats", {"0": 2000}, "beaten"),
        (TTT, "tic_tac_toe", "no loss against perfect play, both seats", {"0": 1900, "-1": 100}, "missed"),
        (
            TTT,
            RULES,
            "control: three equal comparison players have no advantage",
            {"1": 2000, "0": 2000, "-1": 2000},
            "matched",
        ),
        (TTT, RULES, "control: three equal comparison players have no advantage", {"1": 3000, "0": 2000, "-1": 1000}, "missed"),
        (
            TTT,
            RULES,
            "Take 6! comparison player that looks at the row where a card lands, against two random ones",
            {"1": 7500, "0": 2000, "-1": 500},
            "beaten",
        ),
        (
            TTT,
            RULES,
            "Take 6! comparison player that looks at the row where a card lands, against two random ones",
            {"1": 6000, "0": 2500, "-1": 1500},
            "missed",
        ),
    ],
)
def test_a_claim_is_beaten_or_missed_by_games(name, experiment, text, scores, wanted):
    claim = claim_of(name, experiment, text)
    assert verdict(estimate([tally(scores)], claim.figure), claim) == wanted


@pytest.mark.parametrize(
    ("name", "experiment", "text", "better", "worse"),
    [
        (
            "connect_four_td",
            "accuracy",
            "R10: the network keeps the value more often than exact depth 3",
            (900, 800),
            (700, 900),
        ),
        (
            "connect_four_td",
            "accuracy",
            "R10: the network keeps the value more often than exact depth 5",
            (950, 850),
            (850, 950),
        ),
        (
            "connect_four_td",
            "parameters",
            "alpha .1 is best: alpha .1 less alpha .01, exact depth 3",
            (900, 800),
            (700, 900),
        ),
        (
            "connect_four_td",
            "sides",
            "own afterstates of both seats at least as good as every ply in the view of one seat, exact depth 3",
            (900, 800),
            (700, 900),
        ),
        (
            "connect_four_td",
            "growth",
            "R5: 500 units at least as good as 100 after 200,000 games, exact depth 3",
            (900, 800),
            (800, 900),
        ),
        (
            "connect_four_td",
            "layers",
            "R5: one layer of 100 at least as good as two after 100,000 games, exact depth 3",
            (900, 800),
            (800, 900),
        ),
        (
            STAR,
            "training",
            "the first seat of the network without search has more points than the third",
            (600, 400),
            (300, 500),
        ),
    ],
)
def test_a_claim_about_a_difference_is_beaten_or_missed(name, experiment, text, better, worse):
    claim = claim_of(name, experiment, text)
    for (first, second), wanted in ((better, "beaten"), (worse, "missed")):
        counts = [{"1": count, "-1": 1000 - count} for count in (first, second)]
        assert verdict(difference([tally(counts[0])], [tally(counts[1])], claim.figure), claim) == wanted


@pytest.mark.parametrize(
    ("text", "meeting"),
    [
        ("faithful: flat against the player of patterns of three", "order 3"),
        ("faithful: no progress against always rock", "always rock"),
    ],
)
def test_the_games_of_a_flat_claim_suffice_for_its_band(text, meeting):
    """Half of the band decides between flat and not, whatever the seeds: 100 random turns have a deviation of 8.2."""
    claim = claim_of(TTT, "rock_paper_scissors", text)
    stages = [one.stage for one in plan(load_thesis(TTT), "full", only=["rock_paper_scissors"]) if one.arm == "faithful"]
    games_of_seed = {
        sum(one.games * len(one.seats) for one in stage.meetings if one.name == meeting)
        for stage in stages
        if isinstance(stage, AlphaZeroStage)
    }
    assert len(stages) == 3
    (count,) = games_of_seed
    for mean, wanted in ((0.0, "matched"), (1.0, "matched"), (4.0, "missed")):
        of_seeds = [mean + shift * 8.165 / count**0.5 for shift in (-1.0, 0.0, 1.0)]
        tallies = [tally({f"{value / 100:.6f}": count}, seed=seed) for seed, value in enumerate(of_seeds)]
        found = estimate(tallies, claim.figure)
        assert found is not None
        assert (found.high - found.low) / 2.0 < claim.tolerance / 2.0
        assert verdict(found, claim) == wanted


@pytest.mark.parametrize(("won", "wanted"), [(33, "matched"), (34, "matched"), (40, "missed"), (27, "missed")])
def test_the_shares_of_turns_of_rock_paper_scissors_are_a_third_each_or_missed(won, wanted):
    claims = [one for one in load_thesis(TTT).experiment("rock_paper_scissors").claims if one.figure.startswith("turns")]
    assert [claim.figure for claim in claims] == ["turns won", "turns drawn", "turns lost"]
    for place, claim in enumerate(claims):
        # a game of 100 random turns has a deviation of 4.7 turns
        games = [[won + shift, (100 - won - shift) // 2, (101 - won - shift) // 2] for shift in (-5, 5)]
        turns = {" ".join(str(counts[(other - place) % 3]) for other in range(3)): 250 for counts in games}
        tallies = [replace(tally({"0": 500}, seed=seed), turns=turns) for seed in range(3)]
        assert verdict(estimate(tallies, claim.figure), claim) == wanted


def test_an_undecided_figure_tells_how_many_games_would_decide_it():
    found = estimate([tally({"1": 55, "-1": 45}, trained=False)], "won")
    assert found is not None
    wanted = games_for(found, 5.0)
    again = estimate([tally({"1": round(0.55 * wanted), "-1": round(0.45 * wanted)}, trained=False)], "won")
    assert again is not None
    assert wanted > 100
    assert (again.high - again.low) / 2.0 == pytest.approx(5.0, abs=0.1)


@pytest.mark.parametrize("shift", [0.0, 0.02, 0.04, 0.08, -0.08])
def test_a_claim_of_a_figure_itself_is_decided_by_the_games_that_its_report_tells(shift):
    bar = Bar(better="equal", match=50.0, tolerance=5.0)

    def of(games: int) -> Estimate:
        won = round((0.5 + shift) * games)
        found = estimate([tally({"1": won, "-1": games - won}, trained=False)], "won")
        assert found is not None
        return found

    few = of(200)
    wanted = games_for(few, deciding_width(few, bar))
    assert verdict(few, bar) == "undecided"
    assert wanted > 200
    assert verdict(of(round(1.1 * wanted)), bar) == ("matched" if abs(shift) < 0.05 else "missed")


def test_a_claim_of_an_advantage_is_decided_by_the_games_that_its_report_tells():
    bar = Bar(match=50.0, tolerance=0.0)
    few = estimate([tally({"1": 106, "-1": 94}, trained=False)], "won")
    assert few is not None
    assert verdict(few, bar) == "undecided"
    wanted = games_for(few, deciding_width(few, bar))
    won = round(0.53 * 1.1 * wanted)
    many = estimate([tally({"1": won, "-1": round(1.1 * wanted) - won}, trained=False)], "won")
    assert wanted > 200
    assert verdict(many, bar) == "beaten"


@pytest.mark.parametrize(
    ("name", "experiment", "text", "low", "high", "wanted"),
    [
        ("connect_four_td", "decay", "decayed rates beat constant ones, exact depth 3", -3.1, 2.9, "missed"),
        ("connect_four_td", "decay", "decayed rates beat constant ones, exact depth 3", 2.9, 6.9, "matched"),
        ("connect_four_td", "noise", "epsilon .5 beats uniform play, exact depth 3", -1.0, 1.0, "undecided"),
        ("connect_four_td", "noise", "epsilon .5 beats uniform play, exact depth 3", 6.5, 13.5, "matched"),
        ("connect_four_td", "duels", SHALLOW_AHEAD, 49.5, 50.5, "undecided"),
        ("connect_four_td", "widths", "the network gains with the width: 6x50 less 6x25", -1.0, 1.0, "undecided"),
        ("chinese_checkers_2p", "deep", "Q2: uniform sampling is better than sweeps", -0.9, 0.1, "undecided"),
        ("chinese_checkers_2p", "matrix", "Q8: the combined model beats supervised network alone", 49.8, 51.0, "undecided"),
        ("chinese_checkers_2p", "sarsa", "TD(0) at least as good as SARSA(lambda) after 800 games", -1.0, 1.0, "matched"),
    ],
)
def test_the_verdict_of_a_claim_of_an_advantage_follows_the_side_of_its_interval(name, experiment, text, low, high, wanted):
    found = Estimate((low + high) / 2.0, low, high, 1000, 1, "games")
    assert verdict(found, claim_of(name, experiment, text)) == wanted


def test_no_difference_is_a_match_only_of_a_claim_to_be_at_least_as_good():
    equal = (0.0, 50.0, 44.4)  # of a difference, of the points of two players, and of one in three
    claims = [claim for name in thesis_names() for one in load_thesis(name).experiments for claim in one.claims]
    advantages = [one for one in claims if one.match in equal and one.better != "equal" and "at least as" not in one.text]
    assert len(advantages) > 60
    assert [one.text for one in advantages if one.tolerance] == []


@pytest.mark.parametrize(("centre", "wanted"), [(1000, "beaten"), (985, "matched"), (700, "missed")])
def test_an_opening_is_counted_from_first_moves(centre, wanted):
    claim = claim_of(TTT, "tic_tac_toe", "opens with the centre")
    played = replace(tally({"1": 400, "0": 600}), first_moves={claim.opening: centre, "a1": 1000 - centre})
    found = estimate([played.opened_with(claim.opening)], claim.figure)
    assert found is not None
    assert (found.value, found.games, verdict(found, claim)) == (centre / 10.0, 1000, wanted)
    assert estimate([tally({"1": 10}).opened_with(claim.opening)], claim.figure) is None  # an older result


@pytest.mark.parametrize("figure", ["turns won", "won"])
def test_a_seed_whose_result_is_older_than_a_figure_is_left_out_of_it(figure):
    older = tally({"1": 10}, seed=0)
    newer = [replace(tally({"1": 10}, seed=seed), turns={"30 35 35": 10}, first_moves={"b2": 10}) for seed in (1, 2)]
    if figure == "won":  # of openings
        older, newer = older.opened_with("b2"), [one.opened_with("b2") for one in newer]
    found, apart = estimate([older, *newer], figure), difference([older, *newer], newer, figure)
    assert found is not None
    assert apart is not None
    assert (found.seeds, found.games, found.value) == (2, 20, pytest.approx(100.0 if figure == "won" else 30.0))
    assert (apart.value, apart.seeds, apart.interval) == (0.0, 2, "seeds")
