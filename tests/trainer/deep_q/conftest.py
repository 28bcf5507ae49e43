"""Records for the learners of action values."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from deep_q_at_work import play


@pytest.fixture(scope="session")
def records():
    return play(12)
