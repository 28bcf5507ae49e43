"""Disk cache of compiled functions: numba's cache, made safe for concurrent processes and source edits.

numba keeps one index per function and numbers the files it lists. That fails this project in five ways:

- The key does not cover called functions: after an edit of a rule, the stale code was still used. Here the key includes
  a hash of every source that the code may reach (`games.code_sources`): its own file, those of the games among its
  arguments and of their rules, and their imports. An edit of one game does not invalidate the code compiled for another.
- The index pickles the game classes: a process that cannot import all of them cannot load it. Here the index is text.
- Two processes that save concurrently may assign the same number to two functions and later load one as the other. Here
  each key has separate files, named by a hash of the key.
- Processes that need the same code at once all compile it. Here one does, and the others wait (`games.compile_lock`).
- An unreadable or unwritable file aborts the program. Here the function is recompiled and not cached.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from numba.core import types
from numba.core.caching import FunctionCache, IndexDataCacheFile

from games import code_sources
from games.code_library import rebuild
from games.compile_lock import only_one

__all__ = ["CodeCache"]

_DIGITS = 16


class CodeCache(FunctionCache):
    """Compiled code of one function, for each combination of argument types."""

    def __init__(self, function: Callable[..., Any], *, body: bool = False) -> None:
        """Raises `RuntimeError` if there is no cache directory, as for a function defined at a prompt.

        `body`: the code for compiled callers (`games.code_library`), which lies beside that for Python.
        """
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._source = code_sources.note(function)
        self._infix = ".body" if body else ""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code compiled for a signature, or None if it is missing or unreadable."""
        target_context.refresh()
        key = self._index_key(sig, target_context.codegen())
        try:
            data = self._file(key).load(key)  # type: ignore[no-untyped-call]
            return None if data is None else rebuild(target_context, data)
        except Exception:  # truncated, foreign or unreadable: recompiling is right in every case
            self._remove(key, keep="")
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the code compiled for a signature, if it is cacheable and the disk has space."""
        if not self._impl.check_cachable(data):
            return
        key = self._index_key(sig, data.codegen)
        try:
            self._impl.locator.ensure_cache_path()
            self._file(key).save(key, self._impl.reduce(data))  # type: ignore[no-untyped-call]
        except OSError:  # a full disk or read-only directory: the program runs without the cache
            return
        self._remove(key, keep=_digest(key[1]))

    def once(self, sig: Any, target_context: Any) -> AbstractContextManager[None]:
        """Return the context in which to load or compile the code for a signature: one process at a time compiles it."""
        key = self._index_key(sig, target_context.codegen())
        folder, name = Path(self._cache_path), f"{self._base()}{_digest(key[0])}.{_digest(key[1])}"
        if (folder / f"{name}.nbi").exists():
            return contextlib.nullcontext()
        with contextlib.suppress(OSError):
            self._impl.locator.ensure_cache_path()
        return only_one(folder / f"{name}.lock")

    def _index_key(self, sig: Any, codegen: Any) -> tuple[str, str]:
        """Return the cache key in two parts: compilation target (types, processor) and sources."""
        _, processor, *code = super()._index_key(sig, codegen)  # type: ignore[no-untyped-call]
        classes = list(_games_in(sig if isinstance(sig, tuple) else sig.args))
        names = [f"{cls.__module__}.{cls.__qualname__}" for cls in classes]
        files = [file for cls in classes if (file := code_sources.file_of(cls))]
        return repr((str(sig), names, processor)), repr((code, code_sources.digest([self._source, *files])))

    def _file(self, key: tuple[str, str]) -> IndexDataCacheFile:
        return IndexDataCacheFile(  # type: ignore[no-untyped-call]
            cache_path=self._cache_path,
            filename_base=f"{self._base()}{_digest(key[0])}.{_digest(key[1])}",
            source_stamp=None,  # the key distinguishes old from new sources
        )

    def _base(self) -> str:
        return f"{self._impl.filename_base}{self._infix}."

    def _remove(self, key: tuple[str, str], *, keep: str) -> None:
        """Remove files compiled for the same types from sources other than `keep`, those of killed writers included."""
        prefix = f"{self._base()}{_digest(key[0])}."
        for path in Path(self._cache_path).glob(f"{prefix}*.nb[ic]*"):
            if not keep or not path.name.startswith(f"{prefix}{keep}."):
                try:
                    path.unlink(missing_ok=True)
                except OSError:
                    return


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _games_in(argument_types: Iterable[Any]) -> Iterator[type]:
    """Yield the tuple classes among argument types, including nested ones."""
    for kind in argument_types:
        if isinstance(kind, types.BaseNamedTuple):
            yield kind.instance_class  # type: ignore[attr-defined]
        if isinstance(kind, types.BaseTuple):
            yield from _games_in(kind)  # type: ignore[arg-type]
