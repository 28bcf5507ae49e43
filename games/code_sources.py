"""Source dependencies of compiled code: a file, its imports, and the rules of the games in these files.

Imports anywhere in a file, absolute and relative, are resolved to the module that defines the imported name:
`from games import core` resolves to `games/core.py`, and a name re-exported by a package to its origin. The rest of an
`__init__.py` is followed only if it defines the name, or if the package itself is used as a value: code that needs one
module of a package does not depend on all of them.

Followed are modules outside Python's libraries: those not in `site-packages`, and packages with compiled functions.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import inspect
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["add_rule", "digest", "file_of", "note", "reached", "rules"]

_LIBRARIES = {"site-packages", "dist-packages"}

_parsing = threading.Lock()
"""Held while a source is parsed: CPython 3.11 counts the depth of the tree in one place for all threads (gh-106905)."""
_read_modules: set[str] = set()
_files_with_compiled: set[Path] = set()
_packages_with_compiled: set[str] = set()
_rules: defaultdict[Path, set[Path]] = defaultdict(set)
"""Files of the rules of the game classes defined in a file."""
_functions: dict[tuple[type, str], Callable[..., Any]] = {}
"""The rules by class and name."""


def note(function: Callable[..., Any]) -> Path:
    """Return the file of a function to be compiled, after reading the sources of all modules imported so far.

    Sources are read at import, because a function may be compiled much later and its file edited in between. A module
    imported later is read with the next file that has compiled functions, or when first reached.
    """
    file = Path(inspect.getfile(function)).absolute()
    if file not in _files_with_compiled:
        _files_with_compiled.add(file)
        package = _package_of(function.__module__)
        if package not in _packages_with_compiled:
            _packages_with_compiled.add(package)
            _read_modules.clear()
            _places.cache_clear()
            _imported.cache_clear()
        _text(file)
        for name in set(sys.modules) - _read_modules:
            _read_modules.add(name)
            source = getattr(sys.modules.get(name), "__dict__", {}).get("__file__")
            if isinstance(source, str) and source.endswith(".py") and _is_followed(_package_of(name), source):
                _text(Path(source).absolute())
    return file


def add_rule(cls: type, function: Callable[..., Any]) -> None:
    """Record the source of a rule as a dependency of its game class; the class's file need not import it."""
    _functions[cls, function.__name__] = function
    if file := file_of(cls):
        _rules[file].add(note(function))


def rules() -> Iterator[tuple[type, Callable[..., Any]]]:
    """Yield the rules of all game classes as they were written, each with its class."""
    for (cls, _), function in _functions.items():
        yield cls, function


