"""Random networks and positions for the tests of the compiled kernel, and the answers of the exported module."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from games.core import make
from trainer.exported_module import serving_module
from trainer.network import new_network
from zerofleet.contracts.manifests import Golden, Manifest
from zerofleet.evaluators.native import library
from zerofleet.presets import NetworkSettings

SMALL = {"blocks": 2, "channels": 24, "policy_channels": 3, "value_channels": 2, "value_hidden": 9}
ROWS = 37


def stored(
    folder: Path,
    game_name: str,
    *,
    game_parameters: dict[str, str] | None = None,
    board: tuple[int, int] | None = None,
    **network: object,
):
    """Return spec, manifest and weights' file of a random network, and its exported module in float64.

    `board`: a size that the game does not have.
    """
    spec = make(game_name, **(game_parameters or {})).spec()
    if board is not None:
        spec = dataclasses.replace(spec, planes=(spec.planes[0], *board))
    settings = NetworkSettings(**{**SMALL, **network})
    trained = new_network(spec, settings, seed=3)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for module in trained.modules():
            if isinstance(module, torch.nn.BatchNorm2d):  # new norms are the identity, which would hide their folding
                for tensor, low, high in (
                    (module.weight, 0.5, 1.2),
                    (module.bias, -0.2, 0.2),
                    (module.running_mean, -0.3, 0.3),
                    (module.running_var, 0.5, 1.5),
                ):
                    tensor.copy_(low + (high - low) * torch.rand(tensor.shape, generator=draw))
            if isinstance(module, torch.nn.Linear):
                module.weight.mul_(4)  # probabilities and values far from equal ones
    served = serving_module(trained, spec)
    heads = ("policy", "value", *served.network.heads)
    empty = np.zeros((1, 1))
    manifest = Manifest(
        model=game_name, game=game_name, parameters={}, rules_version=1, encoder="", planes=spec.planes,
        num_actions=spec.num_actions, max_legal=spec.max_legal, num_players=spec.num_players, parent_version=0, train_steps=0,
        games_seen=0, created_at_ms=0, network=settings.model_dump(), heads=heads, version=1,
        golden=Golden.of(empty, empty, empty, empty),
    )  # fmt: skip
    path = folder / "weights.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in trained.state_dict().items()}, path)
    return spec, manifest, path, served.double()


def positions(spec, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Return random planes, whole ones where the reading has a number of the position, and random legal lists."""
    rng = np.random.default_rng(7)
    planes = rng.random((rows, *spec.planes)) < 0.4
    for row in spec.reading.position if spec.reading is not None else ():
        for plane in np.flatnonzero(row):
            planes[:, plane] = planes[:, plane, :1, :1]
    states = np.packbits(planes.reshape(rows, -1), axis=1, bitorder="little")
    legal = np.full((rows, spec.max_legal), -1, np.int16)
    for listed in legal:
        chosen = rng.choice(spec.num_actions, rng.integers(1, spec.max_legal + 1), replace=False)
        listed[: len(chosen)] = np.sort(chosen)
    return states, legal


def assert_equal_answers(
    got: tuple[np.ndarray, ...], module: torch.nn.Module, states: np.ndarray, legal: np.ndarray, precision: str = "float32"
) -> None:
    with torch.inference_mode():
        policy, value, *extra = (answer.numpy() for answer in module(torch.from_numpy(states), torch.from_numpy(legal)))
    assert policy.astype(float).std() > 0.01
    assert value.std() > 0.01
    np.testing.assert_allclose(got[0], policy, atol=5e-4)
    np.testing.assert_allclose(got[1], value, atol={"float32": 1e-5, "bfloat16x3": 1e-4}[precision])
    assert [answer.dtype for answer in got] == [np.float16, np.float32, *(answer.dtype for answer in extra)]
    for own, wanted in zip(got[2:], extra, strict=True):
        np.testing.assert_allclose(own, wanted, atol=5e-4)


def instruction_sets() -> list[str]:
    return [known.name for known in library.find().instructions] or ["none"]
