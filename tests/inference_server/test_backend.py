"""The real thing: exported networks on the CPU through torch."""

from __future__ import annotations

import dataclasses
import gc
import warnings
import weakref
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import inference_server.answers
import inference_server.backend
from inference_server.backend import TorchBackend
from inference_server.registry import Registry
from inference_server.settings import ServerSettings
from trainer.export import Lineage, export_network
from trainer.network import new_network
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.manifests import Golden
from zerofleet.errors import ConfigurationError, CorruptModel, Unavailable, VersionSkew
from zerofleet.presets import NetworkSettings

SMALL = NetworkSettings(blocks=1, channels=8, policy_channels=2, value_channels=2, value_hidden=8)


@pytest.fixture
def exported(store, game):
    """Path and manifest of a freshly exported network."""
    version = export_network(store, game, new_network(game.spec(), SMALL, seed=3), SMALL, lineage=Lineage())
    return store.directory("tic_tac_toe", version) / "model.pt", store.verify("tic_tac_toe", version)


@pytest.fixture(scope="module")
def backend() -> TorchBackend:
    return TorchBackend("cpu", "float32", threads=1)


def test_a_loaded_version_reproduces_the_output_of_its_exporter(backend, exported):
    path, manifest = exported
    module = backend.load(path, manifest, max_batch=16)
    states, legal, want_policy, want_value = manifest.golden.arrays()
    policy, value = module.evaluate([states], [legal])
    assert (policy.dtype, value.dtype) == (np.float16, np.float32)
    np.testing.assert_allclose(policy, want_policy, atol=1e-3)
    np.testing.assert_allclose(value, want_value, atol=1e-5)


@pytest.fixture
def as_before():
    """Leave torch's number of threads as it was."""
    number = torch.get_num_threads()
    yield
    torch.set_num_threads(number)


@pytest.mark.usefixtures("as_before")
def test_a_network_is_evaluated_with_the_threads_of_the_settings_on_any_thread(exported):
    def evaluated():
        network.evaluate([states], [legal])
        return torch.get_num_threads()

    network = TorchBackend("cpu", "float32", threads=3).load(*exported, max_batch=16)
    states, legal, *_ = exported[1].golden.arrays()
    torch.set_num_threads(1)  # a new thread begins with this number
    with ThreadPoolExecutor(1) as device_thread:
        assert device_thread.submit(evaluated).result() == 3


