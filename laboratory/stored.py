"""Networks of finished stages: a model of any learner, or the checkpoint of TD(lambda) or SARSA(lambda)."""

from __future__ import annotations

import json
from pathlib import Path

from games.core import Game
from laboratory.evaluation import MemoryEvaluator, Network
from laboratory.meetings import Side
from laboratory.models import stored_model
from laboratory.sarsa import stored_values
from laboratory.td import stored_network
from trainer.checkpoint_files import COUNTS
from zerofleet.errors import ModelNotFound

__all__ = ["stored_side"]


def stored_side(game: Game, networks: Path, stage: str) -> Side:
    """Return the side of the network that a stage trained.

    Args:
        game: The game as that network reads it.
        networks: Folder with the folders of the stages.
        stage: Identifier of the stage.

    Raises `ModelNotFound` without a network, `CorruptModel`.
    """
    home = networks / stage
    model = stored_model(game, home)
    if model is not None:
        return Side(game, model)
    found = _network(game, home)
    if found is None:
        raise ModelNotFound(f"stage {stage} has no network in {networks.parent}; run it first")
    return Side(game, MemoryEvaluator(found))


def _network(game: Game, home: Path) -> Network | None:
    """Return the network of the newest checkpoint; its learner is a key of its JSON part."""
    counts = sorted(home.glob(f"*/{COUNTS}"))
    if not counts:
        return None
    is_sarsa = "sarsa_lambda" in json.loads(counts[-1].read_text("utf-8"))
    return stored_values(home) if is_sarsa else stored_network(game, home)
