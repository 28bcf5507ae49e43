"""Whatever is done to a block, its trees fit their memory and add up."""

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_bench import CONNECT_FOUR, TIC_TAC_TOE, answer_hashed

from zerofleet.search import EXTERNAL, SearchBlock, SearchSettings
from zerofleet.search.arena import FINISHED, IDLE, SEARCHING, WAITING
from zerofleet.search.tree import EXPANDED, NO_NODE, PENDING, PROVEN, UNEXPANDED

SLOTS = 3
COMMANDS = ["search"] * 4 + ["begin", "play", "versions", "abandon"]


def check_tree(block, slot):
    """Assert every law of one slot's tree."""
    arena, settings = block._arena, block.settings
    record = arena.slots[slot]
    nodes, edges = arena.nodes[slot][: record["nodes"]], arena.edges[slot][: record["edges"]]
    capacity = settings.node_capacity
    assert 1 <= record["nodes"] <= capacity == len(arena.nodes[slot])
    assert record["edges"] <= len(arena.edges[slot])
    assert 0 <= record["pending"] <= settings.leaves_per_game
    assert record["edges"] == nodes["edge_count"].sum()
    np.testing.assert_array_equal(nodes["edge_start"], np.cumsum(nodes["edge_count"]) - nodes["edge_count"])
    assert nodes["parent"][0] == nodes["parent_edge"][0] == NO_NODE
    assert nodes["flight"][0] == record["pending"]
    owner = np.repeat(np.arange(len(nodes)), nodes["edge_count"])  # the node of each edge
    same_owner = owner[1:] == owner[:-1]
    assert np.all(np.diff(edges["action"])[same_owner] > 0)
    below = {name: np.bincount(owner, edges[name], minlength=len(nodes)) for name in ("visits", "flight", "prior")}

    inner, above = nodes[1:], edges[nodes["parent_edge"][1:]]
    assert np.all(inner["parent"] < np.arange(1, len(nodes)))
    np.testing.assert_array_equal(above["child"], np.arange(1, len(nodes)))
    np.testing.assert_array_equal(above["visits"], inner["visits"])
    np.testing.assert_array_equal(above["flight"], inner["flight"])
    assert np.all(inner["visits"] + inner["flight"] >= 1)
    assert np.all(inner["kind"] != UNEXPANDED)

    expanded = nodes["kind"] == EXPANDED
    np.testing.assert_array_equal(nodes["visits"][expanded], 1 + below["visits"][expanded])
    np.testing.assert_array_equal(nodes["flight"][expanded], below["flight"][expanded])
    np.testing.assert_allclose(below["prior"][expanded], 1.0, atol=1e-5)
    for player in range(2):
        totals = nodes["value"][:, player] + np.bincount(owner, edges["value"][:, player], minlength=len(nodes))
        np.testing.assert_allclose(above["value"][:, player][expanded[1:]], totals[1:][expanded[1:]], atol=1e-4)
    np.testing.assert_array_equal(nodes["flight"][~expanded], nodes["kind"][~expanded] == PENDING)
    leaf_edges = edges[(~expanded & (nodes["kind"] != PROVEN))[owner]]  # a proven node keeps what led to its proof
    assert np.all(leaf_edges["visits"] + leaf_edges["flight"] == 0)
    children = edges["child"][edges["child"] != NO_NODE]
    assert sorted(children.tolist()) == list(range(1, record["nodes"]))
    assert np.all(edges["visits"][edges["child"] == NO_NODE] == 0)


def check_block(block):
    for slot in range(len(block)):
        if block._arena.slots[slot]["status"] != IDLE:
            check_tree(block, slot)


