"""Play by the values of moves, and the opponents of the seat that learns."""

import numpy as np
import pytest

from games import core, positions
from games.core import make
from zerofleet.contracts.played import EXPLORATORY
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.errors import ConfigurationError
from zerofleet.search import EXTERNAL
from zerofleet.search.afterstates.action_values import ActionValueBlock, pool_of
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.search.afterstates.opponents import Opponents
from zerofleet.search.afterstates.settings import AfterstateSettings

GAME = make("tic_tac_toe")


def heads_of(batch, pool=4):
    """The four moves listed last are the pool, the last one first; the value of a move rises with its number."""
    counts = (batch.legal >= 0).sum(axis=1)
    places = np.arange(batch.legal.shape[1])[None]
    inside = (places < counts[:, None]) & (places >= counts[:, None] - pool)
    ranks = np.where(inside, (places + 1) / 16, 0.0).astype(np.float32)
    values = batch.legal / 10.0
    return [ranks, np.where(inside, 1 / (1 + np.exp(-2 * values)), 0.0).astype(np.float32)]


def by_values(block, leaves):
    if isinstance(block, ActionValueBlock):
        block.absorb(np.empty(0), np.empty(0), heads_of(leaves.batch))
    else:
        block.absorb(np.empty(0), np.zeros((len(leaves.batch), 2), np.float32))


def played(settings, *, seeds=range(1, 9), kind=ActionValueBlock, opponents=None, versions=(7, 7)):
    """Finished games, and the versions that were requested."""
    block, asked = kind(GAME, settings, slots=len(seeds), opponents=opponents), set()
    for slot, seed in enumerate(seeds):
        block.begin(slot, seed=seed, versions=versions, tag=seed)
    while len(block.finished()) < len(seeds):
        leaves = block.advance()
        assert len(block.advance().batch) == len(leaves.batch)
        asked |= set(leaves.versions.tolist())
        by_values(block, leaves)
    return [block.take(slot) for slot in range(len(seeds))], asked


def lowest(game, state, rng):
    return positions.legal(game, state)[0]


def at_random(game, state, rng):
    return int(rng.choice(positions.legal(game, state)))


AGENTS = {"low": ("lowest", lowest), "random": ("random", at_random)}


def against(*names, **changes):
    settings = AfterstateSettings(opponents=names, **{"policy": "greedy", "learner_seat": "alternate", **changes})
    return settings, Opponents(settings, {name: AGENTS[name] for name in settings.agents})


def test_a_greedy_model_plays_the_highest_value_of_its_pool_and_records_the_pool():
    games, _ = played(AfterstateSettings(policy="greedy"))
    for one in games:
        validate(decode_record(encode_record(one, worker_id="w", uid="0" * 32)))
        state = positions.new_state(GAME)
        for move in one.searched:
            legal = positions.legal(GAME, state)
            assert move.pool.tolist() == legal[:-5:-1]
            assert move.pool_scores.tolist() == [2 * len(legal[: k + 1]) / 16 - 1 for k in range(len(legal))][:-5:-1]
            assert one.moves[move.ply] == legal[-1]
            mover = int(core.to_move(GAME, state))
            assert move.root_value[mover] == pytest.approx(legal[-1] / 10, abs=1e-6)
            assert (move.behaviour, move.flags) == (1.0, 0)
            core.play(GAME, state, int(one.moves[move.ply]))


def test_a_pool_is_read_from_the_heads_best_first():
    pool, scores, values = pool_of(
        np.array([3, 5, 8], np.int16), np.array([0.5, 0.0, 0.75, 0.9]), np.array([0.5, 0.0, 1 / (1 + np.exp(-1.4)), 0.9])
    )
    assert (pool.tolist(), scores.tolist()) == ([8, 3], [0.5, 0.0])
    np.testing.assert_allclose(values, [0.7, 0.0], atol=1e-9)


def test_epsilon_falls_with_the_version_of_the_model():
    settings = AfterstateSettings(policy="epsilon_greedy", epsilon=0.1, epsilon_first=0.9, epsilon_versions=4)
    assert [settings.epsilon_of(version) for version in (1, 2, 3, 5, 50)] == pytest.approx([0.9, 0.7, 0.5, 0.1, 0.1])
    for version in (1, 3, 50):
        games, _ = played(settings, seeds=range(60), versions=(version, version))
        epsilon = settings.epsilon_of(version)
        moves = [move for one in games for move in one.searched]
        for move in moves:
            best = move.pool[0] == max(move.pool)
            assert best
            chance = epsilon / len(move.pool)
            assert move.behaviour == pytest.approx(chance if move.flags & EXPLORATORY else chance + 1 - epsilon, abs=1e-6)
        explored = sum(bool(move.flags & EXPLORATORY) for move in moves) / len(moves)
        wanted = sum(epsilon * (1 - 1 / len(move.pool)) for move in moves) / len(moves)
        assert explored == pytest.approx(wanted, abs=0.08)


