"""Networks on a device with streams: the code for CUDA, on a stand-in on the CPU."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import structlog
import torch
from device_backends import MAX_BATCH, SMALL, either, exported_network, scripts, towers
from stand_in import SICK, StandIn

import games
from games.core import make
from inference_server import chosen_backend
from inference_server.backend import TorchBackend, torch_device
from inference_server.chosen_backend import ChosenBackend, open_backend
from inference_server.gpu.backend import CudaBackend
from inference_server.gpu.folding import fold_norms
from inference_server.gpu.ladder import rung_of, rungs
from inference_server.gpu.slots import Slots
from inference_server.late_backend import open_cuda
from inference_server.settings import ServerSettings
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.pacing import Pace, paced
from zerofleet.errors import ConfigurationError, CorruptModel, DeviceLost, Unavailable
from zerofleet.evaluators.native import Unsupported
from zerofleet.presets import preset
from zerofleet.testing import built_in_games


@pytest.fixture(scope="module")
def exported(tmp_path_factory, game):
    return exported_network(tmp_path_factory.mktemp("gpu"), game, SMALL)


@pytest.fixture
def device() -> StandIn:
    return StandIn()


# -- ladder


def test_the_ladder_ends_with_the_largest_batch_and_pads_large_batches_by_a_third_at_most():
    assert rungs(4096) == (8, 32, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
    assert rungs(4) == (4,)
    assert rungs(300) == (8, 32, 128, 256, 300)
    sizes = rungs(5000)
    assert all(rung_of(rows, sizes) - rows <= rung_of(rows, sizes) / 3 for rows in range(257, 5001))
    with pytest.raises(ValueError, match="got a batch of 5001 rows, want at most 5000"):
        rung_of(5001, sizes)


# -- slots, whatever evaluates


@pytest.mark.parametrize("kind", ["graphs", "torchscript"])
@pytest.mark.parametrize("rows", [1, 5, 8, 9, MAX_BATCH, MAX_BATCH + 1, 2 * MAX_BATCH + 3])
def test_batches_of_any_size_have_the_answers_of_each_position(device, exported, game, kind, rows):
    network = either(kind, device).load(*exported, max_batch=MAX_BATCH)
    exact = TorchBackend("cpu", "float32").load(*exported, max_batch=1)
    states, legal = (np.resize(array, (rows, array.shape[1])) for array in sample_positions(game, games=20, seed=4))
    for got, wanted in zip(network.begin([states], [legal]).collect(), exact.evaluate([states], [legal]), strict=True):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(got, wanted, atol=1e-3)


@pytest.mark.parametrize("kind", ["graphs", "torchscript"])
def test_two_batches_are_in_flight_and_each_has_its_own_answers(device, exported, game, kind):
    network = either(kind, device).load(*exported, max_batch=MAX_BATCH)
    states, legal = sample_positions(game, games=20, seed=4)
    wanted = [network.evaluate([states[span]], [legal[span]]) for span in (slice(0, 7), slice(7, 30))]
    first = network.begin([states[:7]], [legal[:7]])
    second = network.begin([states[7:30]], [legal[7:30]])
    for flight, answers in ((first, wanted[0]), (second, wanted[1])):
        flight.wait()
        for got, want in zip(flight.collect(), answers, strict=True):
            np.testing.assert_array_equal(got, want)


def test_each_step_of_a_batch_waits_for_the_one_before_it_on_a_stream_of_its_own(device, exported):
    network = towers(device).load(*exported, max_batch=MAX_BATCH)
    states, legal, *_ = exported[1].golden.arrays()
    device.log.clear()
    network.evaluate([states], [legal])
    assert device.log == [
        ("arriving", "record arrived"),
        ("computing", "wait arrived"),
        ("computing", "replay"),
        ("computing", "record computed"),
        ("leaving", "wait computed"),
        ("leaving", "record done"),
    ]


def test_a_load_uses_the_streams_of_the_service_for_one_run_of_each_graph_alone(device, exported):
    scripts(device).load(*exported, max_batch=MAX_BATCH)
    assert {stream for stream, _ in device.log} == {"loading"}
    towers(device).load(*exported, max_batch=MAX_BATCH)
    served = [step for step in device.log if step[0] == "computing"]
    graphs = 2 * len(rungs(MAX_BATCH))
    assert served == [("computing", "wait arrived"), ("computing", "replay"), ("computing", "record computed")] * graphs


@pytest.mark.parametrize("kind", ["graphs", "torchscript"])
def test_a_load_gives_way_before_each_evaluation_of_its_network(device, exported, monkeypatch, kind):
    steps = []

    class Watched(Pace):
        def give_way(self):
            steps.append("rest")

    def watch(owner, name):
        evaluate = getattr(owner, name)

        def watched(*given):
            if device.current() is device.loading:  # elsewhere a graph is replayed, which is one call on a card
                steps.append("evaluation")
            return evaluate(*given)

        monkeypatch.setattr(owner, name, watched)

    for owner, name in ((Slots, "_allocated"), (Slots, "_compute"), (CudaBackend, "_output")):
        watch(owner, name)
    with paced(Watched()):
        either(kind, device).load(*exported, max_batch=MAX_BATCH)
    assert steps.count("evaluation") >= 2 * len(rungs(MAX_BATCH))
    assert ("evaluation", "evaluation") not in set(itertools.pairwise(steps))


@pytest.mark.parametrize("kind", ["graphs", "torchscript"])
def test_every_thread_that_evaluates_binds_the_device(device, exported, kind):
    network = either(kind, device).load(*exported, max_batch=MAX_BATCH)
    states, legal, *_ = exported[1].golden.arrays()

    def evaluated() -> int:
        network.evaluate([states], [legal])
        return threading.get_ident()

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(evaluated).result() in device.bound


def test_torchscript_evaluates_every_rung_on_the_thread_that_serves_before_its_first_batch(device, exported, monkeypatch):
    network = scripts(device).load(*exported, max_batch=MAX_BATCH)
    states, legal, *_ = exported[1].golden.arrays()
    evaluated, script = [], network.slots._forward
    monkeypatch.setattr(network.slots, "_forward", lambda *given: evaluated.append(len(given[0])) or script(*given))
    with ThreadPoolExecutor(1) as thread:
        for _ in range(2):
            thread.submit(network.evaluate, [states[:3]], [legal[:3]]).result()
    assert evaluated == [8, 32, 48, 8, 8]


def test_a_batch_that_cannot_begin_frees_its_slot_and_fails_alone(device, exported):
    network = towers(device).load(*exported, max_batch=MAX_BATCH)
    states, legal, *_ = exported[1].golden.arrays()
    for _ in range(3):
        with pytest.raises(ValueError, match=r"mismatch|Output array"):
            network.begin([states[:, :1]], [legal])
    assert len(network.evaluate([states], [legal])[0]) == len(states)


def test_memory_exhausted_by_one_batch_is_no_lost_device(device, exported, monkeypatch):
    network = scripts(device).load(*exported, max_batch=MAX_BATCH)
    states, legal, *_ = exported[1].golden.arrays()
    script = network.slots._forward

    def exhausted(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")

    monkeypatch.setattr(network.slots, "_forward", exhausted)
    with pytest.raises(torch.OutOfMemoryError):
        network.evaluate([states], [legal])
    monkeypatch.setattr(network.slots, "_forward", script)
    assert len(network.evaluate([states], [legal])[0]) == len(states)


@pytest.mark.parametrize("kind", ["graphs", "torchscript"])
def test_a_device_that_accepts_no_more_work_is_lost(device, exported, kind):
    network = either(kind, device).load(*exported, max_batch=MAX_BATCH)
    states, legal, *_ = exported[1].golden.arrays()
    flight = network.begin([states], [legal])
    device.sick = True
    with pytest.raises(DeviceLost, match=f"cpu is unusable in this process \\({SICK}\\)"):
        flight.collect()
    with pytest.raises(DeviceLost):
        network.evaluate([states], [legal])
    with pytest.raises(DeviceLost):
        either(kind, device).load(*exported, max_batch=MAX_BATCH)


# -- graphs


@pytest.fixture
def with_cudnn(monkeypatch) -> list[str]:
    """cuDNN's fused convolutions, by others; returns the names of those called."""
    called = []

    def fused(x, weight, bias, stride, padding, dilation, groups):
        called.append("relu")
        return torch.relu(torch.conv2d(x, weight, bias, stride, padding, dilation, groups))

    def fused_sum(x, weight, z, alpha, bias, stride, padding, dilation, groups):
        called.append("add_relu")
        return torch.relu(torch.conv2d(x, weight, bias, stride, padding, dilation, groups) + alpha * z)

    monkeypatch.setattr(torch, "cudnn_convolution_relu", fused)
    monkeypatch.setattr(torch, "cudnn_convolution_add_relu", fused_sum)
    return called


