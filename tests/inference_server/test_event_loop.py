import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from event_loop import loaded_by


@pytest.mark.slow
def test_questions_about_positions_compile_nothing_on_the_event_loop_which_evaluates_for_workers_meanwhile():
    assert loaded_by(Path(__file__).with_name("loop_watch.py")) == {"moves": [8, 8, 0], "on the event loop": []}