class Driver:
    """Does to a block what a list of numbers says."""

    def __init__(self, block):
        self.block = block
        self.leaves = None
        self.seed = 0

    def step(self, command, choice):
        block = self.block
        slot = choice % SLOTS
        status = int(block._arena.slots[slot]["status"])
        if command == "search":
            self.search()
        elif status == IDLE:
            self.seed += 1
            versions = [(1, 1), (1, 2), (1, EXTERNAL), (EXTERNAL, 1), (EXTERNAL, EXTERNAL)][choice % 5]
            block.begin(slot, seed=self.seed, versions=versions, opening=[choice % 7][: choice % 2], hold=choice % 3 == 0)
        elif status == FINISHED:
            played = block.take(slot)
            assert len(played.moves) > 0 or played.resigned_seat is not None
        elif status == WAITING and command == "play":
            root = block._arena.nodes[slot, 0]
            own = block._arena.edges[slot, : root["edge_count"]]
            by_visits = own["action"][np.argsort(-own["visits"], kind="stable")]
            block.play(slot, int(by_visits[choice % 2 % len(by_visits)]))
        elif command == "versions":
            block.set_versions(slot, [1 + choice % 2, 1 + choice % 3])
        elif command == "abandon" and not self.leaves and choice % 5 == 0:
            block.abandon(slot)
        check_block(block)

    def search(self):
        """Advance and absorb in turns, so that other commands come in between."""
        if self.leaves:
            self.block.absorb(*answer_hashed(self.leaves, 2))
            self.leaves = None
        else:
            leaves = self.block.advance()
            self.leaves = leaves if len(leaves.batch) else None


@pytest.mark.slow
@given(
    commands=st.lists(
        st.tuples(
            st.sampled_from(["search", "search", "search", "search", "begin", "play", "versions", "abandon"]),
            st.integers(0, 59),
        ),
        min_size=60,
        max_size=120,
    ),
    settings=st.builds(
        SearchSettings,
        simulations=st.integers(6, 30),
        fast_simulations=st.integers(1, 6),
        full_search_share=st.sampled_from([0.3, 1.0]),
        leaves_per_game=st.integers(1, 40),
        virtual_loss=st.sampled_from([0.0, 1.0]),
        forced_playouts=st.sampled_from([0.0, 3.0]),
        cache_positions=st.sampled_from([0, 2, 32, 1024]),
        reuse_subtree=st.booleans(),
        root_policy=st.sampled_from(["puct", "puct", "gumbel"]),
        resign_threshold=st.sampled_from([-1.0, -0.5]),
        fpu_reduction=st.sampled_from([0.0, 0.25]),
    ),
    game=st.sampled_from([TIC_TAC_TOE, CONNECT_FOUR]),
)
@hypothesis.settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
def test_trees_stay_within_bounds_and_consistent_under_any_commands(commands, settings, game):
    driver = Driver(SearchBlock(game, settings, slots=SLOTS))
    for command, choice in commands:
        driver.step(command, choice)


def test_the_largest_possible_subtree_is_kept_and_extended():
    """A root with one child that was visited every time: the kept tree has all the memory but one node."""
    settings = SearchSettings(simulations=25, dirichlet_fraction=0.0, temperature=0.0)
    block = SearchBlock(CONNECT_FOUR, settings, slots=1)

    def one_way(leaves):
        policy = np.zeros(leaves.batch.legal.shape, dtype=np.float32)
        policy[:, 0] = 1.0
        return policy, np.zeros((len(policy), 2), dtype=np.float32)

    block.begin(0, seed=0, versions=[1, 1], hold=True)
    for move in range(3):
        while len((leaves := block.advance()).batch):
            block.absorb(*one_way(leaves))
        check_block(block)
        analysis = block.analysis(0)
        assert analysis.visits.tolist() == [25, 0, 0, 0, 0, 0, 0]
        block.play(0, 0)
        check_block(block)
        assert block._arena.nodes[0, 0]["visits"] == 25
        assert move < 3
    assert block._arena.slots[0]["status"] == SEARCHING


@pytest.mark.parametrize("leaves", [1, 8, 64])
def test_more_leaves_than_simulations_are_accepted(leaves):
    settings = SearchSettings(simulations=3, leaves_per_game=leaves, dirichlet_fraction=0.0)
    block = SearchBlock(CONNECT_FOUR, settings, slots=2)
    for slot in range(2):
        block.begin(slot, seed=slot, versions=[1, 1], hold=True)
    while len((found := block.advance()).batch):
        check_block(block)
        block.absorb(*answer_hashed(found, 2))
        check_block(block)
    assert block.analysis(0).visits.sum() == 3
