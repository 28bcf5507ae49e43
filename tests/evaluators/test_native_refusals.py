"""Networks that the compiled kernel does not support, damaged weights, and rows of another game."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from random_networks import ROWS, SMALL, positions, stored
from safetensors.torch import save_file

from zerofleet.errors import CorruptModel
from zerofleet.evaluators.native import Unsupported, load_native

pytestmark = pytest.mark.usefixtures("built")


@pytest.mark.parametrize(
    ("network", "part"),
    [
        ({"global_pooling": 3}, "network.global_pooling"),
        ({"squeeze": 4}, "network.squeeze"),
        ({"dense": (16,)}, "dense layers"),
        ({"policy_activation": "sigmoid_norm"}, "policy_activation=sigmoid_norm"),
        ({"policy_head": "none"}, "without policy or value"),
        ({"kind": "convolutional", "convolutions": ("same",)}, "network.kind=convolutional"),
    ],
    ids=str,
)
def test_a_network_with_another_part_is_named_as_not_supported(tmp_path, network, part):
    spec, manifest, path, _ = stored(tmp_path, "tic_tac_toe", **network)
    with pytest.raises(Unsupported, match=f"not supported: .*{part}"):
        load_native(path, manifest, spec)


@pytest.mark.parametrize(
    ("network", "part"),
    [
        ({"positions": 19683}, "a network without blocks, channels, policy_channels, value_channels, value_hidden"),
        ({"blocks": 1, "channels": 24}, "a network without policy_channels, value_channels, value_hidden"),
        ({**SMALL, "channels": (8, 16)}, "a network without channels"),
    ],
    ids=str,
)
def test_a_network_of_another_description_is_not_supported(tmp_path, network, part):
    spec, manifest, path, _ = stored(tmp_path, "tic_tac_toe")
    with pytest.raises(Unsupported, match=f"not supported: {part} in its manifest"):
        load_native(path, dataclasses.replace(manifest, network=network), spec)


def test_weights_of_another_architecture_are_not_supported(tmp_path):
    spec, manifest, path, _ = stored(tmp_path, "tic_tac_toe")
    save_file({"table": torch.zeros(9)}, path)
    with pytest.raises(Unsupported, match=r"not supported: weights without a tower \(trunk.stem\)"):
        load_native(path, manifest, spec)


def test_weights_that_do_not_fit_the_manifest_are_corrupt(tmp_path):
    spec, manifest, path, _ = stored(tmp_path, "tic_tac_toe")
    wider = dataclasses.replace(manifest, network={**manifest.network, "channels": 32})
    with pytest.raises(CorruptModel, match=r"trunk.stem_norm.weight are of shape \[24\], want \[32\]"):
        load_native(path, wider, spec)


def test_rows_of_another_game_are_refused_before_the_kernel_reads_them(tmp_path):
    spec, manifest, path, _ = stored(tmp_path, "tic_tac_toe")
    states, legal = positions(spec)
    network = load_native(path, manifest, spec)
    with pytest.raises(ValueError, match="want 3 numbers each"):
        network.evaluate([states[:, :2]], [legal])
    with pytest.raises(ValueError, match=f"got {ROWS} rows of states and {ROWS - 1} of legal actions"):
        network.evaluate([states], [legal[1:]])
    with pytest.raises(ValueError, match="got action 9, want 0 to 8"):
        network.evaluate([states], [np.where(legal == 8, 9, legal)])
