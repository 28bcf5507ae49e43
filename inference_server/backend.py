"""TorchScript on a device: the backend that evaluates every network, and the only module of this server that imports torch.

It is imported where it is needed (`inference_server.late_backend`).

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
threads synchronise at every layer; hence one thread by default. On a GPU: half precision, channels last, pinned buffers,
non-blocking copies.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import structlog
import torch

from inference_server.answers import check_answers
from inference_server.device import number_format
from inference_server.network import NetworkOutput
from inference_server.settings import Precision
from inference_server.warm_up import warm_up
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.pacing import give_way
from zerofleet.errors import ConfigurationError, CorruptModel, Unavailable, VersionSkew
from zerofleet.service.allocator import keep_freed_memory

__all__ = ["TorchBackend", "TorchNetwork"]

log = structlog.get_logger()

_NEWER_FILE = re.compile(r"PyTorch file with version \d+, but the maximum supported version for reading is \d+")
_OUT_OF_MEMORY = re.compile(
    r"out of memory|not enough memory|(can't|cannot|failed to|unable to) allocate|bad_alloc|ALLOC_FAILED", re.IGNORECASE
)
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# The profiling executor specialises during the first two passes; the third is the first at full speed.
WARM_UP_PASSES = 3
# Largest error of reduced precision in a probability (or another number in [0, 1]) and in a value. A trained 2 x 32 network
# in bfloat16 was off by up to 0.03 and 0.04 (0.001 and 0.005 on average), with the same best move in 99.6 % of positions.
REDUCED_POLICY_TOLERANCE = 0.05
REDUCED_VALUE_TOLERANCE = 0.1


class TorchBackend:
    """One device. `load` may run on any thread; the network it returns is used on the device thread."""

    def __init__(self, device: str = "auto", precision: Precision = "auto", threads: int = 1) -> None:
        has_gpu = torch.cuda.is_available()
        self.device = torch.device(("cuda:0" if has_gpu else "cpu") if device == "auto" else device)
        if self.on_gpu and not has_gpu:
            raise ConfigurationError(f"device={device}, but torch finds no GPU; use device=cpu or install a CUDA build")
        self.precision = _DTYPES[number_format(precision, on_gpu=self.on_gpu)]
        self._threads = threads
        keep_freed_memory()
        with warnings.catch_warnings():  # torch warns once a process that a tensor of read-only memory is writable
            warnings.simplefilter("ignore")
            torch.frombuffer(b"\0", dtype=torch.uint8)
        if self.on_gpu:
            # Batch sizes vary; compiling a kernel for each would take seconds and gain little.
            torch.jit.set_fusion_strategy([("STATIC", 0), ("DYNAMIC", 0)])

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device.type == "cuda"

    @property
    def precision_name(self) -> str:
        """Number format of the device, such as `float32`."""
        return str(self.precision).removeprefix("torch.")

    def load(self, path: Path, manifest: Manifest, *, max_batch: int) -> TorchNetwork:
        """Load a version whose files were verified, check its golden positions and warm it up.

        Loading TorchScript executes code. Each step holds the GIL for up to 15 ms; a paced thread gives way before each. A
        version distorted by reduced precision is loaded in float32 instead. Raises `CorruptModel`; `Unavailable` when memory
        or the disk fails, which is no fault of the version.
        """
        try:
            return self._load_warm(path, manifest, max_batch=max_batch)
        except (RuntimeError, MemoryError, OSError) as error:
            if isinstance(error, RuntimeError) and not _OUT_OF_MEMORY.search(str(error)):
                raise
            text = str(error).strip().split("\n")[0] or type(error).__name__
            raise Unavailable(
                f"model {manifest.model} version {manifest.version} cannot be loaded now ({text}); free memory on {self.device}"
            ) from error

    def _load_warm(self, path: Path, manifest: Manifest, *, max_batch: int) -> TorchNetwork:
        network = self._load_checked(path, manifest)
        warm_up(network, manifest, max_batch=max_batch, passes=WARM_UP_PASSES)
        return network

    def _load_checked(self, path: Path, manifest: Manifest) -> TorchNetwork:
        network, output = self._load(path, manifest, self.precision)
        try:
            check_answers(manifest, output)
        except CorruptModel as error:
            if self.precision is torch.float32:
                raise
            exact, exact_output = self._load(path, manifest, torch.float32)
            check_answers(manifest, exact_output)  # the version itself is sound: only the precision can be at fault
            if not _is_near(output, exact_output):
                log.warning(
                    "model.precision_refused", version=manifest.version, precision=str(self.precision), error=str(error)
                )
                network = exact
        return network

    def _load(self, path: Path, manifest: Manifest, precision: torch.dtype) -> tuple[TorchNetwork, NetworkOutput]:
        """Return the network and its output for the golden positions."""
        states, legal, _, _ = manifest.golden.arrays()
        torch.set_num_threads(self._threads)
        try:
            give_way()
            script: Any = torch.jit.load(path, map_location=self.device)  # type: ignore[no-untyped-call]
            give_way()
            _require_finite(script, manifest)
            script = script.eval().to(precision).to(memory_format=torch.channels_last)
            # A network of other sizes fails here. In an optimised graph torch 2.13 may crash while formatting the error.
            TorchNetwork(script, self.device, precision, self._threads).evaluate([states], [legal])
            give_way()
            script = torch.jit.freeze(script)
            if not (self.on_gpu or _pools(manifest)):
                give_way()
                script = torch.jit.optimize_for_inference(script)
            give_way()
            network = TorchNetwork(script, self.device, precision, self._threads)
            return network, network.evaluate([states], [legal])
        except (RuntimeError, ValueError, TypeError, AttributeError) as error:
            if _OUT_OF_MEMORY.search(str(error)):
                raise
            text = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
            if newer := _NEWER_FILE.search(str(error)):
                raise VersionSkew(
                    f"model {manifest.model} version {manifest.version}: {newer[0]}; upgrade this server"
                ) from error
            raise CorruptModel(f"model {manifest.model} version {manifest.version} cannot be run: {text}") from error


def _pools(manifest: Manifest) -> bool:
    """Return whether the blocks of a network pool over the board.

    oneDNN's layout, in which `optimize_for_inference` keeps a plain tower, is left and entered around every pooling, which
    makes it a quarter slower than the frozen graph.
    """
    return bool(manifest.network.get("global_pooling") or manifest.network.get("squeeze"))


class TorchNetwork:
    """A version on the device. Free of reference cycles: its memory is released with the last reference."""

    backend = "torchscript"

    def __init__(self, script: Any, device: torch.device, precision: torch.dtype, threads: int) -> None:
        self.precision = str(precision).removeprefix("torch.")
        self._threads = threads
        self._prepared: int | None = None  # the thread that evaluated last: torch keeps its number of threads for each thread
        self._run: Callable[[list[np.ndarray], list[np.ndarray]], NetworkOutput]
        self._run = _GpuRunner(script, device) if device.type == "cuda" else _CpuRunner(script)

    def evaluate(self, states: list[np.ndarray], legal: list[np.ndarray]) -> NetworkOutput:
        """See `Network.evaluate`."""
        if self._prepared != (thread := threading.get_ident()):
            torch.set_num_threads(self._threads)
            self._prepared = thread
        return self._run(states, legal)


class _CpuRunner:
    """Evaluates the arrays in place, without copies."""

    def __init__(self, script: Any) -> None:
        self._script = script

    def __call__(self, states: list[np.ndarray], legal: list[np.ndarray]) -> NetworkOutput:
        with torch.inference_mode():
            return tuple(answer.numpy() for answer in self._script(_tensor(states), _tensor(legal)))


class _GpuRunner:
    """Copies through pinned memory; copy in, compute and copy out are queued on the stream and synchronised once."""

    def __init__(self, script: Any, device: torch.device) -> None:
        self._script = script
        self._device = device
        self._pinned: dict[str, torch.Tensor] = {}

    def __call__(self, states: list[np.ndarray], legal: list[np.ndarray]) -> NetworkOutput:
        with torch.inference_mode():
            inputs = [self._stage("states", states), self._stage("legal", legal)]
            answers = self._script(*(x.to(self._device, non_blocking=True) for x in inputs))
            outputs = [self._fetch(f"head {i}", answer) for i, answer in enumerate(answers)]
            torch.cuda.current_stream(self._device).synchronize()
            return tuple(output.numpy().copy() for output in outputs)

    def _stage(self, name: str, parts: list[np.ndarray]) -> torch.Tensor:
        rows = sum(map(len, parts))
        buffer = self._buffer(name, rows, _tensor(parts[:1]))
        np.concatenate(parts, out=buffer.numpy())
        return buffer

    def _fetch(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        return self._buffer(name, len(tensor), tensor).copy_(tensor, non_blocking=True)

    def _buffer(self, name: str, rows: int, like: torch.Tensor) -> torch.Tensor:
        """Return the first `rows` rows of a pinned buffer that grows by doubling."""
        held = self._pinned.get(name)
        if held is None or len(held) < rows:
            capacity = max(rows, 2 * len(held) if held is not None else 1)
            held = torch.empty((capacity, like.shape[1]), dtype=like.dtype, pin_memory=True)
            self._pinned[name] = held
        return held[:rows]


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


def _is_near(output: NetworkOutput, exact: NetworkOutput) -> bool:
    """Return whether output in reduced precision is close enough to the exact one; false for a nan."""
    policy, value, *extra_heads = (np.abs(got - want).max() for got, want in zip(output, exact, strict=True))
    near = value <= REDUCED_VALUE_TOLERANCE and all(off <= REDUCED_POLICY_TOLERANCE for off in (policy, *extra_heads))
    return bool(near)


def _require_finite(script: Any, manifest: Manifest) -> None:
    tensors = [*script.named_parameters(), *script.named_buffers()]
    for name, tensor in tensors:
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise CorruptModel(f"model {manifest.model} version {manifest.version}: {name} is not finite; training diverged")
