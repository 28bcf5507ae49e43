import sys
from pathlib import Path
from threading import Thread

import pytest

from games import compiled

sys.path.insert(0, str(Path(__file__).parents[1]))

from event_loop import loaded_by, watch


@pytest.mark.slow
@pytest.mark.skipif(compiled.INTERPRETED, reason="nothing is compiled")
def test_the_watch_notes_code_loaded_or_compiled_on_its_thread_alone(monkeypatch):
    monkeypatch.setattr(compiled, "cache_of", compiled.cache_of)  # restored at the end

    @compiled.compiled
    def successor(number):
        return number + 1

    seen = watch()
    thread = Thread(target=successor, args=(1,))
    thread.start()
    thread.join()
    assert seen == []
    assert successor(1) == 2
    assert seen == []  # known by now
    assert successor(1.0) == 2.0
    assert [name.rpartition(".")[2] for name in seen] == ["successor"]


@pytest.mark.slow
def test_a_match_compiles_nothing_on_the_event_loop_which_answers_requests_meanwhile():
    assert loaded_by(Path(__file__).with_name("loop_watch.py")) == {"games": 4, "on the event loop": []}
