"""Proven values: right by an independent solver, found whatever the network says, played, and written into the record."""

import functools
import zlib

import numpy as np
import pytest
from search_bench import CONNECT_FOUR, TIC_TAC_TOE, answer_hashed, answer_uniform, compiled_tree, drive, random_positions
from test_tactics import after, safe, winning
from toys.coin import Coin
from toys.corridor import Corridor

import games
from games import core
from games.positions import final_scores, legal, replay
from zerofleet.contracts.played import FULL_SEARCH, TARGET_UNIT
from zerofleet.search import SearchBlock, SearchSettings
from zerofleet.search.tree import DECIDED, PROVEN

SMALL_BOARD = games.make("connect_four", rows=4, columns=4)
LARGE_BOARD = games.make("connect_four", rows=6, columns=11)  # more than 64 bits: a rule of its own
TWO_PLAYER_GAMES = {"tic-tac-toe": TIC_TAC_TOE, "connect four 4x4": SMALL_BOARD, "corridor": Corridor(cells=5, turns=6)}


# --- adversarial networks ------------------------------------------------------------------------------------------------


def answer_worst(leaves, players, *, game):
    """Prior 1 on a move that neither wins nor blocks, and the best value for the player to move after it."""
    policy = np.zeros(leaves.batch.legal.shape, dtype=np.float32)
    value = np.zeros((len(policy), players), dtype=np.float32)
    value[:, 0] = -0.95
    value[:, 1:] = 0.95  # every move looks good to the player who makes it
    policy[:, 0] = 1.0
    return policy, value


def answer_last(leaves, players, *, game):
    """All the prior on the last legal move, and the values against it."""
    policy = np.zeros(leaves.batch.legal.shape, dtype=np.float32)
    policy[np.arange(len(policy)), (leaves.batch.legal >= 0).sum(axis=1) - 1] = 1.0
    value = np.full((len(policy), players), 0.95, dtype=np.float32)
    value[:, 1:] = -0.95
    return policy, value


def answer_random(leaves, players, *, game, seed):
    """Most of the prior on a move or two by chance, some moves without any, and values by chance."""
    rng = np.random.default_rng([seed, zlib.crc32(leaves.batch.states.tobytes())])
    policy = rng.random(leaves.batch.legal.shape, dtype=np.float32) ** 30 * (leaves.batch.legal >= 0)
    policy[policy < 1e-6] = 0.0
    value = rng.uniform(-1.0, 1.0, (len(policy), players)).astype(np.float32)
    if players == 2:
        value[:, 1] = -value[:, 0]
    return policy / np.maximum(policy.sum(axis=1, keepdims=True), 1e-9), value


NETWORKS = {"first": answer_worst, "last": answer_last} | {
    f"random {seed}": functools.partial(answer_random, seed=seed) for seed in range(3)
}
ROOTS = {
    "puct": {},
    "puct with noise": {"dirichlet_fraction": 0.25, "forced_playouts": 2.0},
    "puct, four leaves, cache": {"leaves_per_game": 4, "cache_positions": 256},
    "gumbel": {"root_policy": "gumbel", "gumbel_noise": True},
    "gumbel of two moves, three leaves": {"root_policy": "gumbel", "gumbel_considered": 2, "leaves_per_game": 3},
}
PLAYING_ROOTS = ROOTS | {
    "puct, replies off": {"prove_replies": False},
    "gumbel, replies off": {"prove_replies": False, "root_policy": "gumbel", "gumbel_noise": True},
}
"""Roots on top of the settings for play, which prove replies; self-play does not."""
BUDGETS = [2, 3, 8, 32]


@functools.cache
def tactical(game):
    """Return {"win": …, "block": …}: positions of random games with their good moves, where other moves are no good."""
    found, wanted = {"win": {}, "block": {}}, 120
    for moves, state in random_positions(game, seed=11, games_count=220):
        if min(map(len, found.values())) >= wanted:
            break
        listed = legal(game, state)
        if wins := winning(game, state):
            if len(wins) < len(listed):
                found["win"].setdefault(state.tobytes(), (moves, wins))
        elif 0 < len(good := safe(game, state)) < len(listed):
            found["block"].setdefault(state.tobytes(), (moves, good))
    return {kind: list(positions.values())[:wanted] for kind, positions in found.items()}


