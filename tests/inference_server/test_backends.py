"""The contract of a backend, for TorchScript, the compiled kernel, the choice between them, the fake, and both of the GPU on a
stand-in for its streams; and that choice."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import structlog
import torch
from fake_network import FakeLoader
from safetensors.numpy import load_file, save_file
from stand_in import StandIn

from inference_server import chosen_backend, device
from inference_server.backend import TorchBackend
from inference_server.chosen_backend import ChosenBackend, open_backend
from inference_server.gpu.backend import CudaBackend
from inference_server.late_backend import LateTorchBackend
from inference_server.native_backend import NativeBackend
from inference_server.network import Backend
from trainer.export import Lineage, export_network
from trainer.network import new_network
from zerofleet.contracts.encodings import sample_positions
from zerofleet.errors import ConfigurationError, CorruptModel, Unavailable
from zerofleet.evaluators.native import Unsupported, library
from zerofleet.presets import NetworkSettings
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.telemetry import metrics

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
    """Fail where the kernel is not built; `make venv` builds it on every machine."""
    found = library.find()
    assert found.library is not None, f"the native kernel is missing: {found.reason}"


@pytest.fixture(params=["torchscript", "native", "auto", "fake", "torchscript in slots", "graphs"])
def backend(request) -> Backend:
    if request.param == "fake":
        return FakeLoader()
    if request.param == "torchscript in slots":
        return TorchBackend("cpu", "float32", accelerator=StandIn())
    if request.param == "graphs":
        return CudaBackend(StandIn(), torch.float32, slots=2)
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
    assert network.backend.split("_")[0] in ("torchscript", "native", "fake", "cuda")
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
    np.testing.assert_allclose(answers[0][1], answers[1][1], atol=1e-4)


def test_float32_as_a_setting_selects_an_instruction_set_in_float32_and_auto_the_best(exported):
    require_kernel()
    best = library.find().instructions[0]
    exact = open_backend("cpu", "float32", choice="native").load(*exported[0], max_batch=1)
    assert exact.precision == "float32"
    network = open_backend("cpu", choice="native").load(*exported[0], max_batch=1)
    assert (network.backend, network.precision) == (f"native_{best.name}", best.precision)


@pytest.mark.parametrize("names", [("amx", "avx512", "avx2"), ("avx512", "avx2"), ("avx2",)])
def test_the_kernel_is_the_default_with_every_set_but_portable_vectors(monkeypatch, names):
    require_kernel()
    sets = {"amx": (16, 32), "avx512": (16, 0), "avx2": (8, 0), "portable": (4, 0)}
    known = [library.Instructions(number, name, *sizes) for number, (name, sizes) in enumerate(sets.items())]
    found = dataclasses.replace(library.find(), instructions=tuple(each for each in known if each.name in (*names, "portable")))
    monkeypatch.setattr(chosen_backend.library, "find", lambda: found)
    assert isinstance(open_backend("cpu"), ChosenBackend)
    alone = dataclasses.replace(found, instructions=found.instructions[-1:])
    monkeypatch.setattr(chosen_backend.library, "find", lambda: alone)
    with structlog.testing.capture_logs() as logged:
        assert isinstance(open_backend("cpu"), TorchBackend)
    assert logged[-1]["reason"] == "this processor has neither AVX2 nor AVX-512"
    assert isinstance(open_backend("cpu", choice="native"), NativeBackend)


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


LOADS = """
import sys
from pathlib import Path
from inference_server.chosen_backend import ChosenBackend
from inference_server.late_backend import LateTorchBackend
from inference_server.native_backend import NativeBackend
from zerofleet.service import logs
from zerofleet.storage.model_store import DirectoryStore

logs.configure("error", "json", "test")
backend, store, model = ChosenBackend(NativeBackend(), LateTorchBackend()), DirectoryStore(Path(sys.argv[1])), "tic_tac_toe"
for version in (1, 2):
    manifest = store.verify(model, version)
    network = backend.load(store.directory(model, version) / "model.pt", manifest, max_batch=16)
    states, legal, *_ = manifest.golden.arrays()
    rows = len(network.evaluate([states], [legal])[0])
    print(network.backend.split("_")[0], rows == len(states), "torch" in sys.modules)
