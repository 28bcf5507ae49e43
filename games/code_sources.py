"""The sources that compiled code is built from: a file, what it imports, and the rules of the games in these files.

Imports are followed wherever they stand in a file, absolute and relative ones, to the module that holds the imported name.
`from games import core` leads to `games/core.py`; a name that a package hands on leads to where the package has it from. The
rest of an `__init__.py` is followed only if the name is defined there, or the package itself is used as a value: code that
needs one module of a package does not depend on all of them.

Followed are modules outside the libraries of Python: those in no `site-packages`, and packages with compiled functions.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["add_rule", "digest", "file_of", "note", "reached"]

_LIBRARIES = {"site-packages", "dist-packages"}

_read_modules: set[str] = set()
_files_with_compiled: set[Path] = set()
_packages_with_compiled: set[str] = set()
_rules: defaultdict[Path, set[Path]] = defaultdict(set)
"""The files of the rules of the game classes in a file."""


def note(function: Callable[..., Any]) -> Path:
    """Return the file of a function that is about to be compiled, after reading the sources of all modules imported by now.

    They are read at import, for a function may be compiled long after it, and a file edited in between. A module that is
    imported later is read with the next file that has compiled functions, or when it is first reached.
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
    """Let a game class lead to the source of a rule, which need not be where the class is, nor imported there."""
    if file := file_of(cls):
        _rules[file].add(note(function))


def file_of(cls: type) -> Path | None:
    """Return the file of a class, None if it was typed at a prompt."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return Path(file).absolute() if file else None


def digest(files: Iterable[Path]) -> str:
    """Return a hash of all sources that code of these files may call."""
    return hashlib.sha256(repr(sorted((file.name, _digest_of(file)) for file in reached(files))).encode()).hexdigest()


def reached(files: Iterable[Path]) -> set[Path]:
    """Return the files and all that they lead to by imports and rules, directly or not."""
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
    """Return a source as it was when it was first asked for, None if there is no such file."""
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
    """Return whether a file of a top-level package or module is anything but a library."""
    if package in sys.stdlib_module_names:
        return False
    return package in _packages_with_compiled or _LIBRARIES.isdisjoint(Path(file).parts)


class _Reference(NamedTuple):
    """A dotted name as an import has it, or as a use of what `import a.b` binds."""

    level: int
    """Number of leading dots: 0 for an absolute name."""
    path: tuple[str, ...]
    as_value: bool = True
    """Whether a package that is so named is itself used; `import a.b` alone does not say so."""


class _Names(NamedTuple):
    """The names of other modules in a file."""

    references: frozenset[_Reference]
    handed_on: dict[str, set[_Reference]]
    """What a name of this file stands for, by the imports that bind it."""
    defined: frozenset[str]
    """The names that something else than an import binds."""


@functools.cache
def _imported(file: Path) -> frozenset[Path]:
    """Return the files that a file leads to at once."""
    return frozenset(found for reference in _names(file).references for found in _files(file, reference, frozenset()))


@functools.cache
def _names(file: Path) -> _Names:
    try:
        nodes = list(ast.walk(ast.parse(_text(file) or b"")))
    except (SyntaxError, ValueError):  # no code can come from it
        return _Names(frozenset(), {}, frozenset())
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
    """Yield every dotted name that is read, in full: `a.b.c` yields neither `a.b` nor `a`."""
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
    """Yield the names that are assigned, or those of functions and classes."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _files(file: Path, reference: _Reference, seen: frozenset[tuple[Path, str]]) -> set[Path]:
    """Return the files that hold what a name in `file` refers to."""
    if reference.level:
        places: tuple[Path, ...] = (file.parents[reference.level - 1],)
        path = reference.path
    else:
        places, path = _places(reference.path[0]), reference.path[1:]
    return {found for place in places for found in _held(place, path, reference.as_value, seen)}


@functools.cache
def _places(package: str) -> tuple[Path, ...]:
    """Return the folders of a top-level package, or the file of a top-level module; none of a library."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # not there, or the script that runs
        return ()
    if spec is None:
        return ()
    places = spec.submodule_search_locations or [origin for origin in [spec.origin] if origin and origin.endswith(".py")]
    return tuple(Path(place).absolute() for place in places if _is_followed(package, place))


def _held(place: Path, path: tuple[str, ...], as_value: bool, seen: frozenset[tuple[Path, str]]) -> set[Path]:
    """Return the files that hold a dotted name of the module (a file) or package (a folder) at `place`.

    `seen` has the names of packages that led here: packages may hand on each other's names in a circle.
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
    """Return the module or package of that name in a package."""
    if (folder / name / "__init__.py").is_file():
        return folder / name
    if (file := folder / f"{name}.py").is_file():
        return file
    return folder / name if (folder / name).is_dir() else None
