"""Wins in one and losses in two of board games: found at every budget, whatever the network says; and no proof is wrong.

Othello has no rule `may_end`, so that the search looks ahead at its root alone; that suffices here, as each position is a root.
In Chinese Checkers for three a win is proven for the player to move alone, and no loss is.
"""

import functools
import itertools

import numpy as np
import pytest
from search_bench import answer_hashed, drive, random_positions
from test_proofs import BUDGETS, NETWORKS, PLAYING_ROOTS, nodes_of
from test_tactics import after, winning

import games
from games import core
from games.chinese_checkers.rhombus import board as rhombus
from games.chinese_checkers.star37 import board
from games.chinese_checkers.star121 import board as star121
from games.positions import final_scores, legal, new_state
from zerofleet.search import SearchBlock, SearchSettings
from zerofleet.search.tree import DECIDED, PROVEN

OTHELLO = games.make("othello", size=6)
ABALONE = games.make("abalone", layout="belgian_daisy", captures=2)
STAR = games.make("chinese_checkers_star37", ranked_stop=True)
GAMES = {
    "othello": OTHELLO,
    "abalone": ABALONE,
    "star37": STAR,
    "rhombus": games.make("chinese_checkers_rhombus"),
    "star121": games.make("chinese_checkers", players=2),
}
WANTED = 12
RANDOM_GAMES = 3_000  # in few of Othello a move ends the game where another one does not
STAR_PLIES = STAR.spec().max_plies
END_FIELDS = [field for field in range(len(board.FIELDS)) if int(board.END_FIELDS) >> field & 1]
OTHER_FIELDS = [field for field in range(len(board.FIELDS)) if field not in END_FIELDS]


def star_positions(seed, plies):
    """Yield positions of Chinese Checkers in which each player has one or two pieces outside the end zone; nobody has finished.

    plies    numbers of plies played, in turn
    """
    rng = np.random.default_rng(seed)
    for played in itertools.cycle(plies):
        held = []
        for _ in range(3):
            outside = int(rng.integers(1, 3))
            held.append(
                [*rng.choice(END_FIELDS, 6 - outside, replace=False), *rng.choice(OTHER_FIELDS, outside, replace=False)]
            )
        spots = {int(board.FIELD_SPOTS[seat, field]) for seat, fields in enumerate(held) for field in fields}
        if len(spots) < 18:
            continue  # two pieces on one spot
        words = [sum(1 << int(field) for field in fields) for fields in held]
        state = new_state(STAR)
        state[0] = np.uint64(sum(spots) | played << 48)
        state[1] = np.uint64(words[0] | words[1] << 32)
        state[2] = np.uint64(words[2])
        yield state


def race_positions(name, seed):
    """Yield positions of Chinese Checkers for two in which each player has one piece outside the goal, before one of the goals.

    Random games never come that far. In the game's view of player 0, the goal of player 0 is at the top.
    """
    rng = np.random.default_rng(seed)
    if name == "rhombus":
        words_of, count, steps_from_top = rhombus.words_of, rhombus.CELLS, lambda cell: 16 - rhombus.level(cell)
    else:
        words_of, count, steps_from_top = star121.words_of, star121.FIELDS, lambda field: int(star121.ROWS[field])
    steps = np.array([steps_from_top(field) for field in range(count)])
    steps = np.stack([steps, 16 - steps])  # from the goal's corner, by player
    goals, fields_before = ([np.flatnonzero(test(steps[player])) for player in range(2)] for test in (is_goal, is_before_goal))
    for plies in itertools.cycle((60, 61)):
        outside = [int(rng.choice(fields_before[player if rng.random() < 0.7 else 1 - player])) for player in range(2)]
        if outside[0] == outside[1]:
            continue
        state = new_state(GAMES[name])
        state[0] = np.uint64(plies if name == "rhombus" else plies << 32 | plies % 2)
        for player in range(2):
            held = [*rng.choice(goals[player], 9, replace=False).tolist(), outside[player]]
            state[1 + 2 * player : 3 + 2 * player] = np.array(words_of(held), dtype=np.uint64)
        yield state


def is_goal(steps):
    return steps < 4


def is_before_goal(steps):
    return (steps == 4) | (steps == 5)


def positions(name):
    """Yield positions of a game: of random games, or drawn near the end, for three every second one before the last move."""
    if name == "star37":
        yield from star_positions(7, [STAR_PLIES - 1, 60, STAR_PLIES - 1, 61, STAR_PLIES - 1, 62])
    elif name in ("rhombus", "star121"):
        yield from race_positions(name, 7)
    else:
        yield from (state for _, state in random_positions(GAMES[name], seed=7, games_count=RANDOM_GAMES))


def allows_no_loss(game, state, action):
    """Return whether a move neither loses at once nor lets the opponent win at once."""
    mover, reached = core.to_move(game, state), after(game, state, action)
    if core.is_over(game, reached):
        return final_scores(game, reached)[mover] > -1.0
    return core.to_move(game, reached) == mover or not winning(game, reached)


