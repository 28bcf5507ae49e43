"""Compilation: the one way a function of this project becomes machine code.

`compiled` is `numba.njit` without the GIL and with a disk cache that can be trusted. numba's own cache notices a change
of the function it stores but not of the functions that one calls: after an edit of a rule it would go on answering with
the old one. Here the cache key also holds a hash of every source the code may reach: the folder of the function, this
one, and those of the games in its signature (a user's own game included).

`NUMBA_DISABLE_JIT=1` runs the same source as plain Python, for a debugger.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import config, types
from numba.core.caching import FunctionCache

__all__ = ["INTERPRETED", "compiled", "lean"]

INTERPRETED = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]
"""Whether NUMBA_DISABLE_JIT makes everything run as plain Python."""

Function = TypeVar("Function", bound=Callable[..., Any])

_RULES_FOLDER = Path(__file__).parent


def compiled(function: Function) -> Function:
    """Compile `function` on first use for each combination of argument types; releases the GIL while it runs.

    Compiled code may call rules, functions of `games` and functions of its own folder; the cache key covers those.
    """
    return _compile(function, counts_references=True)


def lean(function: Function) -> Function:
    """Compile `function` without reference counts: for kernels that pass array views about and allocate nothing.

    Every view of an array costs two atomic counts otherwise; they were three quarters of the time of the search.
    """
    return _compile(function, counts_references=False)


def _compile(function: Function, *, counts_references: bool) -> Function:
    if INTERPRETED:
        # machine code wraps unsigned arithmetic and divides by zero in silence; numpy's scalars would warn
        return np.errstate(all="ignore")(function)
    # the flag is always said: unsaid, numba inherits it from whichever caller compiles first
    jit: Any = numba.njit  # numba's stubs do not know _nrt
    dispatcher = jit(nogil=True, error_model="numpy", _nrt=counts_references)(function)
    dispatcher._cache = _SourceKeyedCache(function)
    return dispatcher  # type: ignore[no-any-return]


class _SourceKeyedCache(FunctionCache):
    """numba's disk cache, keyed in addition by the sources that the compiled code may reach."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._folder = Path(inspect.getfile(function)).parent
        _hash_of(self._folder)

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        """Return the key in text only.

        The index of a function lists what was compiled for every game. With the classes themselves in it, a process
        could not read the index unless it could import every one of them.
        """
        _, *rest = super()._index_key(sig, codegen)  # type: ignore[no-untyped-call]
        classes = _games_in(sig)
        names = tuple(f"{cls.__module__}.{cls.__qualname__}" for cls in classes)
        files = [getattr(sys.modules.get(cls.__module__), "__file__", None) for cls in classes]
        folders = {_RULES_FOLDER, self._folder, *(Path(file).parent for file in files if file)}
        return (str(sig), names, *rest, *(_hash_of(folder) for folder in sorted(folders)))


def _games_in(signature: Any) -> list[type]:
    """Return the tuple classes among the argument types of a compiled signature."""
    arguments = signature if isinstance(signature, tuple) else signature.args
    return [a.instance_class for a in arguments if isinstance(a, types.BaseNamedTuple)]  # type: ignore[attr-defined]


@functools.cache
def _hash_of(folder: Path) -> str:
    """Return a hash of the sources in a folder as they were when its first function was decorated.

    Taken then, for a function may be compiled long after it was imported, and its file edited in between.
    """
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.py")):
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()
