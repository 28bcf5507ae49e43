import json
import subprocess
import sys
from pathlib import Path


def test_a_match_compiles_nothing_on_the_event_loop_which_answers_requests_meanwhile():
    script = Path(__file__).with_name("loop_watch.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"games": 4, "on the event loop": []}
