"""The disk cache of compiled functions: numba's, made safe for many processes and for edits anywhere.

numba keeps one index for each function and numbers the files it lists. That fails this project in four ways:

- The key does not cover the functions that a function calls: after an edit of a rule, the old one went on answering.
  Here the key holds a hash of every source that the code may reach: its own folder, the games among its arguments, and
  whatever these import of `games`. An edit of one game leaves what was compiled for another.
- The index names the game classes themselves: no process could read it that cannot import all of them. Here it is text.
- Two processes that save at once may give two functions the same number, and later load one as the other. Here every
  key has files of its own, named by a hash of the key.
- A file that cannot be read or written ends the program. Here the function is compiled again, and not kept.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numba.core import types
from numba.core.caching import FunctionCache, IndexDataCacheFile

__all__ = ["CodeCache"]

_RULES_FOLDER = Path(__file__).parent
_DIGITS = 16
_IMPORT = re.compile(rb"from games import \(([^)]*)\)|from games import ([^\n(]+)|from games\.(\w+) import|import games\.(\w+)")


class CodeCache(FunctionCache):
    """What one function was compiled to, for each combination of argument types."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Raises `RuntimeError` if there is no place for the files, as for a function typed at a prompt."""
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._source = Path(inspect.getfile(function))
        _sources_of(self._source.parent)
        _sources_of(_RULES_FOLDER)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was compiled for a signature, or None if that is not known or cannot be read."""
        target_context.refresh()
        key = self._index_key(sig, target_context.codegen())
        try:
            data = self._file(key).load(key)  # type: ignore[no-untyped-call]
            return None if data is None else self._impl.rebuild(target_context, data)
        except Exception:  # truncated, foreign, not readable: whatever it is, compiling anew is right
            self._remove(key, keep="")
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for a signature, if it can be kept and there is room."""
        if not self._impl.check_cachable(data):
            return
        key = self._index_key(sig, data.codegen)
        try:
            self._impl.locator.ensure_cache_path()
            self._file(key).save(key, self._impl.reduce(data))  # type: ignore[no-untyped-call]
        except OSError:  # a full disk, a folder that may not be written: the program runs without the cache
            return
        self._remove(key, keep=_digest(key[1]))

    def _index_key(self, sig: Any, codegen: Any) -> tuple[str, str]:
        """Return what the code was compiled for, and what it was compiled from."""
        _, processor, *code = super()._index_key(sig, codegen)  # type: ignore[no-untyped-call]
        classes = _games_in(sig)
        files = [getattr(sys.modules.get(cls.__module__), "__file__", None) for cls in classes]
        names = [f"{cls.__module__}.{cls.__qualname__}" for cls in classes]
        sources = _reachable(frozenset([self._source, *(Path(file) for file in files if file)]))
        return repr((str(sig), names, processor)), repr((code, sources))

    def _file(self, key: tuple[str, str]) -> IndexDataCacheFile:
        return IndexDataCacheFile(  # type: ignore[no-untyped-call]
            cache_path=self._cache_path,
            filename_base=f"{self._base()}{_digest(key[0])}.{_digest(key[1])}",
            source_stamp=None,  # the key tells old from new
        )

    def _base(self) -> str:
        return f"{self._impl.filename_base}."

    def _remove(self, key: tuple[str, str], *, keep: str) -> None:
        """Remove what was compiled for the same types from other sources than `keep`."""
        prefix = f"{self._base()}{_digest(key[0])}."
        for path in Path(self._cache_path).glob(f"{prefix}*.nb[ic]"):
            if not keep or not path.name.startswith(f"{prefix}{keep}."):
                try:
                    path.unlink(missing_ok=True)
                except OSError:
                    return


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _games_in(signature: Any) -> list[type]:
    """Return the tuple classes among the argument types of a compiled signature."""
    arguments = signature if isinstance(signature, tuple) else signature.args
    return [a.instance_class for a in arguments if isinstance(a, types.BaseNamedTuple)]  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class _Source:
    """A file as it was when its folder was first looked at."""

    digest: str
    imports: frozenset[str]
    """Modules of `games` that it names in an import, wherever in the file."""


@functools.cache
def _sources_of(folder: Path) -> dict[Path, _Source]:
    """Return the sources in a folder as they were when its first function was decorated.

    Taken then, for a function may be compiled long after it was imported, and its file edited in between.
    """
    found = {}
    for file in sorted(folder.glob("*.py")):
        text = file.read_bytes()
        names = re.findall(rb"\w+", b" ".join(b" ".join(groups) for groups in _IMPORT.findall(text)))
        found[file] = _Source(hashlib.sha256(text).hexdigest(), frozenset(name.decode() for name in names))
    return found


@functools.cache
def _reachable(files: frozenset[Path]) -> str:
    """Return a hash of the sources that code of these files may call.

    Of `games` those are the files themselves and what they import, directly or not; of another folder all its files.
    """
    waiting = [path for file in files for path in (_sources_of(file.parent) if file.parent != _RULES_FOLDER else [file])]
    seen: dict[Path, str] = {}
    while waiting:
        path = waiting.pop()
        source = _sources_of(path.parent).get(path)
        if path in seen or source is None:
            continue
        seen[path] = source.digest
        waiting += [_RULES_FOLDER / f"{name}.py" for name in source.imports]
    return _digest(repr(sorted((path.name, digest) for path, digest in seen.items())))
