"""Pools by a frozen network: scores are those of the positions after the moves, in torch as by the rules."""

import numpy as np
import pytest
import torch

from games import core, positions
from games.chinese_checkers.rhombus.board import words_of
from games.core import make
from trainer.export import Lineage, export_network, export_served
from trainer.learners.combined.learner import Combined
from trainer.learners.contract import Accounts
from trainer.learners.deep_q.learner import Dqn
from trainer.learners.sarsa_lambda.served import served_linear
from trainer.network import new_network
from trainer.pool_networks import NetworkScores, network_source
from trainer.pool_sources import CellGains, pool_source
from trainer.settings import TrainerSettings
from zerofleet.agents import make_agent
from zerofleet.agents.by_game.rhombus.evaluation import cell_values, expected_score
from zerofleet.agents.by_game.rhombus.pooled import board_values
from zerofleet.agents.by_game.rhombus.values import LINEAR, load_values
from zerofleet.contracts.naming import model_name
from zerofleet.errors import ConfigurationError, InvalidRequest, ModelNotFound, VersionSkew
from zerofleet.evaluators.base import Evaluation
from zerofleet.evaluators.in_process.evaluator import InProcessEvaluator
from zerofleet.presets import NetworkSettings
from zerofleet.storage.model_store import DirectoryStore

