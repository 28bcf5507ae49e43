"""Network of random weights, loaded as the inference server loads a stored version: it costs as much as a trained one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from games.core import Game
from inference_server.chosen_backend import open_backend
from inference_server.network import Network
from inference_server.settings import BackendChoice, Precision
from trainer.export import Lineage, export_network
from trainer.network import new_network
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.model_checks import MODEL_FILE
from zerofleet.contracts.naming import model_name
from zerofleet.presets import NetworkSettings
from zerofleet.storage.model_store import DirectoryStore

__all__ = ["random_network", "random_version"]


@contextmanager
def random_version(game: Game, *, blocks: int, channels: int) -> Iterator[tuple[Path, Manifest]]:
    """Yield TorchScript and manifest of a stored residual network; its files are removed at the end."""
    settings = NetworkSettings(blocks=blocks, channels=channels)
    with tempfile.TemporaryDirectory() as folder:
        store = DirectoryStore(Path(folder))
        version = export_network(store, game, new_network(game.spec(), settings, seed=0), settings, lineage=Lineage())
        model = model_name(game)
        yield store.directory(model, version) / MODEL_FILE, store.verify(model, version)


@contextmanager
def random_network(
    game: Game,
    *,
    blocks: int,
    channels: int,
    device: str,
    max_batch: int,
    precision: Precision = "auto",
    backend: BackendChoice = "auto",
) -> Iterator[Network]:
    """Yield a residual network on a device, warmed up to `max_batch`; its files are removed at the end."""
    with random_version(game, blocks=blocks, channels=channels) as (path, manifest):
        yield open_backend(device, precision, choice=backend).load(path, manifest, max_batch=max_batch)
