"""Fakes, and contract suites for a user's own evaluator, stream and store.

A suite is a class of pytest tests; a subclass gives it the part to test by a fixture. Suites are imported on first use, so
that everything else here does without pytest.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import games
from zerofleet.errors import ConfigurationError
from zerofleet.testing.fakes import FunctionEvaluator

if TYPE_CHECKING:
    from zerofleet.testing.evaluators import EvaluatorContract
    from zerofleet.testing.stores import StoreContract, StorePlace
    from zerofleet.testing.streams import StreamBackend, StreamContract

__all__ = [
    "EvaluatorContract",
    "FunctionEvaluator",
    "StoreContract",
    "StorePlace",
    "StreamBackend",
    "StreamContract",
    "built_in_games",
]

_SUITES = {
    "EvaluatorContract": "evaluators",
    "StoreContract": "stores",
    "StorePlace": "stores",
    "StreamBackend": "streams",
    "StreamContract": "streams",
}


def built_in_games() -> tuple[str, ...]:
    """Return the built-in games, sorted; without those added by tests and other packages."""
    return tuple(name for name in games.available() if type(games.make(name)).__module__.startswith("games."))


def __getattr__(name: str) -> Any:
    """Import a contract suite; pytest then explains its failed assertions as those of a test module."""
    if name not in _SUITES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = f"{__name__}.{_SUITES[name]}"
    if module not in sys.modules:
        try:
            import pytest  # noqa: PLC0415
        except ImportError as error:
            raise ConfigurationError(f"{name} is a class of pytest tests; pip install pytest pytest-asyncio") from error
        pytest.register_assert_rewrite(module, f"{__name__}.publishing")  # the latter is a part of `streams`
    return getattr(import_module(module), name)
