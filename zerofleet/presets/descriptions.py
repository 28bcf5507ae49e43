"""Descriptions of settings: the docstrings below the fields of a class, read from its source on demand.

pydantic would read them at import, in every process, with a parse of each class and a search through all imported modules for
each field: a quarter of the start of a worker. They are shown by `--help` and in experiment files alone.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel

__all__ = ["description"]


def description(settings: type[BaseModel], name: str) -> str:
    """Return the description of a field: that of its `Field(description=...)`, else the docstring below it.

    Empty for a field without either, and for a docstring whose source is not installed. Raises `KeyError` for an unknown field.
    """
    if text := settings.model_fields[name].description:
        return text
    declaring = next((cls for cls in settings.__mro__ if name in vars(cls).get("__annotations__", {})), settings)
    return _of_module(declaring.__module__).get(f"{declaring.__qualname__}.{name}", "")


@functools.cache
def _of_module(module: str) -> Mapping[str, str]:
    """Return the docstrings of all fields in a module by qualified name, such as `SearchSettings.simulations`."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (OSError, TypeError, KeyError):
        return {}
    return dict(_below(ast.parse(source).body, ""))


def _below(statements: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield qualified name and docstring of the fields below a prefix, with those of nested classes and functions."""
    for statement, following in itertools.zip_longest(statements, statements[1:]):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield prefix + name, inspect.cleandoc(text)
            case ast.ClassDef(name=name, body=body), _:
                yield from _below(body, f"{prefix}{name}.")
            case ((ast.FunctionDef(name=name, body=body) | ast.AsyncFunctionDef(name=name, body=body)), _):
                yield from _below(body, f"{prefix}{name}.<locals>.")
            case _:
                pass