"""


def test_torch_is_imported_with_the_first_version_that_the_kernel_lacks_and_not_before(exported):
    require_kernel()
    root = exported[0][0].parents[2]
    child = subprocess.run([sys.executable, "-c", LOADS, str(root)], capture_output=True, text=True, check=True)
    assert child.stdout.splitlines() == ["native True False", "torchscript True True"]


def test_torch_that_cannot_be_imported_is_no_fault_of_the_version(exported, monkeypatch):
    def fail(*_: object) -> None:
        raise ImportError("libtorch_cpu.so: cannot open shared object file")

    monkeypatch.setattr("inference_server.late_backend.open_torch", fail)
    with pytest.raises(
        Unavailable, match=r"version 2 needs torch, which cannot be imported \(libtorch_cpu.so.*zerofleet doctor"
    ):
        LateTorchBackend().load(*exported[1], max_batch=1)


@pytest.fixture
def asked(monkeypatch) -> list[tuple[str, str]]:
    """Device and precision with which torch was opened: a fake, with a GPU for `cuda:0` alone."""
    opened = []

    class Opened(FakeLoader):
        def __init__(self, name: str, precision: str, threads: int, *, slots: int = 0) -> None:
            super().__init__()
            self.on_gpu = name == "cuda:0"
            self.device = name
            opened.append((name, precision))

    monkeypatch.setattr(chosen_backend, "open_torch", Opened)
    monkeypatch.setattr(chosen_backend, "open_cuda", lambda opened: opened)
    monkeypatch.setattr(chosen_backend, "_BY_DEFAULT", tuple(known.name for known in library.find().instructions))
    return opened


@pytest.mark.parametrize(
    ("setting", "driver", "choice", "opened"),
    [
        ("cpu", True, "auto", []),
        ("auto", False, "auto", []),
        ("auto", False, "native", []),
        ("auto", True, "auto", [("auto", "auto")]),
        ("cuda:0", False, "auto", [("cuda:0", "auto")]),
        ("cpu", True, "torchscript", [("cpu", "auto")]),
        ("auto", False, "torchscript", [("cpu", "auto")]),
    ],
)
def test_torch_is_opened_at_the_start_where_it_decides_on_a_gpu_or_evaluates_all(
    asked, monkeypatch, setting, driver, choice, opened
):
    require_kernel()
    monkeypatch.setattr(device, "has_gpu_driver", lambda: driver)
    open_backend(setting, choice=choice)
    assert asked == opened


@pytest.mark.parametrize(("setting", "used"), [("cpu", "cpu"), ("auto", "cpu"), ("cuda:0", "cuda:0")])
def test_the_metric_of_the_device_has_the_one_in_use(asked, monkeypatch, setting, used):
    monkeypatch.setattr(device, "has_gpu_driver", lambda: False)
    metrics.INFERENCE_DEVICE.clear()
    open_backend(setting)
    assert [sample.labels for sample in metrics.INFERENCE_DEVICE.collect()[0].samples] == [{"device": used}]


def test_a_precision_that_the_cpu_lacks_is_refused_before_torch_is_opened(asked):
    with pytest.raises(ConfigurationError, match="float16 needs a GPU"):
        open_backend("cpu", "float16")
    assert not asked


def test_a_gpu_driver_is_found_by_its_library_or_its_device_file(monkeypatch, tmp_path):
    monkeypatch.setattr(device, "_NVIDIA_DRIVER", "libabsent.so.1")
    monkeypatch.setattr(device, "_AMD_DRIVER", tmp_path / "kfd")
    assert not device.has_gpu_driver()
    (tmp_path / "kfd").touch()
    assert device.has_gpu_driver()
    monkeypatch.setattr(device, "_NVIDIA_DRIVER", None)  # the process itself, as a library that is there
    monkeypatch.setattr(device, "_AMD_DRIVER", Path("/absent"))
    assert device.has_gpu_driver()
