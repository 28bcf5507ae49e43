"""Networks that an evaluator in the process keeps in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from selfplay_worker import worker
from zerofleet.evaluators.base import ModelVersion
from zerofleet.evaluators.in_process import evaluator as in_process
from zerofleet.evaluators.in_process.evaluator import InProcessEvaluator


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list of versions that are loaded from a store."""
    versions: list[int] = []

    def load(store: Any, game: Any, version: ModelVersion, *, others: Any) -> Any:
        versions.append(version)
        return SimpleNamespace(version=version)

    monkeypatch.setattr(in_process, "load_network", load)
    return versions


def test_the_versions_used_last_stay_in_memory(loaded: list[int]) -> None:
    evaluator = InProcessEvaluator(cast("Any", None), cast("Any", None), keep=2)
    for version in (1, 2, 1, 3, 1, 2):
        evaluator.load(ModelVersion(version))
    assert loaded == [1, 2, 3, 2]


def test_a_worker_has_memory_for_its_frozen_opponents_beside_the_newest_versions(loaded: list[int]) -> None:
    frozen = [1, 2, 3, 4]
    evaluator = InProcessEvaluator(cast("Any", None), cast("Any", None), keep=worker._KEPT + len(frozen))
    for champion in (9, 9, 10, 10):
        for version in (*frozen, champion):
            evaluator.load(ModelVersion(version))
    assert loaded == [*frozen, 9, 10]
