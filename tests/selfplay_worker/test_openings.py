"""Openings of self-play games: four kinds, each a legal line that does not end the game."""

import itertools
from collections import Counter

import numpy as np
import pytest

import games
from games import core, positions
from games.core import Game
from selfplay_worker.openings import Draft, Openings, random_opening
from zerofleet.contracts.records.samples import random_game
from zerofleet.errors import ConfigurationError
from zerofleet.presets import SelfPlaySettings

GAME = games.make("tic_tac_toe")
CONNECT_FOUR = games.make("connect_four")


def drafts(count: int, *, game: Game = CONNECT_FOUR, past: int = 0, **settings: object) -> list[Draft]:
    """Return the drafts of seeds 0, 1, 2 ... after `past` finished games."""
    openings = Openings(game, SelfPlaySettings.model_validate(settings))
    for seed in range(past):
        openings.remember(random_game(game, 1000 + seed))
    return [openings.draft(seed) for seed in range(count)]


def values_of(draft: Draft, *mover_values: float) -> np.ndarray:
    """Return two-player values of a draft's leaves for their players to move."""
    assert draft.leaves is not None
    assert len(mover_values) == len(draft.leaves)
    return np.array([(value, -value) for value in mover_values], dtype=np.float32)


# --- uniform --------------------------------------------------------------------------------------------------------------


def test_every_number_of_plies_up_to_the_bound_occurs_and_each_opening_is_legal():
    openings = [random_opening(GAME, seed=seed, most_plies=3) for seed in range(200)]
    assert {len(moves) for moves in openings} == {0, 1, 2, 3}
    assert len({moves[0] for moves in openings if moves}) == 9
    for seed, moves in enumerate(openings):
        positions.replay(GAME, moves, seed)


def test_the_seed_of_the_game_determines_its_opening():
    assert random_opening(GAME, seed=5, most_plies=4) == random_opening(GAME, seed=5, most_plies=4)


def test_no_opening_ends_the_game():
    for seed in range(50):
        state = positions.replay(GAME, random_opening(GAME, seed=seed, most_plies=100), seed)
        assert positions.legal(GAME, state)


def test_openings_that_end_the_game_can_be_drawn_again():
    """After 8 random plies of tic-tac-toe most games are over."""
    redrawn = [draft.opening() for draft in drafts(300, game=GAME, opening_plies=8, decided_openings="redraw")]
    for seed, opening in enumerate(redrawn):
        assert positions.legal(GAME, positions.replay(GAME, opening, seed))
    lengths = Counter(map(len, redrawn))
    assert set(lengths) == set(range(9))
    assert 0 < lengths[8] < lengths[4]  # long lines are drawn again, with another number of plies
    assert redrawn == [draft.opening() for draft in drafts(300, game=GAME, opening_plies=8, decided_openings="redraw")]
    with pytest.raises(ConfigurationError, match="random openings of tic_tac_toe ended the game"):
        Openings(GAME, SelfPlaySettings(opening_plies=10**6, decided_openings="redraw")).draft(0)


@pytest.mark.parametrize("seed", [0, 1])
def test_games_have_no_random_opening_by_default(seed):
    assert random_opening(GAME, seed=seed, most_plies=0) == []
    assert drafts(seed + 1)[seed].opening() == []


def test_without_shares_the_openings_are_those_of_the_bound_alone():
    found = drafts(50, opening_plies=4)
    assert [draft.opening() for draft in found] == [random_opening(CONNECT_FOUR, seed=seed, most_plies=4) for seed in range(50)]
    assert {draft.kind for draft in found} == {"uniform"}


# --- the mixture ----------------------------------------------------------------------------------------------------------


def test_kinds_occur_in_their_shares():
    shares = {"deep_opening_share": 0.4, "balanced_opening_share": 0.2, "forked_opening_share": 0.1}
    found = Counter(draft.kind for draft in drafts(2000, past=20, balanced_opening_choices=1, **shares))
    wanted = {"deep": 0.4, "balanced": 0.2, "forked": 0.1, "uniform": 0.3}
    for kind, share in wanted.items():
        assert abs(found[kind] / 2000 - share) < 3.5 * (share * (1 - share) / 2000) ** 0.5


