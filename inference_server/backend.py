"""TorchScript on a device: the backend that evaluates every network.

This module and `inference_server.gpu` are the only ones of this server that import torch; they are imported where they are
needed (`inference_server.late_backend`).

`TorchBackend.load` prepares a stored version for inference; `TorchNetwork.evaluate` runs on the device thread only.

Throughput of the presets' residual networks (positions per second of CPU time, one thread of a 2-core machine with native
bfloat16, batch 512):

                                                  2 x 32 channels    4 x 64 channels
    as stored                                              17,600              3,700
    + freed memory kept                                    50,400              8,400
    + frozen, channels last                                46,800              9,200
    + optimised for inference                              58,700              9,700
    + bfloat16                                             93,600             19,500

A CPU therefore gets all of them, and bfloat16 on request. Batches of 128 reach 90 % of the best throughput. Two threads on
two cores nearly double it on an idle machine, and fall to a fraction of one thread next to other busy processes, since the
threads synchronise at every layer; hence one thread by default. On a GPU (`inference_server.gpu`): half precision from norms
folded in float64, channels last, batches padded to the rungs of a ladder, two in flight, each step on a stream of its own,
and float32 without TF32.
"""

from __future__ import annotations

import contextlib
import re
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import structlog
import torch

from inference_server.answers import check_answers, is_near
from inference_server.device import number_format
from inference_server.device_report import check_present
from inference_server.gpu.accelerator import Accelerator, Cuda, require_alive
from inference_server.gpu.faults import is_of_device, is_out_of_memory, reason_of
from inference_server.gpu.folding import fold_norms
from inference_server.gpu.ladder import rungs
from inference_server.gpu.network import DeviceNetwork
from inference_server.gpu.slots import Slots, Widths
from inference_server.network import Network, NetworkOutput
from inference_server.settings import Precision
from inference_server.warm_up import growing_sizes, warm_up
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.pacing import give_way
from zerofleet.errors import ConfigurationError, CorruptModel, Unavailable, VersionSkew
from zerofleet.service.allocator import keep_freed_memory

__all__ = ["TorchBackend", "TorchNetwork", "torch_device"]

log = structlog.get_logger()

_NEWER_FILE = re.compile(r"PyTorch file with version \d+, but the maximum supported version for reading is \d+")
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# The profiling executor specialises during the first two passes; the third is the first at full speed.
WARM_UP_PASSES = 3
# Batches in flight on a GPU: one computes while the other is filled and emptied. A third would gain nothing while the host
# keeps up, and adds a batch to the wait of every urgent request.
GPU_SLOTS = 2


