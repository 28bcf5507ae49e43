"""Records for the learner `outcome`."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from outcome_at_work import play


@pytest.fixture(scope="session")
def records():
    return play(40)
