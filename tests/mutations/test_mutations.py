"""The mutations are fit for use, and the tests of each promise kill one of them. `make mutate` tries them all."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from games.core import make
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.contracts.records.samples import random_game

sys.path.insert(0, str(Path(__file__).parent))

from mutations import PROMISES, ROOT, Edit, StalePatch, chosen, load
from trial import Copy, outcome_of, write

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
    assert chosen(MUTATIONS, "no-such-name") == []


@pytest.mark.parametrize(
    ("code", "output", "killer", "ran"),
    [
        (0, "3 passed in 1 s", "", True),
        (1, "FAILED tests/promises/test_p6_lease.py::test_p6_a - x\n1 failed", "test_p6_a", True),
        (1, "ERROR tests/promises/test_p6_lease.py::test_p6_a - x\n1 error", "test_p6_a", True),
        (2, "ERROR tests/promises/test_p6_lease.py - SyntaxError", "", False),
        (5, "no tests ran", "", False),
        (-14, "", "", False),
    ],
)
def test_only_a_failed_test_kills_and_a_run_without_tests_is_a_fault(code, output, killer, ran):
    outcome = outcome_of(code, output, 1.0)
    assert (outcome.killed_by, not outcome.fault) == (killer, ran)


def test_a_copy_is_independent_of_the_tree():
    before, copy = (ROOT / "gatekeeper" / "lease.py").read_text(), Copy.make()
    write(copy.place, chosen(MUTATIONS, "holder-not-compared")[0].mutated(ROOT))
    assert (copy.place / "gatekeeper" / "lease.py").read_text() != before
    copy.remove()
    assert (ROOT / "gatekeeper" / "lease.py").read_text() == before
    assert not copy.place.exists()


@pytest.fixture(scope="module")
def compiled():
    """Compile the rules that the tests replay games with, once and in this tree: copies take the compiled code along."""
    validate(decode_record(encode_record(random_game(make("tic_tac_toe"), 1), worker_id="worker", uid="0" * 32)))


@pytest.mark.slow
@pytest.mark.timeout(1100)  # ten runs of pytest, one after another, on a machine that may be loaded
@pytest.mark.usefixtures("compiled")
def test_the_tests_of_each_promise_fail_when_it_is_broken():
    command = [sys.executable, str(ROOT / "tests" / "mutations"), "--ci", "--quick", "--trust", "--jobs", "1"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"{len(PROMISES)} of {len(PROMISES)} killed" in found.stdout