class TorchBackend:
    """One device. `load` may run on any thread; the network it returns is used on the device thread."""

    def __init__(
        self,
        device: str = "auto",
        precision: Precision = "auto",
        threads: int = 1,
        *,
        slots: int = 0,
        accelerator: Accelerator | None = None,
    ) -> None:
        """`slots`: batches in flight on a GPU, 0 for the default. `accelerator`: streams of the device, by default CUDA's.

        Raises `ConfigurationError` for a device or precision that this machine lacks.
        """
        has_gpu = torch.cuda.is_available()
        self.device = torch_device(device, has_gpu=has_gpu)
        if self.on_gpu and not has_gpu:
            raise ConfigurationError(f"device={device}, but torch finds no GPU; use device=cpu or install a CUDA build")
        if self.on_gpu and accelerator is None:
            check_present([str(self.device)], torch.cuda.device_count())
        self.precision = _DTYPES[number_format(precision, on_gpu=self.on_gpu)]
        self._threads = threads
        self.accelerator: Accelerator | None = accelerator
        """Streams of the device; None on a CPU, where a batch is evaluated in one call."""
        if accelerator is None and self.on_gpu:
            try:
                self.accelerator = Cuda(self.device)
            except RuntimeError as error:
                raise ConfigurationError(f"device {self.device} cannot be used: {reason_of(error)}") from error
        self.slots = 1 if self.accelerator is None else slots or GPU_SLOTS
        keep_freed_memory()
        with warnings.catch_warnings():  # torch warns once a process that a tensor of read-only memory is writable
            warnings.simplefilter("ignore")
            torch.frombuffer(b"\0", dtype=torch.uint8)
        if self.on_gpu:
            # Batch sizes vary; compiling a kernel for each would take seconds and gain little.
            torch.jit.set_fusion_strategy([("STATIC", 0), ("DYNAMIC", 0)])
        if self.accelerator is not None:
            # TF32 has the 10 bits of half precision at half its speed; float32 as a setting means all 23.
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device.type == "cuda"

    def load(self, path: Path, manifest: Manifest, *, max_batch: int) -> Network:
        """Load a version whose files were verified, check its golden positions and warm it up.

        Loading TorchScript executes code. Each step holds the GIL for up to 15 ms; a paced thread gives way before each. A
        version distorted by reduced precision is loaded in float32 instead. Raises `CorruptModel`; `Unavailable` when memory,
        the disk or a GPU's library fails, which is no fault of the version; `DeviceLost`.
        """
        try:
            with self._on_loading_stream():
                return self._load_warm(path, manifest, max_batch=max_batch)
        except (RuntimeError, MemoryError, OSError) as error:
            self._require_alive(error)
            if isinstance(error, RuntimeError) and not self._is_of_machine(error):
                raise
            raise Unavailable(
                f"model {manifest.model} version {manifest.version} cannot be loaded now ({reason_of(error)});"
                f" free memory on {self.device}, or restart this server if there is enough"
            ) from error

    @contextlib.contextmanager
    def _on_loading_stream(self) -> Iterator[None]:
        """Queue the work of this thread, on a GPU, beside that of the batches in service."""
        if self.accelerator is None:
            yield
            return
        self.accelerator.bind()
        with self.accelerator.on(self.accelerator.loading):
            yield

    def _is_of_machine(self, error: Exception) -> bool:
        """Return whether memory, or the device, is at fault and not the version: a later load may succeed."""
        return is_out_of_memory(error) if self.accelerator is None else is_of_device(error)

    def _require_alive(self, error: Exception) -> None:
        if self.accelerator is not None:
            require_alive(self.device, (self.accelerator.loading,), error)

    def _load_warm(self, path: Path, manifest: Manifest, *, max_batch: int) -> Network:
        network = self._load_checked(path, manifest, max_batch)
        on_device = isinstance(network, DeviceNetwork)
        sizes = rungs(max_batch) if on_device else growing_sizes(max_batch)
        warm_up(network, manifest, sizes=sizes, passes=WARM_UP_PASSES)
        if isinstance(network, DeviceNetwork):
            network.slots.enter_service()
        return network

    def _load_checked(self, path: Path, manifest: Manifest, max_batch: int) -> Network:
        network, output = self._load(path, manifest, self.precision, max_batch=max_batch)
        try:
            check_answers(manifest, output)
        except CorruptModel as error:
            if self.precision is torch.float32:
                raise
            exact, exact_output = self._load(path, manifest, torch.float32, max_batch=max_batch)
            check_answers(manifest, exact_output)  # the version itself is sound: only the precision can be at fault
            if not is_near(output, exact_output):
                log.warning(
                    "model.precision_refused", version=manifest.version, precision=str(self.precision), error=str(error)
                )
                network = exact
        return network

    def _load(self, path: Path, manifest: Manifest, precision: torch.dtype, *, max_batch: int) -> tuple[Network, NetworkOutput]:
        """Return the network and its output for the golden positions."""
        states, legal, _, _ = manifest.golden.arrays()
        torch.set_num_threads(self._threads)
        try:
            give_way()
            script: Any = torch.jit.load(path, map_location=self.device)  # type: ignore[no-untyped-call]
            give_way()
            _require_finite(script, manifest)
            script = script.eval()
            if precision is not torch.float32:
                fold_norms(script)
                give_way()
            script = script.to(precision).to(memory_format=torch.channels_last)
            # A network of other sizes fails here. In an optimised graph torch 2.13 may crash while formatting the error.
            with torch.inference_mode():
                script(*(_tensor([array]).to(self.device) for array in (states, legal)))
            give_way()
            script = torch.jit.freeze(script)
            if self.accelerator is None and not _pools(manifest):
                give_way()
                script = torch.jit.optimize_for_inference(script)
            give_way()
            network = self._network(script, precision, Widths(states.shape[1], legal.shape[1]), max_batch)
            give_way()
            return network, network.evaluate([states], [legal])
        except (RuntimeError, ValueError, TypeError, AttributeError) as error:
            if self._is_of_machine(error):
                raise
            self._require_alive(error)
            text = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
            if newer := _NEWER_FILE.search(str(error)):
                raise VersionSkew(
                    f"model {manifest.model} version {manifest.version}: {newer[0]}; upgrade this server"
                ) from error
            raise CorruptModel(f"model {manifest.model} version {manifest.version} cannot be run: {text}") from error

    def _network(self, script: Any, precision: torch.dtype, widths: Widths, max_batch: int) -> Network:
        if self.accelerator is None:
            return TorchNetwork(script, precision, self._threads)
        slots = Slots(self.accelerator, script, widths, rungs=rungs(max_batch), count=self.slots)
        return DeviceNetwork(slots, backend=TorchNetwork.backend, precision=str(precision).removeprefix("torch."))


