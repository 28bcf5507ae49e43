"""The other program that rates players."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


@pytest.fixture(scope="session")
def choix() -> Any:
    """Package choix; it needs scipy, whose import takes every test process a second."""
    return importlib.import_module("choix")
