import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from event_loop import loaded_by


@pytest.mark.slow
def test_a_worker_compiles_nothing_on_its_event_loop_which_drives_all_lanes(tmp_path):
    found = loaded_by(Path(__file__).with_name("loop_watch.py"), tmp_path)
    assert found == {"played": True, "on the event loop": []}
