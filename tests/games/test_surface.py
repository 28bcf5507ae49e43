"""The public face of `games`."""

from __future__ import annotations

import inspect
import types

import games


def test_all_lists_every_public_name_in_order() -> None:
    visible = {
        name for name, value in vars(games).items() if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert set(games.__all__) == visible
    assert games.__all__ == sorted(games.__all__)


def test_every_exported_function_and_class_has_a_docstring() -> None:
    undescribed = [
        name
        for name in games.__all__
        if (inspect.isfunction(value := getattr(games, name)) or inspect.isclass(value)) and not inspect.getdoc(value)
    ]
    assert undescribed == []