@pytest.mark.parametrize("kind", [ActionValueBlock, AfterstateBlock])
def test_an_agent_takes_the_seat_that_does_not_learn(kind):
    settings, opponents = against("low", pool=0)
    games, asked = played(settings, kind=kind, opponents=opponents)
    assert asked == {7}
    for one in games:
        seat = one.seed % 2
        record = decode_record(encode_record(one, worker_id="w", uid="0" * 32))
        read = validate(record)
        assert (record.learner_seat, one.versions[1 - seat]) == (seat + 1, EXTERNAL)
        assert list(record.seat_agents) == [("lowest" if player != seat else "") for player in range(2)]
        assert read.search.ply.tolist() == list(range(seat, len(one.moves), 2))
        state = positions.new_state(GAME)
        for ply, action in enumerate(one.moves):
            if ply % 2 != seat:
                assert action == positions.legal(GAME, state)[0]
            core.play(GAME, state, int(action))


def test_a_frozen_version_keeps_its_seat_when_the_model_changes():
    settings, opponents = against("version:3")
    block = ActionValueBlock(GAME, settings, slots=2, opponents=opponents)
    for slot in range(2):
        block.begin(slot, seed=slot, versions=[7, 7])
    for version in (7, 8, 9):
        for slot in range(2):
            block.set_versions(slot, [version, version])
        leaves = block.advance()
        assert sorted(leaves.versions.tolist()) == [3, version]
        by_values(block, leaves)
    while len(block.finished()) < 2:
        by_values(block, block.advance())
    one = block.take(0)
    assert one.versions == (7, 3)
    assert {move.model_version for move in one.searched[1::2]} == {3}
    validate(decode_record(encode_record(one, worker_id="w", uid="0" * 32)))


def test_the_opponent_depends_on_the_seed_alone_with_the_given_frequencies():
    settings, opponents = against("self", "low", "random", opponent_shares=(2.0, 1.0, 1.0))
    drawn = [opponents.of_game(seed).agent for seed in range(4_000)]
    for name, share in (("", 0.5), ("lowest", 0.25), ("random", 0.25)):
        assert drawn.count(name) / 4_000 == pytest.approx(share, abs=0.03)
    together = {one.seed: one.moves.tolist() for one in played(settings, opponents=opponents)[0]}
    alone = {seed: played(settings, seeds=(seed,), opponents=opponents)[0][0].moves.tolist() for seed in together}
    assert together == alone


def test_heads_of_another_shape_are_refused_and_the_positions_still_wait():
    block = ActionValueBlock(GAME, AfterstateSettings(), slots=1)
    block.begin(0, seed=1, versions=[1, 1])
    leaves = block.advance()
    for heads in ([], [np.zeros((1, 9), np.float32)], [np.zeros((2, 9), np.float32)] * 2):
        with pytest.raises(ValueError, match="a model of action values"):
            block.absorb(np.empty(0), np.empty(0), heads)
    by_values(block, leaves)
    assert block.moves(0)


@pytest.mark.parametrize(
    ("head", "value", "message"),
    [
        (0, np.nan, r"head pool of leaf \d+ is .*; want numbers in \[0, 1\]"),
        (0, 1.5, r"head pool of leaf \d+ is .*; want numbers in \[0, 1\]"),
        (1, np.nan, r"head action_values of leaf \d+ is .*; want numbers in \[0, 1\]"),
        (1, -0.5, r"head action_values of leaf \d+ is .*; want numbers in \[0, 1\]"),
        (0, 0.0, "no move of a position"),
    ],
)
def test_heads_that_make_no_pool_are_refused_and_the_positions_still_wait(head, value, message):
    block = ActionValueBlock(GAME, AfterstateSettings(), slots=2)
    for slot in range(2):
        block.begin(slot, seed=slot, versions=[1, 1])
    leaves = block.advance()
    heads = heads_of(leaves.batch)
    heads[head][1] = value
    with pytest.raises(ValueError, match=message):
        block.absorb(np.empty(0), np.empty(0), heads)
    assert block.moves(0) == []
    by_values(block, leaves)
    assert block.moves(0)
    assert block.moves(1)


def test_settings_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="set learner_seat=alternate"):
        AfterstateSettings(opponents=("random",))
    with pytest.raises(ValueError, match="want a version from 1 on"):
        AfterstateSettings(opponents=("version:0",))
    with pytest.raises(ValueError, match="want a number for each"):
        AfterstateSettings(opponents=("self",), opponent_shares=(1.0, 1.0))
    with pytest.raises(ConfigurationError, match="no agents are played here"):
        ActionValueBlock(GAME, AfterstateSettings(opponents=("random",), learner_seat="first"), slots=1)
    for kind, mode in ((ActionValueBlock, "action_values"), (AfterstateBlock, "afterstates")):
        with pytest.raises(ConfigurationError, match=f"selfplay.mode={mode} plays games of two players"):
            kind(make("rock_paper_scissors"), AfterstateSettings(), slots=1)
