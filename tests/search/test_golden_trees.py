"""Every field of every node and edge of fixed searches is what it was; see golden_trees.py for how to renew them."""

import json

import numpy as np
import pytest
from golden_trees import CASES, FOLDER, as_text, run

from zerofleet.search import SearchSettings
from zerofleet.search.tree import DECIDED, OVER, PROVEN


@pytest.mark.parametrize("name", CASES)
def test_the_tree_equals_the_stored_one_in_every_field(name):
    stored = json.loads((FOLDER / f"{name}.json").read_text())
    tree = json.loads(as_text(run(CASES[name])))
    assert tree.keys() == stored.keys()
    assert CASES[name].settings == SearchSettings.model_validate(stored["settings"])  # settings added since have defaults
    for part in ("opening", "slot"):
        assert tree[part] == stored[part]
    for part in ("nodes", "edges"):
        assert tree[part].keys() == stored[part].keys()
        for field, column in stored[part].items():
            # float32 sums; a processor may round noise and logarithms its own way in the last place
            np.testing.assert_allclose(tree[part][field], column, rtol=1e-5, atol=1e-6, err_msg=f"{part}.{field}")


def test_every_stored_tree_is_checked():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(CASES)


def test_stored_trees_cover_their_special_cases():
    trees = {name: json.loads((FOLDER / f"{name}.json").read_text()) for name in CASES}
    assert sum(trees["connect_four_in_flight"]["edges"]["flight"]) > 6
    assert trees["connect_four_in_flight"]["slot"]["pending"] > 1
    assert trees["connect_four_kept_subtree"]["nodes"]["visits"][0] == 41
    assert trees["connect_four_kept_subtree"]["slot"]["ply"] == 1
    kinds = trees["tic_tac_toe_near_the_end"]["nodes"]["kind"]
    assert min(kinds.count(kind) for kind in (OVER, DECIDED, PROVEN)) > 0
    kinds = trees["tic_tac_toe_without_proofs"]["nodes"]["kind"]
    assert kinds.count(OVER) > 5
    assert max(kinds) == OVER
    assert len(trees["three_players"]["nodes"]["value"][0]) == 3