@pytest.fixture
def no_collections():
    """Garbage stays where it is, as it does for long in a server whose old objects are frozen."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
def test_a_dropped_version_is_freed_without_a_garbage_collection(backend, exported):
    module = backend.load(*exported, max_batch=16)
    dropped = weakref.ref(module)
    del module
    assert dropped() is None


@pytest.mark.usefixtures("no_collections")
async def test_a_version_that_is_no_longer_served_is_freed_at_once(backend, store, game):
    first, second = (
        export_network(store, game, new_network(game.spec(), SMALL, seed=seed), SMALL, lineage=Lineage()) for seed in (3, 4)
    )
    registry = Registry(store, backend, max_batch=16, max_versions=2)
    await registry.serve("tic_tac_toe", [first])
    retired = weakref.ref(registry.resolve("tic_tac_toe", first).network)
    await registry.serve("tic_tac_toe", [second])
    assert retired() is None
    registry.close()


@pytest.fixture
def with_heads(store, game):
    """Path and manifest of a network with both extra heads."""
    settings = SMALL.model_copy(update={"heads": ("opponents", "plies_left")})
    version = export_network(store, game, new_network(game.spec(), settings, seed=3), settings, lineage=Lineage())
    return store.directory("tic_tac_toe", version) / "model.pt", store.verify("tic_tac_toe", version)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_extra_heads_return_the_rows_of_each_request(with_heads, game, precision):
    module = TorchBackend("cpu", precision, threads=1).load(*with_heads, max_batch=64)
    states, legal = sample_positions(game, games=10, seed=11)
    together = module.evaluate([states[:5], states[5:]], [legal[:5], legal[5:]])
    assert [(head.dtype, head.shape[1]) for head in together[2:]] == [(np.float16, 9), (np.float32, 1)]
    tolerance = 1e-3 if precision == "float32" else 2e-2
    for row in (0, 4, 5, len(states) - 1):
        alone = module.evaluate([states[row : row + 1]], [legal[row : row + 1]])
        for one, all_of_them in zip(alone, together, strict=True):
            np.testing.assert_allclose(one[0], all_of_them[row], atol=tolerance)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("changes", [{"global_pooling": 3}, {"squeeze": 4}, {"global_pooling": 3, "squeeze": 4}], ids=str)
def test_networks_with_pooling_or_squeeze_are_served_with_their_norms_folded(store, game, changes, precision):
    settings = SMALL.model_copy(update=changes)
    network = new_network(game.spec(), settings, seed=3)
    for block in network.trunk.blocks:
        torch.nn.init.ones_(block.norm2.weight)  # a new block is the identity, which would hide its parts
    version = export_network(store, game, network, settings, lineage=Lineage())
    manifest = store.verify("tic_tac_toe", version)
    module = TorchBackend("cpu", precision, threads=1).load(
        store.directory("tic_tac_toe", version) / "model.pt", manifest, max_batch=64
    )
    states, legal, policy, value = manifest.golden.arrays()
    got = module.evaluate([states], [legal])
    tolerance = 1e-3 if precision == "float32" else 3e-2
    np.testing.assert_allclose(got[0], policy, atol=tolerance)
    np.testing.assert_allclose(got[1], value, atol=tolerance)
    graph = str(module._script.graph)
    assert "conv" in graph
    assert "batch_norm" not in graph
    assert "to_mkldnn" not in graph  # each pooling would convert the layout and back


def test_a_network_that_lacks_a_head_of_its_manifest_is_refused(backend, exported, with_heads):
    with pytest.raises(CorruptModel, match="has 2 extra heads in its manifest, 2 in its golden positions and returns 0"):
        backend.load(exported[0], with_heads[1], max_batch=1)
    swapped = dataclasses.replace(with_heads[1], heads=("policy", "value", "plies_left", "opponents"))
    with pytest.raises(CorruptModel, match="returns head__2 as float16"):
        backend.load(with_heads[0], swapped, max_batch=1)


def test_an_evaluation_does_not_depend_on_the_rest_of_its_batch(backend, exported, game):
    module = backend.load(*exported, max_batch=64)
    states, legal = sample_positions(game, games=10, seed=11)
    together = module.evaluate([states[:5], states[5:6], states[6:]], [legal[:5], legal[5:6], legal[6:]])
    for row in range(len(states)):
        policy, value = module.evaluate([states[row : row + 1]], [legal[row : row + 1]])
        np.testing.assert_allclose(policy[0], together[0][row], atol=1e-3)
        np.testing.assert_allclose(value[0], together[1][row], atol=1e-5)


def test_read_only_arrays_of_a_request_are_evaluated_without_a_warning(backend, exported):
    module = backend.load(*exported, max_batch=1)
    states, legal, _, _ = exported[1].golden.arrays()
    read_only = np.frombuffer(states.tobytes(), np.uint8).reshape(states.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.evaluate([read_only], [np.frombuffer(legal.tobytes(), "<i2").reshape(legal.shape)])


def test_output_in_reduced_precision_stays_near_the_exact_one(exported):
    backend = TorchBackend("cpu", "bfloat16", threads=1)
    module = backend.load(*exported, max_batch=1)
    states, legal, want_policy, want_value = exported[1].golden.arrays()
    policy, value = module.evaluate([states], [legal])
    np.testing.assert_allclose(policy, want_policy, atol=5e-3)
    np.testing.assert_allclose(value, want_value, atol=2e-2)


@pytest.fixture
def distorted(monkeypatch):
    """No answer in reduced precision is good enough at first sight."""
    strict = inference_server.answers.check_golden

    def check(manifest, policy, value, heads):
        if np.abs(value - manifest.golden.arrays()[3]).max() > 1e-6:
            raise CorruptModel("it is off")
        strict(manifest, policy, value, heads)

    monkeypatch.setattr("inference_server.answers.check_golden", check)


def test_a_version_with_small_errors_in_reduced_precision_is_served_in_it(exported, distorted):
    path, manifest = exported
    states, legal, _, want_value = manifest.golden.arrays()
    module = TorchBackend("cpu", "bfloat16", threads=1).load(path, manifest, max_batch=1)
    off = np.abs(module.evaluate([states], [legal])[1] - want_value).max()
    assert 1e-6 < off < 2e-2


def test_a_version_distorted_by_reduced_precision_is_served_in_full_precision(exported, distorted, monkeypatch):
    path, manifest = exported
    monkeypatch.setattr("inference_server.answers.REDUCED_VALUE_TOLERANCE", 1e-6)
    states, legal, _, want_value = manifest.golden.arrays()
    module = TorchBackend("cpu", "bfloat16", threads=1).load(path, manifest, max_batch=1)
    np.testing.assert_allclose(module.evaluate([states], [legal])[1], want_value, atol=1e-6)


def test_weights_that_are_not_finite_are_refused(backend, exported, tmp_path):
    path, manifest = exported
    module = torch.jit.load(path)
    with torch.no_grad():
        next(module.parameters())[0] = float("nan")
    torch.jit.save(module, tmp_path / "nan.pt")
    with pytest.raises(CorruptModel, match="is not finite"):
        backend.load(tmp_path / "nan.pt", manifest, max_batch=1)


def test_another_network_under_the_same_manifest_is_refused(backend, exported, store, game):
    other = export_network(store, game, new_network(game.spec(), SMALL, seed=4), SMALL, lineage=Lineage())
    with pytest.raises(CorruptModel, match="golden positions with"):
        backend.load(store.directory("tic_tac_toe", other) / "model.pt", exported[1], max_batch=1)


def test_a_network_of_other_sizes_is_refused(backend, exported):
    path, manifest = exported
    golden = manifest.golden
    states, legal, policy, value = golden.arrays()
    wider = Golden.of(np.pad(states, ((0, 0), (0, 9))), legal + np.where(legal >= 0, 40, 0).astype(np.int16), policy, value)
    with pytest.raises(CorruptModel, match="version 1 cannot be run"):
        backend.load(path, dataclasses.replace(manifest, golden=wider), max_batch=1)


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, -1])
def test_a_truncated_file_is_refused(backend, exported, tmp_path, keep):
    path, manifest = exported
    content = path.read_bytes()
    (tmp_path / "cut.pt").write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(CorruptModel, match="cannot be run"):
        backend.load(tmp_path / "cut.pt", manifest, max_batch=1)


@pytest.mark.parametrize(
    "failure",
    [
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"),
        RuntimeError("CUDA error: out of memory"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
        RuntimeError("std::bad_alloc"),
        MemoryError(),
        OSError(5, "Input/output error"),
    ],
)
@pytest.mark.parametrize("place", ["load", "warm up"])
def test_a_version_is_not_corrupt_because_memory_or_disk_fail(backend, exported, monkeypatch, failure, place):
    path, manifest = exported
    calls = iter(range(100))

    def fail(*_: object, **__: object) -> None:
        raise failure

    if place == "load":
        monkeypatch.setattr(torch.jit, "load", fail)
    else:
        evaluate = inference_server.backend.TorchNetwork.evaluate
        monkeypatch.setattr(
            inference_server.backend.TorchNetwork,
            "evaluate",
            lambda *given: evaluate(*given) if next(calls) < 2 else fail(),
        )
    with pytest.raises(Unavailable, match=f"version {manifest.version} cannot be loaded now"):
        backend.load(path, manifest, max_batch=1)


def test_a_file_of_a_newer_torch_is_a_version_skew_that_names_both(backend, exported, tmp_path):
    path, manifest = exported
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "newer.pt", "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            new.writestr(entry, b"999\n" if entry.filename.endswith("/version") else content)
    with pytest.raises(VersionSkew, match=r"version 999.*supported version for reading is \d+"):
        backend.load(tmp_path / "newer.pt", manifest, max_batch=1)


def test_an_unavailable_device_or_precision_is_named_in_the_error():
    if not torch.cuda.is_available():
        with pytest.raises(ConfigurationError, match="torch finds no GPU; use device=cpu"):
            TorchBackend("cuda:0")
    with pytest.raises(ConfigurationError, match="float16 needs a GPU"):
        TorchBackend("cpu", "float16")


def test_the_server_listens_in_the_run_directory_by_default(tmp_path):
    settings = ServerSettings(run_dir=tmp_path)
    assert settings.address == f"unix:{tmp_path}/sockets/inference.sock"
    assert settings.model_store == tmp_path / "models"
    assert ServerSettings(run_dir=tmp_path, address="0.0.0.0:8001").address == "0.0.0.0:8001"
