"""End of a process: with its parent, and without the destruction of its objects, which the kernel frees at once.

At its exit the interpreter clears every module and frees object by object: 0.1 to 0.4 seconds of processor time with torch and
compiled code, in which nothing happens that a service needs. All that comes before that happens here too, in the order of
`Py_FinalizeEx`: threads end, the functions of `atexit` run, buffers are written.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import sys
import threading
from typing import NoReturn

__all__ = ["end_process", "end_with"]

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def end_process(code: int) -> NoReturn:
    """End this process with an exit code; called on the main thread, last.

    Waits for every thread that is no daemon and for the executors, then runs the functions registered with `atexit` and flushes
    Python's and C's standard streams. Finalisers of objects that are still alive (`__del__`) do not run, nor do those of C
    libraries: the owner of a file or a connection closes it before.
    """
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends the wait, as in the interpreter, and leaves the exit code
        threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, a broken pipe, or absent
            stream.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(code)


def end_with(parent_pid: int, ending: signal.Signals = signal.SIGTERM) -> bool:
    """Request a signal from the kernel when the parent dies; return whether it is still alive. Linux."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ending)
    return os.getppid() == parent_pid
