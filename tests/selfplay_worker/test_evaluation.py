"""How long a lane waits for an evaluation, and what it gets for a version that is gone."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import structlog

import games
from selfplay_worker import evaluation as module
from selfplay_worker.champion import AdoptedModel
from selfplay_worker.evaluation import PatientEvaluator
from zerofleet.errors import (
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    PermissionRefused,
    StaleEpoch,
    Unavailable,
    ZerofleetError,
)
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.search import Leaves
from zerofleet.telemetry import metrics

SPEC = games.make("tic_tac_toe").spec()
LEGAL = np.array([[0, 1, -1], [2, -1, -1], [3, 4, 5], [6, -1, -1]], np.int16)


class Scripted:
    """Answers with the version as value; `failures` are raised first, and versions that are not served are refused."""

    def __init__(self, *failures: Exception, served: tuple[int, ...] = (1, 2)) -> None:
        self.failures = list(failures)
        self.served = served
        self.rows: list[tuple[int, int]] = []

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        self.rows.append((version, len(batch)))
        if self.failures:
            raise self.failures.pop(0)
        if version not in self.served:
            raise ModelNotFound(f"version {version} is not served")
        policy = np.where(batch.legal == batch.legal[:, :1], 1, 0).astype(np.float16)
        return Evaluation(policy, np.full((len(batch), 2), version, np.float32), version)


def leaves(*versions: int) -> Leaves:
    count = len(versions)
    return Leaves(LeafBatch(np.zeros((count, 3), np.uint8), LEGAL[:count]), np.array(versions))


@pytest.fixture
def patient() -> Callable[..., PatientEvaluator]:
    def make(evaluator: Scripted, adopted: int = 2, lasting: tuple[int, ...] = ()) -> PatientEvaluator:
        model = AdoptedModel()
        model.adopt(adopted)
        return PatientEvaluator(evaluator, model, spec=SPEC, rng=random.Random(1), lasting=lasting)

    return make


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.0)


async def test_only_leaves_of_a_retired_version_get_a_uniform_evaluation(patient, monkeypatch):
    uniform = module.uniform_answer
    made: list[int] = []
    monkeypatch.setattr(module, "uniform_answer", lambda batch, spec: made.append(len(batch)) or uniform(batch, spec))
    evaluator = Scripted(served=(2,))
    found, gone = await patient(evaluator).evaluate(leaves(1, 2, 1, 2))
    assert gone == {1}
    assert found.value[:, 0].tolist() == [0, 2, 0, 2]
    np.testing.assert_allclose(found.policy, [[0.5, 0.5, 0], [1, 0, 0], [1 / 3, 1 / 3, 1 / 3], [1, 0, 0]], atol=1e-3)
    assert sorted(evaluator.rows) == [(1, 2), (2, 2)]
    assert made == [2]


async def test_no_evaluation_is_uniform_while_every_version_is_served(patient, monkeypatch):
    monkeypatch.setattr(module, "uniform_answer", None)
    found, gone = await patient(Scripted()).evaluate(leaves(1, 2, 1))
    assert (gone, found.value[:, 0].tolist()) == (set(), [1, 2, 1])


async def test_a_transient_failure_is_retried_and_each_retry_is_counted_once(patient):
    reasons = [Unavailable("away"), Overloaded("full"), Overloaded("full"), ModelNotFound("still loading")]
    counters = {
        kind: metrics.EVAL_RETRIES.labels(reason=kind)._value for kind in ("Unavailable", "Overloaded", "ModelNotFound")
    }
    before = {kind: value.get() for kind, value in counters.items()}
    evaluator = Scripted(*reasons)
    found, gone = await patient(evaluator).evaluate(leaves(2, 2))
    assert (gone, found.value[:, 0].tolist(), len(evaluator.rows)) == (set(), [2, 2], 5)
    counted = {kind: value.get() - before[kind] for kind, value in counters.items()}
    assert counted == {"Unavailable": 1, "Overloaded": 2, "ModelNotFound": 1}


async def test_an_internal_error_of_the_server_is_retried_and_a_wrong_request_is_not(patient):
    found, gone = await patient(Scripted(ZerofleetError("internal error 4f1c"), StaleEpoch("aborted"))).evaluate(leaves(2))
    assert (gone, found.value[:, 0].tolist()) == (set(), [2])
    for error in (InvalidRequest("another encoder"), PermissionRefused("wrong token")):
        with pytest.raises(type(error)):
            await patient(Scripted(error)).evaluate(leaves(2))


async def test_a_version_that_stays_in_service_is_awaited_while_it_loads(patient):
    evaluator = Scripted(ModelNotFound("still loading"))
    found, gone = await patient(evaluator, lasting=(1,)).evaluate(leaves(1, 1))
    assert (gone, found.value[:, 0].tolist()) == (set(), [1, 1])


async def test_the_log_says_again_and_again_that_a_version_is_awaited(patient, monkeypatch):
    monkeypatch.setattr(module, "TELL_AFTER_S", 0.0)
    monkeypatch.setattr(module, "TELL_EVERY_S", 0.0)
    evaluator = patient(Scripted(*[ModelNotFound("no version 1")] * 3), lasting=(1,))
    with structlog.testing.capture_logs() as logs:
        await evaluator.evaluate(leaves(1))
    awaited = [line for line in logs if line["event"] == "version.awaited"]
    assert [line["version"] for line in awaited] == [1, 1, 1]
    assert "models.pinned" in awaited[0]["advice"]
    waited_s = [line["waited_s"] for line in awaited]
    assert waited_s == sorted(waited_s)
    monkeypatch.setattr(module, "TELL_EVERY_S", 3600.0)
    evaluator = patient(Scripted(*[ModelNotFound("no version 1")] * 3), lasting=(1,))
    with structlog.testing.capture_logs() as logs:
        await evaluator.evaluate(leaves(1))
    assert [line["event"] for line in logs] == ["version.awaited"]


@pytest.mark.parametrize(("tell_after_s", "events"), [(3600.0, []), (0.0, ["inference.away", "inference.back"])])
async def test_only_lasting_failures_are_logged_and_each_outage_once(patient, monkeypatch, tell_after_s, events):
    monkeypatch.setattr(module, "TELL_AFTER_S", tell_after_s)
    with structlog.testing.capture_logs() as logs:
        await patient(Scripted(Unavailable("away"), Unavailable("away"))).evaluate(leaves(2))
    assert [line["event"] for line in logs if line["event"].startswith("inference.")] == events
