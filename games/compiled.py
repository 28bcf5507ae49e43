"""Compilation to machine code, the only entry points to numba in this project.

`compiled` is `numba.njit` without the GIL and with a reliable disk cache; see `games.code_cache`. A function is compiled once
for compiled callers, as code to link into them, and once more when Python first calls it; see `games.code_library`.

`NUMBA_DISABLE_JIT=1` runs the same source as plain Python, for debugging.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numba
import numpy as np
from numba.core import config

from games import code_sources
from games.code_cache import CodeCache
from games.code_library import BodyCompiler, EntryCompiler

__all__ = ["BODY_OPTIONS", "INTERPRETED", "cache_of", "compiled", "inlined", "lean"]

INTERPRETED = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]
"""Whether NUMBA_DISABLE_JIT is set, so that all functions run as plain Python."""

BODY_OPTIONS: dict[str, Any] = {"pipeline_class": BodyCompiler, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of numba for a function that compiled code calls; see `games.code_library`."""

_jit: Any = numba.njit  # numba's stubs lack _nrt

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

    Only compiled code can call it. A call from Python raises `TypeError`.
    """
    return _compile(function, counts_references=False, inline=True)


def _compile(function: Function, *, counts_references: bool, inline: bool = False) -> Function:
    if INTERPRETED:
        # machine code wraps unsigned arithmetic and divides by zero silently; numpy scalars would warn
        return np.errstate(all="ignore")(function)
    if Path(function.__code__.co_filename).is_file():
        code_sources.note(function)
    # the flag is always explicit: by default numba inherits it from the first caller compiled
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": counts_references, "forceinline": inline}
    entry = _jit(pipeline_class=EntryCompiler, no_cfunc_wrapper=True, **options)(function)

    @functools.cache  # most functions have compiled callers or are called from Python, few both, and a process uses few of all
    def body() -> Any:
        made = _jit(**options, **BODY_OPTIONS)(function)
        made._compiling_counter = entry._compiling_counter  # by which numba recognises recursion
        with contextlib.suppress(RuntimeError):
            made._cache = CodeCache(function, body=True)
        return made

    entry.get_call_template = lambda args, kws: body().get_call_template(args, kws)
    entry.get_overload = lambda signature: body().get_overload(signature)
    entry.compile = _compile_once(entry)
    if inline:
        entry._compile_for_args = _refusal(function)
    return entry  # type: ignore[no-any-return]


def cache_of(entry: Any) -> CodeCache | None:
    """Return the disk cache of a compiled function, or None if there is no directory: each process compiles its own copy."""
    cache = entry._cache
    if not isinstance(cache, CodeCache):
        try:
            entry._cache = cache = CodeCache(entry.py_func)
        except RuntimeError:
            return None
    return cache


def _compile_once(entry: Any) -> Callable[[Any], Any]:
    """Return the method `compile` of a dispatcher that waits while another process compiles the same code."""
    compile_signature = entry.compile

    def compile_once(signature: Any) -> Any:
        cache = cache_of(entry)
        with cache.once(signature, entry.targetctx) if cache else contextlib.nullcontext():
            return compile_signature(signature)

    return compile_once


def _refusal(function: Callable[..., Any]) -> Callable[..., NoReturn]:
    """Return the method that raises the error of a call from Python, as an inlined function has no entry point."""

    def refuse(*_arguments: object, **_named: object) -> NoReturn:
        raise TypeError(f"{function.__qualname__} is inlined into compiled code; call one of its compiled callers")

    return refuse
