"""The compiled kernel on the CPU (`zerofleet.evaluators.native`), in float32 or, where the processor has AMX, bfloat16x3."""

from __future__ import annotations

from pathlib import Path

from games import core
from inference_server.answers import check_answers
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.model_checks import WEIGHTS_FILE
from zerofleet.contracts.pacing import give_way
from zerofleet.errors import Unavailable
from zerofleet.evaluators.native import NativeNetwork, Unsupported, load_native
from zerofleet.service.allocator import keep_freed_memory

__all__ = ["NativeBackend"]


class NativeBackend:
    """The processor, with `threads` threads a call. A call's threads take blocks of positions in turn."""

    slots = 1

    def __init__(self, threads: int = 1, *, float32: bool = False) -> None:
        """`float32`: use no instruction set with products of another number format."""
        self._threads = threads
        self._float32 = float32
        keep_freed_memory()

    def load(self, path: Path, manifest: Manifest, *, max_batch: int) -> NativeNetwork:
        """See `Backend.load`; reads the weights beside `path` and executes no code of the version.

        Raises `Unsupported` with the reason, too.
        """
        if not core.is_available(manifest.game):
            raise Unsupported(f"not supported: {manifest.game}, which is not installed")
        try:
            spec = core.make(manifest.game, **manifest.parameters).spec()
            give_way()
            network = load_native(path.with_name(WEIGHTS_FILE), manifest, spec, threads=self._threads, float32=self._float32)
            states, legal, *_ = manifest.golden.arrays()
            check_answers(manifest, network.evaluate([states], [legal]))  # no more warm-up: the kernel specialises nothing
        except MemoryError as error:
            raise Unavailable(
                f"model {manifest.model} version {manifest.version} cannot be loaded now (memory is exhausted); free memory"
            ) from error
        return network