def searched(game, settings, openings, answer, *, hold=True):
    block = SearchBlock(game, settings, slots=len(openings))
    for slot, opening in enumerate(openings):
        block.begin(slot, seed=slot, versions=[1] * game.spec().num_players, opening=opening, hold=hold)
    drive(block, answer)
    return block


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["win", "block"])
@pytest.mark.parametrize("root", PLAYING_ROOTS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_wins_in_one_are_played_and_losses_in_two_avoided_whatever_the_network_says(budget, root, kind):
    for game in (TIC_TAC_TOE, CONNECT_FOUR, LARGE_BOARD):
        tasks = tactical(game)[kind]
        assert len(tasks) >= 30
        settings = SearchSettings.for_play(game.spec(), budget).model_copy(update=PLAYING_ROOTS[root])
        for name, network in NETWORKS.items():
            block = searched(game, settings, [moves for moves, _ in tasks], functools.partial(network, game=game))
            chosen = [block.analysis(slot).best_action for slot in range(len(tasks))]
            wrong = [(task, got) for task, got in zip(tasks, chosen, strict=True) if got not in task[1]]
            assert not wrong, f"{name}: {len(wrong)} of {len(tasks)}; ((moves, good), played): {wrong[:3]}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["win", "block"])
@pytest.mark.parametrize("root", PLAYING_ROOTS)
def test_one_simulation_suffices_for_wins_in_one_and_losses_in_two_also_where_replies_are_off(root, kind):
    """The root's own look-ahead finds both, and `prove_replies` concerns the leaves below it."""
    tasks = tactical(CONNECT_FOUR)[kind]
    settings = SearchSettings.for_play(CONNECT_FOUR.spec(), 1).model_copy(update=PLAYING_ROOTS[root])
    for name, network in NETWORKS.items():
        openings = [moves for moves, _ in tasks]
        block = searched(CONNECT_FOUR, settings, openings, functools.partial(network, game=CONNECT_FOUR))
        for slot, (moves, good) in enumerate(tasks):
            analysis = block.analysis(slot)
            assert analysis.best_action in good, (name, moves)
            assert set(analysis.actions[analysis.candidates]) <= set(good), (name, moves)


@pytest.mark.parametrize("kind", ["win", "block"])
@pytest.mark.parametrize("proves", [True, False])
def test_without_a_simulation_the_networks_move_is_played_whether_it_is_good_or_not(proves, kind):
    tasks = tactical(CONNECT_FOUR)[kind]
    settings = SearchSettings.for_play(CONNECT_FOUR.spec(), 0).model_copy(update={"prove_replies": proves})
    block = searched(CONNECT_FOUR, settings, [moves for moves, _ in tasks], functools.partial(answer_worst, game=CONNECT_FOUR))
    wrong = 0
    for slot, (moves, good) in enumerate(tasks):
        analysis = block.analysis(slot)
        assert analysis.best_action == legal(CONNECT_FOUR, replay(CONNECT_FOUR, moves))[0]
        assert not analysis.proven
        wrong += analysis.best_action not in good
    assert wrong > len(tasks) // 2


@pytest.mark.parametrize("root", ROOTS)
def test_self_play_at_any_temperature_plays_wins_in_one_and_avoids_losses_in_two(root):
    """With kept subtrees, playout caps and moves at a high temperature; the network is the worst."""
    settings = SearchSettings(
        simulations=8,
        fast_simulations=2,
        full_search_share=0.5,
        temperature=3.0,
        temperature_end=3.0,
        gumbel_sampling=True,
        **ROOTS[root],
    )
    for game in (TIC_TAC_TOE, CONNECT_FOUR):
        block = searched(game, settings, [()] * 24, functools.partial(answer_worst, game=game), hold=False)
        decided = 0
        for slot in range(24):
            played = block.take(slot)
            moves = played.moves.tolist()
            for move in played.searched:
                state = replay(game, moves[: move.ply])
                wins, good = winning(game, state), safe(game, state)
                assert not wins or moves[move.ply] in wins
                lost = move.root_value[len(moves[: move.ply]) % 2] == -1.0  # whatever is played
                assert wins or lost or not good or moves[move.ply] in good
                decided += bool(wins) + (not wins and 0 < len(good) < len(legal(game, state)))
        assert decided > 24


# --- the record ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", ROOTS)
def test_a_proven_win_is_an_exact_target_and_a_full_search(root):
    settings = SearchSettings(simulations=30, fast_simulations=2, full_search_share=0.01, **ROOTS[root])
    tasks = tactical(CONNECT_FOUR)["win"]
    block = searched(CONNECT_FOUR, settings, [moves for moves, _ in tasks], answer_hashed, hold=False)
    for slot, (moves, wins) in enumerate(tasks):
        (move,) = block.take(slot).searched
        assert move.flags == FULL_SEARCH
        assert move.root_value[len(moves) % 2] == 1.0
        assert set(move.actions[move.target > 0].tolist()) <= set(wins)
        assert move.target.sum(dtype=np.int64) == TARGET_UNIT


@pytest.mark.parametrize("root", ROOTS)
def test_moves_that_lose_have_no_share_of_the_target(root):
    settings = SearchSettings(simulations=12, **ROOTS[root])
    tasks = tactical(CONNECT_FOUR)["block"]
    block = searched(CONNECT_FOUR, settings, [moves for moves, _ in tasks], answer_hashed, hold=False)
    for slot, (_, good) in enumerate(tasks):
        move = block.take(slot).searched[0]
        weights = move.target if len(move.target) else move.visits
        assert set(move.actions[weights > 0].tolist()) <= set(good)


def test_a_decided_root_needs_one_request_and_the_one_move_left_a_second():
    """The root's own evaluation; a forced block is also visited, for its value, unless that follows from the rules."""
    for kind, most in (("win", 1), ("block", 2)):
        tasks = [(moves, good) for moves, good in tactical(CONNECT_FOUR)[kind] if len(good) == 1]
        block = SearchBlock(CONNECT_FOUR, SearchSettings(simulations=400), slots=len(tasks))
        for slot, (moves, _) in enumerate(tasks):
            block.begin(slot, seed=slot, versions=[1, 1], opening=moves)
        requests = 0
        while any(len(block.moves(slot)) == len(moves) for slot, (moves, _) in enumerate(tasks)):
            leaves = block.advance()
            block.absorb(*answer_uniform(leaves, 2))
            requests += 1
            assert requests <= most + 1


def test_a_held_slot_searches_the_one_move_left_to_its_budget():
    moves, (good,) = next(task for task in tactical(CONNECT_FOUR)["block"] if len(task[1]) == 1 and len(task[0]) < 20)
    analysis = searched(CONNECT_FOUR, SearchSettings.for_play(CONNECT_FOUR.spec(), 20), [moves], answer_uniform).analysis(0)
    assert analysis.best_action == good
    assert not analysis.proven
    assert analysis.actions[analysis.candidates].tolist() == [good]
    assert analysis.visits.sum() == 20
    assert analysis.ranking()[0] == int(np.flatnonzero(analysis.actions == good)[0])


def test_a_player_who_has_proven_the_loss_resigns_and_one_who_has_proven_the_win_does_not():
    double = [3, 0, 4, 0, 2, 0]  # X: c1 d1 e1 with b1 and f1 free; O has three in column a and is not to move
    settings = SearchSettings(simulations=4, resign_threshold=-0.99, resign_control_share=0.0)
    lost = searched(CONNECT_FOUR, settings, [[*double[:5]]], answer_uniform, hold=False).take(0)
    assert lost.resigned_seat == 1
    assert lost.scores == (1.0, -1.0)
    won = searched(CONNECT_FOUR, settings, [double], answer_uniform, hold=False).take(0)
    assert won.resigned_seat is None
    assert won.scores == (1.0, -1.0)


# --- an independent solver -----------------------------------------------------------------------------------------------


def solver(game):
    """Return a function from states to the values under optimal play of two players, by plain minimax."""
    known = {}

    def value(state):
        name = state.tobytes()
        if name not in known:
            if core.is_over(game, state):
                known[name] = final_scores(game, state)[0]
            else:
                values = [value(after(game, state, action)) for action in legal(game, state)]
                known[name] = max(values) if core.to_move(game, state) == 0 else min(values)
        return known[name]

    return value


def nodes_of(block, slot):
    count = block._arena.slots[slot]["nodes"]
    return block._arena.nodes[slot][:count], block._arena.states[slot][:count]


@pytest.mark.parametrize("name", TWO_PLAYER_GAMES)
@pytest.mark.parametrize(
    "settings",
    [
        SearchSettings(simulations=60),
        SearchSettings(simulations=400, leaves_per_game=5, forced_playouts=2.0),
        SearchSettings(simulations=90, root_policy="gumbel", leaves_per_game=2),
        SearchSettings(simulations=90, repetition="path"),
        SearchSettings(simulations=60, prove_replies=True),
        SearchSettings(simulations=90, prove_replies=True, leaves_per_game=5, repetition="path"),
    ],
    ids=["puct", "five leaves", "gumbel", "repetitions cut", "replies", "replies, five leaves, repetitions cut"],
)
def test_bounds_of_every_node_hold_the_value_of_a_solver(name, settings):
    game = TWO_PLAYER_GAMES[name]
    value = solver(game)
    positions = [moves for moves, _ in random_positions(game, seed=3, games_count=12)][::3]
    if game is SMALL_BOARD:
        positions = [moves for moves in positions if len(moves) >= 5]
    block = searched(game, settings, positions, answer_hashed)
    proven = 0
    for slot in range(len(positions)):
        nodes, states = nodes_of(block, slot)
        for node, state in zip(nodes, states, strict=True):
            true = value(state)
            assert node["lower"][0] <= true <= node["upper"][0]
            assert node["lower"][1] == -node["upper"][0]
            if node["kind"] in (DECIDED, PROVEN):
                assert node["value"].tolist() == [true, -true]
                proven += 1
        analysis = block.analysis(slot)
        if analysis.proven:
            assert analysis.value[0] == value(states[0])
            assert value(after(game, states[0], analysis.best_action)) == value(states[0])
    assert proven >= 4


@pytest.mark.parametrize("proves", [True, False])
def test_a_leaf_whose_moves_all_allow_a_win_is_decided_before_its_evaluation(proves):
    fork = [3, 0, 2, 0]  # with the e-file as well X has three in the bottom row with both ends free: O is lost
    settings = SearchSettings.for_play(CONNECT_FOUR.spec(), 60).model_copy(update={"prove_replies": proves})
    block = searched(CONNECT_FOUR, settings, [fork], answer_uniform)
    nodes, _ = nodes_of(block, 0)
    edges = block._arena.edges[0][: nodes[0]["edge_count"]]
    (child,) = (edge["child"] for edge in edges if edge["action"] == 4)
    assert (nodes[child]["kind"] == DECIDED) == proves
    if proves:
        analysis = block.analysis(0)
        assert (analysis.best_action, analysis.proven, analysis.value.tolist()) == (4, True, [1.0, -1.0])
        assert analysis.visits.sum() < 10


def test_with_enough_simulations_the_value_is_proven():
    value = solver(SMALL_BOARD)
    positions = [moves for moves, _ in random_positions(SMALL_BOARD, seed=5, games_count=40) if len(moves) >= 8][:60]
    block = searched(SMALL_BOARD, SearchSettings.for_play(SMALL_BOARD.spec(), 3000), positions, answer_uniform)
    for slot, moves in enumerate(positions):
        analysis = block.analysis(slot)
        assert analysis.proven
        assert analysis.value[0] == value(replay(SMALL_BOARD, moves))
        assert analysis.visits.sum() < 3000


# --- what is no proof ----------------------------------------------------------------------------------------------------


def test_a_repetition_leaf_proves_nothing():
    game = Corridor()
    block = searched(game, SearchSettings(simulations=200, repetition="path"), [()], answer_uniform)
    nodes, states = nodes_of(block, 0)
    cut = [node for node, state in zip(nodes, states, strict=True) if node["edge_count"] == 0 and not core.is_over(game, state)]
    assert cut
    assert all(node["lower"].tolist() == [-1.0, -1.0] and node["upper"].tolist() == [1.0, 1.0] for node in cut)


def test_without_the_setting_nothing_is_proven():
    settings = SearchSettings(simulations=50, prove_values=False, dirichlet_fraction=0.0)
    tasks = tactical(CONNECT_FOUR)["win"]
    block = searched(CONNECT_FOUR, settings, [moves for moves, _ in tasks], answer_uniform)
    for slot in range(len(tasks)):
        assert block.analysis(slot).visits.sum() == 50
        assert not block.analysis(slot).proven
        assert block.analysis(slot).candidates.all()


def test_hidden_information_proves_nothing():
    game = Coin()
    assert game.spec().information != "perfect"
    settings = SearchSettings(simulations=20, information="determinise")
    block = searched(game, settings, [()], answer_uniform)
    analysis = block.analysis(0)
    assert analysis.candidates.all()
    assert not analysis.proven


def test_a_kept_subtree_keeps_its_proofs():
    settings = SearchSettings.for_play(TIC_TAC_TOE.spec(), 2000)
    block = searched(TIC_TAC_TOE, settings, [(4, 1)], answer_uniform)  # a win for the first player
    before = compiled_tree(block, 0)
    assert block.analysis(0).proven
    block.play(0, block.analysis(0).best_action)
    assert compiled_tree(block, 0)["lower"] == before["lower"]
    assert not len(block.advance().batch)  # nothing is left to find out
    assert block.analysis(0).proven
    assert block.analysis(0).value.tolist() == [1.0, -1.0]


def test_a_kept_root_that_the_look_ahead_proved_won_is_won_by_its_move():
    """The first player moves the token next to the second player's end, in a position that the search had visited once."""
    left, right = 0, 1
    game, answer = Corridor(cells=5, turns=6), functools.partial(answer_last, game=None)
    kept = {"root_policy": "puct", "reuse_subtree": True, "repetition": "off"}
    block = searched(game, SearchSettings.for_play(game.spec(), 2).model_copy(update=kept), [(left,)], answer)
    for move in (right, right):
        block.play(0, move)
        drive(block, answer)
    analysis = block.analysis(0)
    assert analysis.proven
    assert analysis.candidates.tolist() == [False, True]
    assert analysis.best_action == right
    assert analysis.value.tolist() == [-1.0, 1.0]
