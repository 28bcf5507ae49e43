"""Backends of a GPU on the stand-in, and a stored version for them."""

from __future__ import annotations

import torch
from stand_in import StandIn

from inference_server.backend import TorchBackend
from inference_server.gpu.backend import CudaBackend
from trainer.export import Lineage, export_network
from trainer.network import new_network
from zerofleet.presets import NetworkSettings
from zerofleet.storage.model_store import DirectoryStore

SMALL = NetworkSettings(blocks=2, channels=10, policy_channels=3, value_channels=2, value_hidden=6)
MAX_BATCH = 48


def exported_network(root, game, settings):
    """Return path and manifest of a version whose norms are those of no new network."""
    store = DirectoryStore(root)
    network = new_network(game.spec(), settings, seed=3)
    generator = torch.Generator().manual_seed(1)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            for values, low, high in ((module.weight, 0.5, 1.5), (module.running_var, 0.5, 1.5), (module.bias, -0.3, 0.3)):
                values.data.copy_(torch.empty_like(values.data).uniform_(low, high, generator=generator))
            module.running_mean.copy_(torch.empty_like(module.running_mean).uniform_(-0.3, 0.3, generator=generator))
    version = export_network(store, game, network, settings, lineage=Lineage())
    model = store.models()[0]
    return store.directory(model, version) / "model.pt", store.verify(model, version)


def towers(device: StandIn, precision: torch.dtype = torch.float32) -> CudaBackend:
    return CudaBackend(device, precision, slots=2)


def scripts(device: StandIn, precision: str = "float32") -> TorchBackend:
    return TorchBackend("cpu", precision, accelerator=device)


def either(kind: str, device: StandIn):
    return towers(device) if kind == "graphs" else scripts(device)