def test_fused_convolutions_evaluate_where_cudnn_has_them(device, exported, with_cudnn):
    assert towers(device).load(*exported, max_batch=8).backend == "cuda_fused"
    assert with_cudnn[:6] == ["relu", "relu", "add_relu", "relu", "add_relu", "relu"]  # stem, two blocks, heads


def refusals(logged) -> list[tuple[str, str]]:
    return [(line["convolutions"], line["reason"]) for line in logged if line["event"] == "model.convolutions_refused"]


def test_plain_convolutions_evaluate_where_cudnn_lacks_the_fused_ones_and_the_log_states_why(device, exported):
    with structlog.testing.capture_logs() as logged:
        assert towers(device).load(*exported, max_batch=8).backend == "cuda_plain"
    ((kind, reason),) = refusals(logged)
    assert (kind, "cudnn_convolution_relu" in reason) == ("fused", True)


@pytest.mark.usefixtures("with_cudnn")
def test_fused_convolutions_with_other_answers_are_refused(device, exported, monkeypatch):
    monkeypatch.setattr(torch, "cudnn_convolution_add_relu", lambda x, weight, z, *_: torch.relu(z))
    with structlog.testing.capture_logs() as logged:
        assert towers(device).load(*exported, max_batch=8).backend == "cuda_plain"
    assert refusals(logged) == [("fused", "other answers to the golden positions in torch.float32")]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("forgets", "graph of 8 rows gives other answers"),
        ("refuses_graphs", "operation not permitted when stream is capturing"),
    ],
)
def test_a_version_whose_graphs_fail_is_left_to_torchscript_and_the_log_states_why(device, exported, fault, reason):
    setattr(device, fault, "operation not permitted when stream is capturing")
    with pytest.raises(Unsupported, match=reason):
        towers(device).load(*exported, max_batch=8)
    with structlog.testing.capture_logs() as logged:
        network = ChosenBackend(towers(device), scripts(device)).load(*exported, max_batch=8)
    assert network.backend == "torchscript"
    assert [reason in line["reason"] for line in logged if line["event"] == "model.backend_refused"] == [True]


