"""Optimisers without torch's compiler: the same numbers, and no import of it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from trainer import optimisers

STEPS = """
import sys
import games, torch
from trainer.export import serving_module, script
from trainer.network import new_network
from trainer.optimisation import make_optimizer
from zerofleet.presets import NetworkSettings, TrainSettings

game = games.make("tic_tac_toe")
for kind in ("adamw", "sgd"):
    network = new_network(game.spec(), NetworkSettings(blocks=1, channels=8), seed=1)
    optimizer = make_optimizer(network, TrainSettings(optimizer=kind))
    optimizer.zero_grad(set_to_none=True)
    logits, value, _ = network(torch.zeros(4, *game.spec().planes))
    (logits.sum() + value.sum()).backward()
    optimizer.step()
script(serving_module(network, game.spec()))
print("torch._dynamo" in sys.modules, optimizer.state_dict()["param_groups"][0]["momentum"])
"""


def trained(kind: type[torch.optim.Optimizer], **options: Any) -> tuple[list[torch.Tensor], str]:
    """Return weights after some steps, and the optimiser's state as text."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 4)
    optimizer = kind([{"params": [layer.weight], "weight_decay": 0.1}, {"params": [layer.bias]}], **options)
    for _ in range(5):
        optimizer.zero_grad()
        layer(torch.randn(7, 3)).square().mean().backward()
        optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
    return list(layer.parameters()), repr(optimizer.state_dict())


@pytest.mark.parametrize(
    ("name", "options"),
    [("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}), ("AdamW", {"lr": 0.01, "fused": True})],
)
def test_weights_and_state_are_those_of_torch(name: str, options: dict[str, Any]) -> None:
    ours, own_state = trained(getattr(optimisers, name), **options)
    theirs, state = trained(getattr(torch.optim, name), **options)
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    assert own_state == state


def test_steps_and_exports_do_not_import_the_compiler_of_torch() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", STEPS], capture_output=True, text=True, check=True)
    assert done.stdout == "False 0.9\n"
