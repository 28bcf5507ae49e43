"""The contract of a backend, for TorchScript, the compiled kernel, the choice between them and the fake; and that choice."""

from __future__ import annotations

import dataclasses
import os
import shutil

import numpy as np
import pytest
import structlog
from fake_network import FakeLoader
from safetensors.numpy import load_file, save_file

from inference_server import chosen_backend
from inference_server.backend import TorchBackend
from inference_server.chosen_backend import ChosenBackend, open_backend
from inference_server.native_backend import NativeBackend
from inference_server.network import Backend
from trainer.export import Lineage, export_network
from trainer.network import new_network
from zerofleet.contracts.encodings import sample_positions
from zerofleet.errors import ConfigurationError, CorruptModel
from zerofleet.evaluators.native import Unsupported, library
from zerofleet.presets import NetworkSettings
from zerofleet.storage.model_store import DirectoryStore

SMALL = NetworkSettings(blocks=1, channels=8, policy_channels=2, value_channels=2, value_hidden=8)
MODEL = "tic_tac_toe"


@pytest.fixture(scope="module")
def exported(tmp_path_factory, game):
    """Path and manifest of a network that every backend supports, and of one with pooling."""
    store = DirectoryStore(tmp_path_factory.mktemp("backends"))
    found = []
    for settings in (SMALL, SMALL.model_copy(update={"global_pooling": 3})):
        version = export_network(store, game, new_network(game.spec(), settings, seed=3), settings, lineage=Lineage())
        found.append((store.directory(MODEL, version) / "model.pt", store.verify(MODEL, version)))
    return found


def require_kernel() -> None:
    """Leave a test out by name on a machine without a C compiler; CI has one."""
    if (found := library.find()).library is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"the native kernel is missing: {found.reason}")


@pytest.fixture(params=["torchscript", "native", "auto", "fake"])
def backend(request) -> Backend:
    if request.param == "fake":
        return FakeLoader()
    if request.param != "torchscript":
        require_kernel()
    return open_backend("cpu", "float32", choice=request.param)


def test_each_row_of_each_request_has_its_own_answer(backend, exported, game):
    network = backend.load(*exported[0], max_batch=16)
    states, legal = sample_positions(game, games=10, seed=11)
    spans = [slice(0, 5), slice(5, 6), slice(6, None)]
    together = network.evaluate([states[span] for span in spans], [legal[span] for span in spans])
    assert [answer.dtype for answer in together] == [np.float16, np.float32]
    assert [answer.shape for answer in together] == [legal.shape, (len(states), 2)]
    for row in (0, 4, 5, len(states) - 1):
        alone = network.evaluate([states[row : row + 1]], [legal[row : row + 1]])
        for one, every in zip(alone, together, strict=True):
            np.testing.assert_allclose(one[0], every[row], atol=1e-3)


def test_a_network_names_its_backend_and_number_format(backend, exported):
    network = backend.load(*exported[0], max_batch=1)
    assert network.backend.split("_")[0] in ("torchscript", "native", "fake")
    assert network.precision == "float32"


def test_read_only_arrays_of_a_request_are_evaluated(backend, exported):
    network = backend.load(*exported[0], max_batch=1)
    states, legal, *_ = exported[0][1].golden.arrays()
    assert not states.flags.writeable
    assert len(network.evaluate([states], [legal])[0]) == len(states)


def test_the_kernel_and_torchscript_agree_on_the_golden_positions(exported):
    require_kernel()
    states, legal, *_ = exported[0][1].golden.arrays()
    answers = [
        each.load(*exported[0], max_batch=1).evaluate([states], [legal]) for each in (NativeBackend(), TorchBackend("cpu"))
    ]
    np.testing.assert_allclose(answers[0][0], answers[1][0], atol=5e-4)
    np.testing.assert_allclose(answers[0][1], answers[1][1], atol=1e-5)


def test_a_network_that_the_kernel_lacks_runs_in_torchscript_and_the_log_states_why(exported):
    require_kernel()
    backend = open_backend("cpu", "float32")
    with structlog.testing.capture_logs() as logged:
        network = backend.load(*exported[1], max_batch=1)
    assert network.backend == "torchscript"
    refused = [line["reason"] for line in logged if line["event"] == "model.backend_refused"]
    assert refused == ["not supported: network.global_pooling"]
    with pytest.raises(Unsupported, match="global_pooling"):
        open_backend("cpu", "float32", choice="native").load(*exported[1], max_batch=1)


def test_weights_of_another_network_than_the_golden_one_are_not_evaluated_by_the_kernel(exported):
    require_kernel()
    path, manifest = exported[0]
    golden = manifest.golden
    states, legal, policy, value = golden.arrays()
    other = dataclasses.replace(manifest, golden=type(golden).of(states, legal, policy, -0.5 - 0.5 * np.abs(value)))
    with pytest.raises(CorruptModel, match="golden positions"):
        NativeBackend().load(path, other, max_batch=1)
    with pytest.raises(CorruptModel, match="golden positions"):
        ChosenBackend(NativeBackend(), TorchBackend("cpu")).load(path, other, max_batch=1)


def test_a_version_that_the_kernel_alone_answers_wrongly_runs_in_torchscript(exported, tmp_path):
    require_kernel()
    path, manifest = exported[0]
    shutil.copytree(path.parent, tmp_path / "1")
    weights = tmp_path / "1" / "weights.safetensors"
    tensors = load_file(weights)
    tensors["value.out.bias"] = tensors["value.out.bias"] + np.float32(1.0)
    save_file(tensors, weights)
    with structlog.testing.capture_logs() as logged:
        network = open_backend("cpu", "float32").load(tmp_path / "1" / path.name, manifest, max_batch=1)
    assert network.backend == "torchscript"
    (refused,) = [line for line in logged if line["event"] == "model.backend_refused"]
    assert refused["log_level"] == "warning"
    assert "golden positions with value off by" in refused["reason"]


def test_the_setting_forces_a_backend(exported):
    require_kernel()
    assert open_backend("cpu", choice="torchscript").load(*exported[0], max_batch=1).backend == "torchscript"
    assert open_backend("cpu", choice="native").load(*exported[0], max_batch=1).backend.startswith("native_")


def test_bfloat16_runs_in_torchscript_and_cannot_be_forced_upon_the_kernel():
    assert isinstance(open_backend("cpu", "bfloat16"), TorchBackend)
    with pytest.raises(ConfigurationError, match="not supported: precision=bfloat16; use backend=auto"):
        open_backend("cpu", "bfloat16", choice="native")


def test_without_the_library_networks_run_in_torchscript_and_the_log_states_why(monkeypatch, tmp_path):
    absent = library.find(tmp_path / "absent.so")
    monkeypatch.setattr(chosen_backend.library, "find", lambda: absent)
    with structlog.testing.capture_logs() as logged:
        assert isinstance(open_backend("cpu"), TorchBackend)
    assert "absent.so is not built" in logged[-1]["reason"]
    with pytest.raises(ConfigurationError, match="is not built"):
        open_backend("cpu", choice="native")
