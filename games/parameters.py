"""Parameters of a game as text and back: conversion to the kind of the default, and parameters that are one of a few words.

A word is stored in the tuple of a game as its index, because compiled code compares numbers at no cost. The first word is the
default. It is not written in records, manifests and names, so that games which were stored before the parameter existed keep
their identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from games.errors import InvalidParameters

__all__ = ["Choices", "converted", "in_words", "require_choice"]

Choices: TypeAlias = Mapping[str, tuple[str, ...]]
"""Words of each parameter that is one of a few, by parameter; the first word is the default."""


def converted(game: str, name: str, value: Any, default: Any, choices: Choices) -> Any:
    """Return a value in the form that the tuple stores: of the default's type, a word as its index.

    Text is parsed. Raises `InvalidParameters` for an unknown word or a lossy conversion.
    """
    if name in choices:
        return _index(game, name, value, choices[name])
    kind = type(default)
    try:
        if kind is bool and isinstance(value, str):
            return {"true": True, "false": False}[value.strip().lower()]
        stored = kind(value)
        if not isinstance(value, str) and stored != value:
            raise ValueError(value)
    except (KeyError, OverflowError, TypeError, ValueError):
        raise InvalidParameters(f"{game}: {name}={value!r} is not {kind.__name__}; the default is {default!r}") from None
    return stored


def _index(game: str, name: str, value: Any, words: tuple[str, ...]) -> int:
    """Return the index of a word; raises `InvalidParameters` for another word, and for a number that is no index."""
    if not isinstance(value, str):
        require_choice(game, name, value, words)
        return int(value)
    word = value.strip().lower()
    if word not in words:
        raise InvalidParameters(f"{game}: {name}={value!r} is unknown; it must be one of {', '.join(words)}")
    return words.index(word)


def in_words(stored: Mapping[str, Any], choices: Choices) -> dict[str, Any]:
    """Return stored parameters with words in place of their indices."""
    return {name: choices[name][value] if name in choices else value for name, value in stored.items()}


def require_choice(game: str, name: str, value: int, words: tuple[str, ...]) -> None:
    """Raise `InvalidParameters` unless a stored value is the index of a word."""
    if type(value) is not int or not 0 <= value < len(words):
        listed = ", ".join(f"{index} ({word})" for index, word in enumerate(words))
        raise InvalidParameters(
            f"{game}: {name}={value!r} is out of range; it must be {listed}, or the word through games.make"
        )
