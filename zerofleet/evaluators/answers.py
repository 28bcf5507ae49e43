"""Checks of a server's answer, whatever carried it: shapes, types and finite numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from zerofleet.contracts.naming import POLICY_TENSOR, VALUE_TENSOR, head_tensor
from zerofleet.errors import CorruptModel

__all__ = ["check_answer", "refuse_answer"]


def check_answer(
    arrays: Sequence[np.ndarray | None], legal_shape: tuple[int, ...], named: tuple[str, str | int]
) -> list[np.ndarray]:
    """Return policy, value and the extra heads of an answer to legal actions of this shape [B, L].

    `named`: model and version. Raises `CorruptModel` unless every output is there, has one row for each position, the type of
    the wire, and finite numbers.
    """
    policy, value, *extra_heads = arrays
    rows, width = legal_shape
    if policy is None or policy.shape != (rows, width) or policy.dtype != np.float16:
        refuse_answer(named, f"{POLICY_TENSOR} of shape {_shape(policy)}, want FP16 ({rows}, {width})")
    for name, array in ((VALUE_TENSOR, value), *((head_tensor(index), head) for index, head in enumerate(extra_heads))):
        if array is None or array.ndim != 2 or len(array) != rows or array.shape[1] == 0:
            refuse_answer(named, f"{name} of shape {_shape(array)}, want ({rows}, 1 or more)")
    if value is None or value.dtype != np.float32:
        refuse_answer(named, f"{VALUE_TENSOR} of another type, want FP32")
    found = [array for array in arrays if array is not None]
    if not all(np.isfinite(array).all() for array in found):
        refuse_answer(named, "numbers that are not finite")
    return found


def refuse_answer(named: tuple[str, str | int], what: str) -> NoReturn:
    """Raise `CorruptModel` for an answer of a model and version that has a fault."""
    raise CorruptModel(f"model {named[0]} version {named[1]} returned {what}; it must not be used")


def _shape(array: np.ndarray | None) -> str:
    return "none" if array is None else f"{array.dtype} {array.shape}"
