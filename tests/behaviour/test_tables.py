"""Tables of behaviour from small fixed games, with exact figures."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import games
from games import core
from games.rock_paper_scissors import NAMES
from zerofleet.agents.model.search_options import parse_search
from zerofleet.cli.reproduce.drawings import draw_behaviour
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.strength.behaviour.catalogue import check_table, new_collector
from zerofleet.strength.behaviour.collector import Reading, collect
from zerofleet.strength.behaviour.collector import table_of as collector_table
from zerofleet.strength.behaviour.finished import FinishedGame, of_moves
from zerofleet.strength.behaviour.openings import FirstPosition, ask, openings_table, played_first
from zerofleet.strength.behaviour.placements import Placements
from zerofleet.strength.behaviour.sources import Sitting, played_games
from zerofleet.strength.behaviour.tables import BehaviourTable, Column, Measured, as_csv, as_json, as_stored, read_stored
from zerofleet.strength.behaviour.text import headings, text_rows
from zerofleet.strength.matches import MatchSettings, Player

TIC_TAC_TOE = games.make("tic_tac_toe")
THESIS_LINES = {
    "4 7 6 2 0 3 8": ("won", 131),
    "4 8 7 1 2 6 5 3 0": ("drawn", 128),
    "4 0 3 5 1 7 2 6 8": ("drawn", 125),
    "4 2 5 3 0 8 1 7 6": ("drawn", 125),
    "4 5 7 1 6 2 8": ("won", 124),
    "4 1 6 2 0 3 8": ("won", 123),
    "4 3 7 1 6 2 8": ("won", 116),
    "4 6 3 5 7 1 0 8 2": ("drawn", 102),
    "4 6 3 5 7 1 2 0 8": ("drawn", 14),
    "4 6 3 5 7 1 2 8 0": ("drawn", 11),
}
"""The games of the thesis by line: those of the trained network against the rules, network first."""
HUMAN_GAME = """
46 1@1 52    4 56 43    48 6@2 50    60 2@3 58    23 14 59    13 19 22    30 24 49    37 41 29@2    33 44 0@3    18@1 57 20
"""
"""The published game of Take 6! with 61 cards: by turn, the cards of the three players, with the rows that were taken."""


def of_state(game, state, moves, *, version=0):
    """Return a finished game from a position and written moves."""
    states, movers, played = [state], [], []
    for text in moves:
        before = states[-1]
        movers.append(core.to_move(game, before))
        played.append(game.parse_action(before, text))
        states.append(before.copy())
        core.play(game, states[-1], played[-1])
    scores = np.array(games.final_scores(game, states[-1]), dtype=np.float32)
    return FinishedGame(
        game, tuple(played), np.array(states), np.array(movers), scores, 0, version, np.empty(0, dtype=np.float32)
    )


def tic_tac_toe(line, *, version=0):
    moves = tuple(int(move) for move in line.split())
    state = games.replay(TIC_TAC_TOE, moves)
    return of_moves(TIC_TAC_TOE, moves, seed=0, scores=games.final_scores(TIC_TAC_TOE, state), version=version)


def with_results(scores, values=(), *, version=0):
    """Return a game of which only results and values of the search matter."""
    made = tic_tac_toe("4 7 6 2 0 3 8", version=version)
    fields = {name: getattr(made, name) for name in FinishedGame.__slots__}
    return FinishedGame(**fields | {"scores": np.float32(scores), "values": np.array(values, dtype=np.float32)})


def table_of(name, found, *, versions=None, **reading):
    return collect(lambda: new_collector(name, found[0].game, Reading(**reading)), found, versions=versions)


def values_of(table, key):
    place = [column.key for column in table.columns].index(key)
    return [cell.value if isinstance(cell, Measured) else cell for cell in (row[place] for row in table.rows)]


def test_the_published_game_of_take_six_has_its_means_by_turn():
    game = games.make("take_six", cards="61", first_card="0", rows="3")
    turns = [turn.split() for turn in HUMAN_GAME.strip().split("    ")]
    hands = [[int(turn[seat].partition("@")[0]) for turn in turns] for seat in range(3)]
    state = game.deal(rows=[42, 11, 51], hands=hands)
    moves = [card if "@" in card else f"{card}@1" for turn in turns for card in turn]
    table = table_of("turns", [of_state(game, state, moves)])
    thirds = {
        "card": [99, 103, 104, 120, 96, 54, 103, 107, 77, 95],
        "penalty": [1, 1, 7, 17, 17, 17, 26, 30, 34, 38],
        "row": [3, 5, 8, 9, 4, 7, 10, 8, 7, 8],
    }
    assert values_of(table, "turn") == list(range(1, 11))
    for key, sums in thirds.items():
        assert values_of(table, key) == pytest.approx([total / 3 for total in sums])
    assert table.rows[0][1] == Measured(33.0)  # one game has no interval


def test_the_lines_of_the_thesis_are_counted_with_their_results():
    finished = {line: tic_tac_toe(line) for line in THESIS_LINES}
    found = [finished[line] for line, (_, count) in THESIS_LINES.items() for _ in range(count)]
    table = table_of("lines", found, top=7)
    assert table.games == 999
    assert values_of(table, "actions") == [*list(THESIS_LINES)[:7], ""]
    assert values_of(table, "line")[0] == "b2 b1 a1 c3 a3 a2 c1"
    assert values_of(table, "line")[-1] == "all other lines, 3"
    assert values_of(table, "games") == [131, 128, 125, 125, 124, 123, 116, 127]
    assert (sum(values_of(table, "won")), sum(values_of(table, "drawn")), sum(values_of(table, "lost"))) == (494, 505, 0)
    share = table.rows[0][3]
    z, p, n = 1.959963984540054, 131 / 999, 999
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert share.value == pytest.approx(13.1131, abs=1e-4)
    assert [share.low, share.high] == pytest.approx([100 * (middle + s * half) / (1 + z * z / n) for s in (-1, 1)])


@pytest.mark.parametrize(
    ("game", "name"),
    [(game, name) for game in ("take_six", "rock_paper_scissors", "tic_tac_toe") for name in ("lines", "values", "placements")]
    + [("take_six", "turns"), ("rock_paper_scissors", "turns")],
)
def test_a_table_of_no_games_is_empty_and_says_so(game, name):
    made = partial(new_collector, name, games.make(game), Reading())
    assert list(made().rows()) == []
    for table in (collector_table(made(), games=0), collect(made, []), collect(made, [], versions=[])):
        assert (table.rows, table.games, table.notes) == ((), 0, ("no games, so the table is empty",))
        assert as_csv(table) == ",".join(column.key for column in table.columns) + "\n"
        assert read_stored(as_stored(table)) == table
        assert text_rows(table) == []
        assert len(headings(table)) == len(table.columns)
        assert draw_behaviour(table, "f") == ""


def test_results_of_a_line_are_those_of_the_seat():
    table = table_of("lines", [tic_tac_toe("4 7 6 2 0 3 8")], seat=1, plies=3)
    assert table.rows[0][:3] == ("b2 b1 a1", "4 7 6", 1)
    assert table.rows[0][4:] == (0, 0, 1)


def test_placings_of_a_large_game_have_names():
    labels = [column.label for column in Placements(23).columns]
    assert labels[2:5] == ["1st", "2nd", "3rd"]
    assert labels[12:15] == ["11th", "12th", "13th"]
    assert labels[22:25] == ["21st", "22nd", "23rd"]


def test_models_without_a_random_choice_need_an_opening_for_each_game():
    model = Player.model(1)
    sitting = Sitting(TIC_TAC_TOE, (model, model), games=10, seed=1, opening_plies=1)

    async def play():
        return [game async for game in played_games(sitting, UniformEvaluator(2), MatchSettings())]

    with pytest.raises(InvalidRequest, match=r"there are 9 different openings of 1 plies.* use --games 9"):
        asyncio.run(play())


def test_a_temperature_of_models_does_not_vary_the_games_of_agents():
    sampled = MatchSettings(options=parse_search("temperature=1"))
    fixed = Player("rhombus_search:1,ties=fixed")
    rhombus = games.make("chinese_checkers_rhombus")
    agents = Sitting(rhombus, (fixed, fixed), games=10, seed=1)
    assert agents.repeats(sampled)
    with pytest.raises(InvalidRequest, match="repeat one game"):
        agents.require_variety(sampled)
    assert not Sitting(rhombus, (fixed, Player.model(1)), games=10, seed=1).repeats(sampled)


def test_random_plies_of_a_dealt_game_are_played_in_their_deal():
    game = games.make("take_six")
    chance = Player("random")
    sitting = Sitting(game, (chance,) * game.players, games=20, seed=1, opening_plies=12)

    async def play():
        return [game async for game in played_games(sitting, UniformEvaluator(game.players), MatchSettings())]

    assert len({game.seed for game in asyncio.run(play())}) == 20


def test_rock_paper_scissors_is_counted_in_tenths():
    game = games.make("rock_paper_scissors", turns="20")
    rock, paper, scissors = range(3)
    against = [paper, scissors] * 5 + [rock] * 10
    finished = [self_played(game, [rock] * 20, against), self_played(game, [rock] * 20, [paper] * 20)]
    table = table_of("turns", finished)
    assert values_of(table, "first_turn") == list(range(1, 21, 2))
    assert values_of(table, "last_turn") == list(range(2, 21, 2))
    assert [values_of(table, name) for name in NAMES] == [[100.0] * 10, [0.0] * 10, [0.0] * 10]
    assert values_of(table, "won") == [25.0] * 5 + [0.0] * 5
    assert values_of(table, "drawn") == [0.0] * 5 + [50.0] * 5
    assert values_of(table, "lost") == [75.0] * 5 + [50.0] * 5
    assert values_of(table, "net") == [-50.0] * 10
    other = table_of("turns", finished, seat=1)
    assert (values_of(other, "won"), values_of(other, "paper")[0]) == (values_of(table, "lost"), 75.0)


def self_played(game, first, second):
    """Return a game of two lists of choices."""
    state, moves, turn = games.new_state(game), [], 0
    choices = [iter(first), iter(second)]
    while not core.is_over(game, state):
        moves.append(next(choices[core.to_move(game, state)]))
        core.play(game, state, moves[-1])
        turn += 1
    return of_moves(game, tuple(moves), seed=0, scores=games.final_scores(game, state))


def test_a_histogram_has_a_bin_for_draws_and_counts_each_game_once():
    found = [with_results((1.0, -1.0), (0.5, 0.49, 0.01, -1.0)), with_results((0.0, 0.0))]
    table = table_of("values", found, bins=5)
    assert values_of(table, "value") == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert values_of(table, "results") == pytest.approx([25.0, 0.0, 50.0, 0.0, 25.0])
    assert values_of(table, "positions") == pytest.approx([25.0, 0.0, 25.0, 50.0, 0.0])
    unsearched = table_of("values", found[1:], bins=5)
    assert values_of(unsearched, "positions") == [None] * 5


def test_placements_share_the_better_place():
    game = games.make("chinese_checkers_star37")
    scores = [(1.0, -1 / 3, -1.0), (1.0, 1.0, -1.0), (-1.0, 1.0, -1 / 3), (0.0, 0.0, 0.0)]
    blank = np.empty((1, 1))
    found = [FinishedGame(game, (), blank, blank[0], np.float32(score), 0, 0, blank[0]) for score in scores]
    table = table_of("placements", found)
    assert values_of(table, "seat") == ["seat 1", "seat 2", "seat 3"]
    assert values_of(table, "placing_1") == [75.0, 75.0, 25.0]
    assert values_of(table, "placing_2") == [0.0, 25.0, 25.0]
    assert values_of(table, "placing_3") == [25.0, 0.0, 50.0]
    assert values_of(table, "score") == pytest.approx([0.25, 5 / 12, -7 / 12])


def test_versions_have_rows_of_their_own():
    found = [with_results((1.0, -1.0), version=3), with_results((0.0, 0.0), version=1), with_results((0.0, 0.0), version=2)]
    every, some = table_of("values", found, versions=[], bins=3), table_of("values", found, versions=[1, 3], bins=3)
    assert values_of(every, "version") == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert values_of(some, "version") == [1, 1, 1, 3, 3, 3]
    assert (every.games, some.games) == (3, 2)
    assert values_of(some, "results") == pytest.approx([0.0, 100.0, 0.0, 50.0, 0.0, 50.0])


def test_openings_list_priors_and_games_of_each_version():
    played = played_first([tic_tac_toe("4 7 6 2 0 3 8", version=1)] * 3 + [tic_tac_toe("0 1 3 2 6", version=1)])
    assert played == {1: Counter({4: 3, 0: 1})}
    asked = {1: FirstPosition({0: 0.25, 4: 0.5, 8: 0.25}, (0.2, -0.2)), 2: FirstPosition({4: 1.0}, (0.1, -0.1))}
    table = openings_table(TIC_TAC_TOE, played, asked, top=2)
    assert [row[:4] for row in table.rows] == [(1, "b2", 50.0, 3), (1, "a3", 25.0, 1), (2, "b2", 100.0, 0)]
    assert table.rows[0][4].value == 75.0
    assert table.rows[2][4] is None  # the version has no games
    assert table.notes[0] == "version 1: values of the initial position by seat +0.200, -0.200"


def test_first_moves_of_random_openings_are_not_counted():
    drawn = replace(tic_tac_toe("0 1 3 2 6", version=1), random_plies=2)
    assert played_first([drawn, tic_tac_toe("4 7 6 2 0 3 8", version=1), replace(drawn, version=2)]) == {
        1: Counter({4: 1}),
        2: Counter(),
    }
    table = openings_table(TIC_TAC_TOE, played_first([replace(drawn, version=2)]), {2: FirstPosition({4: 1.0}, (0, 0))}, top=2)
    assert (table.games, table.rows) == (0, ((2, "b2", 100.0, 0, None),))


def test_priors_are_those_of_the_evaluator():
    said = asyncio.run(ask(TIC_TAC_TOE, UniformEvaluator(2), [7]))
    assert said[7].priors == pytest.approx(dict.fromkeys(range(9), 1 / 9), rel=1e-3)
    assert said[7].value == (0.0, 0.0)


def test_a_table_is_written_as_csv_and_json():
    columns = (Column("move", "first move"), Column("share", "share", "%"), Column("games", "games"))
    table = BehaviourTable("t", "T", columns, (("a, b", Measured(50.0, 12.5, 87.5), 4), ("c", None, 0)), 4, notes=("n",))
    assert as_csv(table) == 'move,share,share_low,share_high,games\n"a, b",50,12.5,87.5,4\nc,,,,0\n'
    written = as_json(table)
    assert written["rows"][0] == {"move": "a, b", "share": {"value": 50.0, "low": 12.5, "high": 87.5}, "games": 4}
    assert written["columns"][1] == {"key": "share", "label": "share", "unit": "%"}
    assert (written["table"], written["games"], written["notes"]) == ("t", 4, ["n"])


@pytest.mark.parametrize(
    ("name", "game", "seat", "words"),
    [
        ("turn", TIC_TAC_TOE, 0, "there is no table 'turn'; the tables are turns, lines, values, openings, placements"),
        ("turns", TIC_TAC_TOE, 0, "is for take_six and rock_paper_scissors, and the game is tic_tac_toe"),
        ("lines", TIC_TAC_TOE, 2, "tic_tac_toe has 2 seats, got seat 3"),
    ],
)
def test_a_table_that_does_not_suit_is_refused(name, game, seat, words):
    with pytest.raises(InvalidRequest, match=words):
        new_collector(name, game, Reading(seat=seat))


def test_every_listed_table_is_known():
    for name in ("turns", "lines", "values", "openings", "placements"):
        check_table(name)
