"""Compilation to machine code, the only entry points to numba in this project.

`compiled` is `numba.njit` without the GIL and with a reliable disk cache; see `games.code_cache`.

`NUMBA_DISABLE_JIT=1` runs the same source as plain Python, for debugging.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numba
import numpy as np
from numba.core import config

from games.code_cache import CodeCache

__all__ = ["INTERPRETED", "compiled", "inlined", "lean"]

INTERPRETED = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]
"""Whether NUMBA_DISABLE_JIT is set, so that all functions run as plain Python."""

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile `function` on first call for each combination of argument types; it runs without the GIL.

    Compiled code may call rules and anything its file imports; the cache key covers these sources (`games.code_sources`).
    """
    return _compile(function, counts_references=True)


def lean(function: Function) -> Function:
    """Compile `function` without reference counting, for kernels that pass array views and never allocate.

    With it, each array view costs two atomic operations, which took three quarters of search time.
    """
    return _compile(function, counts_references=False)


def inlined(function: Function) -> Function:
    """Compile like `lean`, and force inlining at every call site.

    For code that runs once per simulation. By default the compiler inlines only functions with a single call site, and a
    call copies every field of each array view passed: a second caller cost the search a quarter of its speed.

    Only compiled code can call it: without the entry point for Python, its body is compiled once instead of twice. A call from
    Python raises `TypeError`.
    """
    return _compile(function, counts_references=False, inline=True)


def _compile(function: Function, *, counts_references: bool, inline: bool = False) -> Function:
    if INTERPRETED:
        # machine code wraps unsigned arithmetic and divides by zero silently; numpy scalars would warn
        return np.errstate(all="ignore")(function)
    # the flag is always explicit: by default numba inherits it from the first caller compiled
    jit: Any = numba.njit  # numba's stubs lack _nrt
    wrappers = {"no_cpython_wrapper": inline, "no_cfunc_wrapper": inline}
    dispatcher = jit(nogil=True, error_model="numpy", _nrt=counts_references, forceinline=inline, **wrappers)(function)
    with contextlib.suppress(RuntimeError):  # no cache directory: each process compiles its own copy
        dispatcher._cache = CodeCache(function)
    if inline:
        _refuse_python(dispatcher)
    return dispatcher  # type: ignore[no-any-return]


def _refuse_python(dispatcher: Any) -> None:
    """Make a dispatcher without wrappers raise `TypeError` when Python calls it; the missing entry point would be jumped to."""

    def refuse(*_arguments: object, **_named: object) -> NoReturn:
        raise TypeError(f"{dispatcher.py_func.__qualname__} is inlined into compiled code; call one of its compiled callers")

    dispatcher._insert = lambda *_arguments, **_named: None  # numba's table of entry points stays empty,
    dispatcher._compile_for_args = refuse  # so that every call from Python comes here