NAME = "chinese_checkers_rhombus"
GAME = make(NAME, encoding="signed")
OUTCOME = NetworkSettings(
    kind="perceptron", hidden=(24, 12), normalisation="batch", policy_head="none", value_output="win_or_loss"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with one version of a network of values, whose batch norms have seen positions."""
    root = tmp_path_factory.mktemp("models")
    network = new_network(GAME.spec(), OUTCOME, seed=5)
    with torch.no_grad():
        for _ in range(20):
            network.train()(torch.randint(0, 2, (64, *GAME.spec().planes)).float())
    assert export_network(DirectoryStore(root), GAME, network.eval(), OUTCOME, lineage=Lineage()) == 1
    return DirectoryStore(root)


@pytest.fixture(scope="module")
def linear_store(tmp_path_factory):
    """A store with one version of the learner `sarsa_lambda`, for the same encoding."""
    root = tmp_path_factory.mktemp("linear")
    weights = torch.tensor(np.random.default_rng(4).normal(size=(3, 5)), dtype=torch.float32)
    described = {"kind": LINEAR, "phases": 3, "features": 5, "output": "linear", "third_phase": "all"}
    assert export_served(DirectoryStore(root), GAME, served_linear(weights, described), lineage=Lineage()) == 1
    return DirectoryStore(root)


@pytest.fixture(scope="module")
def evaluator(store):
    return InProcessEvaluator(store, GAME)


def settings_of(tmp_path, store, **combined):
    return TrainerSettings(
        run_dir=tmp_path,
        game=NAME,
        game_parameters={"encoding": "signed"},
        preset="tiny",
        train={"learner": "combined"},
        network={"kind": "q_pool"},
        combined={"models": str(store.location), "version": 1, **combined},
    )


def some_positions(count):
    rng, found = np.random.default_rng(2), []
    state = positions.new_state(GAME)
    while len(found) < count:
        found.append(state.copy())
        core.play(GAME, state, int(rng.choice(positions.legal(GAME, state))))
    return found


def asked(source, states):
    """Scores of the legal moves of some positions, from one request padded as a model pads it."""
    shape, most = GAME.spec().planes, GAME.spec().max_legal
    planes, actions = np.zeros((len(states), *shape), np.float32), np.zeros((len(states), most), np.int64)
    for row, state in enumerate(states):
        packed = positions.encode_for(GAME, state, core.to_move(GAME, state))
        planes[row] = np.unpackbits(packed, bitorder="little")[: int(np.prod(shape))].reshape(shape)
        legal = positions.legal(GAME, state)
        actions[row, : len(legal)] = legal
    with torch.inference_mode():
        scores = source(torch.from_numpy(planes), torch.from_numpy(actions)).numpy()
    return [scores[row, : len(positions.legal(GAME, state))] for row, state in enumerate(states)]


@pytest.mark.parametrize("learner", ["store", "linear_store"])
@pytest.mark.parametrize("mix", [1.0, 0.25, 0.0])
def test_scores_are_those_of_the_positions_after_the_moves_for_both_players(tmp_path, request, learner, mix):
    store = request.getfixturevalue(learner)
    evaluator = InProcessEvaluator(store, GAME, others={LINEAR: load_values})
    source = torch.jit.script(network_source(GAME, settings_of(tmp_path, store, mix=mix)).eval())
    states = some_positions(30)
    agent = make_agent(f"rhombus_pool:1,model=1,pool=192,mix={mix}", GAME, evaluate=evaluator)
    for state, scores in zip(states, asked(source, states), strict=True):
        actions, values = agent.pool(GAME, state)
        wanted = dict(zip(actions.tolist(), values, strict=True))
        legal = positions.legal(GAME, state)
        np.testing.assert_allclose(scores, [wanted[action] for action in legal], atol=1e-5)


def test_a_source_in_parts_gives_the_scores_of_one_in_a_whole(tmp_path, store):
    whole = network_source(GAME, settings_of(tmp_path, store)).eval()
    parts = network_source(GAME, settings_of(tmp_path, store)).eval()
    parts.chunk = 7
    states = some_positions(3)
    for one, other in zip(asked(whole, states), asked(parts, states), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("spoiled", [False, True])
def test_a_move_that_fills_the_goal_has_the_score_of_a_win(tmp_path, store, spoiled):
    goal = [r * 9 + c for r in range(9) for c in range(9) if r + c >= 13]
    last = next(cell for cell in goal if cell // 9 + cell % 9 == 13)
    start = last - 9  # the cell in front of it
    mine = [*(cell for cell in goal if cell != last), start]
    other = [r * 9 + c for r in range(9) for c in range(9) if r + c <= 3]
    if spoiled:  # a piece of the other side is in the goal, which the rule against spoiling counts as filled
        mine[0], other[0] = 40, mine[0]
    state = positions.new_state(GAME)
    state[1:5] = [*words_of(mine), *words_of(other)]
    (scores,) = asked(network_source(GAME, settings_of(tmp_path, store)).eval(), [state])
    legal = positions.legal(GAME, state)
    assert scores[legal.index(81 * start + last)] == 1.0
    after = state.copy()
    core.play(GAME, after, 81 * start + last)
    assert positions.final_scores(GAME, after) == (1.0, -1.0)
    assert (scores < 1.0).sum() == len(legal) - 1


def test_the_board_values_of_agent_and_source_are_the_horizon_of_the_search(tmp_path, store):
    source = CellGains(GAME, settings_of(tmp_path, store)).eval()
    states = some_positions(8)
    table = cell_values()
    for state, scores in zip(states, asked(source, states), strict=True):
        legal = np.array(positions.legal(GAME, state))
        np.testing.assert_allclose(board_values(GAME, state, legal), scores, atol=1e-6)
        mover = int(core.to_move(GAME, state))
        for action, score in zip(legal.tolist(), scores, strict=True):
            after = state.copy()
            core.play(GAME, after, action)
            marks = GAME.marks(after)
            lead = sum(
                table.worth[player][cell] * (1 if player == mover else -1)
                for player in range(2)
                for cell in range(81)
                if marks[cell] == "XO"[player]
            )
            assert score == pytest.approx(expected_score(int(lead), table.level), abs=1e-6)


def test_combined_exports_a_policy_over_the_six_best_moves_by_the_frozen_network(tmp_path, store, evaluator):
    learner = Combined.open(GAME, settings_of(tmp_path, store))
    served = learner.export()
    assert served.network["pool_by"] == "network"
    assert served.network["pool_network"] == store.manifest_sha256(model_name(GAME), 1)
    agent = make_agent("rhombus_pool:1,model=1", GAME, evaluate=evaluator)
    module = torch.jit.script(served.module)
    for state in some_positions(6):
        legal = positions.legal(GAME, state)
        listed = np.full((1, GAME.spec().max_legal), -1, np.int16)
        listed[0, : len(legal)] = legal
        packed = positions.encode_for(GAME, state, core.to_move(GAME, state))[None]
        with torch.inference_mode():
            policy = module(torch.from_numpy(packed), torch.from_numpy(listed))[0].numpy()[0, : len(legal)]
        pool, _ = agent.pool(GAME, state)
        assert {legal[place] for place in np.flatnonzero(policy)} <= set(pool.tolist())
        assert (policy > 0).sum() >= 1
        assert len(pool) == 6


@pytest.mark.parametrize("kind", [Combined, Dqn])
def test_a_run_goes_on_with_the_frozen_network_that_it_began_with(tmp_path, store, kind):
    def opened(**changes):
        settings = settings_of(tmp_path, store, **changes)
        by_network = settings.deep_q.model_copy(update={"pool_by": "network"})
        return kind.open(GAME, settings.model_copy(update={"deep_q": by_network}))

    learner, other, again = opened(), opened(mix=0.5), opened()
    packed = kind.unpack(*learner.pack(Accounts()), where="a test")
    with pytest.raises(VersionSkew, match="start another run"):
        other.restore(*packed)
    again.restore(*packed)
    assert again.described == learner.described
    with pytest.raises(VersionSkew):
        other.adopt(learner.described, dict(learner.export().weights), name="version 1")


def test_a_pool_needs_a_stored_version_that_has_values(tmp_path, store):
    for changes, error, text in (
        ({"version": 0}, ConfigurationError, "combined.version=7"),
        ({"models": ""}, ConfigurationError, "combined.models"),
        ({"version": 9}, ModelNotFound, "which has of it: 1; set combined.models and combined.version"),
    ):
        with pytest.raises(error, match=text):
            pool_source("network", GAME, settings_of(tmp_path, store, **changes))
    with pytest.raises(ConfigurationError, match="the game is tic_tac_toe"):
        network_source(make("tic_tac_toe"), settings_of(tmp_path, store))
    assert isinstance(pool_source("network", GAME, settings_of(tmp_path, store)), NetworkScores)


def liking(action):
    """A model to whose mind all positions are even, but for those after an action."""

    def evaluate(batch, version):
        state = positions.new_state(GAME)
        core.play(GAME, state, action)
        liked = (batch.states == positions.encode_for(GAME, state, 1)).all(axis=1)
        value = np.where(liked, -0.9, 0.0).astype(np.float32)  # for the player to move, who is the other
        return Evaluation(np.zeros(batch.legal.shape, np.float16), np.stack([value, -value], axis=1), version)

    return evaluate


def test_the_agent_chooses_the_best_by_the_model_and_with_plies_by_search_among_the_best():
    start, rng = positions.new_state(GAME), np.random.default_rng(1)
    odd = GAME.parse_action(start, "a4-a5")
    assert make_agent("rhombus_pool:1,model=1", GAME, evaluate=liking(odd)).choose(GAME, start, rng).action == odd
    alone = make_agent("rhombus_pool:3,model=1,pool=1", GAME, evaluate=liking(odd))
    assert alone.choose(GAME, start, rng).action == odd
    among = make_agent("rhombus_pool:1,model=1,mix=0", GAME, evaluate=liking(odd))
    greedy = {among.choose(GAME, start, rng).action for _ in range(20)}
    values = board_values(GAME, start, np.array(positions.legal(GAME, start)))
    best = np.flatnonzero(values == values.max())
    assert greedy == {positions.legal(GAME, start)[place] for place in best}


def test_moves_that_end_the_game_are_ranked_by_their_scores_with_any_mix():
    game = make("chinese_checkers_rhombus", ply_cap=1, distance_at_cap=False)  # each move draws
    for mix in (0, 0.5, 1):
        agent = make_agent(f"rhombus_pool:1,model=1,mix={mix}", game, evaluate=liking(0))
        assert set(agent.pool(game, positions.new_state(game))[1]) == {0.0}


def test_a_search_of_the_whole_list_finds_what_the_search_agent_finds():
    state, rng = some_positions(24)[-1], np.random.default_rng(1)
    nothing = make_agent("rhombus_pool:2,model=1,pool=192", GAME, evaluate=liking(0))
    full = make_agent("rhombus_search:2", GAME)
    assert nothing.choose(GAME, state, rng).value == pytest.approx(full.choose(GAME, state, rng).value)
    for _ in range(5):
        assert nothing.choose(GAME, state, rng).action in full.search(GAME, state).actions


def test_the_agent_is_refused_without_a_model_or_for_another_game(evaluator):
    for text, game, message in (
        ("rhombus_pool:3", GAME, "needs the version of a model"),
        ("rhombus_pool:9,model=1", GAME, "1 to 8 plies"),
        ("rhombus_pool:2,model=1", make("connect_four"), "plays chinese_checkers_rhombus"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            make_agent(text, game, evaluate=evaluator)
    with pytest.raises(InvalidRequest, match="none is available"):
        make_agent("rhombus_pool:2,model=1", GAME)
