"""Several ranks train as one process does: real processes, started by torchrun, over gloo on the loopback."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from games.core import make
from trainer.batches import BatchMaker, from_rows, to_rows
from trainer.checkpoint import restore, unpack
from trainer.checkpoint_files import load_latest
from trainer.process_group import part_of
from trainer.ranks import ALONE, Place, place_in
from zerofleet.errors import ConfigurationError
from zerofleet.presets import NetworkSettings

SCRIPT = Path(__file__).with_name("ranks_at_work.py")
SPEC = importlib.util.spec_from_file_location("ranks_at_work", SCRIPT)
WORK = sys.modules["ranks_at_work"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(WORK)
CASES, learner_of = WORK.CASES, WORK.learner_of

TOLERANCE = 1e-5
"""Relative. The same sums in another order differ in the last of seven digits; steps make more of it, slowly."""


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Train every case with two ranks; returns the directory of what they found."""
    directory = tmp_path_factory.mktemp("ranks")
    torchrun = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore"}
    subprocess.run([*torchrun, str(SCRIPT), str(directory)], env=environment, timeout=280, check=True)
    return directory


@pytest.fixture(scope="module")
def alone():
    """Train every case in this process; returns learners and reports by case."""
    learners = {name: learner_of(case) for name, case in CASES.items()}
    return {name: (learner, WORK.work(CASES[name], learner)) for name, learner in learners.items()}


def found(directory, name, rank):
    return json.loads((directory / f"{name}-{rank}.json").read_text())


# One test for what real processes are needed for: several would start them once in every process of the tests.
@pytest.mark.slow
def test_two_ranks_train_as_one_process_stay_bit_identical_and_one_process_resumes_from_their_checkpoint(
    together, alone, subtests
):
    for name in CASES:
        with subtests.test("the same losses", case=name):
            check_losses(found(together, name, 0)["reports"], alone[name][1])
        with subtests.test("bit-identical ranks", case=name):
            assert found(together, name, 0)["state"] == found(together, name, 1)["state"]
    with subtests.test("a step with an infinite gradient on one rank is skipped by all"):
        reports = found(together, "adamw", 0)["reports"]
        assert [step for step, report in enumerate(reports) if report["skipped"]] == [CASES["adamw"].bad_step]
        assert "skipped=1" in found(together, "adamw", 1)["state"]["counts"]
    for name in ("sgd", "adamw"):
        with subtests.test("one process resumes", case=name):
            check_resumption(together, name, alone[name][0])


def check_losses(reports, of_one):
    assert len(reports) == len(of_one) > 0
    for step, (got, wanted) in enumerate(zip(reports, of_one, strict=True)):
        if wanted["skipped"]:
            assert got.pop("gradient_norm") != pytest.approx(0)  # infinite or nothing: what matters is that it is not finite
            wanted = {key: value for key, value in wanted.items() if key != "gradient_norm"}  # noqa: PLW2901
        assert got == pytest.approx(wanted, rel=TOLERANCE, abs=1e-6), step


def check_resumption(together, name, whole):
    case = CASES[name]
    learner = learner_of(case)
    restore(learner, make(case.game), NetworkSettings.model_validate(case.network), *load_latest(together / name, unpack))
    assert learner.state == whole.state
    assert learner.rng.bit_generator.state == whole.rng.bit_generator.state
    for _ in range(3):
        got, wanted = learner.step(), whole.step()
        assert (got.total, got.gradient_norm) == pytest.approx((wanted.total, wanted.gradient_norm), rel=TOLERANCE)


def test_a_skipped_step_changes_only_counts_and_rate_in_the_state_of_a_learner():
    learner = learner_of(CASES["sgd"])
    before = WORK.state_of(learner)
    WORK.spoil(learner)
    assert learner.step().skipped
    after = WORK.state_of(learner)
    assert {name for name in before if before[name] != after[name]} == {"counts", "rate"}


def test_samples_survive_serialisation_to_a_message(game):
    samples, spec = WORK.made_up("tic_tac_toe"), game.spec()
    drawn = BatchMaker(spec).turn(samples, np.random.default_rng(0))
    again = from_rows(to_rows(drawn), spec, drawn.whole)
    for one, two in zip((*drawn.samples.arrays, drawn.turns), (*again.samples.arrays, again.turns), strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)
    assert 0 < drawn.whole.with_opponents < drawn.whole.positions
    assert 0 < drawn.whole.with_plies_left < drawn.whole.positions


@pytest.mark.parametrize(("count", "size"), [(33, 2), (7, 3), (1024, 8), (5, 5)])
def test_every_row_of_a_batch_is_in_exactly_one_part(count, size):
    parts = [part_of(count, rank, size) for rank in range(size)]
    assert [begin for begin, _ in parts[1:]] == [end for _, end in parts[:-1]]
    assert (parts[0][0], parts[-1][1]) == (0, count)
    lengths = [end - begin for begin, end in parts]
    assert max(lengths) - min(lengths) <= 1
    assert max(lengths) == -(-count // size)


TORCHRUN = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "host", "MASTER_PORT": "29500"}


def test_the_place_of_a_rank_comes_from_torchruns_variables_and_defaults_to_a_single_process():
    assert place_in({}) is ALONE
    assert place_in({**TORCHRUN, "RANK": "0", "WORLD_SIZE": "1"}) is ALONE
    assert place_in(TORCHRUN) == Place(rank=1, size=2, local_rank=1)


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"])
def test_an_incomplete_place_is_refused(name):
    with pytest.raises(ConfigurationError, match=f"{name}.*torchrun"):
        place_in({key: value for key, value in TORCHRUN.items() if key != name})
    with pytest.raises(ConfigurationError, match="torchrun"):
        place_in({**TORCHRUN, "RANK": "2"})
