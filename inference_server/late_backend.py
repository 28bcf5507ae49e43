"""TorchScript without the import of torch at the start: for servers whose networks the compiled kernel evaluates.

The import takes 1.5 seconds or more of processor time and 180 MB, which a server with such networks never needs. It runs on the
loading thread when the first other version is loaded. Calls in progress meanwhile wait for up to 0.3 s, once (2 busy cores):
the libraries of torch are mapped and relocated without the GIL, and no garbage is collected.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from inference_server.network import Network
from inference_server.settings import Precision
from zerofleet.contracts.manifests import Manifest
from zerofleet.errors import ConfigurationError, Unavailable
from zerofleet.service.imports import importing

if TYPE_CHECKING:
    from inference_server.backend import TorchBackend
    from inference_server.gpu.backend import CudaBackend

__all__ = ["LateTorchBackend", "open_cuda", "open_torch"]

log = structlog.get_logger()

# Each of them loads those that it needs. The first is opened globally, as by torch itself.
_LIBRARIES = (("libtorch_global_deps.so", os.RTLD_NOW | os.RTLD_GLOBAL), ("libtorch.so", os.RTLD_NOW))


class LateTorchBackend:
    """`TorchBackend` on the CPU, opened by the first `load`. `load` may run on any thread."""

    slots = 1

    def __init__(self, precision: Precision = "auto", threads: int = 1) -> None:
        self._precision = precision
        self._threads = threads
        self._opening = threading.Lock()
        self._opened: TorchBackend | None = None

    def load(self, path: Path, manifest: Manifest, *, max_batch: int) -> Network:
        """See `Backend.load`. Raises `Unavailable`, too, when torch cannot be imported, which is no fault of the version."""
        try:
            backend = self._open()
        except (ImportError, OSError) as error:
            raise Unavailable(
                f"model {manifest.model} version {manifest.version} needs torch, which cannot be imported ({error});"
                " run `zerofleet doctor`"
            ) from error
        return backend.load(path, manifest, max_batch=max_batch)

    def _open(self) -> TorchBackend:
        with self._opening:
            if self._opened is None:
                log.info("backend.opening", backend="torchscript", reason="the first version that the kernel does not evaluate")
                self._opened = open_torch("cpu", self._precision, self._threads)
            return self._opened


def open_torch(device: str, precision: Precision, threads: int, *, slots: int = 0) -> TorchBackend:
    """Import torch and return its backend; raises `ConfigurationError` for a device or precision that this machine lacks."""
    _map_libraries()
    with importing():
        from inference_server.backend import TorchBackend  # noqa: PLC0415 - torch, which many servers do not need
    return TorchBackend(device, precision, threads, slots=slots)


def open_cuda(torch_backend: TorchBackend) -> CudaBackend:
    """Return the backend of graphs on the device of `torch_backend`; raises `ConfigurationError` without a GPU."""
    from inference_server.gpu.backend import CudaBackend  # noqa: PLC0415 - torch

    if torch_backend.accelerator is None:
        raise ConfigurationError(f"backend=cuda needs a GPU, and the device is {torch_backend.device}; use backend=auto")
    return CudaBackend(torch_backend.accelerator, torch_backend.precision, slots=torch_backend.slots)


def _map_libraries() -> None:
    """Load torch's libraries before its import does, which holds the GIL for half a second meanwhile.

    A call through ctypes releases the GIL. An absent or broken library is left to the import, which raises the error.
    """
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return
    for name, flags in _LIBRARIES:
        path = Path(found.origin).with_name("lib") / name
        if path.is_file():
            ctypes.CDLL(None).dlopen(os.fsencode(path), flags)
