"""Models of any learner in this process: evaluated as they are served, and stored beside the checkpoints of a stage.

networks/<stage>/models/<game>/1/...      the version of a finished stage, in a model store
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from games.core import Game
from laboratory.divergence import require_finite
from trainer.export import Lineage, Served, export_served
from zerofleet.contracts.model_checks import MODEL_FILE
from zerofleet.contracts.naming import model_name
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.evaluators.in_process.perceptrons import BitPerceptron
from zerofleet.storage.model_store import ModelStore
from zerofleet.storage.model_store.directory import DirectoryStore

__all__ = ["MODELS", "ModelEvaluator", "keep_version", "newest_version", "publish_once", "stored_model"]

MODELS = "models"
"""Directory of the model store in the folder of a stage."""


class ModelEvaluator:
    """Evaluator of one model under every version, in the calling thread. See `zerofleet.evaluators.base.Evaluator`."""

    def __init__(self, module: torch.nn.Module) -> None:
        """`module`: a served model (`trainer.export.Served`), which is not trained meanwhile."""
        self._module = module.eval()

    def __call__(self, batch: LeafBatch, version: ModelVersion) -> Evaluation:
        """See `PerceptronSource.__call__`. Raises `Diverged` for values that are not finite."""
        with torch.inference_mode():
            states, legal = (torch.from_numpy(np.ascontiguousarray(part)) for part in (batch.states, batch.legal))
            policy, value, *extra_heads = (output.numpy() for output in self._module(states, legal))
        require_finite("evaluations", value, policy)
        return Evaluation(policy, value, version, tuple(extra_heads[: batch.extra_heads]))

    def perceptron(self, version: ModelVersion) -> BitPerceptron | None:
        """See `PerceptronSource.perceptron`: every model is evaluated by torch here."""
        del version
        return None

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. Cancellation: no effect."""
        return self(batch, version)


def publish_once(served: Served, game: Game, folder: Path, *, steps: int, games: int) -> None:
    """Store a model in the folder of its stage, unless the folder has one. Raises as `export_served` does."""
    if not newest_version(game, folder):
        export_served(_store(folder), game, served, lineage=Lineage(0, steps, games))


def keep_version(store: ModelStore, game: Game, version: int, folder: Path) -> None:
    """Store a version of another store in the folder of a stage, unless the folder has one. Raises as `ModelStore.publish`."""
    if newest_version(game, folder):
        return
    model = model_name(game)
    manifest, home = store.manifest(model, version), store.directory(model, version)
    files: dict[str, bytes | Path] = {name: home / name for name in manifest.files}
    _store(folder).publish(model, files, manifest, config=store.config(model))


def newest_version(game: Game, folder: Path) -> int:
    """Return the version stored in the folder of a stage, 0 without one."""
    return max(_store(folder).versions(model_name(game)), default=0) if (folder / MODELS).exists() else 0


def stored_model(game: Game, folder: Path) -> ModelEvaluator | None:
    """Return the evaluator of the model of a stage, None without one.

    Raises `CorruptModel`; `VersionSkew` for a model of another encoding.
    """
    version, store = newest_version(game, folder), _store(folder)
    if not version:
        return None
    store.verify(model_name(game), version, game=game)
    path = store.directory(model_name(game), version) / MODEL_FILE
    return ModelEvaluator(torch.jit.load(str(path)))  # type: ignore[no-untyped-call]


def _store(folder: Path) -> DirectoryStore:
    return DirectoryStore(folder / MODELS)
