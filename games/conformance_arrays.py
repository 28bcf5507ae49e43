"""Arrays that a conformance check passes to rules, with guard bytes around them that show a write outside."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Guarded"]

_GUARD_BYTES = 64
_GUARD = 0xA5


class Guarded:
    """Array surrounded by guard bytes."""

    def __init__(self, size: int, dtype: Any, *, inside: int = _GUARD) -> None:
        item = np.dtype(dtype).itemsize
        self._bytes = np.full(size * item + 2 * _GUARD_BYTES, _GUARD, dtype=np.uint8)
        self.array = self._bytes[_GUARD_BYTES : _GUARD_BYTES + size * item].view(dtype)
        """The array itself, initially filled with the byte `inside`."""
        self.array.view(np.uint8)[:] = inside

    def is_intact(self) -> bool:
        """Return whether the guard bytes are unchanged."""
        return bool((self._bytes[:_GUARD_BYTES] == _GUARD).all() and (self._bytes[-_GUARD_BYTES:] == _GUARD).all())
