"""Validation of requests: names, types, shapes and rows of a model's input tensors.

All checks precede queueing, so one request never fails the batch. Checks of rows are a few numpy operations over the whole
request.

Axes: B positions, L largest number of legal actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np

from zerofleet.contracts.heads import Output, outputs_of
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.naming import LEGAL_TENSOR, MAX_MESSAGE_BYTES, MAX_REQUEST_ROWS, STATE_TENSOR
from zerofleet.errors import InvalidRequest

__all__ = ["BINARY_DATA", "MOST_LISTED", "Contract", "Tensor", "content_of", "require_plain"]

BINARY_DATA = "binary_data"
"""The only parameter of a wanted output: whether its numbers are sent as bytes, which gRPC always does."""
MOST_LISTED = 16
"""Largest number of inputs, outputs or parameters of a request."""

_DTYPES: dict[str, np.dtype[Any]] = {"UINT8": np.dtype("u1"), "INT16": np.dtype("<i2")}
_TYPED_BYTE, _TYPED_ACTION = 2, 10  # bytes of a number on the wire
_PADDING = np.uint16(0xFFFF)  # -1
_HEAD_BYTES = 16 << 10  # names, shapes, parameters
_SHOWN_NAMES = 5
_SHOWN_CHARACTERS = 40


def require_plain(output: str, parameters: Iterable[str]) -> None:
    """Raise `InvalidRequest` for parameters of a wanted output other than `BINARY_DATA`: they would change its form."""
    if unknown := sorted(set(parameters) - {BINARY_DATA}):
        shown, first = output[:_SHOWN_CHARACTERS], unknown[0][:_SHOWN_CHARACTERS]
        raise InvalidRequest(f"output {shown!r} has the parameter {first!r}; want {BINARY_DATA} at most")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A received tensor, not yet validated."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    content: bytes  # little-endian, row by row


@dataclass(frozen=True, slots=True)
class Contract:
    """Sizes of a model's tensors."""

    planes: tuple[int, int, int]
    packed_bytes: int
    max_legal: int
    num_actions: int
    outputs: tuple[Output, ...]
    """In the order of the manifest's heads."""

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        """Return the contract of a stored version; raises `CorruptModel` for unknown heads in its manifest."""
        channels, height, width = manifest.planes
        packed_bytes = (channels * height * width + 7) // 8
        outputs = outputs_of(
            manifest.heads,
            max_legal=manifest.max_legal,
            num_players=manifest.num_players,
            num_actions=manifest.num_actions,
        )
        return cls(manifest.planes, packed_bytes, manifest.max_legal, manifest.num_actions, outputs)

    @staticmethod
    def request_bytes_of(planes: tuple[int, int, int], max_legal: int) -> int:
        """Return the size of the largest valid request for a model with these planes and this number of legal actions.

        As typed contents, which are the longest form: a byte of a state takes up to 2 as a variable-length integer, an action
        up to 10.
        """
        channels, height, width = planes
        row_bytes = _TYPED_BYTE * ((channels * height * width + 7) // 8) + _TYPED_ACTION * max_legal
        return MAX_REQUEST_ROWS * row_bytes + _HEAD_BYTES

    @property
    def inputs(self) -> tuple[tuple[str, str, int], ...]:
        """Name, type and row length of each input."""
        return (STATE_TENSOR, "UINT8", self.packed_bytes), (LEGAL_TENSOR, "INT16", self.max_legal)

    def read(self, tensors: Sequence[Tensor]) -> tuple[np.ndarray, np.ndarray]:
        """Return `states` uint8 [B, packed_bytes] and `legal` int16 [B, L], without copying.

        Raises `InvalidRequest` unless they are a batch of positions of this game.
        """
        self._check_names([tensor.name for tensor in tensors])
        by_name = {tensor.name: tensor for tensor in tensors}
        states, legal = (_array(by_name[name], datatype, length) for name, datatype, length in self.inputs)
        if len(states) != len(legal):
            raise InvalidRequest(f"{STATE_TENSOR} has {len(states)} rows, {LEGAL_TENSOR} has {len(legal)}; want equal numbers")
        self.check(states, legal)
        return states, legal

    def check(self, states: np.ndarray, legal: np.ndarray) -> None:
        """Raise `InvalidRequest` unless rows of the right length, uint8 and int16, are positions of this game."""
        self._check_states(states)
        self._check_legal(legal)

    def require_outputs(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the requested outputs, all when none are named; raises `InvalidRequest` for unknown ones."""
        known = tuple(output.name for output in self.outputs)
        if unknown := [name for name in names if name not in known]:
            raise InvalidRequest(f"unknown output {_shown(unknown)}; this version has {', '.join(known)}")
        return tuple(name for name in known if name in names) if names else known

    def require_sendable(self, rows: int, names: Sequence[str]) -> None:
        """Raise `InvalidRequest` if an answer of these outputs for `rows` positions is larger than a message may be."""
        row_bytes = sum(output.row_bytes for output in self.outputs if output.name in names)
        most = (MAX_MESSAGE_BYTES - _HEAD_BYTES) // row_bytes
        if rows > most:
            raise InvalidRequest(
                f"an answer with {', '.join(names)} has {row_bytes} bytes a position, so {rows} positions exceed a message of"
                f" {MAX_MESSAGE_BYTES} bytes; ask for at most {most}, or name fewer outputs"
            )

    def _check_names(self, names: list[str]) -> None:
        known = [name for name, _, _ in self.inputs]
        if unknown := [name for name in names if name not in known]:
            raise InvalidRequest(f"unknown input {_shown(unknown)}; want {' and '.join(known)}")
        if missing := [name for name in known if name not in names]:
            raise InvalidRequest(f"input {' and '.join(missing)} is missing; want {' and '.join(known)}")
        if len(names) != len(known):
            raise InvalidRequest(f"an input is given more than once: {_shown(names)}")

    def _check_states(self, states: np.ndarray) -> None:
        channels, height, width = self.planes
        used_bits = channels * height * width - 8 * (self.packed_bytes - 1)  # of the last byte
        stray = states[:, -1] >> used_bits if used_bits < 8 else None
        if stray is not None and stray.any():
            row = int(np.argmax(stray > 0))
            raise InvalidRequest(
                f"{STATE_TENSOR} row {row}: bits beyond the {channels * height * width} of {channels} planes"
                f" {height} x {width} must be 0; it was encoded for another game"
            )

    def _lists_actions(self, legal: np.ndarray) -> bool:
        """Return whether each row lists distinct actions of the game, ascending, then padding.

        Over the flat array, since numpy takes five times as long for rows of a few actions. As uint16 padding is the largest
        number, and plus one it is 0.
        """
        flat = legal.reshape(-1).view(np.uint16)
        if int(legal[:, 0].min()) < 0 or int((flat + np.uint16(1)).max()) > self.num_actions:
            return False
        ordered = flat[1:] > flat[:-1]
        ordered |= flat[1:] == _PADDING
        ordered[legal.shape[1] - 1 :: legal.shape[1]] = True  # from the end of a row to the next
        return bool(ordered.all())

    def _check_legal(self, legal: np.ndarray) -> None:
        if self._lists_actions(legal):
            return
        first, rest, before = legal[:, 0], legal[:, 1:], legal[:, :-1]
        if (first < 0).any():
            row = int(np.argmax(first < 0))
            _refuse_row(row, legal, "lists no action first", "at least one legal action, then padding of -1")
        if (legal >= self.num_actions).any():
            row = int(np.argmax((legal >= self.num_actions).any(axis=1)))
            _refuse_row(row, legal, "lists an action out of range", f"0 to {self.num_actions - 1}")
        broken = (rest != -1) & ((rest <= before) | (before < 0))
        if broken.any():
            row = int(np.argmax(broken.any(axis=1)))
            _refuse_row(row, legal, "is not in order", "distinct actions, ascending, then padding of -1")


def content_of(name: str, datatype: str, numbers: Sequence[int]) -> bytes:
    """Return the bytes of a tensor that was sent as integers; none for a type that no input has, which `read` rejects.

    Raises `InvalidRequest` for a number that the type cannot hold.
    """
    if (dtype := _DTYPES.get(datatype)) is None:
        return b""
    limits = np.iinfo(dtype)
    try:
        wide = np.array(numbers, dtype=np.int64)
        fits = not wide.size or limits.min <= wide.min() <= wide.max() <= limits.max
    except OverflowError:
        fits = False
    if not fits:
        raise InvalidRequest(f"{name[:_SHOWN_CHARACTERS]!r} has a number out of range for {datatype}")
    return wide.astype(dtype).tobytes()


def _array(tensor: Tensor, datatype: str, length: int) -> np.ndarray:
    """Return the rows of a tensor as [B, length]; validates before any allocation."""
    if tensor.datatype != datatype:
        raise InvalidRequest(f"{tensor.name} has type {tensor.datatype[:_SHOWN_CHARACTERS]!r}, want {datatype}")
    if len(tensor.shape) != 2 or tensor.shape[1] != length:
        raise InvalidRequest(f"{tensor.name} has shape {list(tensor.shape[:8])}, want [positions, {length}]")
    rows = tensor.shape[0]
    if not 1 <= rows <= MAX_REQUEST_ROWS:
        raise InvalidRequest(f"{tensor.name} has {rows} rows, want 1 to {MAX_REQUEST_ROWS} in one request")
    dtype = _DTYPES[datatype]
    wanted = rows * length * dtype.itemsize
    if len(tensor.content) != wanted:
        raise InvalidRequest(f"{tensor.name} has {len(tensor.content)} bytes, want {wanted} for shape {list(tensor.shape)}")
    return np.frombuffer(tensor.content, dtype).reshape(rows, length)


def _refuse_row(row: int, legal: np.ndarray, fault: str, wanted: str) -> NoReturn:
    shown = legal[row, :16].tolist()
    raise InvalidRequest(f"{LEGAL_TENSOR} row {row} {fault}: {shown}; want {wanted}")


def _shown(names: Sequence[str]) -> str:
    return ", ".join(repr(name[:_SHOWN_CHARACTERS]) for name in names[:_SHOWN_NAMES])
