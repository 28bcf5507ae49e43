"""Network of a stored version in the kernel: arrays in, arrays out, in the tensors of every model.

Axes: B positions, L largest number of legal actions, P players.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from games.core import GameSpec
from zerofleet.contracts.manifests import Manifest
from zerofleet.errors import Unavailable
from zerofleet.evaluators.native import library
from zerofleet.evaluators.native.folded import Unsupported, read_weights
from zerofleet.evaluators.native.library import Instructions
from zerofleet.evaluators.native.plan import Plan, plan_of

__all__ = ["NativeNetwork", "load_native"]


class NativeNetwork:
    """A version in the kernel. Thread-safe: calls share the weights alone. Free of reference cycles, as `TorchNetwork` is.

    The answer for a position is the same, to the last bit, in every batch and with any number of threads.
    """

    def __init__(self, plan: Plan, manifest: Manifest, *, instructions: Instructions, threads: int = 1) -> None:
        self.backend = f"native_{instructions.name}"
        self.precision = instructions.precision
        self._plan = plan
        self._instructions = instructions
        self._threads = threads
        self._value = str(manifest.network.get("value_output", "players"))
        self._extra = manifest.heads[2:]
        found = library.find().library
        if found is None:
            raise Unsupported(f"not supported: {library.find().reason}")
        self._evaluate = found.zf_evaluate

    def evaluate(self, states: list[np.ndarray], legal: list[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Return policy float16 [B, L], value float32 [B, P] and the extra heads of the concatenated requests.

        states  uint8 [B_i, packed_bytes] of each request, encoded for the player to move
        legal   int16 [B_i, L] of each request, padded with -1

        The GIL is released. Raises `Unavailable` when memory is exhausted, and `ValueError` for arrays beyond which the
        kernel would read.
        """
        rows, layout = sum(map(len, states)), self._plan.layout
        packed = _joined(states, np.uint8, layout.packed_bytes)
        listed = _joined(legal, np.int16, layout.max_legal)
        if len(listed) != rows:
            raise ValueError(f"got {rows} rows of states and {len(listed)} of legal actions, want equal numbers")
        if listed.max(initial=-1) >= self._plan.answers[0]:
            raise ValueError(f"got action {listed.max()}, want 0 to {self._plan.answers[0] - 1} and padding of -1")
        policy = np.empty((rows, layout.max_legal), np.float32)
        answers = [np.empty((rows, width), np.float32) for width in self._plan.answers[1:]]
        into = (ctypes.c_void_p * layout.heads)(None, *(answer.ctypes.data for answer in answers))
        failed = self._evaluate(
            layout, self._instructions.number, self._threads, rows, packed.ctypes.data, listed.ctypes.data,
            policy.ctypes.data, into,
        )  # fmt: skip
        if failed:
            raise Unavailable(f"memory for {layout.scratch_floats * 4} bytes a thread is exhausted; free memory")
        extra = [_of_head(name, answer) for name, answer in zip(self._extra, answers[1:], strict=True)]
        return policy.astype(np.float16), _scores(self._value, answers[0]), *extra


def load_native(
    path: Path,
    manifest: Manifest,
    spec: GameSpec,
    *,
    threads: int = 1,
    instructions: str = "",
    float32: bool = False,
    block: int = 0,
) -> NativeNetwork:
    """Return the network of a verified version from its weights, not yet compared with its golden positions.

    `path`: the file of its weights. `instructions`: name of an instruction set, the best one by default; `float32`: select one
    whose convolutions are in float32; `block`: see `plan_of`. Raises `Unsupported` with the reason, `CorruptModel` for
    weights that do not fit, and `Unavailable` when the disk fails.
    """
    found = library.find()
    if found.library is None:
        raise Unsupported(f"not supported: {found.reason}")
    chosen = [known for known in found.instructions if instructions in ("", known.name) and not (float32 and known.is_split)]
    if not chosen:
        raise Unsupported(f"not supported: instruction set {instructions} on this processor")
    plan = plan_of(manifest, read_weights(path), spec, chosen[0], block=block)
    return NativeNetwork(plan, manifest, instructions=chosen[0], threads=threads)


def _joined(parts: list[np.ndarray], dtype: type[np.generic], width: int) -> np.ndarray:
    """Return one C-contiguous array; raises `ValueError` for rows of another width."""
    whole = np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate(parts), dtype)
    if whole.ndim != 2 or whole.shape[1] != width:
        raise ValueError(f"got rows of shape {whole.shape[1:]}, want {width} numbers each")
    return whole


def _scores(kind: str, outputs: np.ndarray) -> np.ndarray:
    """Return the scores float32 [B, P] of `NetworkSettings.value_output`; see trainer.values."""
    if kind == "players":
        return np.asarray(np.tanh(outputs))
    if kind == "points":
        return np.asarray(np.minimum(np.maximum(outputs, 0) * np.float32(2 / 3) - np.float32(1), np.float32(1)))
    if kind == "win_or_loss":
        mover = np.tanh((outputs[:, :1] - outputs[:, 1:]) / 2)  # p - (1 - p) of a softmax over two
    else:
        mover = np.tanh(outputs if kind == "mover" else outputs / 2)  # 2 sigmoid(x) - 1
    return np.concatenate([mover, -mover], axis=1)


def _of_head(name: str, outputs: np.ndarray) -> np.ndarray:
    """Return an extra head in its wire type: shares float32 [B, 1], or probabilities float16 [B, A]."""
    if name == "plies_left":
        share: np.ndarray = np.float32(0.5) * (np.tanh(outputs / 2) + np.float32(1))
        return share
    shifted = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return np.asarray((shifted / shifted.sum(axis=1, keepdims=True)).astype(np.float16))
