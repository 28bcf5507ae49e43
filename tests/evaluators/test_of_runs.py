"""Models of several runs behind one evaluator."""

from __future__ import annotations

import numpy as np

from games.core import make
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.by_version import evaluate_by_version
from zerofleet.evaluators.of_runs import RunsEvaluator, version_among
from zerofleet.testing import FunctionEvaluator


def evaluator(run: int) -> FunctionEvaluator:
    """Answer with the run in the value and the version in the policy."""

    def answer(batch: LeafBatch, version: ModelVersion) -> tuple[np.ndarray, np.ndarray]:
        policy = np.where(batch.legal >= 0, float(version), 0.0).astype(np.float32)
        return policy, np.full((len(batch), 2), run / 10, np.float32)

    return FunctionEvaluator(answer)


def test_versions_of_the_first_run_are_their_own_numbers() -> None:
    assert [version_among(0, 7), version_among(0, 1)] == [7, 1]
    assert len({version_among(run, version) for run in range(4) for version in (1, 7, 1 << 39)}) == 12


async def test_every_position_is_answered_by_its_run_and_version() -> None:
    spec = make("tic_tac_toe").spec()
    several = RunsEvaluator([evaluator(run) for run in range(3)])
    wanted = [(2, 5), (0, 5), (1, 9), (2, 5), (0, 4)]
    batch = LeafBatch(np.zeros((5, spec.packed_bytes), np.uint8), np.zeros((5, spec.max_legal), np.int16))
    versions = np.array([version_among(run, version) for run, version in wanted])
    found = await evaluate_by_version(several.evaluate, batch, versions)
    np.testing.assert_allclose(found.value[:, 0], [run / 10 for run, _ in wanted], rtol=1e-6)
    np.testing.assert_array_equal(found.policy[:, 0], [version for _, version in wanted])


async def test_an_answer_names_the_version_that_was_asked_for() -> None:
    spec = make("tic_tac_toe").spec()
    batch = LeafBatch(np.zeros((1, spec.packed_bytes), np.uint8), np.zeros((1, spec.max_legal), np.int16))
    version = version_among(1, 3)
    found = await RunsEvaluator([evaluator(0), evaluator(1)]).evaluate(batch, version=version)
    assert found.version == version
