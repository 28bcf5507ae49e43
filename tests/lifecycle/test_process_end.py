"""The end of a process: everything but the destruction of its objects."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import atexit, ctypes, os, sys, threading
from concurrent.futures import ThreadPoolExecutor
from zerofleet.service.process_end import end_process

class Object:
    def __del__(self):
        say("destroyed")

def say(word):
    sys.stdout.write(word + "\\n")  # in one piece, which print is not: two threads write

held, go = Object(), threading.Event()
atexit.register(say, "atexit")
threading.Thread(target=lambda: (go.wait(), say("thread"))).start()
executor = ThreadPoolExecutor(1)
executor.submit(lambda: (go.wait(), say("executor")))
threading.Thread(target=threading.Event().wait, daemon=True).start()
ctypes.CDLL(None).puts(b"C")
go.set()
end_process(int(sys.argv[1]))
"""


def end(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


def test_threads_end_exit_functions_run_and_buffers_are_written_before_the_process_ends() -> None:
    done = end(PROGRAM, "7")
    lines = done.stdout.splitlines()
    assert done.returncode == 7
    assert set(lines) == {"thread", "executor", "atexit", "C"}
    assert lines.index("atexit") > max(lines.index("thread"), lines.index("executor"))
    assert done.stderr == ""


def test_a_process_whose_output_is_closed_ends_with_its_code() -> None:
    program = "import sys; from zerofleet.service.process_end import end_process; sys.stdout.close(); end_process(3)"
    done = end(program)
    assert (done.returncode, done.stderr) == (3, "")


INTERRUPTED = """
import atexit, threading
from zerofleet.service.process_end import end_process

def interrupted():
    raise KeyboardInterrupt

threading._shutdown = interrupted  # Ctrl-C while a thread does not end
atexit.register(print, "atexit")
end_process(4)
"""


def test_an_interrupt_ends_the_wait_for_threads_and_leaves_the_exit_code() -> None:
    done = end(INTERRUPTED)
    assert (done.returncode, done.stdout, done.stderr) == (4, "atexit\n", "")
