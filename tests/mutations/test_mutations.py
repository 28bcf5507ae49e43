"""The mutations are fit for use, and the tests of each promise kill one of them. `make mutate` tries them all."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from games.core import make
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.contracts.records.samples import random_game

sys.path.insert(0, str(Path(__file__).parent))

from mutations import PROMISES, ROOT, Edit, StalePatch, chosen, load
from trial import copy_of_tree, run_tests, try_mutation

MUTATIONS = load()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.title)
def test_a_mutation_applies_to_the_tree_changes_it_and_leaves_python(mutation):
    for name, text in mutation.mutated(ROOT).items():
        assert text != (ROOT / name).read_text()
        ast.parse(text)


def test_every_promise_has_mutations_of_distinct_names_and_one_for_ci():
    titles = [mutation.title for mutation in MUTATIONS]
    assert len(set(titles)) == len(titles)
    assert [mutation.promise for mutation in MUTATIONS if mutation.ci] == list(PROMISES)
    assert all(mutation.breaks.endswith(".") for mutation in MUTATIONS)
    assert not any(mutation.ci and mutation.equivalent for mutation in MUTATIONS)


def test_a_patch_whose_text_is_gone_or_ambiguous_is_stale():
    assert Edit("x.py", "b", "c").apply("abd") == "acd"
    for old, found in (("x", "0 times"), ("a", "2 times")):
        with pytest.raises(StalePatch, match=f"x.py: the text to replace occurs {found}"):
            Edit("x.py", old, "c").apply("aba")


def test_a_promise_is_chosen_by_its_number_and_a_mutation_by_a_part_of_its_name():
    assert {mutation.promise for mutation in chosen(MUTATIONS, "p1")} == {"p1"}
    assert {mutation.promise for mutation in chosen(MUTATIONS, "p4 p10")} == {"p4", "p10"}
    assert [mutation.name for mutation in chosen(MUTATIONS, "holder-not")] == ["holder-not-compared"]
    assert chosen(MUTATIONS, "") == MUTATIONS
    assert chosen(MUTATIONS, "no such name") == []


def test_a_run_in_which_no_test_ran_is_a_fault_and_neither_killed_nor_survived(tmp_path):
    (tmp_path / "test_empty.py").write_text("")
    outcome = run_tests(tmp_path, ["test_empty.py"])
    assert (outcome.killed_by, bool(outcome.fault)) == ("", True)
    (tmp_path / "test_broken.py").write_text("import no_such_module")
    assert run_tests(tmp_path, ["test_broken.py"]).fault


def test_a_copy_is_independent_of_the_tree():
    before = (ROOT / "gatekeeper" / "lease.py").read_text()
    with copy_of_tree() as place:
        mutation = chosen(MUTATIONS, "holder-not-compared")[0]
        for name, text in mutation.mutated(ROOT).items():
            (place / name).unlink()
            (place / name).write_text(text)
        assert (place / "gatekeeper" / "lease.py").read_text() != before
    assert (ROOT / "gatekeeper" / "lease.py").read_text() == before
    assert not place.exists()


@pytest.fixture(scope="module")
def compiled():
    """Compile the rules that the tests replay games with, once and in this tree: copies take the compiled code along."""
    validate(decode_record(encode_record(random_game(make("tic_tac_toe"), 1), worker_id="worker", uid="0" * 32)))


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("mutation", [mutation for mutation in MUTATIONS if mutation.ci], ids=lambda mutation: mutation.title)
def test_the_tests_of_a_promise_fail_when_it_is_broken(mutation):
    outcome = try_mutation(mutation, "own")
    assert not outcome.fault, outcome.fault
    assert outcome.killed_by.startswith(f"test_{mutation.promise}_"), f"{mutation.title} survived: {mutation.breaks}"
