"""Choice of the backend of each version: the compiled kernel where it supports the network, else TorchScript.

A version is not measured at load: on loaded machines a short measurement decides by chance, and a choice that changes between
two starts changes answers in the fifth digit (docs/decisions/0015-native-backend.md). The reason is logged with each version
that the kernel does not evaluate.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from inference_server.backend import TorchBackend
from inference_server.native_backend import NativeBackend
from inference_server.network import Backend, Network
from inference_server.settings import BackendChoice, Precision
from zerofleet.contracts.manifests import Manifest
from zerofleet.errors import ConfigurationError, CorruptModel
from zerofleet.evaluators.native import Unsupported, library

__all__ = ["ChosenBackend", "open_backend"]

log = structlog.get_logger()

_BY_DEFAULT = ("avx2", "avx512")  # instruction sets on which the kernel is the default; the gain is measured on AVX2


def open_backend(
    device: str = "auto", precision: Precision = "auto", threads: int = 1, *, choice: BackendChoice = "auto"
) -> Backend:
    """Return the backend of these settings; raises `ConfigurationError` for those that this machine cannot meet."""
    torch = TorchBackend(device, precision, threads)
    if choice == "torchscript":
        return torch
    reason = _obstacle(on_gpu=torch.on_gpu, precision=torch.precision_name, any_instructions=choice == "native")
    if reason and choice == "native":
        raise ConfigurationError(f"backend=native: {reason}; use backend=auto")
    if reason:
        log.info("backend.chosen", backend="torchscript", reason=reason)
        return torch
    native = NativeBackend(threads)
    return native if choice == "native" else ChosenBackend(native, torch)


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

    def prepare_thread(self) -> None:
        """See `Backend.prepare_thread`."""
        self._first.prepare_thread()
        self._second.prepare_thread()

    def load(self, path: Path, manifest: Manifest, *, max_batch: int, pause_s: float = 0.0) -> Network:
        """See `Backend.load`. A version whose weights give other answers than its golden ones is left to the second too."""
        try:
            return self._first.load(path, manifest, max_batch=max_batch, pause_s=pause_s)
        except Unsupported as error:
            log.info("model.backend_refused", version=manifest.version, reason=str(error))
        except CorruptModel as error:
            log.warning("model.backend_refused", version=manifest.version, reason=str(error))
        return self._second.load(path, manifest, max_batch=max_batch, pause_s=pause_s)
