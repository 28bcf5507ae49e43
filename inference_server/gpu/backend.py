"""Residual towers from their stored weights, recorded as CUDA graphs: a backend beside TorchScript on the same device.

    weights.safetensors ──folded──► tower in float32 ──► golden positions        exact, or the version is left to TorchScript
                                 └► tower, fused or plain convolutions ──► near?  the first that is, each refusal logged
                                       └► warmed up at every rung ──► recorded ──► every graph near? ──► service

The default on a GPU; docs/decisions/0021-gpu-runner.md has what ran on a card.
"""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import structlog
import torch

from games import core
from inference_server.answers import check_answers, is_near
from inference_server.gpu.accelerator import Accelerator, first_line, require_alive
from inference_server.gpu.faults import has_no_engine, is_out_of_memory, reason_of
from inference_server.gpu.ladder import rungs
from inference_server.gpu.network import DeviceNetwork
from inference_server.gpu.slots import Slots, Widths
from inference_server.gpu.tower import CONVOLUTIONS, Convolve, Tower
from inference_server.network import Network, NetworkOutput
from inference_server.warm_up import warm_up
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.model_checks import WEIGHTS_FILE
from zerofleet.contracts.pacing import give_way
from zerofleet.errors import Unavailable
from zerofleet.evaluators.native.folded import FoldedTower, Unsupported, folded_tower, read_weights

__all__ = ["CudaBackend"]

log = structlog.get_logger()

_WARM_UP_PASSES = 2  # the first plans, the second finds the plan
# Share of the errors admitted in reduced precision: half precision has three bits more than bfloat16, for which they were
# measured, and another order of the sums is all that a float32 may differ by. TorchScript has the versions beyond them.
_SHARES = {torch.bfloat16: 1.0, torch.float16: 0.25, torch.float32: 0.02}


class CudaBackend:
    """One device, shared with the TorchScript backend of the same accelerator."""

    def __init__(self, accelerator: Accelerator, precision: torch.dtype, *, slots: int) -> None:
        self.slots = slots
        self._accelerator = accelerator
        self._precision = precision
        self._share = _SHARES[precision]
        self._loading = threading.Lock()  # one recording at a time: they share a stream

    def load(self, path: Path, manifest: Manifest, *, max_batch: int) -> Network:
        """See `Backend.load`; reads the weights beside `path` and executes no code of the version.

        Raises `Unsupported` with the reason too, `Unavailable` when memory is exhausted, and `DeviceLost`.
        """
        with self._loading, torch.inference_mode():
            try:
                self._accelerator.bind()
                with self._accelerator.on(self._accelerator.loading):
                    return self._load(path, manifest, rungs(max_batch))
            except RuntimeError as error:
                require_alive(self._accelerator.device, (self._accelerator.loading,), error)
                if not is_out_of_memory(error):
                    raise Unsupported(f"not supported: {first_line(error)}") from error
                raise Unavailable(
                    f"model {manifest.model} version {manifest.version} cannot be loaded now (memory of"
                    f" {self._accelerator.device} is exhausted: {reason_of(error)}); free memory"
                ) from error

    def _load(self, path: Path, manifest: Manifest, sizes: tuple[int, ...]) -> Network:
        tower = _read(path, manifest)
        exact = self._output(tower, manifest, CONVOLUTIONS["plain"], torch.float32)
        check_answers(manifest, exact)
        kind = self._convolutions(tower, manifest, exact)
        give_way()
        forward = Tower(tower, manifest, CONVOLUTIONS[kind], device=self._accelerator.device, dtype=self._precision)
        states, legal, *_ = manifest.golden.arrays()
        widths = Widths(states.shape[1], legal.shape[1])
        slots = Slots(self._accelerator, forward, widths, rungs=sizes, count=self.slots)
        name = str(self._precision).removeprefix("torch.")
        network = DeviceNetwork(slots, backend=f"cuda_{kind}", precision=name)
        warm_up(network, manifest, sizes=sizes, passes=_WARM_UP_PASSES)
        self._record(slots)
        self._accelerator.trim()
        slots.enter_service()  # graphs run on its streams alone
        self._check_graphs(network, manifest, exact, sizes=sizes)
        return network

    def _record(self, slots: Slots) -> None:
        """Record the graphs; if that exhausts the memory, once more with what torch kept: it returns none while it records.

        Neither the return nor the second recording has run on a card.
        """
        try:
            slots.record()
            return
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            log.info("model.recording_repeated", reason=reason_of(error))
        # Not in the handler: the frames of the error hold a graph, whose memory is to be returned as well.
        self._accelerator.release()
        slots.record()

    def _convolutions(self, tower: FoldedTower, manifest: Manifest, exact: NetworkOutput) -> str:
        """Return the name of the first kind of convolution whose answers are near the exact ones; raises `Unsupported`."""
        refused = {}
        for kind, convolve in CONVOLUTIONS.items():
            try:
                output = self._output(tower, manifest, convolve, self._precision)
            except RuntimeError as error:
                require_alive(self._accelerator.device, (self._accelerator.loading,), error)
                # Without an engine the next kind is tried, whatever the cause: cuDNN may lack the fused one for this card.
                if is_out_of_memory(error) and not has_no_engine(error):
                    raise
                refused[kind] = first_line(error)
            else:
                if is_near(output, exact, share=self._share):
                    return kind
                refused[kind] = f"other answers to the golden positions in {self._precision}"
            log.warning("model.convolutions_refused", version=manifest.version, convolutions=kind, reason=refused[kind])
        raise Unsupported("not supported: " + "; ".join(f"{kind} convolutions: {reason}" for kind, reason in refused.items()))

    def _output(self, tower: FoldedTower, manifest: Manifest, convolve: Convolve, dtype: torch.dtype) -> NetworkOutput:
        """Return the answers to the golden positions, evaluated step by step."""
        give_way()
        device = self._accelerator.device
        states, legal, *_ = manifest.golden.arrays()
        forward = Tower(tower, manifest, convolve, device=device, dtype=dtype)
        answers = forward(*(torch.from_numpy(array.copy()).to(device) for array in (states, legal)))
        return tuple(answer.cpu().numpy() for answer in answers)

    def _check_graphs(
        self, network: DeviceNetwork, manifest: Manifest, exact: NetworkOutput, *, sizes: tuple[int, ...]
    ) -> None:
        """Raise `Unsupported` unless every graph of every slot gives the answers to the golden positions."""
        states, legal, *_ = manifest.golden.arrays()
        for rung in sizes:
            give_way()
            block = [np.resize(states, (rung, states.shape[1]))], [np.resize(legal, (rung, legal.shape[1]))]
            wanted = tuple(np.resize(head, (rung, head.shape[1])) for head in exact)
            flights = [network.begin(*block) for _ in range(self.slots)]
            outputs = [flight.collect() for flight in flights]  # all of them: none may be left on the device
            if not all(is_near(output, wanted, share=self._share) for output in outputs):
                raise Unsupported(f"not supported: the graph of {rung} rows gives other answers to the golden positions")


def _read(path: Path, manifest: Manifest) -> FoldedTower:
    if not core.is_available(manifest.game):
        raise Unsupported(f"not supported: {manifest.game}, which is not installed")
    spec = core.make(manifest.game, **manifest.parameters).spec()
    return folded_tower(manifest, read_weights(path.with_name(WEIGHTS_FILE)), spec)
