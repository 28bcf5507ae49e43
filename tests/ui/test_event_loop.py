"""The event loop of the pages, which serves every browser."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from event_loop import loaded_by


@pytest.mark.slow
def test_play_and_search_compile_nothing_on_the_event_loop_which_serves_every_browser(tmp_path: Path) -> None:
    found = loaded_by(Path(__file__).with_name("loop_watch.py"), tmp_path)
    assert found == {"shown": [200] * 5, "on the event loop": []}
