"""The device of CUDA in front of a torch that has none: what it calls, and what it remembers of failures."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable

import pytest
import torch

from inference_server import backend_report
from inference_server.backend import TorchBackend
from inference_server.gpu.accelerator import Cuda
from zerofleet.errors import ConfigurationError


class Stream:
    def synchronize(self) -> None:
        """Nothing is queued."""


class Recorder:
    """`torch.cuda.CUDAGraph`, of which every one is listed; `invalid` recordings cannot be ended."""

    made: list[Recorder]
    invalid: bool

    def __init__(self) -> None:
        self.steps: list[str] = []
        Recorder.made.append(self)

    def capture_begin(self, pool: object, capture_error_mode: str) -> None:
        self.steps.append(f"begin {capture_error_mode}")

    def capture_end(self) -> None:
        self.steps.append("end")
        if Recorder.invalid:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")


@pytest.fixture
def returned(monkeypatch) -> list[str]:
    """The returns of memory."""
    steps: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: steps.append(f"wait for {device}"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: steps.append("return"))
    return steps


@pytest.fixture
def memory(monkeypatch) -> dict[str, int]:
    """Bytes with content, and bytes that torch holds."""
    held = {"allocated": 1 << 30, "reserved": 1 << 30}
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: held["allocated"])
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: held["reserved"])
    return held


@pytest.fixture
def cuda(monkeypatch, returned, memory) -> Cuda:
    monkeypatch.setattr(Recorder, "made", [], raising=False)
    monkeypatch.setattr(Recorder, "invalid", False, raising=False)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Recorder)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    return Cuda(torch.device("cuda:0"))


# -- settings


@pytest.fixture
def gpus(monkeypatch, cuda) -> Callable[[int], None]:
    """Sets the number of GPUs that torch finds."""

    def found(number: int) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: number > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: number)
        monkeypatch.setattr(torch.jit, "set_fusion_strategy", lambda strategy: None)

    return found


def test_a_gpu_whose_number_is_absent_is_refused_with_those_present(gpus):
    gpus(1)
    with pytest.raises(ConfigurationError, match="device cuda:1 does not exist: torch finds 1 GPU; want cpu or cuda:0"):
        TorchBackend("cuda:1")
    assert str(TorchBackend("cuda:0").device) == "cuda:0"
    gpus(2)
    assert str(TorchBackend("cuda:1").device) == "cuda:1"


def test_a_gpu_that_torch_cannot_use_is_refused_with_the_first_line_of_the_error(gpus, monkeypatch, capsys):
    gpus(1)

    def refuse(device: torch.device) -> None:
        raise RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable\nCompile with `TORCH_USE_CUDA_DSA`")

    monkeypatch.setattr(torch.cuda, "set_device", refuse)
    monkeypatch.setattr(sys, "argv", ["backend_report", "--device", "cuda:0"])
    assert backend_report.main() == 2
    assert capsys.readouterr().err == (
        "device cuda:0 cannot be used: CUDA error: CUDA-capable device(s) is/are busy or unavailable\n"
    )


# -- recordings


def test_work_that_fails_ends_its_recording_and_later_ones_go_on(cuda):
    with pytest.raises(ZeroDivisionError):
        cuda.capture(lambda: 1 / 0, object())
    graph = cuda.capture(lambda: None, object())
    assert [each.steps for each in Recorder.made] == [["begin thread_local", "end"]] * 2
    assert graph is Recorder.made[1]


@pytest.mark.parametrize("fails", [True, False])
def test_a_recording_that_cannot_be_ended_is_the_last_one_and_its_graph_is_kept(cuda, returned, memory, fails):
    def work() -> None:
        if fails:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    Recorder.invalid = True
    with pytest.raises(RuntimeError, match="not permitted" if fails else "previous error"):
        cuda.capture(work, object())
    (unended,), Recorder.invalid = Recorder.made, False
    with pytest.raises(RuntimeError, match=r"an earlier recording could not be ended.*restart the server"):
        cuda.capture(lambda: None, object())
    assert Recorder.made == [unended]
    kept = weakref.ref(unended)
    Recorder.made.clear()
    del unended
    assert kept() is not None
    memory["reserved"] = 9 << 30
    cuda.trim()
    cuda.release()
    assert returned == []


# -- memory


def test_all_memory_is_returned_after_the_work_of_the_device_however_little_it_is(cuda, returned):
    cuda.release()
    assert returned == ["wait for cuda:0", "return"]


def test_memory_is_returned_once_much_of_it_is_without_content(cuda, returned, memory):
    memory["reserved"] = 3 << 30
    cuda.trim()
    assert returned == []
    memory["reserved"] += 1
    cuda.trim()
    assert returned == ["return"]


def test_memory_that_graphs_in_use_hold_is_not_returned_again_and_again(cuda, returned, memory):
    memory["reserved"] = 6 << 30
    for _ in range(3):
        cuda.trim()
    assert returned == ["return"]
    memory["reserved"] += 2 << 30
    cuda.trim()
    assert returned == ["return"]
    memory["reserved"] += 1
    cuda.trim()
    assert returned == ["return"] * 2


def test_what_a_return_after_exhausted_memory_leaves_is_held_by_graphs_too(cuda, returned, memory):
    memory["reserved"] = 6 << 30
    cuda.release()
    cuda.trim()
    assert returned == ["wait for cuda:0", "return"]
