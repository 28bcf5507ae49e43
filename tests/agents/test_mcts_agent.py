"""The agent mcts: the search of matches with a budget of its own, from any position."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import games
from games.core import Game
from zerofleet.agents import Evaluate
from zerofleet.agents.model import mcts
from zerofleet.agents.model.mcts import MctsAgent, from_spelling
from zerofleet.agents.spelling import Spelling
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.evaluators.uniform import uniform_answer, uniform_policy
from zerofleet.search import SearchBlock, SearchSettings, puct, search_state
from zerofleet.search.block import LAST_SEED


def fake(players: int) -> Evaluate:
    """A model whose answers depend on the position in no sensible way."""

    def evaluate(batch: LeafBatch, version: ModelVersion) -> Evaluation:
        assert version == 7
        own = batch.states.sum(axis=1) % 100 / 100.0 - 0.5
        value = np.zeros((len(batch), players), dtype=np.float32)
        value[:, 0], value[:, 1] = own, -own
        return Evaluation(uniform_policy(batch.legal), value, version)

    return evaluate


def made(text: str, game: Game, evaluate: Evaluate | None) -> MctsAgent:
    return from_spelling(Spelling.parse(text), game, evaluate)


def test_mcts_searches_like_a_model_in_a_match() -> None:
    game = games.make("connect_four")
    for moves in ([], [3, 3, 2], [0, 1, 0, 1, 6]):
        block = SearchBlock(game, SearchSettings.for_match(game.spec(), 100), slots=1)
        block.begin(0, seed=1, versions=[7, 7], opening=moves, hold=True)
        while len(batch := block.advance().batch):
            answer = fake(2)(batch, ModelVersion(7))
            block.absorb(answer.policy, answer.value)
        analysis = block.analysis(0)
        state = games.replay(game, moves)
        choice = made("mcts:100,model=7", game, fake(2)).choose(game, state, np.random.default_rng(1))
        assert choice.action == analysis.principal_variation[0]
        assert choice.nodes == analysis.visits.sum() == 100
        assert choice.value == analysis.values[analysis.actions == choice.action]


@pytest.mark.parametrize(("moves", "answer"), [("d e d e d e", "d4"), ("d e d e d", "d4")])
def test_mcts_wins_and_prevents_losses(moves: str, answer: str) -> None:
    game = games.make("connect_four")
    state = games.replay(game, games.read_moves(game, moves))
    state.setflags(write=False)
    choice = made("mcts:200,model=7", game, fake(2)).choose(game, state, np.random.default_rng(1))
    assert game.action_name(state, choice.action) == answer


def test_a_time_budget_ends_the_search_between_two_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    game = games.make("connect_four")
    agent = made("mcts:50ms,model=7", game, fake(2))
    ticks = itertools.count()
    monkeypatch.setattr(mcts.time, "perf_counter", lambda: next(ticks) / 100)  # each look at the clock takes 10 ms
    choice = agent.choose(game, games.new_state(game), np.random.default_rng(1))
    assert 0 < choice.nodes <= 5
    assert choice.action in range(7)


def test_a_time_budget_pays_for_no_table_not_even_at_the_first_move() -> None:
    game = games.make("connect_four")
    agent = made("mcts:3ms,model=7,c=1.2468", game, fake(2))
    computed = puct._factors.cache_info().misses
    agent.choose(game, games.new_state(game), np.random.default_rng(1))
    assert puct._factors.cache_info().misses == computed


def test_a_time_budget_has_a_root_that_can_be_interrupted() -> None:
    game = games.make("connect_four")
    assert made("mcts:5ms,model=7", game, fake(2))._settings(game, 100).root_policy == "puct"
    assert made("mcts:100,model=7", game, fake(2))._settings(game, 100).root_policy == "gumbel"
    with pytest.raises(InvalidRequest, match="root=gumbel halves a number of simulations; give one in place of a time"):
        made("mcts:5ms,model=7,root=gumbel", game, fake(2))


def test_leaves_sets_the_number_of_positions_per_request() -> None:
    batches: list[int] = []

    def counting(batch: LeafBatch, version: ModelVersion) -> Evaluation:
        batches.append(len(batch))
        return fake(2)(batch, version)

    game = games.make("connect_four")
    agent = made("mcts:60,model=7,leaves=8", game, counting)
    choice = agent.choose(game, games.new_state(game), np.random.default_rng(1))
    assert agent.name == "mcts:60,model=7,leaves=8"
    assert choice.nodes == 60
    assert max(batches) == 8
    with pytest.raises(InvalidRequest, match="leaves needs a game with perfect information; leave out leaves"):
        made("mcts:60,model=7,leaves=8", games.make("rock_paper_scissors"), counting)


def test_without_time_the_policy_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    def prefers_the_last(batch: LeafBatch, version: ModelVersion) -> Evaluation:
        policy = np.zeros(batch.legal.shape, dtype=np.float16)
        policy[:, 6] = 1.0
        return Evaluation(policy, np.tile(np.float32([0.25, -0.25]), (len(batch), 1)), version)

    game = games.make("connect_four")
    agent = made("mcts:1ms,model=7", game, prefers_the_last)
    ticks = itertools.count()
    monkeypatch.setattr(mcts.time, "perf_counter", lambda: float(next(ticks)))
    choice = agent.choose(game, games.new_state(game), np.random.default_rng(1))
    assert choice == (6, 0, 0.25)


def test_a_single_legal_move_is_played_without_an_evaluation() -> None:
    def nobody(batch: LeafBatch, version: ModelVersion) -> Evaluation:
        raise AssertionError("asked")

    game = games.make("tic_tac_toe")
    state = games.replay(game, [0, 1, 2, 4, 3, 5, 7, 6])
    assert made("mcts:10,model=7", game, nobody).choose(game, state, np.random.default_rng(1)).action == 8


def test_the_search_has_settings_of_its_own_by_name() -> None:
    game = games.make("tic_tac_toe")
    state = games.replay(game, [0, 4])
    plain, wide, literal = (
        made(f"mcts:40,model=7{options}", game, fake(2)) for options in ("", ",c=50.0,prove=false", ",u=literal,prove=false")
    )
    assert wide.name == "mcts:40,model=7,c=50.0,prove=false"
    assert literal.name == "mcts:40,model=7,u=literal,prove=false"
    for agent, changes in (
        (plain, {}),
        (wide, {"puct_init": 50.0, "prove_values": False}),
        (literal, {"exploration": "literal", "prove_values": False, "root_policy": "puct"}),
    ):
        settings = SearchSettings.for_match(game.spec(), 40).model_copy(update=changes)
        seed = int(np.random.default_rng(1).integers(LAST_SEED))
        wanted = search_state(game, fake(2), state, settings=settings, version=7, seed=seed)
        choice = agent.choose(game, state, np.random.default_rng(1))
        assert (choice.action, choice.nodes) == (wanted.best_action, wanted.visits.sum())
        assert choice.value == wanted.values[wanted.actions == choice.action]


def test_with_a_temperature_moves_are_sampled_by_visits() -> None:
    game = games.make("tic_tac_toe")
    state, rng = games.replay(game, [0, 4]), np.random.default_rng(1)
    agent = made("mcts:30,model=7,temperature=1,prove=false", game, fake(2))
    changes = {"prove_values": False, "root_policy": "puct"}
    settings = SearchSettings.for_match(game.spec(), 30).model_copy(update=changes)
    searched = search_state(game, fake(2), state, settings=settings, version=7, seed=1)  # the seed has no effect without noise
    played = np.array([agent.choose(game, state, rng).action for _ in range(300)])
    shares = np.array([np.mean(played == action) for action in searched.actions])
    np.testing.assert_allclose(shares, searched.visits / searched.visits.sum(), atol=0.1)
    assert len(np.unique(played)) > 2


@pytest.mark.slow
def test_the_opponents_of_take_six_are_foreseen_by_the_models_head_or_by_their_own_search() -> None:
    game = games.make("take_six")
    state = games.new_state(game, 1)
    heads: set[int] = set()

    def watched(batch: LeafBatch, version: ModelVersion) -> Evaluation:
        heads.add(batch.extra_heads)
        policy, value, extra = uniform_answer(batch, game.spec())
        return Evaluation(policy, value, version, extra)

    for information, wanted in (("predict", {1}), ("determinise", {0})):
        heads.clear()
        agent = made(f"mcts:16,model=7,u=literal,information={information}", game, watched)
        choice = agent.choose(game, state, np.random.default_rng(1))
        assert choice.action in games.legal(game, state)
        assert choice.nodes == 16
        assert heads == wanted


@pytest.mark.slow
def test_mcts_plays_games_of_three_players_and_of_hidden_information() -> None:
    game = games.make("take_six")
    state, rng = games.new_state(game, 1), np.random.default_rng(1)
    choice = made("mcts:30,model=7", game, fake(game.spec().num_players)).choose(game, state, rng)
    assert choice.action in games.legal(game, state)
    assert choice.nodes == 30


def test_the_name_has_the_time_in_milliseconds() -> None:
    game = games.make("connect_four")
    assert made("mcts:1s,model=7", game, fake(2)).name == "mcts:1000ms,model=7"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mcts:400", "'mcts:400' needs the version of a model, such as mcts:400,model=7"),
        ("mcts,model=7", "'mcts,model=7' needs simulations or time"),
        ("mcts:50nodes,model=7", "'50nodes' counts nodes, which this agent does not support"),
        ("mcts:100001,model=7", "mcts:100001,model=7 is out of range; want 1 to 100,000 simulations"),
        ("mcts:400,model=7,information=predict", "information=predict: connect_four hides nothing; leave out information"),
        ("mcts:400,model=7,depth=2", "option 'depth': Extra inputs are not permitted"),
    ],
)
def test_invalid_spellings_are_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        made(text, games.make("connect_four"), fake(2))
    assert said in str(refusal.value)


def test_mcts_without_a_model_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="mcts:400,model=7 needs a model, but none is available"):
        made("mcts:400,model=7", games.make("connect_four"), None)
