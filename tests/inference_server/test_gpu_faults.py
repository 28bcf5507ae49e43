"""Failures of a GPU, its memory and its libraries, on the stand-in: none of these was produced on a card."""

from __future__ import annotations

import gc
import weakref

import pytest
import structlog
import torch
from device_backends import SMALL, exported_network, scripts, towers
from stand_in import StandIn

from inference_server.chosen_backend import ChosenBackend
from inference_server.gpu.faults import is_of_device, is_out_of_memory, reason_of
from zerofleet.errors import CorruptModel, Unavailable
from zerofleet.evaluators.native import Unsupported

DEBUGGING = "\nCUDA kernel errors might be reported later.\nCompile with `TORCH_USE_CUDA_DSA` to enable assertions."
NO_ENGINE = "FIND was unable to find an engine to execute this computation"
NO_HANDLE = "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
NO_WORKSPACE = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
EXHAUSTED = "CUDA error: out of memory"
SHORTAGES = [NO_ENGINE, NO_ENGINE.replace("FIND", "GET"), NO_HANDLE, NO_WORKSPACE, EXHAUSTED, "CUDA out of memory. Tried"]
IN_A_NETWORK = (
    "The following operation failed in the TorchScript interpreter.\nTraceback (most recent call last):\nRuntimeError: "
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory, game):
    return exported_network(tmp_path_factory.mktemp("gpu"), game, SMALL)


@pytest.fixture
def device() -> StandIn:
    return StandIn()


def raising(error: Exception):
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


# -- texts


@pytest.mark.parametrize("text", SHORTAGES)
def test_a_shortage_of_memory_is_known_by_each_of_its_texts(text):
    assert is_out_of_memory(RuntimeError(text))
    assert is_out_of_memory(RuntimeError(IN_A_NETWORK + text + DEBUGGING))


def test_a_failure_of_a_library_is_one_of_the_device_and_no_shortage():
    for text in (
        "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "CUDA error: unspecified launch failure",
        "CUDA driver error: 3",
    ):
        assert (is_of_device(RuntimeError(text)), is_out_of_memory(RuntimeError(text))) == (True, False)


@pytest.mark.parametrize(
    "text",
    [
        "Could not run 'aten::mine' with arguments from the 'CUDA' backend.\nCUDA: registered at RegisterCUDA.cpp:1",
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        "mat1 and mat2 shapes cannot be multiplied (4x9 and 10x3)",
    ],
)
def test_an_operation_that_a_device_lacks_and_a_wrong_size_are_no_failures_of_the_device(text):
    assert not is_of_device(RuntimeError(IN_A_NETWORK + text))


def test_the_reason_is_the_line_of_the_fault():
    assert reason_of(RuntimeError(EXHAUSTED + DEBUGGING)) == EXHAUSTED
    assert reason_of(RuntimeError(IN_A_NETWORK + NO_ENGINE)) == f"RuntimeError: {NO_ENGINE}"
    assert reason_of(OSError(5, "Input/output error")) == "[Errno 5] Input/output error"
    assert reason_of(MemoryError()) == "MemoryError"


# -- TorchScript


@pytest.mark.parametrize(
    "text", [*SHORTAGES, "CUDA error: unspecified launch failure", "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"]
)
@pytest.mark.parametrize("place", ["load", "warm up"])
def test_a_version_is_not_corrupt_because_the_memory_or_a_library_of_the_device_fails(
    device, exported, monkeypatch, text, place
):
    failing = raising(RuntimeError(text + DEBUGGING))
    if place == "load":
        monkeypatch.setattr(torch.jit, "freeze", failing)
    else:
        monkeypatch.setattr("inference_server.backend.warm_up", failing)
    with pytest.raises(Unavailable, match="version 1 cannot be loaded now") as refused:
        scripts(device).load(*exported, max_batch=8)
    assert f"({text});" in str(refused.value)


def test_a_version_that_cannot_be_run_is_corrupt_on_a_device_too(device, exported, monkeypatch):
    monkeypatch.setattr(torch.jit, "freeze", raising(RuntimeError(IN_A_NETWORK + "mat1 and mat2 shapes cannot be multiplied")))
    with pytest.raises(CorruptModel, match="cannot be run: RuntimeError: mat1 and mat2 shapes"):
        scripts(device).load(*exported, max_batch=8)


# -- graphs


@pytest.mark.parametrize("text", SHORTAGES)
def test_a_shortage_of_memory_in_any_words_leaves_no_version_without_its_graphs(device, exported, text):
    device.capture = raising(RuntimeError(text + DEBUGGING))
    with pytest.raises(Unavailable, match="version 1 cannot be loaded now") as refused:
        ChosenBackend(towers(device), scripts(device)).load(*exported, max_batch=8)
    assert f"memory of cpu is exhausted: {text})" in str(refused.value)


@pytest.fixture
def scarce(device, monkeypatch):
    """Memory for two graphs and no more until it was returned: a graph that someone still holds keeps its memory."""
    held: weakref.WeakSet = weakref.WeakSet()
    capture, release = device.capture, device.release

    def captured(work, pool):
        if device.releases == 0 and len(held) == 2:
            graph = capture(work, pool)  # as on a card: the frame of the error holds the graph that was begun
            held.add(graph)
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        graph = capture(work, pool)
        held.add(graph)
        return graph

    def released():
        assert not held, "the graphs of the first recording keep their memory"
        release()

    monkeypatch.setattr(device, "capture", captured)
    monkeypatch.setattr(device, "release", released)


@pytest.mark.usefixtures("scarce")
def test_memory_that_a_recording_exhausts_is_returned_before_a_second_one(device, exported):
    gc.disable()  # the objects of the error must be freed without a collection
    try:
        with structlog.testing.capture_logs() as logged:
            network = towers(device).load(*exported, max_batch=48)
    finally:
        gc.enable()
    assert (network.backend, device.releases) == ("cuda_plain", 1)
    assert [line["reason"] for line in logged if line["event"] == "model.recording_repeated"] == [
        "CUDA out of memory. Tried to allocate 20.00 MiB"
    ]


def test_memory_that_a_second_recording_exhausts_too_is_a_shortage(device, exported):
    device.capture = raising(torch.OutOfMemoryError("CUDA out of memory"))
    backend = towers(device)
    for loads in (1, 2):
        with pytest.raises(Unavailable):
            backend.load(*exported, max_batch=8)
        assert device.releases == loads


def test_a_recording_that_fails_otherwise_is_not_repeated(device, exported):
    device.capture = raising(RuntimeError("operation not permitted when stream is capturing"))
    with pytest.raises(Unsupported):
        towers(device).load(*exported, max_batch=8)
    assert device.releases == 0


@pytest.mark.parametrize("text", [NO_WORKSPACE, EXHAUSTED])
def test_memory_exhausted_by_the_first_kind_of_convolution_leaves_no_version_with_the_second(
    device, exported, monkeypatch, text
):
    monkeypatch.setattr(torch, "cudnn_convolution_relu", raising(RuntimeError(text)))
    with pytest.raises(Unavailable):
        towers(device).load(*exported, max_batch=8)


def test_a_card_without_an_engine_for_fused_convolutions_has_graphs_of_plain_ones(device, exported, monkeypatch):
    monkeypatch.setattr(torch, "cudnn_convolution_relu", raising(RuntimeError(NO_ENGINE)))
    assert towers(device).load(*exported, max_batch=8).backend == "cuda_plain"