def test_an_opening_does_not_depend_on_those_drawn_before():
    settings = SelfPlaySettings(deep_opening_share=0.5, opening_plies=4)
    one, other = Openings(CONNECT_FOUR, settings), Openings(CONNECT_FOUR, settings)
    forwards = [one.draft(seed).opening() for seed in range(40)]
    backwards = [other.draft(seed).opening() for seed in reversed(range(40))]
    assert forwards == backwards[::-1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"deep_opening_share": 0.7, "forked_opening_share": 0.4}, "sum to more than 1"),
        ({"deep_opening_plies": [9, 5]}, "want the fewest first, then the most"),
        ({"deep_opening_plies": [0, 5]}, "greater than or equal to 1"),
    ],
)
def test_inconsistent_settings_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        SelfPlaySettings.model_validate(values)


@pytest.mark.parametrize(
    ("game", "values", "message"),
    [
        ("take_six", {"forked_opening_share": 0.1}, "forked_opening_share=0.1 needs perfect information; take_six has hidden"),
        ("take_six", {"balanced_opening_share": 0.1}, "balanced_opening_share=0.1 needs perfect information"),
        ("tic_tac_toe", {"deep_opening_share": 0.1}, "tic_tac_toe has at most 9 plies; lower it"),
    ],
)
def test_settings_that_do_not_suit_the_game_are_refused(game, values, message):
    with pytest.raises(ConfigurationError, match=message):
        Openings(games.make(game), SelfPlaySettings.model_validate(values))


# --- deep -----------------------------------------------------------------------------------------------------------------


def test_deep_openings_have_every_number_of_plies_equally_often_and_never_end_the_game():
    lines = [draft.opening() for draft in drafts(2400, deep_opening_share=1.0, deep_opening_plies=[5, 16])]
    lengths = Counter(map(len, lines))
    assert set(lengths) == set(range(5, 17))
    assert all(abs(count - 200) < 3.5 * 200**0.5 for count in lengths.values())
    for seed, line in enumerate(lines[:300]):
        assert positions.legal(CONNECT_FOUR, positions.replay(CONNECT_FOUR, line, seed))


def test_deep_openings_are_uniform_over_the_lines_that_do_not_end_the_game():
    """Three plies on 3 x 3, connecting two wins: in none is a column full, so each line is as likely as any other."""
    game = games.make("connect_four", rows=3, columns=3, connect=2)
    lines = Counter(
        tuple(draft.opening()) for draft in drafts(3000, game=game, deep_opening_share=1.0, deep_opening_plies=[3, 3])
    )
    wanted = {line for line in itertools.product(range(3), repeat=3) if positions.legal(game, positions.replay(game, line))}
    assert set(lines) == wanted
    expected = 3000 / len(wanted)
    assert all(abs(count - expected) < 4 * expected**0.5 for count in lines.values())


def test_a_line_that_ends_the_game_is_redrawn_even_if_most_do():
    """Three of four random tic-tac-toe games end within eight plies."""
    for seed, draft in enumerate(drafts(100, game=GAME, deep_opening_share=1.0, deep_opening_plies=[8, 8])):
        assert len(draft.opening()) == 8
        assert positions.legal(GAME, positions.replay(GAME, draft.opening(), seed))


def test_plies_that_no_game_survives_are_refused_with_advice():
    game = games.make("connect_four", rows=4, columns=4, connect=2)  # every fourth ply at the latest ends it
    openings = Openings(game, SelfPlaySettings(deep_opening_share=1.0, deep_opening_plies=(9, 9)))
    with pytest.raises(ConfigurationError, match=r"deep_opening_plies=\[9, 9\]: 200 random games .* lower it"):
        openings.warm_up()


# --- forked ---------------------------------------------------------------------------------------------------------------


def test_a_fork_follows_a_finished_game_and_then_leaves_it():
    past = random_game(CONNECT_FOUR, 1000).moves.tolist()
    for seed, draft in enumerate(drafts(200, past=1, forked_opening_share=1.0)):
        *before, move = draft.opening()
        assert draft.kind == "forked"
        assert before == past[: len(before)]
        assert move != past[len(before)]
        assert positions.legal(CONNECT_FOUR, positions.replay(CONNECT_FOUR, draft.opening(), seed))


def test_forks_begin_at_every_position_of_a_game_equally_often():
    length = len(random_game(CONNECT_FOUR, 1000).moves)
    found = Counter(len(draft.opening()) - 1 for draft in drafts(3000, past=1, forked_opening_share=1.0))
    assert set(found) == set(range(length))
    early = [found[ply] for ply in range(6)]  # no move can end the game here, so no position is redrawn
    assert max(early) - min(early) < 5 * np.mean(early) ** 0.5


