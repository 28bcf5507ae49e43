"""Compilation: the one way a function of this project becomes machine code.

`compiled` is `numba.njit` without the GIL and with a disk cache that can be trusted; see `games.code_cache`.

`NUMBA_DISABLE_JIT=1` runs the same source as plain Python, for a debugger.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import config

from games.code_cache import CodeCache

__all__ = ["INTERPRETED", "compiled", "inlined", "lean"]

INTERPRETED = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]
"""Whether NUMBA_DISABLE_JIT makes everything run as plain Python."""

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile `function` on first use for each combination of argument types; releases the GIL while it runs.

    Compiled code may call rules and whatever its file imports; the cache key covers those (`games.code_sources`).
    """
    return _compile(function, counts_references=True)


def lean(function: Function) -> Function:
    """Compile `function` without reference counts: for kernels that pass array views about and allocate nothing.

    Every view of an array costs two atomic counts otherwise; they were three quarters of the time of the search.
    """
    return _compile(function, counts_references=False)


def inlined(function: Function) -> Function:
    """Compile like `lean`, and put the code wherever the function is called.

    For what runs once a simulation. Left to itself the compiler inlines a function that is called in one place only, and a
    call costs as many moves as the views that are handed down have fields: the search lost a quarter of its speed when a
    second caller came.
    """
    return _compile(function, counts_references=False, inline=True)


def _compile(function: Function, *, counts_references: bool, inline: bool = False) -> Function:
    if INTERPRETED:
        # machine code wraps unsigned arithmetic and divides by zero in silence; numpy's scalars would warn
        return np.errstate(all="ignore")(function)
    # the flag is always said: unsaid, numba inherits it from whichever caller compiles first
    jit: Any = numba.njit  # numba's stubs do not know _nrt
    dispatcher = jit(nogil=True, error_model="numpy", _nrt=counts_references, forceinline=inline)(function)
    with contextlib.suppress(RuntimeError):  # no place for a cache: every process compiles for itself
        dispatcher._cache = CodeCache(function)
    return dispatcher  # type: ignore[no-any-return]
