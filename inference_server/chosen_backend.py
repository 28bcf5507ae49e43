"""Choice of the backend of each version.

    device   `backend`      backends, in order; the second evaluates what the first does not support
    CPU      auto           the compiled kernel, TorchScript
    GPU      auto, cuda     graphs (docs/decisions/0021-gpu-runner.md), TorchScript
    any      torchscript    TorchScript
    CPU      native         the compiled kernel alone

A version is not measured at load: on loaded machines a short measurement decides by chance, and a choice that changes between
two starts changes answers in the fifth digit (docs/decisions/0015-native-backend.md). The reason is logged with each version
that the first backend does not evaluate.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from inference_server.device import is_cpu, number_format
from inference_server.late_backend import LateTorchBackend, open_cuda, open_torch
from inference_server.native_backend import NativeBackend
from inference_server.network import Backend, Network
from inference_server.settings import BackendChoice, Precision
from zerofleet.contracts.manifests import Manifest
from zerofleet.errors import ConfigurationError, CorruptModel
from zerofleet.evaluators.native import Unsupported, library
from zerofleet.telemetry import metrics

if TYPE_CHECKING:
    from inference_server.backend import TorchBackend

__all__ = ["Choice", "ChosenBackend", "choose_backend", "open_backend"]

log = structlog.get_logger()

_BY_DEFAULT = ("amx", "avx512", "avx2")  # instruction sets on which the kernel is the default; the gain is measured


@dataclass(frozen=True, slots=True)
class Choice:
    """Backend of a server and the reason for it."""

    backend: Backend
    summary: str
    """Backends in order, with device and number format."""
    reason: str
    device: str
    """`cpu`, or the GPU of all its backends: `cuda:0`."""


def open_backend(
    device: str = "auto",
    precision: Precision = "auto",
    threads: int = 1,
    *,
    choice: BackendChoice = "auto",
    slots: int = 0,
) -> Backend:
    """Return the backend of these settings, named in log and metrics: with `precision=auto` the kernel may use bfloat16x3.

    `slots`: batches in flight on a GPU, 0 for the default. Raises `ConfigurationError` for settings that this machine cannot
    meet. torch is imported now if it evaluates every network or decides on a GPU (`inference_server.device`), else when the
    first version that the kernel lacks is loaded.
    """
    found = choose_backend(device, precision, threads, choice=choice, slots=slots)
    log.info("backend.chosen", backend=found.summary, reason=found.reason)
    metrics.INFERENCE_DEVICE.labels(device=found.device).set(1)
    return found.backend


def choose_backend(device: str, precision: Precision, threads: int, *, choice: BackendChoice, slots: int = 0) -> Choice:
    """Return the backend of these settings with the reason; arguments and errors as `open_backend`."""
    asked = None if is_cpu(device) else open_torch(device, precision, threads, slots=slots)
    on_gpu = asked is not None and asked.on_gpu
    arithmetic = number_format(precision, on_gpu=on_gpu)
    if choice == "cuda" or (choice == "auto" and on_gpu):
        torch_backend = asked or open_torch("cpu", precision, threads)
        graphs = open_cuda(torch_backend)
        return Choice(
            ChosenBackend(graphs, torch_backend),
            f"cuda in {arithmetic} on {torch_backend.device}, torchscript for other networks",
            "a GPU" if choice == "auto" else "backend=cuda",
            str(torch_backend.device),
        )
    reason = "backend=torchscript"
    if choice != "torchscript":
        reason = _obstacle(on_gpu=on_gpu, precision=arithmetic, any_instructions=choice == "native")
        if not reason:
            return _native(precision, threads, choice, asked)
        if choice == "native":
            raise ConfigurationError(f"backend=native: {reason}; use backend=auto")
    torch_backend = asked or open_torch("cpu", precision, threads)
    summary = f"torchscript in {arithmetic} on {'a GPU' if on_gpu else 'the CPU'}"
    return Choice(torch_backend, summary, reason, str(torch_backend.device))


def _native(precision: Precision, threads: int, choice: BackendChoice, asked: TorchBackend | None) -> Choice:
    float32 = precision == "float32"
    native = NativeBackend(threads, float32=float32)
    best = next(known.name for known in library.find().instructions if not (float32 and known.is_split))
    if choice == "native":
        return Choice(native, f"native_{best} on the CPU", "backend=native", "cpu")
    second = asked or LateTorchBackend(precision, threads)
    summary = f"native_{best} on the CPU, torchscript for networks that it does not support"
    return Choice(ChosenBackend(native, second), summary, "no GPU" if asked else "no driver of a GPU, or device=cpu", "cpu")


def _obstacle(*, on_gpu: bool, precision: str, any_instructions: bool) -> str:
    """Return the reason why the kernel evaluates no network with these settings; empty if there is none."""
    found = library.find()
    if on_gpu:
        return "not supported: a GPU"
    if precision != "float32":
        return f"not supported: precision={precision}"
    if found.library is None:
        return found.reason
    if not any_instructions and found.instructions[0].name not in _BY_DEFAULT:
        return "this processor has neither AVX2 nor AVX-512"
    return ""


class ChosenBackend:
    """The first backend where it supports a version, else the second, which supports all."""

    def __init__(self, first: Backend, second: Backend) -> None:
        self._first = first
        self._second = second

    @property
    def slots(self) -> int:
        """See `Backend.slots`."""
        return min(self._first.slots, self._second.slots)

    def load(self, path: Path, manifest: Manifest, *, max_batch: int) -> Network:
        """See `Backend.load`. A version whose weights give other answers than its golden ones is left to the second too."""
        try:
            return self._first.load(path, manifest, max_batch=max_batch)
        except Unsupported as error:
            log.info("model.backend_refused", version=manifest.version, reason=str(error))
        except CorruptModel as error:
            log.warning("model.backend_refused", version=manifest.version, reason=str(error))
        return self._second.load(path, manifest, max_batch=max_batch)