def test_memory_exhausted_at_load_is_no_fault_of_the_version(device, exported):
    def exhausted(work, pool):
        raise torch.OutOfMemoryError("CUDA out of memory")

    device.capture = exhausted
    with pytest.raises(Unavailable, match="version 1 cannot be loaded now"):
        towers(device).load(*exported, max_batch=8)


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_a_tower_in_reduced_precision_stays_near_the_exact_answers(device, exported, precision):
    network = towers(device, precision).load(*exported, max_batch=MAX_BATCH)
    states, legal, policy, value = exported[1].golden.arrays()
    got = network.evaluate([states], [legal])
    assert network.precision == str(precision).removeprefix("torch.")
    np.testing.assert_allclose(got[0], policy, atol=2e-2)
    np.testing.assert_allclose(got[1], value, atol=3e-2)


VARIANTS = {
    "heads": ("tic_tac_toe", {"heads": ("opponents", "plies_left")}),
    "reply": ("connect_four", {"heads": ("reply", "plies_left")}),
    "mover": ("connect_four", {"value_output": "mover"}),
    "win_probability": ("connect_four", {"value_output": "win_probability"}),
    "win_or_loss": ("connect_four", {"value_output": "win_or_loss"}),
    "points": ("chinese_checkers_star37", {"value_output": "points"}),
    "biases": ("othello", {"convolution_bias": True}),
    "hexagonal": ("abalone", {}),
}