def test_without_finished_games_a_forked_opening_is_a_uniform_one():
    (draft,) = drafts(1, forked_opening_share=1.0, opening_plies=4)
    assert (draft.kind, draft.opening()) == ("uniform", random_opening(CONNECT_FOUR, seed=0, most_plies=4))


def test_the_store_of_finished_games_is_bounded_and_forgets_the_oldest():
    openings = Openings(CONNECT_FOUR, SelfPlaySettings(forked_opening_share=1.0, forked_opening_games=3))
    finished = [random_game(CONNECT_FOUR, seed) for seed in range(10)]
    for played in finished:
        openings.remember(played)
    latest = [played.moves.tolist() for played in finished[-3:]]
    forks = [openings.draft(seed).opening()[:-1] for seed in range(100)]
    assert all(any(game[: len(fork)] == fork for game in latest) for fork in forks)
    assert all(any(game[: len(fork)] == fork and len(fork) > 4 for fork in forks) for game in latest)


def test_a_game_with_another_start_is_not_forked(monkeypatch):
    """Where the start depends on the seed, the moves of one game may be illegal in another."""

    def shuffled(game, seed=0):
        state = np.zeros(game.spec().state_size, dtype=game.spec().state_dtype)
        core.reset(game, state, seed)
        state[0] = seed % 2
        return state

    openings = Openings(CONNECT_FOUR, SelfPlaySettings(forked_opening_share=1.0))
    openings.remember(random_game(CONNECT_FOUR, 7))
    monkeypatch.setattr("selfplay_worker.past_games.positions.new_state", shuffled)
    assert openings.draft(2).kind == "uniform"


def test_of_several_moves_at_a_fork_the_best_for_its_player_is_played():
    (draft,) = drafts(1, past=1, forked_opening_share=1.0, forked_opening_choices=3)
    assert len({line[:-1] for line in draft.lines}) == 1
    assert len({line[-1] for line in draft.lines}) == 3
    # the leaves belong to the opponent: their lowest value is the best for the player at the fork
    assert draft.opening(values_of(draft, 0.3, -0.4, 0.1)) == list(draft.lines[1])


# --- balanced -------------------------------------------------------------------------------------------------------------


def test_a_balanced_opening_shows_the_positions_after_its_lines():
    (draft,) = drafts(1, balanced_opening_share=1.0, balanced_opening_choices=4)
    assert draft.leaves is not None
    assert len(draft.leaves) == len(draft.lines) == 4
    for row, line in enumerate(draft.lines):
        state = positions.replay(CONNECT_FOUR, line)
        mover = int(core.to_move(CONNECT_FOUR, state))
        assert draft.leaves.states[row].tolist() == positions.encode_for(CONNECT_FOUR, state, mover).tolist()
        assert [a for a in draft.leaves.legal[row].tolist() if a >= 0] == positions.legal(CONNECT_FOUR, state)


def test_balanced_openings_are_drawn_by_the_exponential_of_their_value():
    mover_values, sharpness = (0.0, 0.5, -1.0), 4.0
    found = Counter[int]()
    for draft in drafts(4000, balanced_opening_share=1.0, balanced_opening_choices=3, balanced_opening_sharpness=sharpness):
        found[draft.lines.index(tuple(draft.opening(values_of(draft, *mover_values))))] += 1
    weights = np.exp(-sharpness * np.abs(mover_values))
    for row, share in enumerate(weights / weights.sum()):
        assert abs(found[row] / 4000 - share) < 4 * (share * (1 - share) / 4000) ** 0.5


def test_the_same_values_select_the_same_line_again():
    (draft,) = drafts(1, balanced_opening_share=1.0)
    value = values_of(draft, *np.linspace(-0.5, 0.5, 8))
    assert draft.opening(value) == draft.opening(value)


def test_a_draft_with_several_lines_needs_their_values():
    (draft,) = drafts(1, balanced_opening_share=1.0)
    with pytest.raises(ValueError, match="this balanced opening has 8 lines and needs the values of its leaves"):
        draft.opening()


def test_with_three_players_the_gap_between_best_and_worst_counts():
    game = games.make("chinese_checkers_star37")
    (draft,) = drafts(1, game=game, balanced_opening_share=1.0, balanced_opening_choices=2, balanced_opening_sharpness=50)
    value = np.array([[0.9, -0.9, -0.9], [0.2, 0.1, 0.2]], dtype=np.float32)
    assert draft.opening(value) == list(draft.lines[1])
