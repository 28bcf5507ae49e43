"""The other program that rates players."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def choix() -> Any:
    """Package choix; it needs scipy, whose import takes every test process a second."""
    return importlib.import_module("choix")