@pytest.mark.parametrize(("name", "changes"), VARIANTS.values(), ids=VARIANTS)
def test_towers_of_every_kind_have_the_answers_of_torchscript(device, tmp_path, name, changes):
    game = make(name)
    path, manifest = exported_network(tmp_path, game, SMALL.model_copy(update={"policy_head": "dense", **changes}))
    states, legal = sample_positions(game, games=2, seed=7)
    network = towers(device).load(path, manifest, max_batch=32)
    exact = TorchBackend("cpu", "float32").load(path, manifest, max_batch=1)
    for got, wanted in zip(network.evaluate([states], [legal]), exact.evaluate([states], [legal]), strict=True):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(got, wanted, atol=1e-3)


def test_a_listed_action_that_does_not_exist_cannot_stop_the_device(device, exported):
    network = towers(device).load(*exported, max_batch=8)
    states, legal, *_ = exported[1].golden.arrays()
    assert np.isfinite(network.evaluate([states[:1]], [np.full_like(legal[:1], 999)])[0]).all()


def test_a_network_that_is_no_tower_is_refused_with_the_part(device, tmp_path, game):
    pooled = exported_network(tmp_path, game, SMALL.model_copy(update={"global_pooling": 3}))
    with pytest.raises(Unsupported, match=r"network\.global_pooling"):
        towers(device).load(*pooled, max_batch=8)


def test_weights_that_do_not_fit_the_golden_positions_are_refused(device, exported, tmp_path, game):
    other = exported_network(tmp_path, game, SMALL.model_copy(update={"value_hidden": 7}))
    with pytest.raises(CorruptModel, match="export it again"):
        towers(device).load(exported[0], other[1], max_batch=8)


# -- TorchScript


@pytest.fixture
def tf32():
    """TF32 as it is by default on a card: on for convolutions."""
    flags = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [flag.allow_tf32 for flag in flags]
    for flag in flags:
        flag.allow_tf32 = True
    yield flags
    for flag, value in zip(flags, before, strict=True):
        flag.allow_tf32 = value


def test_float32_on_a_gpu_is_no_tf32(device, tf32):
    scripts(device)
    assert [flag.allow_tf32 for flag in tf32] == [False, False]


def test_norms_are_folded_in_float64_before_the_weights_are_rounded(exported):
    path, manifest = exported
    states, legal, *_ = (torch.from_numpy(array.copy()) for array in manifest.golden.arrays())
    script, folded = torch.jit.load(path).eval(), torch.jit.load(path).eval()
    fold_norms(folded)
    modules, others = dict(script.named_modules()), dict(folded.named_modules())
    conv, norm = modules["network.trunk.blocks.0.conv2"], modules["network.trunk.blocks.0.norm2"]
    scale = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)
    exact = (conv.weight.double() * scale[:, None, None, None]).float()
    assert torch.equal(others["network.trunk.blocks.0.conv2"].weight, exact)
    for got, wanted in zip(folded(states, legal), script(states, legal), strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-3, rtol=0)
    norms = [module for module in others.values() if module.original_name == "BatchNorm2d"]
    assert len(norms) == 7  # stem, two in each of two blocks, two heads
    assert all(
        torch.equal(norm.running_mean, torch.zeros_like(norm.bias)) and norm.weight.detach().eq(1).all() for norm in norms
    )