@functools.cache
def tactical(name):
    """Return {"win": …, "block": …}: positions with their good moves, where other moves are no good; no blocks for three."""
    game, found = GAMES[name], {"win": {}, "block": {}}
    two = game.spec().num_players == 2
    for state in positions(name):
        if min(len(found["win"]), len(found["block"]) if two else WANTED) >= WANTED:
            break
        listed = legal(game, state)
        if len(listed) < 2:
            continue
        if wins := winning(game, state):
            if len(wins) < len(listed) and len(found["win"]) < WANTED:
                found["win"].setdefault(state.tobytes(), (state, wins))
        elif two and len(found["block"]) < WANTED and not all(allows_no_loss(game, state, listed[i]) for i in (0, -1)):
            good = [action for action in listed if allows_no_loss(game, state, action)]
            if 0 < len(good) < len(listed):
                found["block"].setdefault(state.tobytes(), (state, good))
    return {kind: list(tasks.values()) for kind, tasks in found.items()}


def searched(game, settings, states, answer):
    block = SearchBlock(game, settings, slots=len(states))
    for slot, state in enumerate(states):
        block.begin(slot, seed=slot, versions=[1] * game.spec().num_players, position=state, hold=True)
    drive(block, answer)
    return block


def analyses(name, kind, budget, root, network):
    """Yield (number of plies, mover, good moves, analysis) of each task of a kind."""
    game = GAMES[name]
    settings = SearchSettings.for_play(game.spec(), budget).model_copy(update=PLAYING_ROOTS[root])
    tasks = tactical(name)[kind]
    assert len(tasks) == WANTED
    block = searched(game, settings, [state for state, _ in tasks], functools.partial(network, game=game))
    for slot, (state, good) in enumerate(tasks):
        yield slot, core.to_move(game, state), good, block.analysis(slot)


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("root", PLAYING_ROOTS)
@pytest.mark.parametrize("name", GAMES)
def test_wins_in_one_are_played_and_proven_whatever_the_network_says(name, root, network):
    for budget in BUDGETS:
        for slot, mover, wins, analysis in analyses(name, "win", budget, root, NETWORKS[network]):
            assert analysis.best_action in wins, (budget, slot)
            assert analysis.proven, (budget, slot)
            assert analysis.value[mover] == 1.0, (budget, slot)


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("root", PLAYING_ROOTS)
@pytest.mark.parametrize("name", [name for name, game in GAMES.items() if game.spec().num_players == 2])
def test_losses_in_two_are_avoided_whatever_the_network_says(name, root, network):
    """Where the search proves that every move loses, any move is as good."""
    for budget in BUDGETS:
        avoided = 0
        for slot, mover, good, analysis in analyses(name, "block", budget, root, NETWORKS[network]):
            lost = analysis.proven and analysis.value[mover] == -1.0
            assert lost or analysis.best_action in good, (budget, slot)
            avoided += not lost
        assert avoided >= WANTED // 2, budget


@pytest.mark.slow
def test_wins_in_one_of_chinese_checkers_are_those_of_the_last_ply_and_of_a_second_player_who_is_home():
    """Filling the end zone wins at once where the game then ends: a zone that others helped to fill counts for second place."""
    plies = {int(state[0]) >> 48 for state, _ in tactical("star37")["win"]}
    assert STAR_PLIES - 1 in plies
    assert plies & {60, 61, 62}


# --- an independent solver -----------------------------------------------------------------------------------------------


def late_positions(name):
    """Return positions two plies before the cap of Abalone, and three before that of Chinese Checkers."""
    if name == "star37":
        return list(itertools.islice(star_positions(3, [STAR_PLIES - 3]), 8))
    found = []
    for _, state in itertools.islice(random_positions(ABALONE, seed=5, games_count=8), 30, 600, 50):
        late = state.copy()
        late[2] = np.uint64(ABALONE.ply_cap - 2)  # player 0 is to move
        found.append(late)
    return found


def solver(game):
    """Return a function from states to every outcome of optimal play, however each player chooses among moves of equal value.

    Each state is solved once.
    """
    known = {}

    def outcomes(state):
        name = state.tobytes()
        if name not in known:
            known[name] = frozenset({tuple(final_scores(game, state))}) if core.is_over(game, state) else rational(state)
        return known[name]

    def rational(state):
        mover = core.to_move(game, state)
        below = [outcomes(after(game, state, action)) for action in legal(game, state)]
        assured = max(min(end[mover] for end in ends) for ends in below)  # some move reaches it, whatever others choose
        return frozenset(end for ends in below for end in ends if end[mover] >= assured)

    return outcomes


@pytest.mark.slow
@pytest.mark.parametrize("leaves", [1, 3])
@pytest.mark.parametrize("name", ["abalone", "star37"])
def test_bounds_of_every_node_hold_every_outcome_of_optimal_play(name, leaves):
    game, states = GAMES[name], late_positions(name)
    outcomes = solver(game)
    settings = SearchSettings(simulations=300, leaves_per_game=leaves, prove_values=True)
    block = searched(game, settings, states, answer_hashed)
    narrowed = proven = 0
    for slot in range(len(states)):
        nodes, reached = nodes_of(block, slot)
        for node, state in zip(nodes, reached, strict=True):
            ends = np.array(sorted(outcomes(state)))
            assert np.all(node["lower"] <= ends.min(axis=0))
            assert np.all(ends.max(axis=0) <= node["upper"])
            narrowed += node["edge_count"] > 0 and bool(np.any(node["lower"] > -1.0) or np.any(node["upper"] < 1.0))
            if node["kind"] in (DECIDED, PROVEN):
                mover = node["to_move"]
                assert set(ends[:, mover]) == {node["value"][mover]}
                assert node["value"].tolist() in ends.tolist()
                proven += 1
    assert narrowed > 20
    # two plies before the cap only moves that allow a win lead to a win, and the look-ahead keeps the search from them
    assert proven > 20 or game is ABALONE
