"""Choice of the backend of each version: the compiled kernel where it supports the network, else TorchScript.

A version is not measured at load: on loaded machines a short measurement decides by chance, and a choice that changes between
two starts changes answers in the fifth digit (docs/decisions/0015-native-backend.md). The reason is logged with each version
that the kernel does not evaluate.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from inference_server.device import is_cpu, number_format
from inference_server.late_backend import LateTorchBackend, open_torch
from inference_server.native_backend import NativeBackend
from inference_server.network import Backend, Network
from inference_server.settings import BackendChoice, Precision
from zerofleet.contracts.manifests import Manifest
from zerofleet.errors import ConfigurationError, CorruptModel
from zerofleet.evaluators.native import Unsupported, library

__all__ = ["ChosenBackend", "open_backend"]

log = structlog.get_logger()

_BY_DEFAULT = ("amx", "avx512", "avx2")  # instruction sets on which the kernel is the default; the gain is measured


def open_backend(
    device: str = "auto", precision: Precision = "auto", threads: int = 1, *, choice: BackendChoice = "auto"
) -> Backend:
    """Return the backend of these settings: with the precision `auto` the kernel may use bfloat16x3.

    Raises `ConfigurationError` for settings that this machine cannot meet. torch is imported now if it evaluates every network
    or decides on a GPU (`inference_server.device`), else when the first version that the kernel lacks is loaded.
    """
    asked = None if is_cpu(device) else open_torch(device, precision, threads)
    on_gpu = asked is not None and asked.on_gpu
    arithmetic = number_format(precision, on_gpu=on_gpu)
    if choice != "torchscript":
        reason = _obstacle(on_gpu=on_gpu, precision=arithmetic, any_instructions=choice == "native")
        if not reason:
            native = NativeBackend(threads, float32=precision == "float32")
            return native if choice == "native" else ChosenBackend(native, asked or LateTorchBackend(precision, threads))
        if choice == "native":
            raise ConfigurationError(f"backend=native: {reason}; use backend=auto")
        log.info("backend.chosen", backend="torchscript", reason=reason)
    return asked or open_torch("cpu", precision, threads)


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

    def load(self, path: Path, manifest: Manifest, *, max_batch: int, pause_s: float = 0.0) -> Network:
        """See `Backend.load`. A version whose weights give other answers than its golden ones is left to the second too."""
        try:
            return self._first.load(path, manifest, max_batch=max_batch, pause_s=pause_s)
        except Unsupported as error:
            log.info("model.backend_refused", version=manifest.version, reason=str(error))
        except CorruptModel as error:
            log.warning("model.backend_refused", version=manifest.version, reason=str(error))
        return self._second.load(path, manifest, max_batch=max_batch, pause_s=pause_s)