def torch_device(name: str, *, has_gpu: bool) -> torch.device:
    """Return the device of a setting; `cuda` is the first GPU, since a thread can be bound to a device with a number alone."""
    if name == "auto":
        name = "cuda" if has_gpu else "cpu"
    return torch.device("cuda", 0) if name == "cuda" else torch.device(name)


def _pools(manifest: Manifest) -> bool:
    """Return whether the blocks of a network pool over the board.

    oneDNN's layout, in which `optimize_for_inference` keeps a plain tower, is left and entered around every pooling, which
    makes it a quarter slower than the frozen graph.
    """
    return bool(manifest.network.get("global_pooling") or manifest.network.get("squeeze"))


class TorchNetwork:
    """A version on the CPU. Free of reference cycles: its memory is released with the last reference."""

    backend = "torchscript"

    def __init__(self, script: Any, precision: torch.dtype, threads: int) -> None:
        self.precision = str(precision).removeprefix("torch.")
        self._threads = threads
        self._prepared: int | None = None  # the thread that evaluated last: torch keeps its number of threads for each thread
        self._script = script

    def evaluate(self, states: list[np.ndarray], legal: list[np.ndarray]) -> NetworkOutput:
        """See `Network.evaluate`; the arrays are evaluated in place."""
        if self._prepared != (thread := threading.get_ident()):
            torch.set_num_threads(self._threads)
            self._prepared = thread
        with torch.inference_mode():
            return tuple(answer.numpy() for answer in self._script(_tensor(states), _tensor(legal)))


def _tensor(parts: list[np.ndarray]) -> torch.Tensor:
    """Return the concatenation of arrays as a read-only tensor; a single array is not copied."""
    if len(parts) > 1:
        return torch.from_numpy(np.concatenate(parts))
    array = parts[0]
    if array.flags.writeable:
        return torch.from_numpy(array)
    dtype = torch.uint8 if array.dtype == np.uint8 else torch.int16
    content: Any = np.ascontiguousarray(array)
    return torch.frombuffer(content, dtype=dtype).view(array.shape)


def _require_finite(script: Any, manifest: Manifest) -> None:
    tensors = [*script.named_parameters(), *script.named_buffers()]
    for name, tensor in tensors:
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise CorruptModel(f"model {manifest.model} version {manifest.version}: {name} is not finite; training diverged")