@pytest.mark.parametrize("kind", ["convolutional", "residual"])
def test_torchscript_in_reduced_precision_stays_near_the_exact_answers(device, tmp_path, game, kind):
    settings = SMALL.model_copy(update={"kind": kind, "convolutions": ("same", "same")})
    path, manifest = exported_network(tmp_path, game, settings)
    states, legal, policy, value = manifest.golden.arrays()
    network = scripts(device, "bfloat16").load(path, manifest, max_batch=8)
    got = network.evaluate([states], [legal])
    assert network.precision == "bfloat16"
    np.testing.assert_allclose(got[0], policy, atol=2e-2)
    np.testing.assert_allclose(got[1], value, atol=3e-2)


# -- choice and settings


@pytest.mark.parametrize(
    ("setting", "has_gpu", "device"),
    [
        ("auto", True, "cuda:0"),
        ("auto", False, "cpu"),
        ("cuda", True, "cuda:0"),
        ("cuda:1", True, "cuda:1"),
        ("cpu", True, "cpu"),
    ],
)
def test_a_gpu_has_a_number_without_which_no_thread_can_be_bound_to_it(setting, has_gpu, device):
    assert str(torch_device(setting, has_gpu=has_gpu)) == device


def test_memory_of_unloaded_versions_is_looked_after_at_each_load(exported, device):
    backend = towers(device)
    for _ in range(3):
        backend.load(*exported, max_batch=8)
    assert device.trims == 3


def test_a_gpu_has_graphs_unless_torchscript_is_asked_for(monkeypatch, device):
    opened = scripts(device)
    monkeypatch.setattr(chosen_backend, "is_cpu", lambda name: False)
    monkeypatch.setattr(chosen_backend, "open_torch", lambda *_, **__: opened)
    monkeypatch.setattr(TorchBackend, "on_gpu", True)
    with structlog.testing.capture_logs() as logged:
        backends = [open_backend("cuda:0", choice=choice) for choice in ("auto", "cuda")]
        assert open_backend("cuda:0", choice="torchscript") is opened
    for backend in backends:
        assert isinstance(backend, ChosenBackend)
        assert backend.slots == opened.slots == 2
    assert [line["backend"] for line in logged] == [
        "cuda in float16 on cpu, torchscript for other networks",
        "cuda in float16 on cpu, torchscript for other networks",
        "torchscript in float16 on a GPU",
    ]
    assert [line["reason"] for line in logged] == ["a GPU", "backend=cuda", "backend=torchscript"]


def test_graphs_without_a_gpu_are_refused():
    with pytest.raises(ConfigurationError, match="backend=cuda needs a GPU, and the device is cpu; use backend=auto"):
        open_cuda(TorchBackend("cpu", "float32"))


def test_a_cpu_has_one_batch_at_a_time_and_a_gpu_as_many_as_are_set(device):
    assert TorchBackend("cpu", slots=3).slots == 1
    assert TorchBackend("cpu", accelerator=device).slots == 2
    assert TorchBackend("cpu", slots=3, accelerator=device).slots == 3


@pytest.mark.parametrize("name", built_in_games())
def test_eleven_workers_of_the_gpu_preset_fit_into_the_queue(name):
    chosen = preset(games.make(name), "gpu")
    settings = ServerSettings(inference=chosen.inference, address="127.0.0.1:0")
    rows = 11 * chosen.selfplay.lanes * chosen.selfplay.slots * chosen.search.leaves_per_game
    assert rows <= settings.queue_positions


def test_the_length_of_the_queue_follows_the_largest_batch_unless_it_is_set():
    small = ServerSettings(address="127.0.0.1:0")
    assert small.queue_positions == 32_768
    large = small.model_copy(update={"inference": small.inference.model_copy(update={"max_batch": 4096})})
    assert large.queue_positions == 131_072
    assert large.model_copy(update={"max_queue_positions": 500}).queue_positions == 500