def file_of(cls: type) -> Path | None:
    """Return the file of a class, or None if it was defined at a prompt."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return Path(file).absolute() if file else None


def digest(files: Iterable[Path]) -> str:
    """Return a hash of all sources that code in these files may call."""
    return hashlib.sha256(repr(sorted((file.name, _digest_of(file)) for file in reached(files))).encode()).hexdigest()


def reached(files: Iterable[Path]) -> set[Path]:
    """Return the files and their transitive dependencies through imports and rules."""
    found: set[Path] = set()
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file not in found and _text(file) is not None:
            found.add(file)
            waiting += [*_imported(file), *_rules.get(file, ())]
    return found


@functools.cache
def _text(file: Path) -> bytes | None:
    """Return a source as of its first read, or None if there is no such file."""
    try:
        return file.read_bytes()
    except OSError:
        return None


@functools.cache
def _digest_of(file: Path) -> str:
    return hashlib.sha256(_text(file) or b"").hexdigest()


def _package_of(module: str) -> str:
    return module.partition(".")[0]


def _is_followed(package: str, file: str) -> bool:
    """Return whether a file of a top-level package or module lies outside the libraries."""
    if package in sys.stdlib_module_names:
        return False
    return package in _packages_with_compiled or _LIBRARIES.isdisjoint(Path(file).parts)


class _Reference(NamedTuple):
    """Dotted name in an import, or in a use of the name bound by `import a.b`."""

    level: int
    """Number of leading dots: 0 for an absolute name."""
    path: tuple[str, ...]
    as_value: bool = True
    """Whether a package of this name is itself used as a value; `import a.b` alone does not imply it."""


class _Names(NamedTuple):
    """Names in a file that refer to other modules."""

    references: frozenset[_Reference]
    handed_on: dict[str, set[_Reference]]
    """Targets of each name in this file, from the imports that bind it."""
    defined: frozenset[str]
    """Names bound by statements other than imports."""


@functools.cache
def _imported(file: Path) -> frozenset[Path]:
    """Return the direct dependencies of a file."""
    return frozenset(found for reference in _names(file).references for found in _files(file, reference, frozenset()))


@functools.cache
def _names(file: Path) -> _Names:
    try:
        with _parsing:
            tree = ast.parse(_text(file) or b"")
    except (SyntaxError, ValueError):  # no code can be compiled from it
        return _Names(frozenset(), {}, frozenset())
    nodes = list(ast.walk(tree))
    bound: defaultdict[str, set[_Reference]] = defaultdict(set)
    plain: set[tuple[str, ...]] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            base = tuple(node.module.split(".")) if node.module else ()
            for alias in node.names:
                bound[alias.asname or alias.name].add(_Reference(node.level, (*base, alias.name)))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                path = tuple(alias.name.split("."))
                if alias.asname:
                    bound[alias.asname].add(_Reference(0, path))
                else:
                    plain.add(path)
    references = {reference for named in bound.values() for reference in named}
    references |= {_Reference(0, path, as_value=False) for path in plain}
    roots = {path[0] for path in plain}
    references |= {_Reference(0, path) for path in _uses(nodes) if path[0] in roots}
    return _Names(frozenset(references), dict(bound), frozenset([*roots, *_definitions(nodes)]))


def _uses(nodes: list[ast.AST]) -> Iterator[tuple[str, ...]]:
    """Yield every dotted name that is used, in full: `a.b.c` yields neither `a.b` nor `a`."""
    parts = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.Attribute | ast.Name) and id(node) not in parts:
            path: list[str] = []
            inner: ast.AST = node
            while isinstance(inner, ast.Attribute):
                path.insert(0, inner.attr)
                inner = inner.value
            if isinstance(inner, ast.Name):
                yield inner.id, *path


def _definitions(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the names of assigned variables, functions and classes."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _files(file: Path, reference: _Reference, seen: frozenset[tuple[Path, str]]) -> set[Path]:
    """Return the files that define the target of a name in `file`."""
    if reference.level:
        places: tuple[Path, ...] = (file.parents[reference.level - 1],)
        path = reference.path
    else:
        places, path = _places(reference.path[0]), reference.path[1:]
    return {found for place in places for found in _held(place, path, reference.as_value, seen)}


@functools.cache
def _places(package: str) -> tuple[Path, ...]:
    """Return the folders of a top-level package, or the file of a top-level module; empty for a library."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # missing, or the running script
        return ()
    if spec is None:
        return ()
    places = spec.submodule_search_locations or [origin for origin in [spec.origin] if origin and origin.endswith(".py")]
    return tuple(Path(place).absolute() for place in places if _is_followed(package, place))


def _held(place: Path, path: tuple[str, ...], as_value: bool, seen: frozenset[tuple[Path, str]]) -> set[Path]:
    """Return the files that define a dotted name of the module (a file) or package (a folder) at `place`.

    `seen` holds the package names visited on the way: packages may re-export each other's names in a cycle.
    """
    found: set[Path] = set()
    for name in path:
        if place.suffix == ".py":
            break
        start = place / "__init__.py"
        handed_on = () if (start, name) in seen else _names(start).handed_on.get(name, ())
        for reference in handed_on:
            found |= _files(start, reference, seen | {(start, name)})
        inside = _inside(place, name)
        if name in _names(start).defined or not (inside or handed_on):
            found.add(start)
        if inside is None:
            return found
        place = inside
    if place.suffix == ".py":
        return found | {place}
    return found | {place / "__init__.py"} if as_value else found


@functools.cache
def _inside(folder: Path, name: str) -> Path | None:
    """Return the module or package called `name` in a package."""
    if (folder / name / "__init__.py").is_file():
        return folder / name
    if (file := folder / f"{name}.py").is_file():
        return file
    return folder / name if (folder / name).is_dir() else None
